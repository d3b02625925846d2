// Failures of attempts: the first cause of each, the latest attempt first.

import { html } from "/page/htm-preact.js";
import { clock } from "/page/format.js";

export function Exceptions({ exceptions }) {
  const { entries, truncated } = exceptions;
  if (!entries.length) return html`<p class="muted">No attempt of this job has failed.</p>`;
  return html`<ol class="exceptions">
    ${entries.map((entry, at) => html`<li key=${entry.timestamp}>
      <p><b>${entry.exceptionName}</b> <span>${entry.taskName ? `in ${entry.taskName} ` : ""}
        ${entry.taskManagerId ? `on ${entry.taskManagerId} ` : ""}at ${clock(entry.timestamp)}</span></p>
      <p class="first">First cause: ${lastLine(entry.stacktrace)}</p>
      <details open=${at === 0}><summary>Traceback</summary><pre tabindex="0">${entry.stacktrace}</pre></details>
    </li>`)}
  </ol>
  ${truncated && html`<p class="muted">Older failures are not kept.</p>`}`;
}

const lastLine = (trace) => trace.trim().split("\n").findLast((line) => line.trim() && !line.startsWith(" ")) ?? trace;
