// Elements and their text. Whatever a model wrote becomes a text node here, never markup, its control characters visible.

const MOST_SPANS = 2000;
// What changes the direction of a line, joins invisibly, or is a control character. Tabs and line ends are text.
const UNSEEN =
  /([\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff])\1{0,100000}/g;

export function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("aria-")) node.setAttribute(name, String(value));
    if (name.startsWith("aria-") || value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export function put(parent, ...children) {
  parent.replaceChildren(...children.flat(Infinity).filter(Boolean));
  return parent;
}

export function visible(text) {
  const nodes = [];
  let at = 0;
  for (const found of text.matchAll(UNSEEN)) {
    if (nodes.length > MOST_SPANS) {
      nodes.push(text.slice(at).replace(UNSEEN, "\u2426"));
      return nodes;
    }
    if (found.index > at) nodes.push(text.slice(at, found.index));
    const name = `U+${found[1].charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
    nodes.push(el("span", { class: "unseen", title: "a control character" }, found[0].length > 1 ? `${name}×${found[0].length}` : name));
    at = found.index + found[0].length;
  }
  if (at < text.length) nodes.push(text.slice(at));
  return nodes;
}

export const whole = (number) => Math.round(number).toLocaleString("en-US");
export const percent = (share) => (share === null || share === undefined ? "–" : `${(100 * share).toFixed(1)}%`);
export const signed = (number) => `${number > 0 ? "+" : number < 0 ? "−" : ""}${plainNumber(Math.abs(number))}`;
export const plainNumber = (number) => String(Math.round(number * 1000) / 1000);

let saying = 0;
export function say(words) {
  const place = document.getElementById("said");
  place.textContent = words;
  place.classList.add("on");
  clearTimeout(saying);
  saying = setTimeout(() => place.classList.remove("on"), 1800);
}
