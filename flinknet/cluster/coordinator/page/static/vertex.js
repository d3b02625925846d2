// One vertex: its subtasks, shares of their time, buffers, metrics to plot, a flame graph.

import { html, useState } from "/page/htm-preact.js";
import { ask } from "/page/coordinator.js";
import * as f from "/page/format.js";
import { Table, byName, byPlace } from "/page/table.js";
import { Shares } from "/page/shares.js";
import { Plot } from "/page/plot.js";
import { Flame } from "/page/flame.js";
import { Tabs } from "/page/tabs.js";

const WHO = [
  { name: "subtask", title: "Subtask", show: (value) => value + 1 },
  { name: "worker", title: "Worker", isText: true },
];

const SUBTASKS = [
  ...WHO,
  { name: "state", title: "Status", isText: true },
  { name: "records_in_per_s", title: "Records in/s", show: f.perSecond },
  { name: "records_out_per_s", title: "Records out/s", show: f.perSecond },
  { name: "bytes_in_per_s", title: "Bytes in/s", show: f.bytesPerSecond },
  { name: "bytes_out_per_s", title: "Bytes out/s", show: f.bytesPerSecond },
  { name: "records_in", title: "Records in", show: f.count },
  { name: "records_out", title: "Records out", show: f.count },
  { name: "bytes_in", title: "Bytes in", show: f.bytes },
  { name: "bytes_out", title: "Bytes out", show: f.bytes },
];

const BACKPRESSURE = (get, sampled) => [
  ...WHO,
  { name: "backpressured", title: "Backpressured", show: f.percent },
  ...(sampled ? [{ name: "sampled", title: "Sampled", show: f.percent,
    label: "share of the samples in which it waited for an output buffer" }] : []),
  { name: "idle", title: "Idle", show: f.percent },
  { name: "busy", title: "Busy", show: f.percent },
  { name: "level", title: "Status", isText: true, show: f.text },
  { name: "spent", title: "Where the time goes", isText: true,
    show: (_, row) => html`<${Shares} busy=${get(row, "busy")} backpressured=${get(row, "backpressured")}
      idle=${get(row, "idle")} />` },
  { name: "mailbox_ms", title: "Mailbox latency", show: f.milliseconds },
];

const BUFFERS = [
  ...WHO,
  { name: "in_pool", title: "In pool", show: f.percent, label: "share of the input buffers that producers cannot fill: they hold data, or are held back" },
  { name: "out_pool", title: "Out pool", show: f.percent, label: "share of the output buffers in use" },
  { name: "exclusive", title: "Exclusive", show: f.percent },
  { name: "floating", title: "Floating", show: f.percent },
  { name: "queued_in", title: "Queued in", show: f.count },
  { name: "queued_out", title: "Queued out", show: f.count },
  { name: "backlog", title: "Backlog", show: f.count, label: "buffers that wait at the producers" },
  { name: "credit_announced", title: "Credit", show: f.count, label: "free buffers announced to producers" },
  { name: "credit_unannounced", title: "Unannounced", show: f.count },
  { name: "credit_held", title: "Held back", show: f.count, label: "not announced while the gate is busy, so producers cannot use it" },
  { name: "channels_short", title: "Short channels", show: f.count, label: "channels whose producers wait for credit" },
  { name: "meaning", title: "Meaning", isText: true, show: (value) => (value ? f.words(value) : "–") },
];

const WATERMARKS = [
  ...WHO,
  { name: "watermark_ms", title: "Watermark", show: f.watermark, label: "event time at the inputs" },
];

const LATENCY = [
  { name: "source", title: "Source", isText: true, show: (value) => value || "all" },
  { name: "source_subtask", title: "Its subtask", show: (value) => (value === null ? "all" : value + 1) },
  { name: "operator", title: "Operator", isText: true },
  { name: "subtask", title: "Subtask", show: (value) => value + 1 },
  { name: "median", title: "Median", show: f.milliseconds },
  { name: "p99", title: "p99", show: f.milliseconds },
  { name: "max", title: "Maximum", show: f.milliseconds },
  { name: "last", title: "Last", show: f.milliseconds },
  { name: "markers", title: "Markers", show: f.count },
];

export const VERTEX_TABS = [
  ["subtasks", "Subtasks"],
  ["watermarks", "Watermarks"],
  ["backpressure", "Backpressure"],
  ["buffers", "Buffers"],
  ["latency", "Latency"],
  ["metrics", "Metrics"],
  ["flame", "Flame graph"],
];

export function Vertex({ jobId, vertex, tab, chart }) {
  const get = byPlace(vertex.columns);
  const base = `#/jobs/${jobId}/vertices/${vertex.id}`;
  const subtasks = (columns, label, initial) => html`<${Table} key=${label} columns=${columns} rows=${vertex.rows}
    get=${get} label=${label} initial=${initial} />`;
  const shown = {
    subtasks: () => subtasks(SUBTASKS, "Subtasks"),
    watermarks: () => vertex.rows.every((row) => get(row, "watermark_ms") === null)
      ? html`<div>${subtasks(WATERMARKS, "Watermarks by subtask")}
        <p class="muted">There are no watermarks: no record that comes here has a timestamp, according to the last reports.</p></div>`
      : subtasks(WATERMARKS, "Watermarks by subtask"),
    backpressure: () => html`<${Backpressure} key=${vertex.id} job=${jobId} vertex=${vertex} get=${get} />`,
    buffers: () => subtasks(BUFFERS, "Buffers by subtask"),
    latency: () => html`<${Table} key="latency" columns=${LATENCY} rows=${vertex.latency} get=${byName}
      label="Latency from sources" initial=${{ name: "p99", descending: true }}
      empty="no latency marker has arrived: sources emit them with set_latency_tracking_interval" />`,
    metrics: () => html`<${Metrics} vertex=${vertex} chart=${chart} />`,
    flame: () => html`<${Flame} job=${jobId} vertex=${vertex} />`,
  };
  return html`<section class="vertex" aria-label=${vertex.name}>
    <header><h2>${vertex.name} <small>${f.count(vertex.parallelism)} subtasks of at most
      ${" "}${f.count(vertex.max_parallelism)}</small></h2>
      <a href=${`#/jobs/${jobId}`}>close</a></header>
    <${Tabs} base=${base} tabs=${VERTEX_TABS} chosen=${tab} label="vertex" />
    ${(shown[tab] ?? shown.subtasks)()}
  </section>`;
}

const SAMPLES_PATIENCE_MS = 30_000;

// Backpressure by time, and on request by samples, as in Flink before 1.13, for comparison.
function Backpressure({ job, vertex, get }) {
  const [answer, setAnswer] = useState(null);
  const take = async () => {
    setAnswer({ said: "Samples are being taken …" });
    try {
      const path = `/v1/jobs/${job}/vertices/${vertex.id}/backpressure?by=samples&wait_ms=${SAMPLES_PATIENCE_MS}`;
      const told = JSON.parse(await ask(path, { patience: 2 * SAMPLES_PATIENCE_MS }));
      const ratios = new Map((told.subtasks ?? []).map((one) => [one.subtask, one.ratio]));
      setAnswer({ ratios, said: ratios.size ? `Samples until ${f.clock(told["end-timestamp"])}.` : "There are no samples." });
    } catch (error) {
      setAnswer({ said: error.message });
    }
  };
  const ratios = answer?.ratios;
  const got = (row, name) => (name === "sampled" ? ratios.get(get(row, "subtask")) ?? null : get(row, name));
  return html`<div>
    <p class="choices"><button type="button" onClick=${take}>compare with samples</button>
      <span class="muted" role="status">${answer?.said ?? "Times are always measured; samples cost the workers some time."}</span></p>
    <${Table} key=${ratios ? "both" : "time"} columns=${BACKPRESSURE(get, ratios)} rows=${vertex.rows} get=${got}
      label="Backpressure by subtask" initial=${{ name: "backpressured", descending: true }} />
  </div>`;
}

function Metrics({ vertex, chart }) {
  const [name, setName] = useState("");
  const add = (event) => {
    event.preventDefault();
    if (vertex.metric_names.includes(name)) {
      chart.add(name);
      setName("");
    }
  };
  return html`<div>
    <form class="choices" onSubmit=${add}>
      <label>Metric <input list="metric-names" class="metric" value=${name} placeholder="numRecordsInPerSecond"
        onInput=${(event) => setName(event.target.value)} /></label>
      <datalist id="metric-names">${vertex.metric_names.map((one) => html`<option value=${one} />`)}</datalist>
      <button type="submit">plot</button>
      <span class="muted">${vertex.metric_names.length} metrics; the line is the mean over the subtasks, the band
        reaches from the smallest to the largest.</span>
    </form>
    <div class="plots">${chart.names.map((one) => html`<${Plot} key=${one} name=${one} points=${chart.points(one)} told=${chart.told(one)}
      onRemove=${() => chart.remove(one)} />`)}</div>
  </div>`;
}
