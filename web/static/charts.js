// The charts of the page. Each is a drawing with its scales and points, and what its tips tell. Bounds have a colour and a
// shape each, so that they are told apart without colour.
import { element, measured } from "./svg.js";
import { between, cut, dot, framed, group, line, node, scaled, smooth, stepped, straight } from "./drawing.js";

export const BOUNDS = ["compute", "memory", "network", "launch"];
const SYMBOLS = { compute: "square", memory: "circle", network: "diamond", launch: "triangle" };
const LETTERS = { compute: "C", memory: "M", network: "N", launch: "L" };
export const letterOf = (bound) => LETTERS[bound] ?? "";

const PREFIXES = [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""], [1e-3, "m"], [1e-6, "µ"], [1e-9, "n"]];
// si writes the numbers of axes, as 250 µ or 1.5 k.
export function si(v, unit = "") {
  if (v === 0) return "0";
  const a = Math.abs(v), [by, prefix] = PREFIXES.find(([p]) => a >= p * 0.9999) ?? PREFIXES.at(-1);
  return `${Number((v / by).toPrecision(3))} ${prefix}${unit}`.trim();
}
// plain writes the numbers of axes that have no prefixes, as of prices and rates.
export const plain = (v) => (v >= 1e-3 && v < 1e4 ? String(Number(v.toPrecision(3))) : si(v));

// decades are ticks of a logarithmic axis that is so long, at least gap apart: powers of ten, with 2 and
// 5 where there is room, and more where these would be fewer than three.
function decades([low, high], long, gap) {
  const each = long / Math.log10(high / low);
  const at = (within) => {
    const all = [];
    for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++) for (const m of within) { const v = m * 10 ** e; if (v >= low * 0.999 && v <= high * 1.001) all.push(v); }
    return all;
  };
  const some = at(0.3 * each >= gap ? [1, 2, 5] : [1]);
  if (some.length < 3 && 0.09 * each >= gap) return at([1, 1.5, 2, 3, 4, 5, 7]);
  return some.filter((_, i) => i % Math.max(Math.ceil(gap / each), 1) === 0);
}
function span(values, below = 1.4, above = 1.4) {
  const v = values.filter((x) => x > 0 && Number.isFinite(x));
  return v.length ? [Math.min(...v) / below, Math.max(...v) * above] : [1, 10];
}
const log = (domain, label, format, long, gap) => ({ domain, ticks: decades(domain, long, gap), format, label });
const across = (domain, label, format, width) => log(domain, label, format, width - 76, 56), up = (domain, label, format, height) => log(domain, label, format, height - 62, 20);
export const opKey = (o) => `${o.layer}\u0000${o.name}`;

const TALL = 15; // px of a line of text
// AROUND are the places of a label beside its point, the best first: the direction from the point, and
// which part of the text stands there.
const AROUND = [[0, -1], [0, 1], [1, 0], [-1, 0], [1, -1], [-1, -1], [1, 1], [-1, 1]];

// TO_RIGHT are the places to the right and below, where a chart of cost over speed is empty.
const TO_RIGHT = [[1, 0], [1, 1], [1, -1], [0, 1]];
// ABOVE are the places to the left of a line that rises, and above it.
const ABOVE = [[-1, -1], [-1, 0], [0, -1]];

// crosses reports whether a line between two points goes through a box.
function crosses([a, b], box) {
  let from = 0, to = 1;
  for (const [p, d, low, high] of [[a.x, b.x - a.x, box.x1, box.x2], [a.y, b.y - a.y, box.y1, box.y2]]) {
    if (d === 0) { if (p <= low || p >= high) return false; continue; }
    const s = (low - p) / d, t = (high - p) / d;
    from = Math.max(from, Math.min(s, t));
    to = Math.min(to, Math.max(s, t));
  }
  return from < to;
}

// placed finds room for labels, the first ones first: within the frame, over no other label and no line, and where
// there is a choice over few of the marks. Those without room, or over several marks, are left out.
export function placed(labels, marks, lines, frame) {
  const taken = [], all = [];
  const over = (a, b) => a.x1 < b.x2 && b.x1 < a.x2 && a.y1 < b.y2 && b.y1 < a.y2;
  for (const l of labels) {
    const w = measured(l.text) + 4;
    let best = null;
    for (const far of [4, 14]) {
      for (const [dx, dy] of l.around ?? AROUND) {
        const reach = (l.r ?? 4) + far, cx = l.x + dx * (reach + w / 2), cy = l.y + dy * (reach + TALL / 2);
        const box = { x1: cx - w / 2, x2: cx + w / 2, y1: cy - TALL / 2, y2: cy + TALL / 2 };
        if (box.x1 < frame.x1 || box.x2 > frame.x2 || box.y1 < frame.y1 || box.y2 > frame.y2 || taken.some((t) => over(t, box)) || lines.some((l) => crosses(l, box))) continue;
        const hidden = marks.filter((m) => over(box, { x1: m.x - m.r, x2: m.x + m.r, y1: m.y - m.r, y2: m.y + m.r })).length + far / 100;
        if (!best || hidden < best.hidden) best = { hidden, cx, cy, box };
      }
    }
    if (best?.hidden < 2) { taken.push(best.box); all.push({ ...l, cx: best.cx, cy: best.cy }); }
  }
  return all;
}

// write draws labels where they have room, beside the lines of a chart.
function write(labels, marks, lines, width, height) {
  const frame = { x1: 63, x2: width - 2, y1: 20, y2: height - 38 };
  return group("label", { fill: "var(--ink)", stroke: "var(--paper)", "stroke-width": 3, "paint-order": "stroke", "pointer-events": "none" },
    placed(labels, marks, lines, frame).map((l) => node("text", { x: l.cx.toFixed(1), y: (l.cy + 4).toFixed(1) }, l.text)));
}

const STAR = "M0,-9L2.4,-3L8.6,-2.8L3.8,1.1L5.3,7.3L0,3.8L-5.3,7.3L-3.8,1.1L-8.6,-2.8L-2.4,-3Z", ROUND = "M6,0A6,6,0,1,1,-6,0A6,6,0,1,1,6,0", SQUARE = "M-5,-5H5V5H-5Z";

// marked puts signs on a figure that is drawn, in place of those that it had: what is chosen changes
// more often than what it is chosen from.
export function marked(figure, signs) {
  figure.querySelector(".marked")?.remove();
  const { x, y } = figure.scales, g = element("g", { class: "marked", "pointer-events": "none" });
  const within = (s, v) => v >= Math.min(...s.domain) && v <= Math.max(...s.domain);
  for (const s of signs) if (within(x, s.x) && within(y, s.y)) g.append(element("path", { d: s.path, transform: `translate(${x.apply(s.x)},${y.apply(s.y)})`, "stroke-width": 1.2, ...s.look }));
  figure.append(g);
}

// drawn is a chart of points: how its scales place them by two of their properties, and what its tips tell.
function drawn(frame, scales, points, [x, y], about) {
  return { node: frame, scales, points, about: { points, x: (p) => scales.x.apply(p[x]), y: (p) => scales.y.apply(p[y]), ...about } };
}

// corners are the lines from corner to corner.
const corners = (all) => all.slice(1).map((b, i) => [all[i], b]);

const SMALLEST = 3, LARGEST = 22; // px: the radius of an operator that takes no time, and of one that takes all
export const radius = (share) => SMALLEST + (LARGEST - SMALLEST) * Math.sqrt(share ?? 0);

// REACH is how far the outline of a mark goes beside its middle, in radii of the circle of its area.
const REACH = { compute: 0.9, memory: 1, network: 1.65, launch: 1.35 };

// roofline draws the operators of a phase under the roofs of the GPU, one for each number format.
export function roofline({ ops, words, roofs, bandwidth, pinned, width, height, seen, chosen }) {
  const peak = roofs[0].peak_flop_per_s, point = (o, i) => ({ ...o, key: opKey(o), x: o.intensity, y: o.flops / o.expected_s, words: words?.[i] });
  const shown = (list) => list.map(point).filter((o) => o.x > 0 && o.y > 0);
  const dots = shown(ops), old = pinned ? shown(pinned) : [], all = [...dots, ...old];
  const ridge = peak / bandwidth;
  const xs = span([...all.map((o) => o.x), ridge], 2, 4), ys = span([...all.map((o) => o.y), peak], 2.5, 2.2);
  const low = Math.max(xs[0], ys[0] / bandwidth);
  const roof = [{ x: low, y: low * bandwidth }, { x: ridge, y: peak }, { x: xs[1], y: peak }];
  const lower = roofs.slice(1).filter((r) => r.peak_flop_per_s > ys[0]).map(({ format, peak_flop_per_s: y }) => ({ format, y, x: y / bandwidth, end: xs[1] }));
  const x = across(xs, "arithmetic intensity (FLOP/B)", plain, width), y = up(ys, "FLOP/s of the operator", (v) => si(v), height), scales = scaled(width, height, x, y);
  const at = (v) => ({ x: scales.x.apply(v.x), y: scales.y.apply(v.y), r: radius(v.share) * (REACH[v.bound] ?? 1) }), xy = (v) => [scales.x.apply(v.x), scales.y.apply(v.y)];
  const largest = (list) => [...list].sort((a, b) => b.share - a.share); // smaller ones stand before them
  const lines = [...corners(roof.map(at)), ...lower.map((r) => [at(r), at({ x: r.end, y: r.y })])], shares = largest(dots).filter((o) => o.share >= 0.01);
  const frame = framed(width, height, x, y, scales, [
    line(straight(roof.map(xy)), { stroke: "var(--ink)", "stroke-width": 1.5 }),
    lower.length && line(lower.map((r) => straight([xy(r), xy({ x: r.end, y: r.y })])).join(""), { stroke: "var(--ink)", "stroke-dasharray": "6,3" }, "link"),
    old.length && group("dot of A", { fill: "none", stroke: "var(--faint)", "stroke-width": 1.5, "stroke-dasharray": "2,2" }, largest(old).map((o) => dot(SYMBOLS[o.bound], radius(o.share), xy(o)))),
    group("dot", { stroke: "var(--ink)", "stroke-width": 0.8, "fill-opacity": 0.85 }, largest(dots).map((o) => dot(SYMBOLS[o.bound], radius(o.share), xy(o), { fill: `var(--${o.bound})` }))),
    write([
      ...[{ format: roofs[0].format, x: ridge, y: peak }, ...lower].map((r) => ({ ...at({ x: xs[1], y: r.y }), r: 0, text: `${si(r.y, width < 500 ? "" : "FLOP/s")} ${r.format}`, around: r.y === peak ? [[-1, -1]] : [[-1, 1], [-1, -1]] })),
      { ...at({ x: Math.sqrt(low * ridge), y: Math.sqrt(low * ridge) * bandwidth }), r: 0, text: si(bandwidth, "B/s"), around: ABOVE },
      ...shares.map((o) => ({ ...at(o), text: o.name })),
    ], dots.map(at), lines, width, height),
  ]);
  return drawn(frame, scales, dots, ["x", "y"], {
    seen: (o) => seen(o?.key ?? null), chosen: (o) => chosen(o.key),
    text: (o) => `${o.name}${o.layer ? ` (${o.layer})` : ""}\n${o.words?.expected ?? ""}, ${o.words?.share ?? ""} of the phase\n${o.bound}-bound, floor ${o.words?.floor ?? ""}\n${o.words?.intensity ?? ""} FLOP/B`,
  });
}

// select marks an operator of a roofline.
export function select(figure, key) {
  const o = figure.points.find((p) => p.key === key), r = o && radius(o.share) + 4;
  marked(figure, o ? [{ x: o.x, y: o.y, path: `M${r},0A${r},${r},0,1,1,${-r},0A${r},${r},0,1,1,${r},0`, look: { fill: "none", stroke: "var(--alarm)", "stroke-width": 3 } }] : []);
}

const TIMES = [["ttft", "TTFT", "var(--series-0)", "square"], ["tpot", "TPOT", "var(--series-1)", "circle"]];

// doublings are the powers of two in a domain.
function doublings([low, high]) {
  const all = [];
  for (let v = 2 ** Math.ceil(Math.log2(low)); v <= high; v *= 2) all.push(v);
  return all;
}

// strip is the area of an interval: between the bounds of each row or, where everything takes a number of times as long at the slow end, up from the
// expected times to those at as much higher rates, as much longer.
function strip(rows, slower, along, time, low, high) {
  if (!slower) { const some = rows.filter((r) => r[high]); return between(along(some, high), along(some, low)); }
  const expected = along(rows, time), slow = along(rows, time, slower), from = expected[0]?.[0], to = slow.at(-1)?.[0];
  return from < to ? between(cut(slow, from, to), cut(expected, from, to)) : "";
}

// curve draws a time over the batch with its interval, its floor and what was measured.
export function curve({ rows, slower, key, measured, pinned, limit, xlabel = "batch (sequences of a replica)", x = "batch", width, height, chosen }) {
  const [, name, color, symbol] = TIMES.find(([k]) => k === key);
  const of = (list) => (list ?? []).filter((r) => r[`${key}_s`] > 0);
  const shown = of(rows), old = of(pinned), time = `${key}_s`, floor = `${key}_floor_s`, low = `${key}_low_s`, high = `${key}_high_s`;
  const dom = span([...shown, ...old].flatMap((r) => [r[time], r[floor]]).concat(shown.flatMap((r) => (slower ? [r[time] * slower] : [r[low], r[high]])), measured.map((m) => m.value), limit ? [limit] : []), 1.15, 1.15);
  const at = [...shown, ...old].map((r) => r[x]), wide = at.length ? [Math.min(...at), Math.max(...at)] : [1, 2], by = wide[0] === wide[1] ? 1.4 : (wide[1] / wide[0]) ** 0.03, ends = [wide[0] / by, wide[1] * by]; // marks stand beside the axes
  const batches = shown.map((r) => r[x]).filter((_, i, all) => all.length < 8 || width > 480 || i % 2 === 0);
  const axis = { domain: ends, ticks: x === "batch" || !at.length ? batches : doublings(ends), format: plain, label: at.length ? xlabel : "" }, upward = { ...up(dom, name, (v) => si(v, "s"), height), ...(!at.length && { ticks: [], label: "" }) };
  const scales = scaled(width, height, axis, upward), along = (list, of, slower = 1) => list.map((r) => [scales.x.apply(r[x] / slower), scales.y.apply(r[of] * slower)]);
  const frame = framed(width, height, axis, upward, scales, [
    group("area", { fill: color, "fill-opacity": 0.18 }, [node("path", { d: strip(shown, slower, along, time, low, high) })]),
    shown[0]?.[floor] !== undefined && line(smooth(along(shown, floor)), { stroke: "var(--faint)", "stroke-width": 1.5, "stroke-dasharray": "2,3" }),
    old.length && line(smooth(along(old, time)), { stroke: "var(--faint)", "stroke-width": 1.5, "stroke-dasharray": "6,3" }),
    line(smooth(along(shown, time)), { stroke: color, "stroke-width": 2 }),
    group("dot", { fill: "var(--paper)", stroke: color, "stroke-width": 1.5 }, along(shown, time).map((at) => dot(symbol, 3, at))),
    measured.length && group("dot", { fill: "none", stroke: "var(--ink)", "stroke-width": 2 }, measured.map((m) => dot("cross", 5, [scales.x.apply(m.batch), scales.y.apply(m.value)]))),
    limit && line(straight([[scales.x.apply(ends[0]), scales.y.apply(limit)], [scales.x.apply(ends[1]), scales.y.apply(limit)]]), { stroke: "var(--alarm)", "stroke-dasharray": "5,3" }, "rule"),
  ]);
  return drawn(frame, scales, shown, [x, time], {
    curves: true, chosen,
    text: (r) => `${x} ${plain(r[x])}: ${name} ${si(r[time], "s")}` +
      (r[low] !== undefined ? `\n90 % interval ${si(r[low], "s")} to ${si(r[high], "s")}\nfloor ${si(r[floor], "s")}` : ""),
  });
}

// point marks the chosen batch or rate on a curve.
export function point(figure, key, x, at, value) {
  const [, , color, symbol] = TIMES.find(([k]) => k === key), known = figure.points.find((r) => String(r[x]) === String(at))?.[`${key}_s`] ?? value;
  marked(figure, known > 0 && at && figure.points.length ? [{ x: Number(at), y: known, path: symbol === "square" ? SQUARE : ROUND, look: { fill: color, stroke: "var(--ink)" } }] : []);
}

const priceOf = (priced) => (priced ? "usd_mtok" : "tok_s_gpu");
// usable are the points that a chart of cost over speed can show.
export const usable = (list, priced) => list.filter((r) => r.tpot_s > 0 && r[priceOf(priced)] > 0).map((r) => ({ ...r, user: 1 / r.tpot_s }));

// frontier are the points that no other betters in speed for a user and in cost, the fastest first.
export function frontier(points, priced) {
  const y = priceOf(priced), front = [];
  for (const p of [...points].sort((a, b) => b.user - a.user)) if (!front.length || (priced ? p[y] < front.at(-1)[y] : p[y] > front.at(-1)[y])) front.push(p);
  return front;
}

// crowd draws a dot for each point, all of them as one path: a thousand elements would take longer than all the rest.
function crowd(places) {
  const d = places.map((p) => `M${p.map((v) => v.toFixed(1)).join(",")}h0`).join("");
  return node("path", { class: "crowd", d, stroke: "var(--faint)", "stroke-width": 5, "stroke-linecap": "round", "stroke-opacity": 0.55, fill: "none" });
}

// OUTLINES are marks of measured times, drawn from their middle.
const OUTLINES = { square: "m-3,-3h6v6h-6z", circle: "m-3,0a3,3,0,1,1,6,0a3,3,0,1,1,-6,0z", triangle: "m0,-3.6l3.4,5.6h-6.8z" };

// outlined draws a mark for each point, all of a shape as one path.
function outlined(points, { x, y }, shape, look) {
  return node("path", { class: "crowd", d: points.map((p) => `M${x.apply(p.value).toFixed(1)},${y.apply(p.predicted).toFixed(1)}${OUTLINES[shape]}`).join(""), fill: "none", ...look });
}

// pareto draws cost over speed of cards and splits; what nothing betters is joined.
export function pareto({ rows, pinned, priced, width, height, chosen }) {
  const y = priceOf(priced);
  const points = usable(rows, priced), front = frontier(points, priced), old = frontier(usable(pinned, priced), priced), on = new Set(front);
  const xs = span([...points, ...old].map((p) => p.user), 1.4, width < 500 ? 5 : 3), ys = span([...points, ...old].map((p) => p[y]));
  const name = (p) => `${p.gpus} × ${p.gpu}`, short = (p) => name(p).replace(/-\d+gb$/, "");
  const over = across(xs, "tokens a second for each user", plain, width), upward = up(ys, priced ? "$ per million generated tokens" : "tokens a second per GPU", plain, height), scales = scaled(width, height, over, upward);
  const xy = (p) => [scales.x.apply(p.user), scales.y.apply(p[y])], at = (p) => ({ x: xy(p)[0], y: xy(p)[1], r: 5 });
  const steps = front.flatMap((p, i) => (i ? [{ user: front[i - 1].user, [y]: p[y] }, p] : [p]));
  const labels = [front[0], front.at(-1), ...front].filter((p, i, all) => p && all.findIndex((q) => short(q) === short(p)) === i).map((p) => ({ ...at(p), text: short(p), around: TO_RIGHT }));
  const frame = framed(width, height, over, upward, scales, [
    crowd(points.filter((p) => !on.has(p)).map(xy)),
    old.length && line(stepped(old.map(xy)), { stroke: "var(--faint)", "stroke-width": 1.5, "stroke-dasharray": "6,3" }),
    line(stepped(front.map(xy)), { stroke: "var(--series-0)", "stroke-width": 1.5 }),
    group("dot", { fill: "var(--series-0)", stroke: "var(--paper)", "stroke-width": 1.5 }, front.map((p) => dot("square", 4.5, xy(p)))),
    write(labels, front.map(at), corners(steps.map(at)), width, height),
  ]);
  return drawn(frame, scales, points, ["user", y], {
    chosen,
    text: (p) => `${name(p)}, TP ${p.tp}, batch ${p.batch}\n${plain(p.user)} tok/s a user, TTFT ${si(p.ttft_s, "s")}\n${p.usd_mtok ? `$${Number(p.usd_mtok.toPrecision(3))} per million, ` : ""}${plain(p.tok_s_gpu)} tok/s per GPU\nclick to adopt`,
  });
}

// star marks the deployment that is shown, and that of A.
export function star(figure, current, old, priced) {
  const y = priceOf(priced), sign = (d, look) => (d?.[y] > 0 ? [{ x: d.user, y: d[y], path: STAR, look: { stroke: "var(--ink)", ...look } }] : []);
  marked(figure, [...sign(old, { fill: "var(--paper)" }), ...sign(current, { fill: "var(--series-1)" })]);
}

// METRICS are the measured times with their colours and shapes.
export const METRICS = [["ttft_s", "TTFT", "var(--series-0)", "square", "□"], ["tpot_s", "TPOT", "var(--series-1)", "circle", "○"], ["ttlt_s", "TTLT", "var(--series-2)", "triangle", "△"]];

// accuracy draws predicted over measured times.
export function accuracy({ points, pinned, own, width, height }) {
  const all = [...points, ...pinned, ...own];
  const dom = span(all.flatMap((p) => [p.value, p.predicted]));
  const x = across(dom, "measured", (v) => si(v, "s"), width), y = up(dom, "predicted", (v) => si(v, "s"), height), scales = scaled(width, height, x, y);
  const frame = framed(width, height, x, y, scales, [
    line(straight(dom.map((v) => [scales.x.apply(v), scales.y.apply(v)])), { stroke: "var(--faint)", "stroke-width": 1.5 }),
    ...METRICS.map(([key, , , shape]) => outlined(pinned.filter((p) => p.metric === key), scales, shape, { stroke: "var(--faint)", "stroke-dasharray": "2,2" })),
    ...METRICS.map(([key, , color, shape]) => outlined(points.filter((p) => p.metric === key), scales, shape, { stroke: color, "stroke-width": 1.5 })),
    own.length && group("dot", { fill: "none", stroke: "var(--alarm)", "stroke-width": 2.5 }, own.map((p) => dot("cross", 6, [scales.x.apply(p.value), scales.y.apply(p.predicted)]))),
  ]);
  return drawn(frame, scales, all, ["value", "predicted"], {
    text: (p) => `${p.model}, batch ${p.batch}, ${p.prompt}+${p.gen}, TP ${p.tp}\n${p.metric.replace("_s", "").toUpperCase()} ${si(p.value, "s")} measured, ${si(p.predicted, "s")} predicted\n${(100 * p.error).toFixed(1)} %${p.fitted ? ", a constant was fitted on it" : ""}`,
  });
}
