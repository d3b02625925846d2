// A line chart over time, of the values received while the page was open.

import { html } from "/page/htm-preact.js";
import { short, duration } from "/page/format.js";

const SIZE = { width: 420, height: 132, left: 52, bottom: 18, top: 8, right: 8 };

// points: [{ at, min, max, avg }]; the band spans the subtasks' values from min to max.
// told: { total, adds, unit, help }, from the last report.
export function Plot({ name, points, told, onRemove }) {
  const last = points.at(-1);
  const body = points.length < 2 ? html`<p class="muted">two reports are needed</p>` : lines(name, points);
  return html`<figure class="plot">
    <figcaption><b title=${told.help}>${name}</b>
      ${last && html`<span> ${short(last.avg)} ${told.unit} <small>(min ${short(last.min)}, max ${short(last.max)}${
        told.total == null ? "" : `, ${told.adds} of all ${short(told.total)}`})</small></span>`}
      <button type="button" aria-label=${`remove ${name}`} onClick=${onRemove}>×</button>
    </figcaption>${body}</figure>`;
}

function lines(name, points) {
  const { width, height, left, bottom, top, right } = SIZE;
  const begin = points[0].at;
  const end = points.at(-1).at;
  const least = Math.min(0, ...points.map((one) => one.min));
  const most = Math.max(...points.map((one) => one.max), least + 1e-9);
  const x = (at) => left + ((at - begin) / (end - begin || 1)) * (width - left - right);
  const y = (value) => height - bottom - ((value - least) / (most - least)) * (height - bottom - top);
  const along = (list, key) => list.map((one) => `${x(one.at).toFixed(1)} ${y(one[key]).toFixed(1)}`).join("L");
  const band = `M${along(points, "max")}L${along([...points].reverse(), "min")}Z`;
  const ticks = [least, (least + most) / 2, most];
  const said = `${name} over ${duration((end - begin) / 1000)}, from ${short(least)} to ${short(most)}`;
  return html`<svg viewBox="0 0 ${width} ${height}" role="img" aria-label=${said}>
    ${ticks.map((value) => html`<g><path class="grid" d="M${left} ${y(value)}H${width - right}" />
      <text x=${left - 6} y=${y(value) + 4} text-anchor="end">${short(value)}</text></g>`)}
    <path class="band" d=${band} />
    <path class="line" d=${`M${along(points, "avg")}`} />
    <text x=${left} y=${height - 4}>-${duration((end - begin) / 1000)}</text>
    <text x=${width - right} y=${height - 4} text-anchor="end">now</text>
  </svg>`;
}
