// The shares of a task's time. The colours are Flink's; a hatching for backpressure and numbers in
// text make them distinguishable to colour-blind users.

import { html } from "/page/htm-preact.js";
import { percent } from "/page/format.js";

const IDLE = [0x5d, 0xb1, 0xff];
const BUSY = [0xee, 0x64, 0x64];
const BACKPRESSURED = [0x88, 0x88, 0x88];

// Flink's colour of a vertex: from idle over busy to backpressured.
export function colour({ busy, backpressured }) {
  const grey = Math.min(1, backpressured);
  const red = Math.min(1 - grey, busy);
  const blue = 1 - grey - red;
  const mixed = IDLE.map((part, at) =>
    Math.round(part * blue + BUSY[at] * red + BACKPRESSURED[at] * grey));
  return `rgb(${mixed.join(" ")})`;
}

export function level(backpressured) {
  return backpressured <= 0.1 ? "OK" : backpressured <= 0.5 ? "LOW" : "HIGH";
}

export function Shares({ busy, backpressured, idle }) {
  if (busy === null || busy === undefined) return html`<span class="muted">–</span>`;
  const said = `busy ${percent(busy)}, backpressured ${percent(backpressured)}, idle ${percent(idle)}`;
  const part = (name, share) => html`<i class=${name} style=${{ width: `${100 * share}%` }}></i>`;
  return html`<span class="shares" role="img" aria-label=${said} title=${said}>
    ${part("busy", busy)}${part("backpressured", backpressured)}${part("idle", idle)}</span>`;
}
