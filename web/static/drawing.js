// Drawings as trees of plain objects: one that follows another changes what differs from it, and reads nothing of the document.
import { SVG } from "./svg.js";

// node is an element of a drawing: its attributes, and the nodes within it or its text. What is left out is null.
export const node = (name, attributes, within = []) => ({ name, attributes, within: Array.isArray(within) ? within.filter(Boolean) : within });

// put makes the element of a node, or that of an old one like it.
export function put(now, old) {
  const same = old?.name === now.name, e = (now.element = same ? old.element : document.createElementNS(SVG, now.name)), was = same ? old.attributes : {};
  for (const k in now.attributes) if (now.attributes[k] !== was[k]) e.setAttribute(k, now.attributes[k]);
  for (const k in was) if (!(k in now.attributes)) e.removeAttribute(k);
  if (!Array.isArray(now.within)) {
    if (!same || old.within !== now.within) e.textContent = now.within;
    return e;
  }
  const before = same ? old.within : [];
  now.within.forEach((n, i) => {
    const made = put(n, before[i]);
    if (!before[i]) e.append(made);
    else if (made !== before[i].element) before[i].element.replaceWith(made);
  });
  for (const n of before.slice(now.within.length)) n.element.remove();
  return e;
}

const short = (v) => Math.round(v * 100) / 100;

// straight is a path from point to point.
export const straight = (points) => "M" + points.map(([x, y]) => `${short(x)},${short(y)}`).join("L");

// stepped is a path that goes up or down to the height of a point before it goes there.
export const stepped = (points) => points.map(([x, y], i) => (i ? `V${short(y)}H${short(x)}` : `M${short(x)},${short(y)}`)).join("");

// slopes are those of a smooth line through points, which goes beyond none of them (Steffen, Astronomy and Astrophysics 239, 1990, p. 443).
function slopes(p) {
  const between = p.slice(1).map(([x, y], i) => (y - p[i][1]) / (x - p[i][0])), last = p.length - 1;
  const inner = between.slice(1).map((s, i) => {
    const before = between[i], h0 = p[i + 1][0] - p[i][0], h1 = p[i + 2][0] - p[i + 1][0], mean = (before * h1 + s * h0) / (h0 + h1);
    return before * s <= 0 ? 0 : Math.sign(s) * 2 * Math.min(Math.abs(before), Math.abs(s), Math.abs(mean) / 2);
  });
  return [(3 * between[0] - inner[0]) / 2, ...inner, (3 * between[last - 1] - inner[last - 2]) / 2];
}

// smooth is a path that goes through points in a smooth line.
export function smooth(points) {
  if (points.length < 3) return straight(points);
  const t = slopes(points);
  return points.map(([x, y], i) => {
    if (!i) return `M${short(x)},${short(y)}`;
    const [a, b] = points[i - 1], third = (x - a) / 3;
    return `C${short(a + third)},${short(b + third * t[i - 1])},${short(x - third)},${short(y - third * t[i])},${short(x)},${short(y)}`;
  }).join("");
}

// between is the area between two smooth lines.
export const between = (above, below) => (above.length ? `${smooth(above)}L${smooth(below.toReversed()).slice(1)}Z` : "");

const ROOT = Math.sqrt(Math.PI), DIAMOND = 3 ** 0.25, TRIANGLE = Math.sqrt(Math.PI / Math.sqrt(27)), CROSS = Math.sqrt(Math.PI / 20);
const outline = (...corners) => straight(corners) + "Z";

// SHAPES are outlines of marks of the area that a circle of a radius has.
const SHAPES = {
  circle: (r) => `M${short(r)},0A${short(r)},${short(r)},0,1,1,${short(-r)},0A${short(r)},${short(r)},0,1,1,${short(r)},0Z`,
  square: (r) => { const a = (r * ROOT) / 2; return outline([-a, -a], [a, -a], [a, a], [-a, a]); },
  diamond: (r) => { const y = (r * ROOT * DIAMOND) / Math.SQRT2, x = y / Math.sqrt(3); return outline([0, -y], [x, 0], [0, y], [-x, 0]); },
  triangle: (r) => { const y = r * TRIANGLE, x = y * Math.sqrt(3); return outline([0, -2 * y], [x, y], [-x, y]); },
  cross: (r) => { const a = r * CROSS, b = 3 * a; return outline([-b, -a], [-a, -a], [-a, -b], [a, -b], [a, -a], [b, -a], [b, a], [a, a], [a, b], [-a, b], [-a, a], [-b, a]); },
};

// dot is a mark at a place.
export const dot = (shape, r, [x, y], look) => node("path", { d: SHAPES[shape](r), transform: `translate(${short(x + 0.5)},${short(y + 0.5)})`, ...look });

// A stroke lies on whole pixels where it is moved by half of one.
const HALF = "translate(0.5,0.5)";

// line is a line of a look.
export const line = (d, look, mark = "line") => node("g", { fill: "none", "stroke-linejoin": "round", "stroke-linecap": "round", transform: HALF, "data-mark": mark, ...look }, [node("path", { d })]);

// group is marks of one look.
export const group = (mark, look, within) => node("g", { "data-mark": mark, ...look }, within);

// logarithmic is the scale of a domain over a range.
function logarithmic([low, high], [from, to]) {
  const by = (to - from) / Math.log(high / low);
  return { domain: [low, high], apply: (v) => from + Math.log(v / low) * by };
}

const LEFT = 62, RIGHT = 14, TOP = 26, BOTTOM = 36;

// scaled are the scales of a chart of some size, whose axes have a domain, ticks, their format and a label.
export const scaled = (width, height, x, y) => ({ x: logarithmic(x.domain, [LEFT, width - RIGHT]), y: logarithmic(y.domain, [height - BOTTOM, TOP]) });

// framed is a chart: a grid with its axes, and marks on it.
export function framed(width, height, x, y, scales, marks) {
  const right = width - RIGHT, low = height - BOTTOM, across = x.ticks.map((v) => short(scales.x.apply(v) + 0.5)), up = y.ticks.map((v) => short(scales.y.apply(v) + 0.5));
  const path = (d, look, mark) => node("path", { d: d.join(""), fill: "none", stroke: "currentColor", "data-mark": mark, ...look });
  const faint = { "stroke-opacity": 0.1, "aria-hidden": true }, tick = { "aria-hidden": true }, text = (x, y, of) => node("text", { x, y }, of);
  return node("svg", { width, height, viewBox: `0 0 ${width} ${height}`, fill: "currentColor", color: "var(--ink)", "font-size": 12, "text-anchor": "middle", overflow: "visible" }, [
    path(up.map((v) => `M${LEFT},${v}H${right}`), faint, "y-grid"),
    path(up.map((v) => `M${LEFT},${v}h-6`), tick, "y-axis tick"),
    group("y-axis tick label", { "text-anchor": "end" }, up.map((v, i) => text(LEFT - 8.5, short(v + 3.8), y.format(y.ticks[i])))),
    group("y-axis label", { "text-anchor": "start" }, [text(3.5, 12, y.label)]),
    path(across.map((v) => `M${v},${TOP}V${low}`), faint, "x-grid"),
    path(across.map((v) => `M${v},${low}v6`), tick, "x-axis tick"),
    group("x-axis tick label", {}, across.map((v, i) => text(v, low + 18, x.format(x.ticks[i])))),
    group("x-axis label", { "text-anchor": "end" }, [text(right + 11.5, height - 2.5, x.label)]),
    ...marks,
  ]);
}
