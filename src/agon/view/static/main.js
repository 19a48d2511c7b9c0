// The page: which view the address asks for, keys, and what is new in a run that is still going.

import { el, put, say, visible, whole } from "./dom.js";
import { ask, exported } from "./api.js";
import { here, go, link, filtersOf, based } from "./route.js";
import { DuelList } from "./list.js";
import { Filters } from "./filters.js";
import { duelNode } from "./duel.js";
import { groupNode } from "./group.js";
import { overviewNode } from "./overview.js";
import { compareNode } from "./compare.js";
import { highlightWords, isAsWritten, setAsWritten } from "./text.js";

const LOOK_EVERY = 2000; // milliseconds
const KEYS = {
  "j  ↓": "next duel", "k  ↑": "previous duel", g: "its group", c: "copy it as JSON", l: "copy the link", "/": "search", p: "open or fold the private reasoning", w: "as written, or with mathematics set",
  o: "overview", d: "duels", x: "compare", t: "light or dark", Esc: "back to the list", "?": "these keys",
};
const top = document.getElementById("top");
const page = document.getElementById("page");
let runs = [];
let state = null;
let shownQuery = null;
let shownDuel = null;

const count = el("div", { class: "list-count quiet" });
const list = new DuelList((id) => go({ ...here(), page: "duels", id }), counted);
const filters = new Filters((words) => go({ ...words, page: "duels", id: "" }));
const pane = el("div", { class: "pane", id: "pane" });
const browser = el("div", { class: "browser" }, el("div", { class: "list-pane" }, filters.root, count, list.root), pane);

function counted(told) {
  const of = told.total === told.all ? "" : ` of ${whole(told.all)}`;
  const searching = told.searched < 1 ? `, ${Math.round(100 * told.searched)}% searched` : "";
  const reading = told.unread ? `, ${(told.unread / 1e6).toFixed(0)} MB still to read` : "";
  const broken = told.unreadable ? `, ${whole(told.unreadable)} lines unreadable` : "";
  count.textContent = `${whole(told.total)}${of} duels${searching}${reading}${broken}`;
}

function settled(place) {
  if (place.page === "compare") return { ...place, run: place.run || runs[0].name };
  const run = runs.find((one) => one.name === place.run) || runs[0];
  const source = run.sources.find((one) => one.name === place.source) || run.sources[0];
  return { ...place, run: run.name, source: source?.name };
}

function header(place) {
  const run = runs.find((one) => one.name === place.run);
  const runField = el("select", { "aria-label": "run", onchange: () => go({ page: place.page === "group" ? "duels" : place.page, run: runField.value }) }, runs.map((one) => el("option", { value: one.name, selected: one.name === place.run }, one.name)));
  const sourceField = place.page === "compare" ? null : el("select", { "aria-label": "source", onchange: () => go({ page: "duels", run: place.run, source: sourceField.value }) }, run.sources.map((one) => el("option", { value: one.name, selected: one.name === place.source }, one.name)));
  const tab = (name, label) => el("a", { href: link({ page: name, ...(name === "compare" ? {} : based(place)) }), class: place.page === name || (name === "duels" && place.page === "group") ? "tab on" : "tab" }, label);
  put(top, el("span", { class: "brand" }, el("i", { class: "dot-a" }), el("i", { class: "dot-b" }), "agon"),
    el("span", { class: "choices" }, place.page === "compare" ? null : [runField, sourceField]),
    el("nav", {}, tab("overview", "Overview"), tab("duels", "Duels"), runs.length > 1 ? tab("compare", "Compare") : null),
    el("span", { class: "grow" }), el("span", { id: "live", class: "quiet" }),
    el("button", { class: "plain", id: "theme", title: "light or dark (t)", onclick: turnTheme }, "◐"), el("button", { class: "plain", title: "keys (?)", onclick: showHelp }, "?"));
  tellLive();
}

function tellLive() {
  const place = document.getElementById("live");
  if (!place || !state) return;
  const going = !state.finished && !exported;
  put(place, going ? el("i", { class: "pulse" }) : null, going ? "live · " : "", `${whole(state.count)} duels`);
}

async function render() {
  const place = settled(here());
  header(place);
  document.title = `${place.id ? `${place.id} · ` : ""}${place.run} · agon`;
  try {
    await VIEWS[place.page in VIEWS ? place.page : "overview"](place);
  } catch (error) {
    fail(error, place.page === "duels" ? pane : page);
  }
}

function fail(error, where) {
  put(where, el("p", { class: "none" }, ...visible(error.message)));
}

const VIEWS = {
  async overview(place) {
    const told = await ask("curves", { run: place.run });
    if (settled(here()).page !== "overview") return;
    put(page, overviewNode(told, place));
    if (place.source) state = await ask("state", based(place));
    tellLive();
  },

  async duels(place) {
    page.classList.add("full");
    if (!page.contains(browser)) put(page, browser);
    browser.classList.toggle("has-duel", Boolean(place.id));
    const query = JSON.stringify({ ...based(place), ...filtersOf(place) });
    if (query !== shownQuery) {
      shownQuery = query;
      state = await ask("state", based(place));
      const method = runs.find((one) => one.name === place.run)?.method;
      filters.show(place, { ...state, challenged: place.source === "training" ? method !== "grpo" : undefined });
      tellLive();
      await list.show({ ...based(place), ...filtersOf(place) });
    } else filters.show(place);
    if (!place.id) {
      shownDuel = null;
      put(pane, el("p", { class: "none" }, "Choose a duel, or press j."));
      return;
    }
    await showDuel(place);
  },

  async group(place) {
    put(page, groupNode(await ask("group", { ...based(place), id: place.id }), place));
  },

  async compare(place) {
    const node = await compareNode(place, runs);
    if (settled(here()).page === "compare") put(page, node);
  },
};

async function showDuel(place) {
  const duel = await ask("duel", { ...based(place), id: place.id });
  if (here().id !== place.id) return;
  shownDuel = duel;
  const button = (label, title, action) => el("button", { class: "button", title, onclick: action }, label);
  const tools = [
    el("a", { class: "button back", href: link({ ...place, page: "duels", id: "" }) }, "← List"),
    button("‹", "previous (k)", () => step(-1)), button("›", "next (j)", () => step(1)),
    button("JSON", "copy as JSON (c)", copyJson), button("Link", "copy the link (l)", copyLink),
    button(isAsWritten() ? "Set" : "Raw", "as written, or with mathematics set (w)", turnWritten),
  ];
  put(pane, duelNode(duel, place, tools));
  pane.scrollTop = 0;
  highlightWords(pane, place.search);
  if (list.place === null || list.line(list.place)?.id !== duel.id) {
    const told = await ask("neighbours", { ...based(place), ...filtersOf(place), id: duel.id });
    if (shownDuel === duel) list.mark(told.place);
  } else list.draw();
}

function step(by) {
  if (here().page !== "duels") return;
  list.step(by);
}

async function copyText(text, what) {
  await navigator.clipboard.writeText(text).then(() => say(`Copied ${what}.`), () => say("The browser does not let us copy."));
}

async function copyJson() {
  if (!shownDuel) return;
  const raw = await ask("raw", { ...based(settled(here())), id: shownDuel.id });
  await copyText(JSON.stringify(raw, null, 2), `duel ${shownDuel.id} as JSON`);
}

const copyLink = () => copyText(location.href, "the link");

function turnWritten() {
  setAsWritten(!isAsWritten());
  render();
}

function turnTheme() {
  const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("agon-theme", document.documentElement.dataset.theme);
}

function showHelp() {
  const help = document.getElementById("help");
  put(help, el("h2", {}, "Keys"), el("dl", {}, Object.entries(KEYS).map(([key, does]) => el("div", {}, el("dt", {}, el("kbd", {}, key)), el("dd", {}, does)))), el("button", { class: "button", onclick: () => help.close() }, "Close"));
  help.showModal();
}

function back() {
  const place = here();
  if (place.page === "group") go({ ...place, page: "duels" });
  else if (place.id) go({ ...place, id: "" });
}

const PRESSED = {
  j: () => step(1), ArrowDown: () => step(1), k: () => step(-1), ArrowUp: () => step(-1), c: copyJson, l: copyLink, w: turnWritten, t: turnTheme, Escape: back, "?": showHelp,
  p: () => {
    const folds = [...page.querySelectorAll("details.private")];
    const open = !folds.some((fold) => fold.open);
    folds.forEach((fold) => { fold.open = open; });
  },
  g: () => shownDuel && here().page === "duels" && go({ ...settled(here()), page: "group" }),
  o: () => go({ page: "overview", ...based(settled(here())) }), d: () => go({ page: "duels", ...based(settled(here())) }), x: () => runs.length > 1 && go({ page: "compare" }),
  "/": () => (here().page === "duels" ? filters.search.focus() : go({ page: "duels", ...based(settled(here())) })),
};

addEventListener("keydown", (event) => {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (typing && event.key === "Escape") event.target.blur();
  if (typing || event.ctrlKey || event.metaKey || event.altKey || document.getElementById("help").open) return;
  if (!(event.key in PRESSED)) return;
  event.preventDefault();
  PRESSED[event.key]();
});

async function look() {
  if (document.hidden || exported) return;
  const place = settled(here());
  if (place.page === "compare" || !place.source) return;
  try {
    const now = await ask("state", based(place));
    const changed = !state || now.count !== state.count || now.generation !== state.generation || now.finished !== state.finished;
    state = now;
    tellLive();
    if (!changed) return;
    if (place.page === "duels") await list.reload();
    if (place.page === "overview") await VIEWS.overview(place);
  } catch {
    const live = document.getElementById("live");
    if (live) live.textContent = "the viewer has stopped";
  }
}

async function start() {
  const theme = localStorage.getItem("agon-theme");
  if (theme) document.documentElement.dataset.theme = theme;
  try {
    ({ runs } = await ask("runs"));
  } catch (error) {
    fail(error, page);
    return;
  }
  addEventListener("hashchange", () => {
    if (here().page !== "duels") page.classList.remove("full");
    render();
  });
  await render();
  setInterval(look, LOOK_EVERY);
}

start();
