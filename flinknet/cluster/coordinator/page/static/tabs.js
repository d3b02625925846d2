// Tabs are links: each has an address of its own, and keyboard use needs no extra code.

import { html } from "/page/htm-preact.js";

export function Tabs({ base, tabs, chosen, label }) {
  return html`<nav class="tabs" aria-label=${label}>
    ${tabs.map(([name, title, note]) => html`<a href=${name ? `${base}/${name}` : base}
      aria-current=${chosen === name ? "page" : undefined}>${title}${note ? html` <small>${note}</small>` : ""}</a>`)}
  </nav>`;
}
