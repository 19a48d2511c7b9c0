// Runs side by side, paired by problem; a click shows what each of them wrote.

import { el, percent, put, visible, whole } from "./dom.js";
import { ask } from "./api.js";
import { card } from "./group.js";
import { problemNode } from "./duel.js";
import { go, link } from "./route.js";

export async function compareNode(place, runs) {
  const chosen = (place.runs || "").split("|").filter((name) => runs.some((run) => run.name === name));
  const names = chosen.length > 1 ? chosen : runs.slice(0, 2).map((run) => run.name);
  const common = sourcesOf(runs, names);
  const source = common.includes(place.source) ? place.source : common.at(-1);
  const here = { ...place, page: "compare", runs: names.join("|"), source };
  const root = el("div", { class: "compare" }, controls(here, runs, names, common));
  if (names.length < 2) return put(root, el("p", { class: "none" }, "Open two or more runs to compare them: agon view RUN RUN"));
  if (!source) {
    root.append(el("p", { class: "none" }, "These runs have no series in common."));
    return root;
  }
  const told = await wholeAnswer({ runs: names.join("|"), source, play: place.play, differ: place.differ });
  root.append(el("p", { class: "quiet" }, `${whole(told.total)} problems${place.differ === "1" ? " on which they differ" : " that all of them played"}${told.total > told.pairs.length ? `; the first ${whole(told.pairs.length)}` : ""}`),
    el("div", { class: "compare-panes" }, pairTable(told, here), await sideBySide(told, here)));
  return root;
}

// An index that is still being built knows only some of the problems.
async function wholeAnswer(words) {
  for (let asked = 0; ; asked += 1) {
    const told = await ask("compare", words);
    if (!told.unread || asked > 600) return told;
    await new Promise((done) => setTimeout(done, 500));
  }
}

function sourcesOf(runs, names) {
  const lists = names.map((name) => runs.find((run) => run.name === name).sources.map((source) => source.name));
  return lists.length ? lists[0].filter((name) => lists.every((list) => list.includes(name))) : [];
}

function controls(here, runs, names, common) {
  const toggled = (name) => (names.includes(name) ? names.filter((each) => each !== name) : [...names, name]).join("|");
  const source = el("select", { name: "source", onchange: () => go({ ...here, source: source.value, play: "", problem: "" }) }, common.map((name) => el("option", { value: name, selected: name === here.source }, name)));
  const play = el("input", { name: "play", placeholder: "arm, such as A->B", value: here.play || "", onchange: () => go({ ...here, play: play.value.trim() }) });
  return el("div", { class: "controls" },
    el("div", { class: "chips" }, runs.map((run) => el("button", { class: "chip", "aria-pressed": names.includes(run.name), onclick: () => go({ ...here, runs: toggled(run.name) }) }, ...visible(run.name)))),
    el("label", {}, "of", source), el("label", {}, "arm", play),
    el("button", { class: "chip", id: "differ", "aria-pressed": here.differ === "1", onclick: () => go({ ...here, differ: here.differ === "1" ? "" : "1" }) }, "only where they differ"));
}

function pairTable(told, here) {
  return el("div", { class: "pairs" }, el("table", {},
    el("thead", {}, el("tr", {}, el("th", {}, "problem"), told.runs.map((name) => el("th", {}, ...visible(name))))),
    el("tbody", {}, told.pairs.map((pair) => el("tr", { class: pair.problem === here.problem ? "here" : "", "data-problem": pair.problem },
      el("td", { class: "title-cell" }, el("a", { href: link({ ...here, problem: pair.problem }) }, ...visible(pair.title || pair.problem))),
      pair.right.map((right, place) => el("td", { class: "number" }, rate(right, pair.n[place]))))))));
}

function rate(right, n) {
  const bar = el("span", { class: "meter" }, el("span", {}));
  bar.firstChild.style.width = `${(100 * right) / n}%`;
  return [bar, el("span", { title: percent(right / n) }, `${right}/${n}`)];
}

async function sideBySide(told, here) {
  const pair = told.pairs.find((one) => one.problem === here.problem) || (here.problem ? null : told.pairs[0]);
  if (!pair) return null;
  const groups = await Promise.all(told.runs.map((run, place) => ask("group", { run, source: here.source, id: pair.first[place] })));
  return el("div", { class: "side-by-side" }, problemNode(groups[0].problem),
    el("div", { class: "cards runs" }, groups.map((group, place) => {
      const to = (id) => link({ page: "duels", run: told.runs[place], source: here.source, problem: pair.problem, id });
      return el("section", { class: "run-column" }, el("h3", {}, ...visible(told.runs[place]), el("span", { class: "quiet" }, ` ${pair.right[place]} of ${pair.n[place]} right`)), group.duels.map((duel) => card(duel, to, null)));
    })));
}
