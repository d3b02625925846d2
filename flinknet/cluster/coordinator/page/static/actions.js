// Actions on a job: savepoint, stop, cancel. Each asks for a confirmation first.

import { html, useRef, useState } from "/page/htm-preact.js";
import { cancel, savepoint, stop } from "/page/coordinator.js";

const QUESTIONS = {
  savepoint: ["Savepoint", "Write the state of the job to a savepoint. The job goes on."],
  stop: ["Stop", "Write a savepoint, and end the job."],
  cancel: ["Cancel", "End the job at once. Uncommitted output is lost."],
};

const CONFIRM = { savepoint: "Write a savepoint", stop: "Stop the job", cancel: "Cancel the job" };

export function Actions({ job }) {
  const dialog = useRef(null);
  const [asked, setAsked] = useState("cancel");
  const [directory, setDirectory] = useState("");
  const [drain, setDrain] = useState(false);
  const [news, setNews] = useState(null);
  const open = (what) => {
    setAsked(what);
    dialog.current.showModal();
  };
  const carryOut = async (event) => {
    event.preventDefault();
    dialog.current.close();
    const [title] = QUESTIONS[asked];
    setNews({ text: `${title}: requested …` });
    try {
      setNews({ text: await done(asked, job.id, directory.trim(), drain) });
    } catch (error) {
      setNews({ text: `${title}: ${error.message}`, isBad: true });
    }
  };
  const [title, said] = QUESTIONS[asked];
  return html`<div class="actions">
    ${!job.is_over && Object.entries(QUESTIONS).map(([what, [name]]) => html`
      <button type="button" class=${what} onClick=${() => open(what)}>${name}</button>`)}
    ${news && html`<p role="status" class=${news.isBad ? "bad" : ""}>${news.text}</p>`}
    <dialog ref=${dialog} aria-label=${title}>
      <form onSubmit=${carryOut}>
        <h2>${title} “${job.name}”?</h2>
        <p>${said}</p>
        ${asked !== "cancel" && html`<label>Directory <input value=${directory}
          placeholder="the job's checkpoint directory" onInput=${(event) => setDirectory(event.target.value)} /></label>`}
        ${asked === "stop" && html`<label><input type="checkbox" checked=${drain}
          onChange=${(event) => setDrain(event.target.checked)} /> drain: fire all windows and timers first</label>`}
        <p class="buttons"><button type="button" onClick=${() => dialog.current.close()}>Back</button>
          <button type="submit" class=${asked}>${CONFIRM[asked]}</button></p>
      </form>
    </dialog>
  </div>`;
}

async function done(what, job, directory, drain) {
  if (what === "cancel") {
    await cancel(job);
    return "The job is being cancelled.";
  }
  const place = what === "stop" ? await stop(job, directory, drain) : await savepoint(job, directory);
  return `${what === "stop" ? "The job has ended; its" : "A"} savepoint is at ${place}`;
}
