// Text of models as nodes: mathematics and programs set where they are marked.

import { el, visible, whole } from "./dom.js";
import { highlighted } from "./code.js";
import { exported } from "./api.js";

const FOLD = 12000; // characters that are shown at once
const LONGEST_RICH = 60000; // beyond it, text is only text
const MATH = /\$\$([^$]{1,1500}?)\$\$|\\\[([\s\S]{1,1500}?)\\\]|\\\(([\s\S]{1,600}?)\\\)|\$(?!\s)((?:[^$\n\\]|\\[^\n]){1,300}?)(?<!\s)\$(?!\d)/g;

function formula(tex, block) {
  if (!window.katex || tex.includes("[withheld]")) return null;
  const place = el("span", { class: block ? "math block" : "math" });
  try {
    window.katex.render(tex, place, {
      displayMode: block, throwOnError: true, trust: false, strict: "ignore", maxExpand: 200, maxSize: 10,
      output: exported ? "mathml" : "htmlAndMathml",
    });
    return place;
  } catch {
    return null; // not TeX that KaTeX knows: stays as it was written
  }
}

function prose(text) {
  const nodes = [];
  let at = 0;
  for (const found of text.matchAll(MATH)) {
    const block = found[1] ?? found[2];
    const set = formula(block ?? found[3] ?? found[4], block !== undefined);
    if (!set) continue;
    // A formula of its own stands on a line of its own: the empty lines around it are its margins.
    const before = text.slice(at, found.index);
    nodes.push(...visible(block === undefined ? before : before.replace(/\n[ \t]*$/, "")), set);
    at = found.index + found[0].length;
    if (block !== undefined) at += /^(?:[ \t]*\n){0,2}/.exec(text.slice(at, at + 200))[0].length;
  }
  nodes.push(...visible(text.slice(at)));
  return nodes;
}

function rich(text) {
  const nodes = [];
  let open = null;
  let kept = [];
  for (const line of text.split(/(?<=\n)/)) {
    const fence = /^\s{0,8}(```+|~~~+)/.exec(line);
    if (open === null && fence) {
      nodes.push(...prose(kept.join("")));
      open = fence[1];
      kept = [];
    } else if (open !== null && fence && fence[1].startsWith(open)) {
      nodes.push(highlighted(kept.join("").replace(/\n$/, "")));
      open = null;
      kept = [];
    } else kept.push(line);
  }
  nodes.push(...(open === null ? prose(kept.join("")) : [highlighted(kept.join(""))]));
  return nodes;
}

let asWritten = localStorage.getItem("agon-as-written") === "1";
export const isAsWritten = () => asWritten;
export function setAsWritten(on) {
  asWritten = on;
  localStorage.setItem("agon-as-written", on ? "1" : "0");
}

export function textNodes(text, domain = "math") {
  if (asWritten || text.length > LONGEST_RICH) return folded(text, visible);
  return folded(text, domain === "program" ? (part) => [highlighted(part)] : rich);
}

function folded(text, nodesOf) {
  if (text.length <= FOLD * 1.2) return nodesOf(text);
  const rest = text.slice(FOLD);
  const more = el("button", { class: "more", onclick: () => more.replaceWith(...visible(rest)) }, `show the other ${whole(rest.length)} characters`);
  return [...nodesOf(text.slice(0, FOLD)), more];
}

export function highlightWords(root, words) {
  if (!window.CSS?.highlights) return;
  CSS.highlights.delete("found");
  const small = (words || "").toLowerCase();
  if (!small) return;
  const ranges = [];
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node && ranges.length < 500; node = walker.nextNode()) {
    const text = node.data.toLowerCase();
    for (let at = text.indexOf(small); at >= 0 && ranges.length < 500; at = text.indexOf(small, at + small.length)) {
      if (at + small.length > node.length) break;
      const range = new Range();
      range.setStart(node, at);
      range.setEnd(node, at + small.length);
      ranges.push(range);
    }
  }
  CSS.highlights.set("found", new Highlight(...ranges));
}
