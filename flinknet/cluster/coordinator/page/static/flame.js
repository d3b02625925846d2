// A flame graph of sampled stacks; the outermost call is at the top. It is loaded when its tab is
// opened and on request, because sampling costs the workers time.

import { html, useEffect, useState } from "/page/htm-preact.js";
import { ask } from "/page/coordinator.js";
import { clock, count } from "/page/format.js";

const KINDS = [["FULL", "all"], ["ON_CPU", "on CPU"], ["OFF_CPU", "off CPU: waiting"]];
const PATIENCE_MS = 30_000;
const ROW_PX = 20;
const WIDTH = 1000;

export function Flame({ job, vertex }) {
  const [kind, setKind] = useState("FULL");
  const [answer, setAnswer] = useState({ state: "asked" });
  const [root, setRoot] = useState(null);
  const [subtask, setSubtask] = useState("");
  const load = async (again) => {
    setAnswer({ state: "asked" });
    try {
      const query = new URLSearchParams({ type: kind, wait_ms: PATIENCE_MS });
      if (subtask !== "") query.set("subtaskindex", subtask);
      if (again) query.set("again", 1);
      const path = `/v1/jobs/${job}/vertices/${vertex.id}/flamegraph?${query}`;
      const told = JSON.parse(await ask(path, { patience: 2 * PATIENCE_MS }));
      setRoot(null);
      setAnswer({ state: "told", ...told });
    } catch (error) {
      setAnswer({ state: "refused", why: error.message });
    }
  };
  useEffect(() => { load(false); }, [job, vertex.id, kind, subtask]);
  const data = root ?? answer.data;
  return html`<section>
    <p class="choices" role="group" aria-label="kind of samples">
      ${KINDS.map(([name, said]) => html`<button type="button" aria-pressed=${kind === name}
        onClick=${() => setKind(name)}>${said}</button>`)}
      <button type="button" onClick=${() => load(true)}>sample again</button>
      <label>Subtask <select value=${subtask} onChange=${(event) => setSubtask(event.target.value)}>
        <option value="">all</option>
        ${vertex.rows.map((_, index) => html`<option value=${index}>${index + 1}</option>`)}</select></label>
      ${root && html`<button type="button" onClick=${() => setRoot(null)}>show all</button>`}
    </p>
    ${answer.state === "asked" && html`<p class="muted">Samples are being taken …</p>`}
    ${answer.state === "refused" && html`<p class="muted">There is no flame graph: ${answer.why}.</p>`}
    ${answer.state === "told" && !data && html`<p class="muted">There are no samples yet: try again in a moment.</p>`}
    ${answer.state === "told" && data && html`
      <p class="muted">${count(data.value)} samples until ${clock(answer.endTimestamp)}. Choose a box to zoom in.</p>
      <${Boxes} data=${data} choose=${setRoot} />`}
  </section>`;
}

function Boxes({ data, choose }) {
  const boxes = [];
  const walk = (node, x, depth) => {
    const width = (WIDTH * node.value) / data.value;
    if (width < 1) return;
    boxes.push({ node, x, depth, width });
    let at = x;
    for (const child of node.children ?? []) {
      walk(child, at, depth + 1);
      at += (WIDTH * child.value) / data.value;
    }
  };
  walk(data, 0, 0);
  const height = (Math.max(...boxes.map(({ depth }) => depth)) + 1) * ROW_PX;
  return html`<div class="wide"><svg class="flame" viewBox="0 0 ${WIDTH} ${height}" role="group" aria-label="flame graph">
    ${boxes.map(({ node, x, depth, width }) => {
      const said = `${node.name}: ${count(node.value)} of ${count(data.value)}`;
      const open = () => choose(node);
      return html`<g tabindex="0" role="button" aria-label=${said} onClick=${open}
          onKeyDown=${(event) => event.key === "Enter" && open()}>
        <title>${said}</title>
        <rect x=${x} y=${depth * ROW_PX} width=${width} height=${ROW_PX - 1} class=${`hue${hue(node.name)}`} />
        ${width > 40 && html`<svg x=${x} y=${depth * ROW_PX} width=${width - 2} height=${ROW_PX}>
          <text x="4" y="14">${cut(node.name, width)}</text></svg>`}</g>`;
    })}</svg></div>`;
}

const hue = (name) => [...name].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) % 5, 0);
const cut = (name, width) => {
  const letters = Math.floor((width - 8) / 6.6);
  return name.length > letters ? `${name.slice(0, Math.max(1, letters - 1))}…` : name;
};
