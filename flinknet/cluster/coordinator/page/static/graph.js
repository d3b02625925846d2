// The job graph: vertices in layers from left to right, edges with their rates.

import { html } from "/page/htm-preact.js";
import { bytesPerSecond, percent, perSecond, count } from "/page/format.js";
import { colour } from "/page/shares.js";

const NODE = { width: 216, height: 112 };
const GAP = { x: 196, y: 44 };
const LABEL = { width: 132, height: 76 };
const LANE_PX = 18;
const MARGIN = 14;

// The layout: the positions of vertices and the paths of edges. A vertex is one layer behind the
// last of its inputs. An edge that passes a layer has a row of its own there, as if it were a
// vertex, so that it crosses no vertex. Between two layers an edge is horizontal for the width of
// its label, at a height of its own, so that no curve crosses a label.
export function placed(vertices, edges) {
  const layer = layersOf(vertices, edges);
  const ways = edges.map(({ source, target }, key) => {
    const passed = [];
    for (let at = layer.get(source) + 1; at < layer.get(target); at += 1) {
      passed.push(`${key} ${at}`);
      layer.set(passed.at(-1), at);
    }
    return [source, ...passed, target];
  });
  const links = ways.flatMap((way, key) =>
    way.slice(1).map((target, at) => ({ source: way[at], target, key, isFirst: at === 0 })));
  const row = rowsOf(layer, links);
  const levels = levelsOf(layer, row, links);
  const tops = [...row.values()].map((at) => at - NODE.height / 2);
  const top = Math.min(...tops, ...levels.map((level) => level.y - level.height / 2));
  const bottom = Math.max(...[...row.values()].map((at) => at + NODE.height / 2),
    ...levels.map((level) => level.y + level.height / 2));
  const down = MARGIN - top;
  const left = (one) => MARGIN + layer.get(one) * (NODE.width + GAP.x);
  const places = new Map(vertices.map(({ number }) =>
    [number, { x: left(number), y: row.get(number) - NODE.height / 2 + down }]));
  const routes = edges.map(() => ({ path: "", label: null }));
  for (const { link, y } of levels) {
    const route = routes[link.key];
    const from = { x: left(link.source) + NODE.width, y: row.get(link.source) + down };
    const to = { x: left(link.target), y: row.get(link.target) + down };
    const begin = from.x + (GAP.x - LABEL.width) / 2;
    const end = begin + LABEL.width;
    const level = y + down;
    const isLast = typeof link.target === "number";
    if (link.isFirst) {
      route.path = `M${from.x} ${from.y}`;
      route.label = { x: (begin + end) / 2, y: level };
    } else {
      route.path += `H${from.x}`;
    }
    const stop = isLast ? to.x - 2 : to.x;
    route.path += bend(from.x, from.y, begin, level) + `H${end}` + bend(end, level, stop, to.y);
  }
  return {
    places,
    routes,
    width: Math.max(...vertices.map(({ number }) => left(number))) + NODE.width + MARGIN,
    height: bottom - top + 2 * MARGIN,
  };
}

const bend = (x, y, toX, toY) => {
  const middle = (x + toX) / 2;
  return `C${middle} ${y} ${middle} ${toY} ${toX} ${toY}`;
};

function layersOf(vertices, edges) {
  const layer = new Map(vertices.map(({ number }) => [number, 0]));
  for (let turn = 0; turn < vertices.length; turn += 1) {
    for (const { source, target } of edges) {
      layer.set(target, Math.max(layer.get(target), layer.get(source) + 1));
    }
  }
  return layer;
}

// The middle of each row. A layer is sorted by the mean position of connected vertices, so that few
// edges cross.
function rowsOf(layer, links) {
  const layers = [];
  for (const [one, at] of layer) (layers[at] ??= []).push(one);
  const near = new Map([...layer.keys()].map((one) => [one, []]));
  for (const { source, target } of links) {
    near.get(source).push(target);
    near.get(target).push(source);
  }
  const row = new Map();
  for (let turn = 0; turn < 4; turn += 1) {
    for (const ones of layers) {
      ones.forEach((one, at) => { if (!row.has(one)) row.set(one, at); });
      const middles = new Map(ones.map((one) => {
        const rows = near.get(one).filter((other) => row.has(other)).map((other) => row.get(other));
        return [one, rows.length ? rows.reduce((sum, at) => sum + at, 0) / rows.length : row.get(one)];
      }));
      ones.sort((one, other) => middles.get(one) - middles.get(other));
      ones.forEach((one, at) => row.set(one, at - (ones.length - 1) / 2));
    }
  }
  return new Map([...row].map(([one, at]) => [one, at * (NODE.height + GAP.y)]));
}

// The height of each edge's horizontal part between two layers: halfway between its ends, or as
// near to that as the other edges allow.
function levelsOf(layer, row, links) {
  const gaps = new Map();
  for (const link of links) {
    const wanted = (row.get(link.source) + row.get(link.target)) / 2;
    const height = link.isFirst ? LABEL.height : LANE_PX;
    const at = layer.get(link.source);
    gaps.set(at, [...(gaps.get(at) ?? []), { link, wanted, height, y: wanted }]);
  }
  for (const levels of gaps.values()) {
    levels.sort((one, other) => one.wanted - other.wanted
      || row.get(one.link.target) - row.get(other.link.target));
    levels.forEach((level, at) => {
      const before = levels[at - 1];
      if (before) level.y = Math.max(level.wanted, before.y + (before.height + level.height) / 2);
    });
    const moved = levels.reduce((sum, level) => sum + level.y - level.wanted, 0) / levels.length;
    for (const level of levels) level.y -= moved;
  }
  return [...gaps.entries()].sort(([one], [other]) => one - other).flatMap(([, levels]) => levels);
}

export function Graph({ job, culprits, chosen }) {
  const { places, routes, width, height } = placed(job.vertices, job.edges);
  return html`<div class="graph" tabindex="0" role="region" aria-label="job graph">
    <svg width=${width} height=${height} viewBox="0 0 ${width} ${height}">
      <defs>
        <marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">
          <path class="arrow" d="M0 0L8 4L0 8z" /></marker>
        <pattern id="hatched" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
          <rect width="6" height="6" fill="#888888" /><rect width="2" height="6" fill="#5c5c5c" /></pattern>
      </defs>
      ${job.edges.map((edge, key) => html`<${Edge} key=${key} edge=${edge} route=${routes[key]} />`)}
      ${job.vertices.map((vertex) => html`<${Node} key=${vertex.number} job=${job} vertex=${vertex}
        place=${places.get(vertex.number)} isCulprit=${culprits.has(vertex.id)} isChosen=${chosen === vertex.id} />`)}
    </svg></div>`;
}

function Edge({ edge, route }) {
  const { path, label } = route;
  const waits = edge.queued_out + edge.queued_in;
  const lines = [
    edge.name,
    edge.records_per_s === null ? bytesPerSecond(edge.bytes_per_s) : `${perSecond(edge.records_per_s)}`,
    edge.records_per_s === null ? "" : bytesPerSecond(edge.bytes_per_s),
    `queue ${count(waits)} · credit ${count(edge.credit)}`,
  ];
  const said = `${edge.name}: ${lines[1]} records, ${bytesPerSecond(edge.bytes_per_s)}; buffers queued at the`
    + ` producers ${edge.queued_out}, at the consumers ${edge.queued_in}; backlog ${edge.backlog}, credit ${edge.credit}`;
  const below = [2, 3].filter((at) => lines[at]);
  return html`<g class="edge"><title>${said}</title>
    <path d=${path} marker-end="url(#arrow)" />
    <foreignObject x=${label.x - LABEL.width / 2} y=${label.y - 35} width=${LABEL.width} height="16">
      <div class="cut quiet">${lines[0]}</div></foreignObject>
    <${Line} x=${label.x} y=${label.y - 7} width=${LABEL.width} kind="rate" text=${lines[1]} />
    ${below.map((at, row) => html`<${Line} x=${label.x} y=${label.y + 17 + 15 * row} width=${LABEL.width}
      kind=${at === 3 ? "quiet" : "rate"} text=${lines[at]} />`)}
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
    <foreignObject x="10" y="3" width=${inner} height="18">
      <div class=${isLive ? "cut name" : "cut name off"}>${vertex.name}</div></foreignObject>
    <${Line} x="10" y="31" width=${inner} kind=${isLive ? "name small" : "name small off"}
      text=${`${vertex.parallelism} × ${vertex.state.toLowerCase()}${isCulprit ? " · ◆ culprit" : ""}`} />
    <g transform="translate(10 46)">
      ${isLive && html`<rect class="idle" width=${inner} height="9" />
        <rect class="busy" width=${works} height="9" />
        <rect x=${works} width=${waits} height="9" fill="url(#hatched)" />`}
    </g>
    ${isLive
      ? html`<${Line} x="10" y="71" width=${inner}
          text=${`busy ${percent(vertex.busy)} · backpr. ${percent(vertex.backpressured)}`} />
        <${Line} x="10" y="87" width=${inner}
          text=${`in ${perSecond(vertex.records_in_per_s)} · out ${perSecond(vertex.records_out_per_s)}`} />`
      : html`<text x="10" y="71">no current report</text>`}
    <${Line} x="10" y="103" width=${inner} kind="quiet"
      text=${`in ${count(vertex.records_in)} · out ${count(vertex.records_out)}`} />
  </a>`;
}

// A line of numbers; text that is too wide is condensed.
function Line({ x, y, width, kind = "", text }) {
  const isTooWide = widthOf(text, kind === "rate") > width;
  return html`<text x=${x} y=${y} class=${kind} textLength=${isTooWide ? width : undefined}
    lengthAdjust=${isTooWide ? "spacingAndGlyphs" : undefined}>${text}</text>`;
}

const canvas = document.createElement("canvas").getContext("2d");

function widthOf(text, isBold) {
  canvas.font = `${isBold ? "600" : "400"} 12px ${getComputedStyle(document.body).fontFamily}`;
  return canvas.measureText(text).width;
}
