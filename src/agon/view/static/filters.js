// The filters above the list; each change is a new address.

import { el, put } from "./dom.js";
import { exported } from "./api.js";

const OUTCOMES = { converted: "converted", corrupted: "corrupted", "both-right": "both right", "both-wrong": "both wrong" };
const ALONE = { right: "right", wrong: "wrong" };
const MARKS = ["copied", "leaked", "truncated", "malformed", "failed"];
const HINTS = {
  outcome: "How draft and challenge ended",
  copied: "The challenge gave the draft's answer again", leaked: "The gold answer can be read off the summary shown",
  truncated: "Cut off at the limit of tokens", malformed: "Not in the form that is asked for", failed: "The judge timed out or failed",
};

export class Filters {
  constructor(onChange) {
    this.onChange = onChange;
    this.place = {};
    this.known = { policies: [], plays: [] };
    this.search = el("input", { type: "search", placeholder: "Search all texts   /", "aria-label": "search", maxlength: 500 });
    let waiting = 0;
    this.search.addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(() => this.change({ search: this.search.value }), 300);
    });
    this.chips = el("div", { class: "chips" });
    this.more = el("div", { class: "fields" });
    this.folded = el("details", { class: "more-filters" }, el("summary", {}, "More filters"), this.more);
    this.root = el("div", { class: "filters" }, this.search, this.chips, exported ? null : this.folded);
  }

  change(words) {
    this.onChange({ ...this.place, ...words });
  }

  show(place, known) {
    this.place = place;
    this.known = known || this.known;
    if (document.activeElement !== this.search) this.search.value = place.search || "";
    const outcomes = this.known.challenged === false ? ALONE : OUTCOMES;
    put(this.chips,
      Object.entries(outcomes).map(([name, label]) => this.chip("outcome", name, label, `chip o-${name}`)),
      el("span", { class: "gap" }),
      MARKS.map((name) => this.chip("mark", name, name, "chip")));
    if (!this.more.contains(document.activeElement)) this.fields();
  }

  chip(kind, name, label, style) {
    const chosen = (this.place[kind] || "").split(",").filter(Boolean);
    const on = chosen.includes(name);
    const next = on ? chosen.filter((each) => each !== name) : [...chosen, name];
    return el("button", { class: style, "aria-pressed": on, title: HINTS[name] || HINTS[kind], onclick: () => this.change({ [kind]: next.join(",") }) }, label);
  }

  fields() {
    const { place } = this;
    const set = ["policy", "role", "step", "problem", "reward", "length", "play", "sort"].filter((name) => place[name]);
    this.folded.querySelector("summary").textContent = set.length ? `More filters · ${set.length}` : "More filters";
    if (set.length) this.folded.open = true;
    put(this.more,
      this.select("policy", ["", ...this.known.policies]), this.select("role", ["", "draft", "challenge"]),
      this.input("step", "3 or 3..9"), this.input("reward", "2..3"), this.input("length", "..200"), this.input("problem", "id or words"),
      this.known.plays.length ? this.select("play", ["", ...this.known.plays]) : null,
      this.select("sort", ["newest", "oldest", "paid", "long"]),
      set.length ? el("button", { class: "plain", onclick: () => this.change(Object.fromEntries(set.map((name) => [name, ""]))) }, "clear") : null);
  }

  select(name, values) {
    const field = el("select", { name, onchange: () => this.change({ [name]: field.value }) },
      values.map((value) => el("option", { value, selected: (this.place[name] || values[0]) === value }, value || "any")));
    return el("label", {}, name, field);
  }

  input(name, hint) {
    const field = el("input", { name, placeholder: hint, value: this.place[name] || "", maxlength: 200, onchange: () => this.change({ [name]: field.value.trim() }) });
    return el("label", {}, name, field);
  }
}
