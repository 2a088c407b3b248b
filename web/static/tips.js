// What a chart tells of the point next to the pointer.
import { element, measured } from "./svg.js";

const NEAR = 40, FAR = 12, LINE = 15, PAD = 8; // px

// nearest is the point of a chart that is next to a place, that next to it across in a chart of curves; null where none is near.
function nearest({ points, x, y, curves }, [px, py]) {
  let best = null, least = NEAR;
  for (const p of points) {
    const dx = x(p) - px, dy = y(p) - py, far = curves ? Math.abs(dx) : Math.hypot(dx, dy);
    if (far < least) { least = far; best = p; }
  }
  return best;
}

const within = (v, most) => Math.max(Math.min(v, most), 0);

// tip draws a text of some lines beside a point, below or above it where there is no room at its sides.
function tip(text, x, y, width, height) {
  const lines = text.split("\n"), w = Math.max(...lines.map(measured)) + 2 * PAD, h = lines.length * LINE + PAD;
  const beside = [x + FAR, x - FAR - w].find((v) => v >= 0 && v + w <= width), under = y + FAR + h <= height ? y + FAR : y - FAR - h;
  const left = beside ?? within(x - w / 2, width - w), top = within(beside === undefined ? under : y - h / 2, height - h);
  const g = element("g", { class: "tip", "data-mark": "tip", "pointer-events": "none", fill: "var(--ink)", "text-anchor": "start" });
  g.append(element("rect", { x: left, y: top, width: w, height: h, rx: 3, fill: "var(--paper)", stroke: "var(--faint)" }));
  lines.forEach((line, i) => g.append(element("text", { x: left + PAD, y: top + PAD / 2 + (i + 0.75) * LINE }, line)));
  return g;
}

// tells makes a figure tell of its points: its about has the points, their places x and y, the text of one, and what is to be
// done with one that the pointer is over and with one that is chosen by a click. A figure that is drawn again may get
// another about in place of its own.
export function tells(figure) {
  let at = null;
  const point = (p) => {
    const old = figure.querySelector(":scope > .tip"); // which a figure that was drawn again has lost
    if (p === at && !p === !old) return;
    at = p;
    old?.remove();
    const { x, y, text, seen } = figure.about;
    if (p) figure.append(tip(text(p), x(p), y(p), figure.width.baseVal.value, figure.height.baseVal.value));
    seen?.(p);
  };
  const move = (e) => {
    const box = figure.getBoundingClientRect(), wide = figure.width.baseVal.value / box.width;
    point(nearest(figure.about, [(e.clientX - box.left) * wide, (e.clientY - box.top) * wide]));
  };
  figure.addEventListener("pointermove", move);
  figure.addEventListener("pointerleave", () => point(null));
  figure.addEventListener("click", (e) => { move(e); if (at) figure.about.chosen?.(at); });
  return figure;
}
