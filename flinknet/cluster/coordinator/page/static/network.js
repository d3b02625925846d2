// The exchange of a job: pools, connections, gates, partitions, and the fullest channels.

import { html } from "/page/htm-preact.js";
import * as f from "/page/format.js";
import { Table, byName, byPlace } from "/page/table.js";

const TITLES = {
  worker: ["Worker", null],
  peer: ["Peer", null],
  task: ["Task", null],
  gate: ["Gate", null],
  partition: ["Partition", null],
  kind: ["Kind", null],
  channel: ["Channel", f.count],
  channels: ["Channels", f.count],
  subpartitions: ["Subpartitions", f.count],
  credit: ["Credit", f.count, "free buffers of the peer for data of this side"],
  backlog: ["Backlog", f.count, "buffers that wait to be sent"],
  in_flight: ["In flight", f.count, "buffers in the socket"],
  bytes_out: ["Sent", f.bytes],
  bytes_in: ["Received", f.bytes],
  buffers_out: ["Buffers out", f.count],
  buffers_in: ["Buffers in", f.count],
  control_queued: ["Control queue", f.count],
  credit_messages: ["Credit messages", f.count],
  stalled: ["Stalled", f.yesNo],
  queued_buffers: ["Queued", f.count],
  queued_bytes: ["Queued bytes", f.bytes],
  buffered_bytes: ["Buffered", f.bytes, "received, or waiting at the producers"],
  time_to_consume: ["To consume", f.milliseconds, "estimated time in which the task consumes the buffered data"],
  credit_announced: ["Credit", f.count, "free buffers announced to producers"],
  credit_unannounced: ["Unannounced", f.count, "free buffers not announced to producers"],
  credit_held: ["Held back", f.count, "not announced while the gate is busy, so producers cannot use it"],
  channels_short: ["Short channels", f.count, "channels whose producers wait for credit"],
  exclusive_in_use: ["Exclusive used", f.count],
  exclusive_buffers: ["Exclusive", f.count],
  exclusive_free: ["Exclusive free", f.count],
  exclusive_total: ["Exclusive", f.count],
  floating_in_use: ["Floating used", f.count],
  floating_size: ["Floating", f.count],
  floating_free: ["Floating free", f.count],
  blocked: ["Blocked", f.count, "subpartitions that wait for their consumers to resume them"],
  in_use: ["Pool used", f.count],
  size: ["Pool", f.count],
  longest_queue: ["Longest queue", f.count],
};

const POOLS = [
  { name: "worker", title: "Worker", isText: true },
  { name: "free", title: "Free", show: f.count },
  { name: "total", title: "Buffers", show: f.count },
  { name: "exclusive", title: "Exclusive", show: f.count },
  { name: "requested", title: "Requested", show: f.count, label: "buffers that all pools would use if they could" },
  { name: "local_pools", title: "Local pools", show: f.count },
  { name: "segment_bytes", title: "Buffer size", show: f.bytes },
  { name: "loop_lag_ms", title: "Loop lag", show: f.milliseconds, label: "maximum delay of a timer" },
  { name: "left_out", title: "Left out", show: f.count, label: "rows that did not fit into the report" },
];

export function Network({ network }) {
  return html`<div>
    <${Table} columns=${POOLS} rows=${network.pools} get=${byName} label="Network buffer pools" />
    <${Rows} told=${network.connections} label="Connections"
      empty="this job needs none: all of its channels are within one worker" />
    <${Rows} told=${network.channels} label="Channels with the most waiting data" first="backlog" />
    <${Rows} told=${network.gates} label="Input gates" first="backlog" />
    <${Rows} told=${network.partitions} label="Result partitions" first="queued_buffers" />
  </div>`;
}

function Rows({ told, label, first, empty }) {
  const columns = told.columns.map((name) => {
    const [title, show, said] = TITLES[name];
    return { name, title, label: said, isText: show === null, show: show ?? f.text };
  });
  return html`<${Table} columns=${columns} rows=${told.rows} get=${byPlace(told.columns)} label=${label}
    initial=${first && { name: first, descending: true }} empty=${empty} />`;
}
