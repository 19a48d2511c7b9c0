// One duel: the problem, the draft with what was withheld of it, what the rival read, the challenge, and what both earned.

import { el, plainNumber, signed, visible, whole } from "./dom.js";
import { textNodes } from "./text.js";
import { link, based } from "./route.js";

const NAMES = { "both-right": "both right", "both-wrong": "both wrong" };
export const nameOf = (outcome) => NAMES[outcome] || outcome;

export function duelNode(duel, place, tools) {
  return el("article", { class: "duel", "data-id": duel.id }, headNode(duel, place, tools), problemNode(duel.problem), answersNode(duel),
    el("div", { class: duel.challenge ? "sides" : "sides alone" }, draftNode(duel), duel.challenge && challengeNode(duel)));
}

function headNode(duel, place, tools) {
  const group = link({ page: "group", ...based(place), id: duel.id });
  return el("div", { class: "duel-head" },
    el("h2", {}, `Duel ${duel.id}`),
    el("span", { class: `badge o-${duel.outcome}` }, nameOf(duel.outcome)),
    duel.marks.map((mark) => el("span", { class: "mark" }, mark)),
    el("span", { class: "quiet" }, duel.play ? `${duel.play}, sample ${duel.step}` : `step ${duel.step}, ${duel.group.place} of ${duel.group.size}`),
    el("span", { class: "tools" }, tools, el("a", { href: group, class: "button", id: "to-group" }, `Group of ${duel.group.size}`)));
}

export function problemNode(problem) {
  return el("section", { class: "problem" },
    el("div", { class: "label" }, "Problem ", el("span", { class: "quiet" }, ...visible(problem.id)),
      problem.answer ? el("span", { class: "gold" }, "gold ", el("b", {}, ...textNodes(asMath(problem.answer)))) : null),
    problem.prompt ? el("div", { class: "text" }, ...textNodes(problem.prompt)) : el("p", { class: "quiet" }, "An evaluation keeps the problem's name, not its text."));
}

const asMath = (answer) => (/^[^$]*\\[a-z]+[^$]*$/i.test(answer) && !answer.includes("\n") && !/^\\boxed/.test(answer) ? `$${answer}$` : answer);

function answersNode(duel) {
  if (!duel.difference || !duel.difference.length) return null;
  const changed = duel.difference.some(([kind]) => kind !== "same");
  const lines = duel.difference.some(([, text]) => text.includes("\n"));
  if (!changed) return el("div", { class: "answers" }, el("span", { class: "label" }, "Answers"), el("span", {}, "the same: "), el("code", {}, ...visible(clip(duel.draft.answer))));
  if (lines) {
    const parts = duel.difference.map(([kind, text]) => el("span", { class: `d-${kind}` }, ...visible(text)));
    return el("details", { class: "answers diff" }, el("summary", {}, el("span", { class: "label" }, "Answers, compared line by line")), el("pre", { class: "code" }, parts));
  }
  const side = (drop, policy) => el("code", {}, duel.difference.filter(([kind]) => kind !== drop).map(([kind, text]) => el("span", { class: `d-${kind}` }, ...visible(text))), policy);
  return el("div", { class: "answers" }, el("span", { class: "label" }, "Answers"),
    el("span", { class: `policy p-${duel.draft.policy}` }, duel.draft.policy), side("new"), el("span", { class: "arrow" }, "→"),
    el("span", { class: `policy p-${duel.challenge.policy}` }, duel.challenge.policy), side("gone"));
}

const clip = (text) => (text.length > 300 ? `${text.slice(0, 300)}…` : text);

function draftNode(duel) {
  return el("section", { class: "side-card" }, sideHead("Draft", duel.draft, duel.group.draft, duel.play), stretchNodes(duel.draft.stretches, duel.shown !== null),
    duel.shown !== null && duel.draft.stretches.some(([kind]) => kind === "withheld") ? el("p", { class: "key quiet" }, el("span", { class: "withheld" }, "marked"), " was withheld from the rival") : null);
}

function challengeNode(duel) {
  const { challenge } = duel;
  const other = duel.read_draft !== null ? `, of draft ${duel.read_draft}` : "";
  const against = duel.opponent !== null && duel.opponent !== duel.index ? el("span", { class: "quiet" }, `paid against draft ${duel.opponent}`) : null;
  const defused = duel.shown !== null && duel.shown !== duel.shown_defused;
  const read = duel.shown === null
    ? el("p", { class: "quiet read-nothing" }, `${challenge.policy} read nothing of it.`)
    : el("details", { class: "read", open: true },
        el("summary", {}, `What ${challenge.policy} read${other}`, el("span", { class: "quiet" }, ` ${whole(duel.shown.length)} characters${defused ? ", tags made harmless" : ""}`)),
        el("div", { class: "text" }, ...textNodes(duel.shown_defused || "(nothing)")));
  return el("section", { class: "side-card" }, sideHead("Challenge", challenge, duel.group.challenge, duel.play), against, read, stretchNodes(challenge.stretches, false));
}

function sideHead(title, side, group, play) {
  return el("header", {},
    el("div", { class: "side-title" }, el("span", { class: `policy p-${side.policy}` }, ...visible(side.policy)), el("h3", {}, title),
      el("span", { class: side.correct ? "verdict right" : "verdict wrong" }, side.correct ? "✓ correct" : `✗ ${side.reason}`),
      side.marks.map((mark) => el("span", { class: "mark" }, mark)),
      el("span", { class: "quiet" }, `${whole(side.length)} tokens${side.prompt_length ? ` after ${whole(side.prompt_length)}` : ""}`)),
    side.detail ? el("p", { class: "reason quiet" }, ...visible(side.detail)) : null,
    play ? null : earned(side, group));
}

export function earned(side, group) {
  const terms = Object.entries(side.terms || {});
  return el("div", { class: "earned" },
    el("span", {}, "reward ", el("b", {}, plainNumber(side.reward))),
    terms.map(([name, value]) => el("span", { class: value ? "term" : "term zero" }, `${name} ${signed(value)}`)),
    el("span", { title: group ? `group: mean ${plainNumber(group.mean)}, deviation ${plainNumber(group.deviation)}` : null }, "advantage ", el("b", { class: side.advantage < 0 ? "bad" : side.advantage > 0 ? "good" : "" }, signed(side.advantage))),
    side.version !== undefined ? el("span", { class: "quiet" }, `version ${side.version}`) : null);
}

export function stretchNodes(stretches, wasShown) {
  const nodes = stretches.flatMap(([kind, whole_], place) => {
    // The empty lines around a folded part say nothing, and neither do marked ones.
    const text = place === 0 || stretches[place - 1][0] === "private" ? whole_.replace(/^\n+/, "") : whole_;
    const lead = /^\s*/.exec(text)[0];
    if (kind === "private") return el("details", { class: "private" }, el("summary", {}, `private reasoning · ${whole(text.length)} characters`), el("div", { class: "text" }, ...textNodes(text)));
    if (kind === "withheld" && wasShown) return [lead, el("span", { class: "withheld", title: "withheld from the rival" }, ...textNodes(text.slice(lead.length)))];
    return el("span", { class: kind }, ...textNodes(text));
  });
  return el("div", { class: "text body", dir: "ltr" }, nodes.length ? nodes : el("span", { class: "quiet" }, "(empty)"));
}
