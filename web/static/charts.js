// The charts of the page, drawn by Observable Plot. Bounds have a colour and a shape each,
// so that they are told apart without colour.
import * as P from "./libraries.js";

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
// decades are ticks of a logarithmic axis: powers of ten, with 2 and 5 where there are few.
function decades([low, high]) {
  const all = [], wide = Math.log10(high / low) > 3;
  for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++) {
    for (const m of wide ? [1] : [1, 2, 5]) { const v = m * 10 ** e; if (v >= low * 0.999 && v <= high * 1.001) all.push(v); }
  }
  const step = Math.ceil(all.length / 9);
  return wide ? all.filter((_, i) => i % step === 0) : all;
}
function span(values, below = 1.4, above = 1.4) {
  const v = values.filter((x) => x > 0 && Number.isFinite(x));
  return v.length ? [Math.min(...v) / below, Math.max(...v) * above] : [1, 10];
}
const base = (width, height, more) => ({
  width, height, marginLeft: 62, marginRight: 14, marginTop: 26, marginBottom: 36,
  style: { background: "transparent", color: "var(--ink)", fontSize: "12px", fontFamily: "inherit", overflow: "visible" }, ...more,
});
const log = (domain, label, format) => ({ type: "log", domain, ticks: decades(domain), tickFormat: format, label, labelArrow: "none", grid: true });
const tip = { fill: "var(--paper)", stroke: "var(--faint)", fontSize: 12, lineHeight: 1.25 };

// watched reports what the pointer is over, and what is chosen by a click.
function watched(figure, seen, chosen) {
  let at = null;
  figure.addEventListener("input", () => { at = figure.value ?? null; seen?.(at); });
  figure.addEventListener("pointerleave", () => { at = null; seen?.(null); });
  figure.addEventListener("click", () => { if (at) chosen?.(at); });
  if (chosen) figure.style.cursor = "pointer";
  return figure;
}

export const opKey = (o) => `${o.layer}\u0000${o.name}`;

// labelled are the operators with room for their names: the chosen one, then the longest.
function labelled(dots, selected, xs, ys, width, height) {
  const across = (width - 76) / Math.log(xs[1] / xs[0]), up = (height - 62) / Math.log(ys[1] / ys[0]), taken = [];
  for (const o of [...dots].sort((a, b) => (b.key === selected) - (a.key === selected) || b.share - a.share)) {
    const x = Math.log(o.x) * across, y = Math.log(o.y) * up, w = o.name.length * 3.6 + 6;
    if (o.share < 0.01 && o.key !== selected) break;
    if (!taken.some((t) => Math.abs(t.x - x) < t.w + w && Math.abs(t.y - y) < 16)) taken.push({ o, x, y, w });
  }
  return taken.map((t) => t.o);
}

// roofline draws the operators of a phase under the roofs of the GPU.
export function roofline({ ops, words, peak, bandwidth, selected, pinned, width, height, seen, chosen }) {
  const point = (o, i) => ({ ...o, key: opKey(o), x: o.intensity, y: o.flops / o.expected_s, words: words?.[i] });
  const shown = (list) => list.map(point).filter((o) => o.x > 0 && o.y > 0);
  const dots = shown(ops), old = pinned ? shown(pinned) : [], all = [...dots, ...old];
  const ridge = peak / bandwidth;
  const xs = span([...all.map((o) => o.x), ridge], 2, 4), ys = span([...all.map((o) => o.y), peak], 2.5, 2.2);
  const low = Math.max(xs[0], ys[0] / bandwidth);
  const roof = [{ x: low, y: low * bandwidth }, { x: ridge, y: peak }, { x: xs[1], y: peak }];
  const figure = P.plot(base(width, height, {
    x: log(xs, "arithmetic intensity (FLOP/B)", (v) => si(v)), y: log(ys, "FLOP/s of the operator", (v) => si(v)),
    symbol: { domain: BOUNDS, range: BOUNDS.map((b) => SYMBOLS[b]) }, r: { type: "sqrt", domain: [0, 1], range: [3, 22] },
    marks: [
      P.line(roof, { x: "x", y: "y", stroke: "var(--ink)", strokeWidth: 1.5, clip: true }),
      P.text([{ x: xs[1], y: peak }], { x: "x", y: "y", text: () => `${si(peak, "FLOP/s")}`, textAnchor: "end", dy: -7, fill: "var(--ink)" }),
      P.text([{ x: low, y: low * bandwidth }], { x: "x", y: "y", text: () => si(bandwidth, "B/s"), textAnchor: "start", dx: 4, dy: -14, fill: "var(--ink)", stroke: "var(--paper)", strokeWidth: 3 }),
      P.dot(old, { x: "x", y: "y", r: "share", symbol: "bound", stroke: "var(--faint)", strokeDasharray: "2,2" }),
      P.dot(dots, { x: "x", y: "y", r: "share", symbol: "bound", fill: (o) => `var(--${o.bound})`, stroke: "var(--ink)", strokeWidth: (o) => (o.key === selected ? 3 : 0.8), fillOpacity: 0.85 }),
      P.text(labelled(dots, selected, xs, ys, width, height), { x: "x", y: "y", text: "name", dy: -15, fill: "var(--ink)", stroke: "var(--paper)", strokeWidth: 3 }),
      P.tip(dots, P.pointer({
        x: "x", y: "y", ...tip,
        title: (o) => `${o.name}${o.layer ? ` (${o.layer})` : ""}\n${o.words?.expected ?? ""}, ${o.words?.share ?? ""} of the phase\n${o.bound}-bound, floor ${o.words?.floor ?? ""}\n${o.words?.intensity ?? ""} FLOP/B`,
      })),
    ],
  }));
  return watched(figure, (o) => seen(o?.key ?? null), (o) => chosen(o.key));
}

const TIMES = [["ttft", "TTFT", "var(--series-0)", "square"], ["tpot", "TPOT", "var(--series-1)", "circle"]];

// curve draws a time over the batch with its interval, its floor and what was measured.
export function curve({ rows, key, at, measured, pinned, limit, xlabel = "batch (sequences of a replica)", x = "batch", width, height, chosen }) {
  const [, name, color, symbol] = TIMES.find(([k]) => k === key);
  const of = (list) => (list ?? []).filter((r) => r[`${key}_s`] > 0);
  const shown = of(rows), old = of(pinned), here = shown.filter((r) => String(r[x]) === String(at));
  const dom = span([...shown, ...old].flatMap((r) => [r[`${key}_low_s`] ?? r[`${key}_s`], r[`${key}_high_s`] ?? r[`${key}_s`], r[`${key}_floor_s`]]).concat(measured.map((m) => m.value), limit ? [limit] : []), 1.15, 1.15);
  const along = [...shown, ...old].map((r) => r[x]), wide = along.length ? [Math.min(...along), Math.max(...along)] : [1, 2];
  const figure = P.plot(base(width, height, {
    x: { type: "log", base: 2, domain: wide[0] === wide[1] ? [wide[0], wide[0] * 2] : wide, label: xlabel, labelArrow: "none", grid: true, ticks: x === "batch" ? shown.map((r) => r[x]).filter((_, i, all) => all.length < 8 || width > 480 || i % 2 === 0) : 6, tickFormat: (v) => si(v) },
    y: log(dom, name, (v) => si(v, "s")),
    marks: [
      shown[0]?.[`${key}_low_s`] !== undefined ? P.areaY(shown, { x, y1: `${key}_low_s`, y2: `${key}_high_s`, fill: color, fillOpacity: 0.18 }) : null,
      shown[0]?.[`${key}_floor_s`] !== undefined ? P.line(shown, { x, y: `${key}_floor_s`, stroke: "var(--faint)", strokeDasharray: "2,3" }) : null,
      P.line(old, { x, y: `${key}_s`, stroke: "var(--faint)", strokeWidth: 1.5, strokeDasharray: "6,3" }),
      P.line(shown, { x, y: `${key}_s`, stroke: color, strokeWidth: 2 }),
      P.dot(shown, { x, y: `${key}_s`, symbol, fill: "var(--paper)", stroke: color, r: 3 }),
      P.dot(here, { x, y: `${key}_s`, symbol, fill: color, stroke: "var(--ink)", r: 6 }),
      P.dot(measured, { x: "batch", y: "value", symbol: "cross", stroke: "var(--ink)", strokeWidth: 2, r: 5 }),
      limit ? P.ruleY([limit], { stroke: "var(--alarm)", strokeDasharray: "5,3" }) : null,
      P.tip(shown, P.pointerX({
        x, y: `${key}_s`, ...tip, title: (r) => `${x} ${si(r[x])}: ${name} ${si(r[`${key}_s`], "s")}` +
          (r[`${key}_low_s`] !== undefined ? `\n90 % interval ${si(r[`${key}_low_s`], "s")} to ${si(r[`${key}_high_s`], "s")}\nfloor ${si(r[`${key}_floor_s`], "s")}${r.fits === false ? "\ndoes not fit" : ""}` : ""),
      })),
    ],
  }));
  return watched(figure, null, chosen);
}

// pareto draws cost over speed of cards and splits; what nothing betters is joined.
export function pareto({ rows, current, width, height, chosen, priced }) {
  const y = priced ? "usd_mtok" : "tok_s_gpu";
  const better = (a, b) => (priced ? a <= b : a >= b);
  const points = rows.filter((r) => r.fits && !r.reason && r.tpot_s > 0 && r[y] > 0).map((r) => ({ ...r, user: 1 / r.tpot_s }));
  const front = [];
  let best = null;
  for (const p of [...points].sort((a, b) => b.user - a.user)) if (best === null || (better(p[y], best) && p[y] !== best)) { front.push(p); best = p[y]; }
  const on = new Set(front);
  const xs = span(points.map((p) => p.user)), ys = span(points.map((p) => p[y]));
  const name = (p) => `${p.gpus} × ${p.gpu}`;
  const labels = [], near = (p, q) => Math.abs(Math.log(q.user / p.user)) / Math.log(xs[1] / xs[0]) < 150 / width && Math.abs(Math.log(q[y] / p[y])) / Math.log(ys[1] / ys[0]) < 44 / height;
  for (const p of front) if (!labels.some((q) => near(p, q) || (q.gpu === p.gpu && q.gpus === p.gpus))) labels.push(p);
  const figure = P.plot(base(width, height, {
    x: log(xs, "tokens a second for each user", (v) => si(v)), y: log(ys, priced ? "$ per million generated tokens" : "tokens a second per GPU", (v) => si(v)),
    marks: [
      P.dot(points.filter((p) => !on.has(p)), { x: "user", y, r: 2.5, fill: "var(--faint)", fillOpacity: 0.55 }),
      P.line(front, { x: "user", y, stroke: "var(--series-0)", curve: priced ? "step-before" : "step-before", strokeWidth: 1.5 }),
      P.dot(front, { x: "user", y, r: 4.5, symbol: "square", fill: "var(--series-0)", stroke: "var(--paper)" }),
      P.text(labels, { x: "user", y, text: name, dy: priced ? 13 : -11, dx: -6, fill: "var(--ink)", stroke: "var(--paper)", strokeWidth: 3, textAnchor: "end" }),
      P.dot(current ? [current] : [], { x: "user", y, r: 8, symbol: "star", fill: "var(--series-1)", stroke: "var(--ink)" }),
      P.tip(points, P.pointer({
        x: "user", y, ...tip,
        title: (p) => `${name(p)}, TP ${p.tp}, batch ${p.batch}\n${si(p.user)} tok/s a user, TTFT ${si(p.ttft_s, "s")}\n${p.usd_mtok ? `$${Number(p.usd_mtok.toPrecision(3))} per million, ` : ""}${si(p.tok_s_gpu)} tok/s per GPU\nclick to adopt`,
      })),
    ],
  }));
  return watched(figure, null, chosen);
}

// accuracy draws predicted over measured times.
export function accuracy({ points, own, width, height }) {
  const all = [...points, ...own];
  const dom = span(all.flatMap((p) => [p.value, p.predicted]));
  const kinds = ["ttft_s", "tpot_s", "ttlt_s"];
  return P.plot(base(width, height, {
    x: log(dom, "measured", (v) => si(v, "s")), y: log(dom, "predicted", (v) => si(v, "s")),
    symbol: { domain: kinds, range: ["square", "circle", "triangle"] },
    marks: [
      P.line([{ v: dom[0] }, { v: dom[1] }], { x: "v", y: "v", stroke: "var(--faint)" }),
      P.dot(points, { x: "value", y: "predicted", symbol: "metric", stroke: (p) => (p.metric === "tpot_s" ? "var(--series-1)" : "var(--series-0)"), r: 3 }),
      P.dot(own, { x: "value", y: "predicted", symbol: "cross", stroke: "var(--alarm)", strokeWidth: 2.5, r: 6 }),
      P.tip(all, P.pointer({
        x: "value", y: "predicted", ...tip,
        title: (p) => `${p.model}, batch ${p.batch}, ${p.prompt}+${p.gen}, TP ${p.tp}\n${p.metric.replace("_s", "").toUpperCase()} ${si(p.value, "s")} measured, ${si(p.predicted, "s")} predicted\n${(100 * p.error).toFixed(1)} %${p.fitted ? ", a constant was fitted on it" : ""}`,
      })),
    ],
  }));
}
