// Small line charts over the steps of a run; a click asks for the duels of a step.

import { el, svg, put, percent, whole, plainNumber } from "./dom.js";

const WIDE = 420, HIGH = 180, LEFT = 44, RIGHT = 10, TOP = 8, BOTTOM = 22;
const COLOURS = {
  A: "var(--a)", B: "var(--b)", cascade: "var(--ink)", good: "var(--good)", bad: "var(--bad)", copied: "var(--violet)",
  draft: "var(--a)", challenge: "var(--b)", correctness: "var(--a)", conversion: "var(--good)", form: "var(--grey)",
  margin: "var(--violet)", tiebreak: "var(--b)",
};
const WRITTEN = { share: percent, tokens: whole, reward: plainNumber };

export function chart(panel, onStep) {
  const points = panel.lines.flatMap((line) => line.points);
  const low = Math.min(...points.map(([x]) => x)), high = Math.max(...points.map(([x]) => x), low + 1);
  const scale = ticks(Math.max(...points.map(([, y]) => y), 0), Math.min(...points.map(([, y]) => y), 0));
  const written = WRITTEN[panel.unit];
  const x = (step) => LEFT + ((WIDE - LEFT - RIGHT) * (step - low)) / (high - low);
  const y = (value) => HIGH - BOTTOM - ((HIGH - TOP - BOTTOM) * (value - scale[0])) / (scale.at(-1) - scale[0]);
  const rules = scale.map((tick) => [
    svg("line", { x1: LEFT, x2: WIDE - RIGHT, y1: y(tick), y2: y(tick), class: "rule" }),
    svg("text", { x: LEFT - 6, y: y(tick) + 3.5, class: "tick", "text-anchor": "end" }, panel.unit === "share" ? `${Math.round(100 * tick)}%` : plainNumber(tick)),
  ]);
  const ends = [low, high].map((step, last) => svg("text", { x: x(step), y: HIGH - 6, class: "tick", "text-anchor": last ? "end" : "start" }, `step ${step}`));
  const paths = panel.lines.flatMap((line) => drawn(line, x, y));
  const cursor = svg("line", { y1: TOP, y2: HIGH - BOTTOM, class: "cursor", visibility: "hidden" });
  const legend = el("div", { class: "legend" });
  const picture = svg("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, class: "chart", role: "img", "aria-label": panel.title }, rules, ends, paths, cursor);
  const tell = (step) => {
    put(legend, panel.lines.map((line) => {
      const value = step === null ? line.points.at(-1) : near(line.points, step);
      const style = svg("svg", { viewBox: "0 0 18 8", width: 18, height: 8 }, svg("path", { d: "M0 4h18", ...strokeOf(line), "stroke-width": 2.4 }));
      return el("span", {}, style, `${line.label} `, el("b", {}, value ? written(value[1]) : "–"));
    }));
  };
  const stepAt = (event) => {
    const box = picture.getBoundingClientRect();
    const share = ((event.clientX - box.left) * (WIDE / box.width) - LEFT) / (WIDE - LEFT - RIGHT);
    return Math.round(low + Math.max(0, Math.min(1, share)) * (high - low));
  };
  picture.addEventListener("pointermove", (event) => {
    const step = stepAt(event);
    cursor.setAttribute("visibility", "visible");
    cursor.setAttribute("x1", x(step));
    cursor.setAttribute("x2", x(step));
    title.textContent = `step ${step}`;
    tell(step);
  });
  picture.addEventListener("pointerleave", () => {
    cursor.setAttribute("visibility", "hidden");
    title.textContent = "";
    tell(null);
  });
  picture.addEventListener("click", (event) => onStep(stepAt(event)));
  const title = el("span", { class: "at" });
  tell(null);
  return el("figure", { class: "panel" }, el("figcaption", {}, panel.title, title), picture, legend);
}

const strokeOf = (line) => ({ stroke: COLOURS[line.colour] || "var(--grey)", "stroke-dasharray": line.dashed ? "5 3" : null, fill: "none" });

function drawn(line, x, y) {
  const path = (points) => points.map(([step, value], place) => `${place ? "L" : "M"}${x(step).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  const window = Math.max(1, Math.round(line.points.length / 24));
  const thin = svg("path", { d: path(thinned(line.points)), ...strokeOf(line), "stroke-width": 1, opacity: window > 1 ? 0.28 : 0 });
  return [thin, svg("path", { d: path(thinned(smooth(line.points, window))), ...strokeOf(line), "stroke-width": 1.8 })];
}

function smooth(points, window) {
  let sum = 0;
  return points.map(([step, value], place) => {
    sum += value - (place >= window ? points[place - window][1] : 0);
    return [step, sum / Math.min(place + 1, window)];
  });
}

function thinned(points, most = 600) {
  const every = Math.ceil(points.length / most);
  return every > 1 ? points.filter((_, place) => place % every === 0 || place === points.length - 1) : points;
}

function near(points, step) {
  let low = 0, high = points.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (points[middle][0] <= step) low = middle;
    else high = middle;
  }
  return Math.abs(points[low][0] - step) <= Math.abs(points[high][0] - step) ? points[low] : points[high];
}

function ticks(high, low) {
  const rough = (high - low || 1) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough * 0.999);
  const first = Math.floor(low / step + 1e-9), last = Math.max(first + 1, Math.ceil(high / step - 1e-9));
  return Array.from({ length: last - first + 1 }, (_, place) => Math.round((first + place) * step * 1e9) / 1e9);
}

export function intervalBar(share, interval, most) {
  const at = (value) => 120 * Math.min(1, value / most);
  return svg("svg", { viewBox: "0 0 120 12", width: 120, height: 12, class: "interval", role: "img", "aria-label": "95% interval" },
    svg("line", { x1: 0, x2: 120, y1: 6, y2: 6, class: "rule" }),
    interval && svg("line", { x1: at(interval[0]), x2: at(interval[1]), y1: 6, y2: 6, stroke: "var(--a)", "stroke-width": 3, opacity: 0.45 }),
    svg("circle", { cx: at(share), cy: 6, r: 3.2, fill: "var(--a)" }));
}
