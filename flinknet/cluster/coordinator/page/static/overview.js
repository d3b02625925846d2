// The cluster at a glance: slots, jobs, workers.

import { html } from "/page/htm-preact.js";
import * as f from "/page/format.js";
import { Table, byName } from "/page/table.js";
import { Workers } from "/page/workers.js";

const JOBS = [
  { name: "name", title: "Job", isText: true },
  { name: "state", title: "State", isText: true, show: f.words },
  { name: "start-time", title: "Begun", isText: true, show: f.clock },
  { name: "duration", title: "Duration", show: (value) => f.duration(value / 1000) },
  { name: "running", title: "Tasks", show: (_, { tasks }) => `${tasks.running} of ${tasks.total} run` },
  { name: "jid", title: "ID", isText: true },
];

export function Overview({ told }) {
  const { cluster } = told;
  const facts = [
    ["workers", cluster.taskmanagers],
    ["free slots", `${cluster["slots-available"]} of ${cluster["slots-total"]}`],
    ["running", cluster["jobs-running"]],
    ["finished", cluster["jobs-finished"]],
    ["cancelled", cluster["jobs-cancelled"]],
    ["failed", cluster["jobs-failed"]],
  ];
  return html`<div>
    <dl class="facts">${facts.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
    <${Table} columns=${JOBS} rows=${told.jobs} get=${byName} label="Jobs" link=${(job) => `#/jobs/${job.jid}`}
      initial=${{ name: "start-time", descending: true }} empty="none was submitted yet" />
    <${Workers} workers=${told.workers} />
  </div>`;
}
