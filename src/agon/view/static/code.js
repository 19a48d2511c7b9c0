// Programs with a little colour: comments, strings, numbers and the words of Python and the C family.

import { el, visible } from "./dom.js";

const WORDS = new Set(
  ("and as assert async await auto bool break case catch char class const continue def del do double elif else enum except " +
    "False finally float for from global if import in int is lambda let long new None nonlocal not null or pass private public " +
    "raise return short static std string struct switch template this throw True try typedef unsigned using var vector void " +
    "while with yield").split(" "),
);
const TOKEN = /(#[^\n]{0,2000}|\/\/[^\n]{0,2000})|("(?:[^"\\\n]|\\.){0,2000}"|'(?:[^'\\\n]|\\.){0,2000}')|\b(\d[\w.]{0,60})|\b([A-Za-z_]\w{0,60})/g;
const LONGEST_CODE = 30000;

export function highlighted(code) {
  const place = el("pre", { class: "code" });
  if (code.length > LONGEST_CODE) {
    place.append(...visible(code));
    return place;
  }
  let at = 0;
  for (const found of code.matchAll(TOKEN)) {
    const [text, comment, string, number, word] = found;
    const kind = comment ? "comment" : string ? "string" : number ? "number" : WORDS.has(word) ? "word" : null;
    if (!kind) continue;
    place.append(...visible(code.slice(at, found.index)), el("span", { class: `c-${kind}` }, ...visible(text)));
    at = found.index + text.length;
  }
  place.append(...visible(code.slice(at)));
  return place;
}
