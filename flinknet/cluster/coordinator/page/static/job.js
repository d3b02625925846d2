// One job: its bottleneck, its graph, and details.

import { html } from "/page/htm-preact.js";
import * as f from "/page/format.js";
import { Actions } from "/page/actions.js";
import { Checkpoints } from "/page/checkpoints.js";
import { Exceptions } from "/page/exceptions.js";
import { Graph } from "/page/graph.js";
import { Network } from "/page/network.js";
import { Tabs } from "/page/tabs.js";
import { Vertex } from "/page/vertex.js";

const VERDICTS = { healthy: "✓ Healthy", troubled: "◆ Held up", unknown: "… Not known yet" };

export function Job({ told, route, chart }) {
  const { job, diagnosis, exceptions } = told;
  if (!job) return html`<p>There is no such job, or the coordinator no longer remembers it. <a href="#/">All jobs</a></p>`;
  const base = `#/jobs/${job.id}`;
  const culprits = new Set(diagnosis.findings.map(({ culprit }) => culprit.vertex_id).filter(Boolean));
  const tabs = [
    ["", "Graph"],
    ["network", "Network"],
    ["checkpoints", "Checkpoints"],
    ["exceptions", "Exceptions", exceptions.entries.length || ""],
  ];
  const tab = route.vertex ? "" : route.tab;
  return html`<div class="job">
    <header>
      <h1>${job.name}</h1>
      <p><b class=${`state ${job.state.toLowerCase()}`}>${f.words(job.state)}</b>
        ${" "}for ${f.duration(job.seconds)}, attempt ${job.attempt + 1} · <code>${job.id}</code></p>
      <${Actions} job=${job} />
    </header>
    ${!job.is_over && html`<${Verdict} diagnosis=${diagnosis} />`}
    ${job.holders.length > 0 && job.is_over && html`<p class="muted">Still held by ${job.holders.join(", ")}.</p>`}
    <${Tabs} base=${base} tabs=${tabs} chosen=${tab} label="job" />
    ${tab === "" && html`<${Graph} job=${job} culprits=${culprits} chosen=${route.vertex} />`}
    ${tab === "network" && told.network && html`<${Network} network=${told.network} />`}
    ${tab === "checkpoints" && told.checkpoints && html`<${Checkpoints} checkpoints=${told.checkpoints}
      base=${`${base}/checkpoints`} />`}
    ${tab === "exceptions" && html`<${Exceptions} exceptions=${exceptions} />`}
    ${route.vertex && told.vertex && html`<${Vertex} key=${told.vertex.id} jobId=${job.id} vertex=${told.vertex}
      tab=${route.tab} chart=${chart} />`}
    ${tab === "" && !route.vertex && html`<${Lost} job=${job} diagnosis=${diagnosis} />`}
  </div>`;
}

function Verdict({ diagnosis }) {
  const [worst, ...others] = diagnosis.findings;
  return html`<section class=${`verdict ${diagnosis.verdict}`} aria-label="diagnosis">
    <p class="sentence" role="status"><b>${VERDICTS[diagnosis.verdict]}</b> <span>${diagnosis.sentence}</span></p>
    ${worst && html`<details><summary>Evidence</summary>
      <ul>${worst.evidence.map((line) => html`<li>${line}</li>`)}</ul></details>`}
    ${others.length > 0 && html`<details><summary>${others.length} more</summary>
      ${others.map((one) => html`<p>${one.sentence}</p>
        <ul>${one.evidence.map((line) => html`<li>${line}</li>`)}</ul>`)}</details>`}
  </section>`;
}

// Time that each task has lost, and the cause. Rates are shown next to the times, because time
// alone misleads where an operator makes many records of one.
function Lost({ diagnosis }) {
  const rows = diagnosis.findings.flatMap((finding) =>
    finding.lost.map((lost) => ({ finding, lost, culprit: finding.culprit.operator || finding.culprit.worker_ids[0] })));
  if (!rows.length) return null;
  return html`<div class="wide" tabindex="0" role="region" aria-label="time lost"><table class="plain"><caption>Time lost in the last ${f.duration(diagnosis.seconds)}</caption>
    <thead><tr><th class="text" scope="col">Task</th><th class="text" scope="col">Lost to</th>
      <th class="text" scope="col">Cause</th><th scope="col">Seconds</th><th scope="col">Share</th>
      <th scope="col">Records out/s</th><th class="text" scope="col">Still waits</th></tr></thead>
    <tbody>${rows.slice(0, 20).map(({ finding, lost, culprit }) => html`<tr>
      <td class="text">${lost.task.name}</td><td class="text">${culprit}</td>
      <td class="text">${f.words(finding.kind)}</td><td>${lost.seconds.toFixed(1)}</td>
      <td>${f.percent(lost.share)}</td><td>${f.perSecond(lost.throughput.records_out_per_s)}</td>
      <td class="text">${f.yesNo(lost.is_ongoing)}</td></tr>`)}</tbody></table></div>`;
}
