// The log and output of a process, and the stacks of its threads and tasks. They are loaded when
// displayed and on request, because a megabyte each second would be too much.

import { html, useEffect, useState } from "/page/htm-preact.js";
import { ask } from "/page/coordinator.js";
import { Tabs } from "/page/tabs.js";

export const COORDINATOR = "coordinator";

const EMPTY = { log: "nothing has been logged", stdout: "nothing has been printed", "thread-dump": "nothing" };

const TABS = [["log", "Log"], ["stdout", "Standard output"], ["thread-dump", "Threads and tasks"]];

export function Process({ name, tab }) {
  const [answer, setAnswer] = useState({ state: "asked" });
  const [sought, setSought] = useState("");
  const chosen = TABS.some(([one]) => one === tab) ? tab : "log";
  const place = name === COORDINATOR ? "/v1/jobmanager" : `/v1/taskmanagers/${encodeURIComponent(name)}`;
  const load = async () => {
    setAnswer({ state: "asked" });
    try {
      const text = await ask(`${place}/${chosen}`);
      const blocks = chosen === "thread-dump"
        ? JSON.parse(text).threadInfos.map((one) => one.stringifiedThreadInfo)
        : text ? text.split(/(?<=\n)/) : [];
      setAnswer({ state: "told", of: chosen, blocks });
    } catch (error) {
      setAnswer({ state: "refused", why: error.message });
    }
  };
  useEffect(() => { load(); }, [name, chosen]);
  const found = (answer.blocks ?? []).filter((one) => one.toLowerCase().includes(sought.toLowerCase()));
  const title = TABS.find(([one]) => one === chosen)[1];
  return html`<section class="process" aria-label=${name}>
    <header><h2>${name}</h2><a href="#/workers">close</a></header>
    <${Tabs} base=${`#/workers/${encodeURIComponent(name)}`} tabs=${TABS} chosen=${chosen} label="process" />
    <p class="choices"><button type="button" onClick=${load}>read again</button>
      <label>Filter <input type="search" value=${sought} onInput=${(event) => setSought(event.target.value)} /></label>
      <span class="muted" role="status">${answer.state === "asked" ? "…" : answer.state === "refused" ? answer.why
        : found.length ? `${found.length} of ${answer.blocks.length}` : answer.blocks.length ? "no match" : EMPTY[chosen]}</span></p>
    ${found.length > 0 && answer.of === chosen && html`
      <pre class="text" tabindex="0" role="region" aria-label=${`${title} of ${name}`}>${found.join(chosen === "thread-dump" ? "\n" : "")}</pre>`}
  </section>`;
}
