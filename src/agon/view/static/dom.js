// Elements and their text. Whatever a model wrote becomes a text node here, never markup.

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
