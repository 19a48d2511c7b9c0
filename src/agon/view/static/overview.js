// A run at a glance: what it is, how its duels ended, its curves, its evaluations with intervals.

import { el, percent, visible, whole } from "./dom.js";
import { chart, intervalBar } from "./chart.js";
import { nameOf } from "./duel.js";
import { link, go } from "./route.js";

export function overviewNode(told, place) {
  const { facts } = told;
  const training = { page: "duels", run: place.run, source: "training" };
  return el("div", { class: "overview" },
    el("div", { class: "facts" }, el("h2", {}, ...visible(facts.name)), factList(facts)),
    facts.note ? el("p", { class: "note" }, ...visible(facts.note)) : null,
    outcomesNode(told.outcomes, training),
    told.panels.length ? el("div", { class: "panels" }, told.panels.map((panel) => chart(panel, (step) => go({ ...training, step })))) : null,
    told.evaluations.length ? el("h3", { class: "part" }, "Evaluations") : null,
    told.evaluations.map((one) => evaluationNode(one, place)));
}

function factList(facts) {
  const told = {
    method: facts.method && `${facts.method}${facts.formula ? `: ${facts.formula}` : ""}`, model: facts.model, task: facts.task, seed: facts.seed,
    "learning rate": facts.learning_rate, "duels a problem": facts.group,
    step: facts.trained ? `${whole(facts.step)}${facts.max_steps ? ` of ${whole(facts.max_steps)}` : ""}` : null,
    time: facts.seconds ? `${(facts.seconds / 60).toFixed(1)} min` : null,
  };
  return el("dl", {}, Object.entries(told).filter(([, value]) => value !== null && value !== undefined && value !== "").map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, ...visible(String(value))))));
}

function outcomesNode(outcomes, training) {
  const all = Object.values(outcomes).reduce((sum, count) => sum + count, 0);
  if (!all) return null;
  return el("div", { class: "outcomes" },
    el("div", { class: "bar" }, Object.entries(outcomes).map(([name, count]) => {
      const part = el("span", { class: `o-${name}`, title: `${nameOf(name)}: ${whole(count)}` });
      part.style.flexGrow = String(count);
      return part;
    })),
    el("div", { class: "counts" }, Object.entries(outcomes).map(([name, count]) =>
      el("a", { href: link({ ...training, outcome: name }), class: `count o-${name}` }, el("b", {}, whole(count)), ` ${nameOf(name)} `, el("span", { class: "quiet" }, percent(count / all))))));
}

function evaluationNode(one, place) {
  const to = (play) => link({ page: "duels", run: place.run, source: one.name, play });
  const most = Math.max(0.01, ...one.arms.map((arm) => (arm.ci95 ? arm.ci95[1] : arm["pass@1"] || 0)));
  const share = (value) => el("td", { class: "number" }, percent(value));
  return el("section", { class: "evaluation" },
    el("h4", {}, el("a", { href: to("") }, ...visible(one.name)), one.arms.length ? el("span", { class: "quiet" }, ` ${whole(one.arms[0].n)} problems, ${one.arms[0].samples} samples each`) : el("span", { class: "quiet" }, " no result yet")),
    one.arms.length ? el("div", { class: "wide" }, el("table", {},
      el("thead", {}, el("tr", {}, ["arm", "pass@1", "95% interval", "", "tokens", "converted", "corrupted", "leaked", "truncated", "malformed"].map((name) => el("th", {}, name)))),
      el("tbody", {}, one.arms.map((arm) => el("tr", { class: arm.name === one.headline ? "here" : "" },
        el("td", {}, el("a", { href: to(arm.name) }, ...visible(arm.name)), arm.name === one.headline ? el("span", { class: "quiet" }, " headline") : null),
        share(arm["pass@1"]), el("td", { class: "number quiet" }, arm.ci95 ? `${percent(arm.ci95[0])} – ${percent(arm.ci95[1])}` : "–"), el("td", {}, intervalBar(arm["pass@1"] || 0, arm.ci95, most)),
        el("td", { class: "number" }, arm.tokens ? whole(arm.tokens) : "–"), share(arm.converted), share(arm.corrupted), share(arm.leaked), share(arm.truncated), share(arm.malformed)))))) : null);
}
