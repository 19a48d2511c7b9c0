// The list of duels: only the lines in sight are drawn, and only their pages are asked for.

import { el, plainNumber, put, visible, whole } from "./dom.js";
import { ask } from "./api.js";

const LINE = 54; // pixels; as in style.css
const PAGE = 60; // lines of a page
const TALLEST = 24e6; // pixels; browsers lay out no more than about 33 million
const SHORT = { right: "right", wrong: "wrong", "both-right": "both right", "both-wrong": "both wrong" };

export class DuelList {
  constructor(onOpen, onCount) {
    this.onOpen = onOpen;
    this.onCount = onCount;
    this.body = el("div", { class: "lines-body" });
    this.root = el("div", { class: "lines", tabindex: 0, role: "listbox", "aria-label": "duels", onscroll: () => this.draw() }, this.body);
    this.words = {};
    this.total = 0;
    this.pages = new Map();
    this.asked = 0;
    this.place = null;
    new ResizeObserver(() => this.draw()).observe(this.root);
  }

  async show(words) {
    this.words = words;
    this.root.scrollTop = 0;
    this.place = null;
    await this.reload();
  }

  async reload() {
    const asked = ++this.asked;
    const first = Math.floor(this.firstLine() / PAGE);
    const page = await this.fetchPage(first);
    if (asked !== this.asked) return;
    this.pages = new Map([[first, page.lines]]);
    this.take(page);
    this.draw();
    while (asked === this.asked && (page.searched < 1 || page.unread)) {
      const more = await this.fetchPage(first, 0.3);
      if (asked !== this.asked) return;
      this.pages.set(first, more.lines);
      this.take(more);
      this.draw();
      if (more.searched >= 1 || (more.total > PAGE * (first + 1) && more.searched === page.searched)) break;
      page.searched = more.searched;
    }
  }

  async fetchPage(number, wait = 0) {
    if (wait) await new Promise((done) => setTimeout(done, wait * 1000));
    return ask("duels", { ...this.words, from: number * PAGE, count: PAGE });
  }

  take(page) {
    this.total = page.total;
    this.body.style.height = `${Math.min(TALLEST, this.total * LINE)}px`;
    this.onCount(page);
  }

  // Beyond TALLEST the bar stands for more lines than it has pixels.
  firstLine() {
    const sight = this.root.clientHeight || 600;
    const tall = this.total * LINE;
    if (tall <= TALLEST) return Math.floor(this.root.scrollTop / LINE);
    return Math.floor((this.root.scrollTop / Math.max(1, TALLEST - sight)) * Math.max(0, this.total - sight / LINE));
  }

  // Problems of one kind begin with the same words; what tells them apart is shown.
  sameStart() {
    const titles = [...new Set([...this.pages.values()].flatMap((page) => (page || []).map((line) => line.title)))];
    if (titles.length < 3) return 0;
    let same = titles[0];
    for (const title of titles) while (!title.startsWith(same)) same = same.slice(0, -1);
    const end = same.lastIndexOf(" ") + 1;
    return end >= 24 ? end : 0;
  }

  draw() {
    const start = this.sameStart();
    const sight = Math.ceil((this.root.clientHeight || 600) / LINE) + 2;
    const first = Math.max(0, this.firstLine() - 1);
    const last = Math.min(this.total, first + sight + 1);
    const scaled = this.total * LINE > TALLEST;
    const nodes = [];
    for (let place = first; place < last; place += 1) {
      const line = this.line(place);
      const top = scaled ? this.root.scrollTop + (place - this.firstLine()) * LINE : place * LINE;
      const node = line ? lineNode(line, place === this.place, start) : el("div", { class: "line waiting" }, "…");
      node.style.top = `${top}px`;
      node.addEventListener("click", () => this.open(place));
      nodes.push(node);
    }
    put(this.body, nodes);
    if (!this.total) put(this.body, el("p", { class: "none" }, "No duel passes this filter."));
  }

  line(place) {
    const number = Math.floor(place / PAGE);
    const page = this.pages.get(number);
    if (page === undefined) {
      this.pages.set(number, null);
      const asked = this.asked;
      this.fetchPage(number).then((found) => {
        if (asked !== this.asked) return;
        this.pages.set(number, found.lines);
        this.draw();
      }, () => this.pages.delete(number));
      return null;
    }
    return page?.[place - number * PAGE] ?? null;
  }

  async open(place) {
    if (place < 0 || place >= this.total) return;
    let line = this.line(place);
    if (!line) {
      const page = await this.fetchPage(Math.floor(place / PAGE));
      this.pages.set(Math.floor(place / PAGE), page.lines);
      line = page.lines[place % PAGE];
    }
    if (!line) return;
    this.place = place;
    this.intoSight(place);
    this.onOpen(line.id);
  }

  mark(place) {
    this.place = place;
    if (place !== null) this.intoSight(place);
    this.draw();
  }

  intoSight(place) {
    const tall = this.total * LINE;
    const sight = this.root.clientHeight;
    if (tall > TALLEST) {
      this.root.scrollTop = (Math.max(0, place - 2) / Math.max(1, this.total - sight / LINE)) * (TALLEST - sight);
    } else if (place * LINE < this.root.scrollTop) this.root.scrollTop = place * LINE;
    else if ((place + 1) * LINE > this.root.scrollTop + sight) this.root.scrollTop = (place + 1) * LINE - sight;
    this.draw();
  }

  step(by) {
    this.open(this.place === null ? 0 : this.place + by);
  }
}

function lineNode(line, isOpen, start) {
  const sides = [sideNode(line.draft)];
  if (line.challenge) sides.push(el("span", { class: "arrow" }, "→"), sideNode(line.challenge));
  const marks = [...new Set([...line.marks, ...line.draft.marks, ...(line.challenge?.marks || [])])];
  const paid = line.challenge ? line.challenge.reward : line.draft.reward;
  return el("div", { class: `line o-${line.outcome}${isOpen ? " open" : ""}`, role: "option", "aria-selected": isOpen, "data-id": line.id },
    el("div", { class: "line-top" },
      el("span", { class: "outcome" }, SHORT[line.outcome] || line.outcome),
      el("span", { class: "title" }, start ? el("span", { class: "quiet" }, "… ") : null, ...visible(line.title.slice(start) || line.problem)),
      el("span", { class: "where" }, line.play ? `${line.play} · ${line.step}` : line.id)),
    el("div", { class: "line-low" }, sides,
      el("span", { class: "marks" }, marks.map((mark) => el("span", { class: "mark" }, mark))),
      el("span", { class: "where" }, line.play ? "" : `${plainNumber(paid)} · `, `${whole(line.challenge ? line.challenge.length : line.draft.length)} t`)));
}

function sideNode(side) {
  return el("span", { class: "side" },
    el("span", { class: `policy p-${side.policy}` }, ...visible(side.policy)),
    el("span", { class: side.correct ? "tick-right" : "tick-wrong" }, side.correct ? "✓" : "✗"),
    el("span", { class: "answer" }, ...visible(side.answer ?? side.reason)));
}
