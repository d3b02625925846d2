// The page: its position (the fragment of its address), the last answer, and the refresh timer.
//
// One request returns all displayed data. The next one follows a pause after the last answer, so
// that a slow coordinator never gets two requests at a time. There are none while the page is
// hidden or paused. All views are drawn from the same answer. The only views with requests of their
// own are the expensive ones, which are rarely needed: flame graph, stacks, logs.

import { html, render } from "/page/htm-preact.js";
import { ask, hasToken, takeTokenFromAddress, useToken } from "/page/coordinator.js";
import { Chart } from "/page/chart.js";
import { clock } from "/page/format.js";
import { Job } from "/page/job.js";
import { Overview } from "/page/overview.js";
import { Tabs } from "/page/tabs.js";
import { Workers } from "/page/workers.js";

const PAUSES_MS = [[1000, "every second"], [2000, "every 2 s"], [5000, "every 5 s"], [0, "paused"]];

const page = { told: null, trouble: null, wantsToken: false, pauseMs: 2000, asking: 0 };
const chart = new Chart(() => refresh());
const root = document.getElementById("page");
let timer = 0;

function routeOf(address) {
  const [place = "", job, what, vertex, tab] = address.replace(/^#\/?/, "").split("/");
  if (place === "jobs" && job) {
    return what === "vertices"
      ? { place, job, vertex, tab: tab || "subtasks" }
      : { place, job, vertex: "", tab: what ?? "", checkpoint: what === "checkpoints" ? vertex : "" };
  }
  return place === "workers" && job ? { place, process: decodeURIComponent(job), tab: what } : { place };
}

function pathOf(route) {
  const query = new URLSearchParams();
  if (route.job) query.set("job", route.job);
  if (route.vertex) query.set("vertex", route.vertex);
  if (route.vertex && route.tab === "metrics" && chart.names.length) query.set("metrics", chart.names.join(","));
  if (["network", "checkpoints"].includes(route.tab)) query.set("show", route.tab);
  if (route.checkpoint) query.set("checkpoint", route.checkpoint);
  return `/api/v1/page?${query}`;
}

async function refresh() {
  clearTimeout(timer);
  if (!hasToken()) {
    page.wantsToken = true;
    draw();
    return;
  }
  const number = (page.asking += 1);
  const route = routeOf(location.hash);
  chart.look(route.vertex ?? "");
  let answer = null;
  try {
    answer = await ask(pathOf(route));
    page.trouble = null;
  } catch (error) {
    if (error.status === 401) page.wantsToken = true;
    else page.trouble = error.status ? error.message : "the coordinator does not answer: its cluster may have ended";
  }
  if (number !== page.asking) return; // a newer request has started meanwhile
  performance.mark("answered");
  if (answer !== null) {
    page.told = JSON.parse(answer);
    page.wantsToken = false;
    chart.take(page.told.at, page.told.vertex?.metrics ?? []);
  }
  draw();
  performance.measure("refresh", "answered");
  if (page.pauseMs && !document.hidden && !page.wantsToken) timer = setTimeout(refresh, page.pauseMs);
}

function draw() {
  const route = routeOf(location.hash);
  render(html`<${Page} route=${route} />`, root);
}

function Page({ route }) {
  const { told, trouble, wantsToken } = page;
  const tabs = [["", "Overview"], ["workers", "Workers"]];
  return html`
    <a class="skip" href="#main" onClick=${skip}>Skip to the content</a>
    <header class="bar">
      <a class="brand" href="#/">flinknet</a>
      <${Tabs} base="#" tabs=${tabs} chosen=${route.place} label="cluster" />
      <span class="muted">${told && `${clock(told.at)} · ${told.version}`}</span>
      <label>Refresh <select value=${page.pauseMs} onChange=${setPause}>
        ${PAUSES_MS.map(([ms, said]) => html`<option value=${ms}>${said}</option>`)}</select></label>
    </header>
    ${trouble && html`<p class="trouble" role="alert">${trouble}${told ? ". The page shows the last answer." : "."}</p>`}
    <main id="main" tabindex="-1">
      ${wantsToken ? html`<${Login} />` : told ? html`<${View} told=${told} route=${route} />` : html`<p>…</p>`}
    </main>`;
}

function View({ told, route }) {
  if (route.job) {
    const isOf = told.job === null || told.job?.id === route.job;
    return isOf ? html`<${Job} told=${told} route=${route} chart=${chart} />` : html`<p>…</p>`;
  }
  return route.place === "workers" ? html`<${Workers} workers=${told.workers}
    chosen=${route.process} tab=${route.tab} />` : html`<${Overview} told=${told} />`;
}

function Login() {
  const submit = (event) => {
    event.preventDefault();
    useToken(new FormData(event.target).get("token"));
    refresh();
  };
  return html`<form class="login" onSubmit=${submit}>
    <h1>Cluster token</h1>
    <p>This cluster requires its token: the FLINKNET_CLUSTER_TOKEN with which it was started.</p>
    <label>Token <input name="token" type="password" autocomplete="off" required /></label>
    <button type="submit">Show</button>
  </form>`;
}

function skip(event) {
  event.preventDefault();
  document.getElementById("main").focus();
}

function setPause(event) {
  page.pauseMs = Number(event.target.value);
  refresh();
}

takeTokenFromAddress();
addEventListener("hashchange", () => {
  takeTokenFromAddress();
  draw();
  refresh();
});
document.addEventListener("visibilitychange", () => document.hidden || refresh());
refresh();
