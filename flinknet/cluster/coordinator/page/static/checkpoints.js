// The checkpoints of a job.

import { html } from "/page/htm-preact.js";
import * as f from "/page/format.js";
import { Table, byName, byPlace } from "/page/table.js";

const COLUMNS = [
  { name: "id", title: "ID", show: f.count },
  { name: "checkpoint_type", title: "Type", isText: true, show: f.words },
  { name: "status", title: "Status", isText: true, show: f.words },
  { name: "num_acknowledged_subtasks", title: "Acknowledged",
    show: (value, row) => `${value}/${row.num_subtasks}` },
  { name: "trigger_timestamp", title: "Trigger time", isText: true, show: f.clock },
  { name: "latest_ack_timestamp", title: "Latest ack", isText: true, show: f.clock },
  { name: "end_to_end_duration", title: "Duration", show: f.milliseconds, label: "end to end" },
  { name: "start_delay", title: "Start delay", show: f.milliseconds, label: "of the slowest subtask" },
  { name: "alignment", title: "Alignment", show: f.milliseconds, label: "of the slowest subtask" },
  { name: "sync", title: "Sync", show: f.milliseconds },
  { name: "async", title: "Async", show: f.milliseconds },
  { name: "state_size", title: "State", show: f.bytes },
  { name: "processed_data", title: "Processed", show: f.bytes, label: "in-flight data processed during alignment" },
  { name: "persisted_data", title: "Persisted", show: f.bytes, label: "in-flight data stored" },
  { name: "failure_message", title: "Failure", isText: true, show: f.text },
];

const SUMMARY = [
  ["end_to_end_duration", "End-to-end duration", f.milliseconds],
  ["state_size", "State", f.bytes],
  ["processed_data", "Processed in-flight data", f.bytes],
  ["persisted_data", "Persisted in-flight data", f.bytes],
];
const STATISTICS = ["min", "avg", "p50", "p90", "p99", "max"];

const PARTS = [
  { name: "vertex", title: "Operator", isText: true },
  { name: "subtask", title: "Subtask", show: (value) => value + 1 },
  { name: "status", title: "Status", isText: true },
  { name: "duration", title: "Duration", show: f.milliseconds, label: "from the trigger to its acknowledgement" },
  { name: "start_delay", title: "Start delay", show: f.milliseconds, label: "from the trigger to its first barrier" },
  { name: "alignment", title: "Alignment", show: f.milliseconds, label: "from its first barrier to its last" },
  { name: "sync", title: "Sync", show: f.milliseconds, label: "time in which records waited while its state was captured" },
  { name: "async", title: "Async", show: f.milliseconds, label: "time in which its state was written" },
  { name: "state_size", title: "State", show: f.bytes },
  { name: "processed_data", title: "Processed", show: f.bytes, label: "in-flight data processed during alignment" },
  { name: "persisted_data", title: "Persisted", show: f.bytes, label: "in-flight data stored" },
  { name: "unaligned", title: "Unaligned", isText: true, show: f.yesNo },
];

export function Checkpoints({ checkpoints, base }) {
  const { parts } = checkpoints;
  const { counts, history, summary, latest } = checkpoints;
  const rows = history.map((row) => ({ ...row, failure_message: row.failure_message ?? "" }));
  return html`<div>
    <dl class="facts">
      ${["total", "completed", "in_progress", "failed", "restored"].map((name) => html`
        <div><dt>${f.words(name)}</dt><dd>${f.count(counts[name])}</dd></div>`)}
      ${latest.restored && html`<div><dt>restored from</dt><dd>${latest.restored.external_path}</dd></div>`}
      ${latest.savepoint && html`<div><dt>last savepoint</dt><dd>${latest.savepoint.external_path}</dd></div>`}
    </dl>
    ${counts.completed > 0 && html`<div class="wide" tabindex="0" role="region" aria-label="completed checkpoints"><table class="plain"><caption>Completed checkpoints that the coordinator remembers</caption>
      <thead><tr><th class="text" scope="col"></th>${STATISTICS.map((one) => html`<th scope="col">${one}</th>`)}</tr></thead>
      <tbody>${SUMMARY.map(([name, title, show]) => html`<tr><th class="text" scope="row">${title}</th>
        ${STATISTICS.map((one) => html`<td>${show(summary[name][one])}</td>`)}</tr>`)}</tbody></table></div>`}
    ${parts && html`<${Table} key=${parts.id} columns=${PARTS} rows=${parts.rows} get=${byPlace(parts.columns)}
      label=${`Subtasks in checkpoint ${parts.id}`} initial=${{ name: "duration", descending: true }} />`}
    <${Table} columns=${COLUMNS} rows=${rows} get=${byName} label="History" link=${(row) => `${base}/${row.id}`}
      empty="none yet, or the job has no periodic checkpoints" />
  </div>`;
}
