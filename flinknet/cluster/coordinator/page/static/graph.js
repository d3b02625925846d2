// The job graph: vertices in layers from left to right, edges with what moves along them.

import { html } from "/page/htm-preact.js";
import { bytesPerSecond, percent, perSecond, count } from "/page/format.js";
import { colour } from "/page/shares.js";

const NODE = { width: 216, height: 112 };
const GAP = { x: 148, y: 44 };
const MARGIN = 14;

// Places of vertices: each one layer behind the last of those that it reads from; within a layer in
// the order of the middle of what they are connected with, so that few edges cross.
export function placed(vertices, edges) {
  const layer = new Map(vertices.map((vertex) => [vertex.number, 0]));
  for (let turn = 0; turn < vertices.length; turn += 1) {
    for (const { source, target } of edges) {
      layer.set(target, Math.max(layer.get(target), layer.get(source) + 1));
    }
  }
  const layers = [];
  for (const { number } of vertices) (layers[layer.get(number)] ??= []).push(number);
  const row = new Map();
  for (let turn = 0; turn < 4; turn += 1) {
    for (const numbers of layers) {
      numbers.forEach((number, at) => { if (!row.has(number)) row.set(number, at); });
      const middle = (number) => {
        const near = edges.flatMap(({ source, target }) =>
          source === number ? [target] : target === number ? [source] : []);
        const rows = near.filter((one) => row.has(one)).map((one) => row.get(one));
        return rows.length ? rows.reduce((sum, one) => sum + one, 0) / rows.length : row.get(number);
      };
      const middles = new Map(numbers.map((number) => [number, middle(number)]));
      numbers.sort((one, other) => middles.get(one) - middles.get(other) || one - other);
      numbers.forEach((number, at) => row.set(number, at - (numbers.length - 1) / 2));
    }
  }
  const top = Math.min(...row.values());
  const places = new Map(vertices.map(({ number }) => [number, {
    x: MARGIN + layer.get(number) * (NODE.width + GAP.x),
    y: MARGIN + (row.get(number) - top) * (NODE.height + GAP.y),
  }]));
  const all = [...places.values()];
  return {
    places,
    width: Math.max(...all.map(({ x }) => x)) + NODE.width + MARGIN,
    height: Math.max(...all.map(({ y }) => y)) + NODE.height + MARGIN,
  };
}

export function Graph({ job, culprits, chosen }) {
  const { places, width, height } = placed(job.vertices, job.edges);
  return html`<div class="graph" tabindex="0" role="region" aria-label="job graph">
    <svg width=${width} height=${height} viewBox="0 0 ${width} ${height}">
      <defs>
        <marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">
          <path class="arrow" d="M0 0L8 4L0 8z" /></marker>
        <pattern id="hatched" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
          <rect width="6" height="6" fill="#888888" /><rect width="2" height="6" fill="#5c5c5c" /></pattern>
      </defs>
      ${job.edges.map((edge, key) => html`<${Edge} key=${key} edge=${edge} places=${places} />`)}
      ${job.vertices.map((vertex) => html`<${Node} key=${vertex.number} job=${job} vertex=${vertex}
        place=${places.get(vertex.number)} isCulprit=${culprits.has(vertex.id)} isChosen=${chosen === vertex.id} />`)}
    </svg></div>`;
}

function Edge({ edge, places }) {
  const from = places.get(edge.source);
  const to = places.get(edge.target);
  const start = { x: from.x + NODE.width, y: from.y + NODE.height / 2 };
  const end = { x: to.x, y: to.y + NODE.height / 2 };
  const bend = Math.max(40, (end.x - start.x) / 2);
  const path = `M${start.x} ${start.y}C${start.x + bend} ${start.y} ${end.x - bend} ${end.y} ${end.x - 2} ${end.y}`;
  const middle = { x: (start.x + end.x) / 2, y: (start.y + end.y) / 2 };
  const waits = edge.queued_out + edge.queued_in;
  const lines = [
    edge.name,
    edge.records_per_s === null ? bytesPerSecond(edge.bytes_per_s) : `${perSecond(edge.records_per_s)}`,
    edge.records_per_s === null ? "" : bytesPerSecond(edge.bytes_per_s),
    `queue ${count(waits)} · credit ${count(edge.credit)}`,
  ];
  const said = `${edge.name}: ${lines[1]} records, ${bytesPerSecond(edge.bytes_per_s)}; buffers queued at the`
    + ` producers ${edge.queued_out}, at the consumers ${edge.queued_in}; backlog ${edge.backlog}, credit ${edge.credit}`;
  const above = [0, 1].filter((at) => lines[at]);
  const below = [2, 3].filter((at) => lines[at]);
  return html`<g class="edge"><title>${said}</title>
    <path d=${path} marker-end="url(#arrow)" />
    ${above.map((at, row) => html`<text x=${middle.x} y=${middle.y - 22 + 15 * row}
      class=${at === 0 ? "quiet" : "rate"}>${lines[at]}</text>`)}
    ${below.map((at, row) => html`<text x=${middle.x} y=${middle.y + 17 + 15 * row}
      class=${at === 3 ? "quiet" : "rate"}>${lines[at]}</text>`)}
  </g>`;
}

function Node({ job, vertex, place, isCulprit, isChosen }) {
  const href = `#/jobs/${job.id}/vertices/${vertex.id}/subtasks`;
  const isLive = vertex.reported > 0;
  const said = `${vertex.name}, ${vertex.parallelism} subtasks, ${vertex.state}`
    + (isLive ? `, busy ${percent(vertex.busy)}, backpressured ${percent(vertex.backpressured)}` : "")
    + (isCulprit ? ", holds the job up" : "");
  const inner = NODE.width - 20;
  const waits = inner * Math.min(1, vertex.backpressured);
  const works = Math.min(inner - waits, inner * vertex.busy);
  const classes = `node${isCulprit ? " culprit" : ""}${isChosen ? " chosen" : ""}`;
  return html`<a href=${href} class=${classes} aria-label=${said} transform="translate(${place.x} ${place.y})">
    <title>${said}</title>
    <rect class="box" width=${NODE.width} height=${NODE.height} rx="8" />
    <path class="head" d="M0 38V8a8 8 0 0 1 8-8H${NODE.width - 8}a8 8 0 0 1 8 8V38z"
      style=${{ fill: isLive ? colour(vertex) : "var(--line)" }} />
    <text class=${isLive ? "name" : "name off"} x="10" y="16">${cut(vertex.name, 29)}</text>
    <text class=${isLive ? "name small" : "name small off"} x="10" y="31">
      ${vertex.parallelism} × ${vertex.state.toLowerCase()}${isCulprit ? " · ◆ culprit" : ""}</text>
    <g transform="translate(10 46)">
      ${isLive && html`<rect class="idle" width=${inner} height="9" />
        <rect class="busy" width=${works} height="9" />
        <rect x=${works} width=${waits} height="9" fill="url(#hatched)" />`}
    </g>
    ${isLive
      ? html`<text x="10" y="71">busy ${percent(vertex.busy)} · backpr. ${percent(vertex.backpressured)}</text>
        <text x="10" y="87">in ${perSecond(vertex.records_in_per_s)} · out ${perSecond(vertex.records_out_per_s)}</text>`
      : html`<text x="10" y="71">not reported now</text>`}
    <text class="quiet" x="10" y="103">in ${count(vertex.records_in)} · out ${count(vertex.records_out)}</text>
  </a>`;
}

const cut = (name, letters) => (name.length > letters ? `${name.slice(0, letters - 1)}…` : name);
