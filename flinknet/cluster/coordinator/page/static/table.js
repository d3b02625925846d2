// A table for thousands of rows. Only the visible rows are in the document, so that the cost of a
// refresh does not depend on the number of rows. A click on a column head sorts the table.

import { html, useState, useRef } from "/page/htm-preact.js";

const ROW_PX = 28;
const MARGIN_ROWS = 8;
const HEIGHT_PX = 448;

// columns: [{ name, title, show, isText, label }], rows: arrays or objects, read with `get`
export function Table({ columns, rows, get, label, initial, link, empty = "nothing yet" }) {
  const [order, setOrder] = useState(initial ?? null);
  const [top, setTop] = useState(0);
  const [filter, setFilter] = useState("");
  const frame = useRef(null);
  if (!rows.length) return html`<p class="muted">${label}: ${empty}.</p>`;

  const sought = filter.trim().toLowerCase();
  const texts = columns.filter((column) => column.isText);
  let shown = sought
    ? rows.filter((row) => texts.some((one) => String(get(row, one.name)).toLowerCase().includes(sought)))
    : rows;
  if (order) shown = sorted(shown, order, get);
  const first = Math.max(0, Math.floor(top / ROW_PX) - MARGIN_ROWS);
  const last = Math.min(shown.length, first + Math.ceil(HEIGHT_PX / ROW_PX) + 2 * MARGIN_ROWS);

  return html`
    <section class="table">
      <header>
        <h3>${label} <small>${rows.length.toLocaleString("en")}</small></h3>
        ${rows.length > 12 && html`<input type="search" placeholder="filter" aria-label=${`filter ${label}`}
          value=${filter} onInput=${(event) => setFilter(event.target.value)} />`}
      </header>
      <div class="frame" tabindex="0" ref=${frame} role="region" aria-label=${label}
           onScroll=${(event) => setTop(event.target.scrollTop)}>
        <table aria-rowcount=${shown.length + 1}>
          <thead><tr>
            ${columns.map((column) => html`<${Head} column=${column} order=${order} setOrder=${setOrder} />`)}
          </tr></thead>
          <tbody>
            ${first > 0 && html`<tr class="gap" style=${{ height: `${first * ROW_PX}px` }}><td></td></tr>`}
            ${shown.slice(first, last).map((row, place) => html`
              <tr key=${first + place} aria-rowindex=${first + place + 2}>
                ${columns.map((column, number) => html`<${Cell} column=${column} value=${get(row, column.name)}
                  row=${row} href=${number === 0 && link ? link(row) : null} />`)}
              </tr>`)}
            ${last < shown.length && html`
              <tr class="gap" style=${{ height: `${(shown.length - last) * ROW_PX}px` }}><td></td></tr>`}
          </tbody>
        </table>
      </div>
    </section>`;
}

// An accessor for rows that are arrays, in the order of `names`.
export function byPlace(names) {
  const places = new Map(names.map((name, place) => [name, place]));
  return (row, name) => row[places.get(name)];
}

export const byName = (row, name) => row[name];

function Head({ column, order, setOrder }) {
  const is = order?.name === column.name;
  const turn = () => setOrder({ name: column.name, descending: is ? !order.descending : !column.isText });
  const direction = is ? (order.descending ? "descending" : "ascending") : "none";
  return html`<th scope="col" class=${column.isText ? "text" : ""} aria-sort=${direction}>
    <button type="button" title=${column.label ?? column.title} onClick=${turn}>
      ${column.title}${is && html`<span aria-hidden="true">${order.descending ? " ▾" : " ▴"}</span>`}</button></th>`;
}

function Cell({ column, value, row, href }) {
  const shown = column.show ? column.show(value, row) : String(value ?? "–");
  const title = column.isText && typeof shown === "string" ? shown : undefined;
  return html`<td class=${column.isText ? "text" : ""} title=${title}>
    ${href ? html`<a href=${href}>${shown}</a>` : shown}</td>`;
}

function sorted(rows, { name, descending }, get) {
  const sign = descending ? -1 : 1;
  return [...rows].sort((one, other) => sign * compared(get(one, name), get(other, name)));
}

function compared(one, other) {
  if (one === other) return 0;
  if (one === null || one === undefined) return -1;
  if (other === null || other === undefined) return 1;
  return typeof one === "string" ? one.localeCompare(other, "en", { numeric: true }) : one - other;
}
