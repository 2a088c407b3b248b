// Drawings as trees of plain objects: one that follows another changes what differs from it, and reads nothing of the document.
import { curveMonotoneX, curveStepBefore, path, scaleLog, symbol, symbolCircle, symbolCross, symbolDiamond, symbolSquare, symbolTriangle } from "./libraries.js";
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

// straight is a path from point to point; stepped goes up or down to the height of a point before it goes there; smooth is a line
// through the points that goes beyond none of them.
const drawnBy = (path) => (points) => path(points) ?? "";
export const straight = drawnBy(path().digits(2)), stepped = drawnBy(path().digits(2).curve(curveStepBefore)), smooth = drawnBy(path().digits(2).curve(curveMonotoneX));

// between is the area between two smooth lines; "" where they have no points.
export const between = (above, below) => (above.length ? smooth(above) + smooth([...below].reverse()).replace("M", "L") + "Z" : "");

// cut is the part of a line from one place to another, with its ends on the straight lines between the points around them.
export function cut(points, from, to) {
  const at = (x) => {
    const i = Math.max(points.findIndex((p) => p[0] >= x), 1), [a, b] = [points[i - 1], points[i]];
    return [x, a[1] + ((x - a[0]) / (b[0] - a[0])) * (b[1] - a[1])];
  };
  return [at(from), ...points.filter(([x]) => x > from && x < to), at(to)];
}

// SHAPES are marks, each of the area that a circle of a radius has.
const SHAPES = { circle: symbolCircle, square: symbolSquare, diamond: symbolDiamond, triangle: symbolTriangle, cross: symbolCross };

// dot is a mark at a place.
export const dot = (shape, r, [x, y], look) => node("path", { d: symbol(SHAPES[shape], Math.PI * r * r).digits(2)(), transform: `translate(${short(x + 0.5)},${short(y + 0.5)})`, ...look });

// A stroke lies on whole pixels where it is moved by half of one.
const HALF = "translate(0.5,0.5)";

// line is a line of a look.
export const line = (d, look, mark = "line") => node("g", { fill: "none", "stroke-linejoin": "round", "stroke-linecap": "round", transform: HALF, "data-mark": mark, ...look }, [node("path", { d })]);

// group is marks of one look.
export const group = (mark, look, within) => node("g", { "data-mark": mark, ...look }, within);

// logarithmic is the scale of a domain over a range.
const logarithmic = (domain, range) => ({ domain, apply: scaleLog(domain, range) });

const LEFT = 62, RIGHT = 14, TOP = 26, BOTTOM = 36;

// scaled are the scales of a chart of some size, whose axes have a domain, ticks, their format and a label.
export const scaled = (width, height, x, y) => ({ x: logarithmic(x.domain, [LEFT, width - RIGHT]), y: logarithmic(y.domain, [height - BOTTOM, TOP]) });

// framed is a chart: a grid with its axes, and marks on it.
export function framed(width, height, x, y, scales, marks) {
  const right = width - RIGHT, low = height - BOTTOM, across = x.ticks.map((v) => short(scales.x.apply(v) + 0.5)), up = y.ticks.map((v) => short(scales.y.apply(v) + 0.5));
  const lines = (d, look, mark) => node("path", { d: d.join(""), fill: "none", stroke: "currentColor", "data-mark": mark, ...look });
  const faint = { "stroke-opacity": 0.1, "aria-hidden": true }, tick = { "aria-hidden": true }, text = (x, y, of) => node("text", { x, y }, of);
  return node("svg", { width, height, viewBox: `0 0 ${width} ${height}`, fill: "currentColor", color: "var(--ink)", "font-size": 12, "text-anchor": "middle", overflow: "visible" }, [
    lines(up.map((v) => `M${LEFT},${v}H${right}`), faint, "y-grid"),
    lines(up.map((v) => `M${LEFT},${v}h-6`), tick, "y-axis tick"),
    group("y-axis tick label", { "text-anchor": "end" }, up.map((v, i) => text(LEFT - 8.5, short(v + 3.8), y.format(y.ticks[i])))),
    group("y-axis label", { "text-anchor": "start" }, [text(3.5, 12, y.label)]),
    lines(across.map((v) => `M${v},${TOP}V${low}`), faint, "x-grid"),
    lines(across.map((v) => `M${v},${low}v6`), tick, "x-axis tick"),
    group("x-axis tick label", {}, across.map((v, i) => text(v, low + 18, x.format(x.ticks[i])))),
    group("x-axis label", { "text-anchor": "end" }, [text(right + 11.5, height - 2.5, x.label)]),
    ...marks,
  ]);
}
