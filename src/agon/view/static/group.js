// The duels of one problem side by side, with what each earned.

import { el, plainNumber, signed, visible, whole } from "./dom.js";
import { problemNode, earned, stretchNodes, nameOf } from "./duel.js";
import { textNodes } from "./text.js";
import { link } from "./route.js";

export function groupNode(group, place) {
  const to = (id) => link({ ...place, page: "duels", id });
  return el("article", { class: "group" },
    el("div", { class: "duel-head" }, el("h2", {}, `${group.duels.length} duels of one problem`),
      group.size > group.duels.length ? el("span", { class: "quiet" }, `of ${whole(group.size)}`) : null,
      el("span", { class: "tools" }, el("a", { href: to(group.here), class: "button" }, `Back to ${group.here}`))),
    problemNode(group.problem), earningsTable(group.duels, group.here, to), el("div", { class: "cards" }, group.duels.map((duel) => card(duel, to, group.here))));
}

function earningsTable(duels, here, to) {
  const head = ["duel", "outcome", "draft", "reward", "advantage", "tokens", "challenge", "reward", "advantage", "tokens"];
  return el("div", { class: "wide" }, el("table", { class: "earnings" },
    el("thead", {}, el("tr", {}, head.map((name) => el("th", { class: /reward|advantage|tokens/.test(name) ? "number" : "" }, name)))),
    el("tbody", {}, duels.map((duel) => el("tr", { class: duel.id === here ? "here" : "" },
      el("td", {}, el("a", { href: to(duel.id) }, duel.id)), el("td", {}, el("span", { class: `badge o-${duel.outcome}` }, nameOf(duel.outcome))),
      cells(duel.draft), cells(duel.challenge))))));
}

function cells(side) {
  if (!side) return ["–", "", "", ""].map((text) => el("td", {}, text));
  return [
    el("td", { class: "answer-cell" }, el("span", { class: `policy p-${side.policy}` }, ...visible(side.policy)), el("span", { class: side.correct ? "tick-right" : "tick-wrong" }, side.correct ? " ✓ " : " ✗ "), ...visible(short(side.answer ?? side.reason))),
    el("td", { class: "number" }, plainNumber(side.reward)),
    el("td", { class: `number ${side.advantage < 0 ? "bad" : side.advantage > 0 ? "good" : ""}` }, signed(side.advantage)),
    el("td", { class: "number" }, whole(side.length)),
  ];
}

const short = (text) => (text.length > 40 ? `${text.slice(0, 40)}…` : text);

export function card(duel, to, here) {
  return el("section", { class: `card${duel.id === here ? " here" : ""}` },
    el("div", { class: "card-head" }, el("a", { href: to(duel.id) }, duel.id), el("span", { class: `badge o-${duel.outcome}` }, nameOf(duel.outcome)), duel.marks.map((mark) => el("span", { class: "mark" }, mark))),
    cardSide("Draft", duel.draft, duel), duel.shown !== null && duel.shown !== "" ? el("details", { class: "read" }, el("summary", {}, `What ${duel.challenge?.policy ?? "the rival"} read`), el("div", { class: "text" }, ...textNodes(duel.shown_defused || ""))) : null,
    duel.challenge ? cardSide("Challenge", duel.challenge, duel) : null);
}

function cardSide(title, side, duel) {
  return el("div", { class: "card-side" },
    el("div", { class: "side-title" }, el("span", { class: `policy p-${side.policy}` }, ...visible(side.policy)), el("h3", {}, title), el("span", { class: side.correct ? "verdict right" : "verdict wrong" }, side.correct ? "✓ correct" : `✗ ${side.reason}`), el("span", { class: "quiet" }, `${whole(side.length)} t`)),
    duel.play ? null : earned({ ...side, version: undefined }, null), stretchNodes(side.stretches, title === "Draft" && duel.shown !== null));
}
