// The workers of the cluster, and the log and stacks of a worker or of the coordinator.

import { html } from "/page/htm-preact.js";
import * as f from "/page/format.js";
import { COORDINATOR, Process } from "/page/process.js";
import { Table, byName } from "/page/table.js";

const processLink = (name) => html`<a href=${`#/workers/${encodeURIComponent(name)}`}>${name}</a>`;

const COLUMNS = [
  { name: "worker_id", title: "Worker", isText: true, show: (name, row) => (row.loss ? name : processLink(name)) },
  { name: "state", title: "State", isText: true, show: f.words },
  { name: "address", title: "Address", isText: true },
  { name: "pid", title: "Process", show: f.text },
  { name: "free_slots", title: "Free slots", show: (value, row) => `${value} of ${row.slots}` },
  { name: "segments_free", title: "Free buffers",
    show: (value, row) => (f.isKnown(value) ? `${f.count(value)} of ${f.count(row.segments)}` : "–") },
  { name: "loop_lag_ms", title: "Loop lag", show: f.milliseconds, label: "maximum delay of a timer" },
  { name: "collecting", title: "Garbage collector", show: f.percent,
    label: "share of the last minute in which garbage collection stopped all threads" },
  { name: "heard_ms_ago", title: "Heard", show: (value) => `${f.milliseconds(value)} ago` },
  { name: "clock_offset_ms", title: "Clock",
    show: (value, row) => (f.isKnown(value) ? `${value > 0 ? "+" : ""}${value} ± ${row.clock_error_ms} ms` : "–"),
    label: "lead of the worker's clock over the coordinator's" },
  { name: "metrics_address", title: "Metrics", isText: true, show: (value) => value || "–" },
  { name: "loss", title: "Lost", isText: true, show: (value) => value ?? "" },
];

export const Workers = ({ workers, chosen, tab }) => html`
  <p>Logs and stacks of the ${processLink(COORDINATOR)}, or of a worker:</p>
  <${Table} columns=${COLUMNS} rows=${workers} get=${byName} label="Workers" />
  ${chosen && html`<${Process} key=${chosen} name=${chosen} tab=${tab} />`}`;
