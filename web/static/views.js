// The views of the state.
import { h, htm, useEffect, useLayoutEffect, useRef, useState } from "./libraries.js";
import * as charts from "./charts.js";
import { ModelGraph } from "./graph.js";
import { command } from "./state.js";
import { kept } from "./kept.js";
import { drawing, picture, save } from "./save.js";
import { EMPTY } from "./figures.js";
import { watch } from "./order.js";
const html = htm.bind(h);

// Panel is a view with its title, and buttons that save its drawing.
export function Panel({ id, title, about, wide, drawn = true, tools, children }) {
  const box = useRef();
  const svg = () => box.current.querySelector("svg.export, figure svg, svg");
  useLayoutEffect(() => watch(box.current), []);
  return html`<section id=${id} class=${wide ? "wide" : ""} aria-labelledby=${`${id}-title`} ref=${box}>
    <div class="head"><h2 id=${`${id}-title`}>${title}</h2>${tools}
      ${drawn && html`<span class="save"><button type="button" aria-label=${`${title}: save as SVG`} onClick=${() => svg() && save(`llmprof-${id}.svg`, drawing(svg()), "image/svg+xml")}>SVG</button><button type="button" aria-label=${`${title}: save as PNG`} onClick=${async () => svg() && save(`llmprof-${id}.png`, await picture(svg()))}>PNG</button></span>`}
    </div>
    ${about && html`<p class="about">${about}</p>`}
    ${children}
  </section>`;
}

// Chart draws again when what it shows or its width changes, once it is ready. Sign marks what is chosen in it, which
// alone changes where the others stay.
export function Chart({ label, height, draw, on, ready = true, sign, signs = [] }) {
  const box = useRef(), figure = useRef(), [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const size = new ResizeObserver(([e]) => setWidth(Math.floor(e.contentRect.width)));
    size.observe(box.current);
    return () => size.disconnect();
  }, []);
  useLayoutEffect(() => {
    if (width < 50 || !ready) return;
    const f = (figure.current = draw(width, height));
    f.setAttribute("role", "img");
    f.setAttribute("aria-label", label);
    for (const g of f.querySelectorAll("g[aria-label]")) { g.dataset.mark = g.getAttribute("aria-label"); g.removeAttribute("aria-label"); }
    box.current.replaceChildren(f);
  }, [width, ready, ...on]);
  useLayoutEffect(() => { if (figure.current) sign?.(figure.current); }, [width, ready, ...on, ...signs]);
  return html`<div class="chart" ref=${box} style=${{ minHeight: `${height}px` }}></div>`;
}

const ratio = (now, before) => {
  if (!(now > 0) || !(before > 0)) return "";
  const r = now / before;
  return r >= 0.9995 && r < 1.0005 ? "same as A" : `${r.toPrecision(3)} × A`;
};
const legend = html`<p class="legend">${charts.BOUNDS.map((b) => html`<span key=${b}><i class=${`mark ${b}`} aria-hidden="true"></i>${b}-bound (${charts.letterOf(b)})</span>`)}</p>`;

// met compares a figure with its target: { ok, text } or null where there is no target.
function met(key, targets, doc, words) {
  const limit = Number(targets[key]);
  if (!limit) return null;
  const line = words.headlines.find((x) => x.key === key), under = doc.load;
  let v = line?.high, want = limit;
  if (key === "ttft" || key === "tpot") { want = limit / 1000; if (under) v = under[`${key}_s`]; }
  if (key === "tps" && under) v = under.generated_tok_s;
  if (v === undefined || !(v > 0)) return { ok: false, text: "no figure" };
  const ok = key === "tps" ? v >= want : v <= want;
  return { ok, text: `${ok ? "meets" : "misses"} ${limit} ${{ ttft: "ms", tpot: "ms", tps: "tok/s", usd: "$/M" }[key]}` };
}

const TILES = [["ttft", "TTFT"], ["tpot", "TPOT"], ["ttlt", "TTLT"], ["tps", "Throughput"], ["usd", "Cost"], ["j", "Energy"]]; // in places that stay where one has no figure

function Tile({ name, now, was, m }) {
  return html`<div class="tile">
    <dt>${name}${m && html` <span class=${m.ok ? "ok" : "no"} title=${m.text}>${m.ok ? "✓" : "✗"} ${m.text}</span>`}</dt>
    <dd class="value">${now?.value ?? "–"}</dd>
    <dd class="interval">${now?.interval ? `${now.interval} (90 %)` : "\u00a0"}</dd>
    <dd class="about">${now?.note || "\u00a0"}</dd>
    ${was && html`<dd class="diff">A ${was.value}; ${(now && ratio(now.si, was.si)) || "–"}</dd>`}
  </div>`;
}

const lineOf = (words, key) => words?.headlines.find((x) => x.key === key);

export const Verdict = kept(function Verdict({ targets, error, doc, words, oldWords, flags }) {
  const now = error ? null : words, held = doc && now ? ["ttft", "tpot", "tps", "usd"].map((k) => [k, met(k, targets, doc, now)]).filter(([, m]) => m) : [];
  const missed = held.filter(([, m]) => !m.ok), possible = doc?.verdict.possible, notes = doc?.warnings ?? [];
  return html`<section id="verdict" class="wide" aria-labelledby="verdict-title">
    <h2 id="verdict-title" class="sr">Verdict</h2>
    <p class=${`verdict ${error || (doc && !possible) ? "no" : ""}`} role="status" aria-live="polite">
      ${error ? html`<strong>Cannot be</strong> <span>${error}</span>` : !doc || !words ? "The estimator is loading." : html`
        <strong>${possible ? "Fits" : "Does not run"}${held.length > 0 && possible && `, ${missed.length ? `misses ${missed.length} of ${held.length} targets` : `meets ${held.length === 1 ? "the target" : `all ${held.length} targets`}`}`}</strong>
        ${" "}<span>${doc.model.name} on ${doc.gpu.count} × ${doc.gpu.name}, ${words.fits.replace(/^(yes|no): /, "")}.</span>`}
    </p>
    ${now?.load?.length > 0 && html`<h3>Under load</h3><dl class="tiles load">${now.load.map(([name, text]) => html`<div key=${name} class="tile"><dt>${name}</dt><dd>${text}</dd></div>`)}</dl><h3>One request alone</h3>`}
    <dl class="tiles">
      ${TILES.map(([key, name]) => html`<${Tile} key=${key} name=${name} now=${lineOf(now, key)} was=${lineOf(oldWords, key)} m=${held.find(([k]) => k === key)?.[1]} />`)}
    </dl>
    <p class="about basis" title=${words?.basis ?? ""}>${words ? `Rests on: ${words.basis}.` : "\u00a0"}</p>
    <details class="warnings"><summary>${notes.length} note${notes.length === 1 ? "" : "s"}</summary><ul>${notes.map((w) => html`<li key=${w}>${w}</li>`)}</ul></details>
    <p class="command" tabindex="0" role="group" aria-label="Command line"><code>${command(flags)}</code></p>
  </section>`;
}, null, "targets", "error", "doc", "words", "oldWords", "flags");

export const Compare = kept(function Compare({ pin, flags, old, doc }) {
  if (!pin) return null;
  const names = [...new Set([...Object.keys(pin), ...Object.keys(flags)])].filter((n) => pin[n] !== flags[n]);
  const ops = (d) => new Map((d?.decode?.ops ?? []).map((o) => [charts.opKey(o), o]));
  const a = ops(old), b = ops(doc);
  const moved = [...new Set([...a.keys(), ...b.keys()])].map((k) => ({ k, name: (b.get(k) ?? a.get(k)).name, by: (b.get(k)?.expected_s ?? 0) - (a.get(k)?.expected_s ?? 0) })).sort((x, y) => Math.abs(y.by) - Math.abs(x.by)).slice(0, 6);
  return html`<${Panel} id="compare" title="A and B" wide drawn=${false}>
    <div class="scroll"><table><thead><tr><th scope="col">Setting</th><th scope="col">A (pinned)</th><th scope="col">B (now)</th></tr></thead>
      <tbody>${names.length ? names.map((n) => html`<tr key=${n}><th scope="row">--${n}</th><td>${pin[n] ?? "default"}</td><td>${flags[n] ?? "default"}</td></tr>`) : html`<tr><td colspan="3">Change a setting: every view then shows B beside A.</td></tr>`}</tbody></table></div>
    ${moved.some((m) => m.by) && html`<p class="about">A decode step: ${moved.filter((m) => m.by).map((m) => `${m.name} ${m.by > 0 ? "+" : "−"}${charts.si(Math.abs(m.by), "s")}`).join(", ")}.</p>`}
  <//>`;
}, null, "pin", "flags", "old", "doc");

const PARTS = [["weights_bytes", "weights"], ["kv_bytes", "KV cache"], ["state_bytes", "state"], ["activations_bytes", "activations"], ["reserve_bytes", "reserve"]];

function Bar({ memory, y, name, most }) {
  let x = 0;
  return PARTS.map(([key], i) => {
    const w = (100 * memory[key]) / most, at = x;
    x += w;
    return w > 0 && html`<rect key=${key} x=${`${at}%`} y=${y} width=${`${w}%`} height="22" fill=${`url(#part-${i})`} stroke="var(--paper)"><title>${name} ${PARTS[i][1]}</title></rect>`;
  });
}

const MARKS = ["", "M0,6L6,0", "M3,0V6", "M0,0L6,6", "M0,3H6"];

export const Memory = kept(function Memory({ doc, words, old }) {
  const m = doc?.memory, o = old?.memory, most = m ? Math.max(m.total_bytes, m.capacity_bytes, o?.total_bytes ?? 0, o?.capacity_bytes ?? 0) : 1;
  const text = (name) => words?.memory.find(([n]) => n === name)?.[1] ?? "";
  return html`<${Panel} id="memory" title="Memory of one GPU" wide>
    <svg class="export memory" width="100%" height=${o ? 66 : 38} role="img" aria-label=${m ? `Memory: ${text("total")} of ${text("usable")} usable, ${text("capacity")} in all` : "Memory"}>
      <defs>${PARTS.map((_, i) => html`<pattern key=${i} id=${`part-${i}`} width="6" height="6" patternUnits="userSpaceOnUse"><rect width="6" height="6" fill=${`var(--stack-${i})`} /><path d=${MARKS[i]} stroke="var(--paper)" stroke-width="0.8" /></pattern>`)}</defs>
      ${m && html`<${Bar} memory=${m} y="8" name="" most=${most} />
        <rect x="0" y="8" width=${`${(100 * m.capacity_bytes) / most}%`} height="22" fill="none" stroke="var(--ink)" />
        <line x1=${`${(100 * m.usable_bytes) / most}%`} x2=${`${(100 * m.usable_bytes) / most}%`} y1="2" y2="36" stroke="var(--alarm)" stroke-width="2" />`}
      ${m && o && html`<g opacity="0.75"><${Bar} memory=${o} y="40" name="A:" most=${most} /><rect x="0" y="40" width=${`${(100 * o.capacity_bytes) / most}%`} height="22" fill="none" stroke="var(--faint)" stroke-dasharray="5,3" /></g>`}
    </svg>
    <p class="legend columns">${PARTS.map(([key, name], i) => html`<span key=${key} class=${m && !m[key] ? "none" : ""}><svg width="14" height="14" aria-hidden="true"><rect width="14" height="14" fill=${`url(#part-${i})`} /></svg>${name} <b>${text(name)}</b>${o ? html` <small>A ${charts.si(o[key], "B")}</small>` : ""}</span>`)}
      <span><i class="limit" aria-hidden="true"></i>usable <b>${text("usable")}</b> of ${text("capacity")}</span>
      <span>max batch <b>${m?.max_batch ?? ""}</b>${m?.max_tokens ? html`, ${m.max_tokens} tokens` : ""}</span></p>
  <//>`;
}, "memory", "doc", "words", "old");

const PhaseSwitch = ({ phase, set, id }) => html`<span class="switch" role="group" aria-label="Phase">${["prefill", "decode"].map((p) => html`<button key=${p} type="button" id=${`${id}-${p}`} aria-pressed=${phase === p} class=${phase === p ? "on" : ""} onClick=${() => set((s) => { s.view.phase = p; })}>${p}</button>`)}</span>`;

const phaseOf = (doc, phase) => doc?.[phase] ?? doc?.prefill, wordsOf = (words, phase) => (phase === "decode" && words?.decode.length ? words?.decode : words?.prefill);

export const Roofline = kept(function Roofline({ doc, words, old, phase, set, op, setOp, setHover }) {
  const p = phaseOf(doc, phase), q = phaseOf(old, phase);
  const hidden = p ? p.ops.filter((o) => !(o.intensity > 0 && o.flops > 0)).length : 0;
  return html`<${Panel} id="roofline" title="Roofline" tools=${html`<${PhaseSwitch} id="roof" phase=${phase} set=${set} />`}
    about=${p ? `${p.ops.length - hidden} operators with products; size is the share of the phase's time. Select one to find it in the table and the graph.` : ""}>
    <${Chart} height=${380} label="Roofline: FLOP/s of operators over their arithmetic intensity" ready=${!!doc} on=${[doc, old, phase]} signs=${[op]} sign=${(f) => charts.select(f, op)}
      draw=${(width, height) => charts.roofline({ ops: p?.ops ?? [], words: wordsOf(words, phase), peak: words?.peak_flop_per_s ?? 1e15, bandwidth: words?.bandwidth_bytes_per_s ?? 1e12, pinned: q?.ops, width, height, seen: setHover, chosen: (k) => setOp((now) => (k === now ? null : k)) })} />
    ${legend}
  <//>`;
}, "roofline", "doc", "words", "old", "phase", "op");

const COLUMNS = [
  ["name", "Operator", "text"], ["layer", "Layer", "text"], ["bound", "Bound", "text"], ["expected_s", "Time", "expected"], ["share", "Share", "share"],
  ["floor_s", "Floor", "floor"], ["flops", "FLOPs", "flops"], ["bytes", "Bytes", "bytes"], ["intensity", "FLOP/B", "intensity"],
];

export const Operators = kept(function Operators({ doc, words, old, phase, set, op, setOp, hover, setHover }) {
  const [sort, setSort] = useState(["", 1]);
  const body = useRef();
  const p = phaseOf(doc, phase), list = wordsOf(words, phase);
  const before = new Map((phaseOf(old, phase)?.ops ?? []).map((o) => [charts.opKey(o), o]));
  const rows = (p?.ops ?? []).map((o, i) => ({ ...o, key: charts.opKey(o), words: list?.[i] ?? {}, bytes: o.weight_bytes + o.kv_bytes + o.state_bytes + o.act_bytes }));
  if (sort[0]) rows.sort((a, b) => sort[1] * (typeof a[sort[0]] === "string" ? a[sort[0]].localeCompare(b[sort[0]]) : (b[sort[0]] ?? -1) - (a[sort[0]] ?? -1)));
  useEffect(() => {
    const row = op && body.current?.querySelector(`[aria-selected="true"]`), box = body.current?.closest(".scroll");
    if (row && box) box.scrollTop = Math.max(row.offsetTop - box.clientHeight / 2, 0);
  }, [op]);
  return html`<${Panel} id="operators" title="Operators" drawn=${false} tools=${html`<${PhaseSwitch} id="ops" phase=${phase} set=${set} />`}>
    <div class="scroll tall" tabindex="0" role="region" aria-label="Table of operators"><table class="ops fixed">
      <thead><tr>${COLUMNS.map(([key, name, kind]) => html`<th key=${key} scope="col" class=${kind === "text" ? "" : "n"} aria-sort=${sort[0] === key ? (sort[1] > 0 ? "descending" : "ascending") : "none"}>
        <button type="button" onClick=${() => setSort((s) => (s[0] === key ? (s[1] > 0 ? [key, -1] : ["", 1]) : [key, 1]))}>${name}</button></th>`)}${old && html`<th scope="col" class="n">× A</th>`}</tr></thead>
      <tbody ref=${body}>${rows.map((o, i) => html`<tr key=${i} tabindex="0" aria-selected=${op === o.key} class=${hover === o.key ? "hover" : ""} onClick=${() => setOp(op === o.key ? null : o.key)}
          onKeyDown=${(e) => { if (e.key === "Enter" || e.key === " ") { e.preventDefault(); setOp(op === o.key ? null : o.key); } }} onPointerEnter=${() => setHover(o.key)} onPointerLeave=${() => setHover(null)}>
        <th scope="row" title=${o.name}>${o.name}${o.in && html`<small> in ${o.in}</small>`}</th><td title=${o.layer}>${o.layer}${o.layers > 1 ? html` <small>× ${o.layers}</small>` : ""}</td>
        <td><i class=${`mark ${o.bound}`} aria-hidden="true"></i> ${o.bound}</td>
        <td class="n">${o.words.expected}</td><td class="n share"><span class=${`fill ${o.bound}`} style=${{ width: `${Math.min(100 * o.share, 100)}%` }}></span><span class="over">${o.words.share}</span></td>
        <td class="n">${o.words.floor}</td><td class="n">${o.words.flops}</td><td class="n">${o.words.bytes}</td><td class="n">${o.words.intensity}</td>
        ${old && html`<td class="n">${before.has(o.key) && before.get(o.key).expected_s > 0 ? (o.expected_s / before.get(o.key).expected_s).toPrecision(3) : "new"}</td>`}</tr>`)}</tbody>
    </table></div>
  <//>`;
}, "operators", "doc", "words", "old", "phase", "op", "hover");

export const GraphView = kept(function GraphView({ graph, phase, set, op, setOp, doc, old }) {
  const p = phaseOf(doc, phase), name = op?.split("\u0000")[1] ?? null;
  const was = new Map((phaseOf(old, phase)?.ops ?? []).map((o) => [o.name, o.share]));
  const choose = (n) => { const o = p?.ops.find((x) => x.name === n); setOp(o && charts.opKey(o) !== op ? charts.opKey(o) : null); };
  return html`<${Panel} id="graph" title="Model" wide tools=${html`<${PhaseSwitch} id="graph" phase=${phase} set=${set} />`} about="One layer of each kind; bars are shares of the phase's time, on one GPU of each stage. Dashed boxes are collectives.">
    ${graph ? html`<${ModelGraph} doc=${graph} phase=${phase} selected=${name} onselect=${choose} was=${was} />` : html`<div class="graph empty"></div>`}
  <//>`;
}, "graph", "graph", "phase", "op", "doc", "old");

// observed are the measured points of the model, the card, the engine and the lengths.
function observed(accuracy, doc, key) {
  if (!accuracy || !doc) return [];
  const w = doc.workload;
  return accuracy.filter((o) => o.metric === `${key}_s` && o.load === "static" && o.model === doc.model.name && o.gpu === doc.gpu.key && o.engine.startsWith(doc.engine) && o.tp === doc.parallelism.tp &&
    o.prompt === w.prompt_len && (key === "ttft" || o.gen === w.gen_len || o.gen > 1) && (o.weights === w.scheme || o.weights === w.weights));
}

const limitOf = (targets, k) => (Number(targets[k]) || 0) / 1000;
const KEYS = ["ttft", "tpot"];

export const Latency = kept(function Latency({ curve, oldCurve, batch, load, set, targets, doc, accuracy, own }) {
  const at = load === "batch" ? batch : doc?.workload.batch, adopt = (r) => set((s) => { s.view.load = "batch"; s.flags.batch = String(r.batch); });
  const measured = (k) => [...observed(accuracy, doc, k), ...own.filter((o) => o.metric === `${k}_s` && o.model === doc?.model.name && o.prompt === doc?.workload.prompt_len && (k === "ttft" || o.gen === doc?.workload.gen_len))];
  const same = KEYS.map((k) => JSON.stringify(measured(k)));
  return html`<${Panel} id="latency" title="Latency over batch" about="Expected, with its 90 % interval; dotted: the floor; crosses: measured. Click a point to take its batch.">
      <div class="pair">${KEYS.map((k, i) => html`<${Chart} key=${k} height=${230} label=${`${k.toUpperCase()} over batch`} ready=${curve !== EMPTY} on=${[curve, oldCurve, same[i], targets[k]]} signs=${[at, doc]} sign=${(f) => charts.point(f, k, "batch", at, load === "batch" && doc?.[`${k}_s`]?.expected)}
        draw=${(width, height) => charts.curve({ rows: curve, key: k, measured: measured(k), pinned: oldCurve, limit: limitOf(targets, k), width, height, chosen: adopt })} />`)}</div>
    <//>`;
}, "latency", "curve", "oldCurve", "batch", "load", "targets", "doc", "accuracy", "own");

// overRate are the steady states, with the slow end of their intervals.
const overRate = (rates) => rates.filter((r) => r.load).map((r) => ({ rate: r.rate, ...r.load, ...(r.load.high && { ttft_slow_s: r.load.high.ttft_s, tpot_slow_s: r.load.high.tpot_s }) }));

export const Rates = kept(function Rates({ rates, oldRates, rate, set, targets, doc }) {
  const rows = overRate(rates), old = overRate(oldRates), adopt = (r) => set((s) => { s.view.load = "rate"; s.flags.rate = String(r.rate); }), why = rates.find((r) => r.error)?.error;
  return html`<${Panel} id="rates" title="Latency over rate" about=${why && !rows.length ? `No steady state: ${why}` : "Means of the steady state with Poisson arrivals, and the slow end of their interval, up to what the server takes at most. Click a point to take its rate."}>
      <div class="pair">${KEYS.map((k) => html`<${Chart} key=${k} height=${230} label=${`${k.toUpperCase()} over rate`} ready=${rates !== EMPTY} on=${[rates, oldRates, targets[k]]} signs=${[rate, doc]} sign=${(f) => charts.point(f, k, "rate", rate, doc?.load?.[`${k}_s`])}
        draw=${(width, height) => charts.curve({ rows, key: k, x: "rate", xlabel: "requests a second", measured: [], pinned: old, limit: limitOf(targets, k), width, height, chosen: adopt })} />`)}</div>
    <//>`;
}, "rates", "rates", "oldRates", "rate", "targets", "doc");

// shownOf is a deployment as a point of the chart of cost.
const shownOf = (doc) => (doc?.verdict.possible && doc.tpot_s ? { user: 1 / doc.tpot_s.expected, usd_mtok: doc.cost_usd?.per_million_generated_tokens, tok_s_gpu: doc.throughput_tok_s.per_gpu } : null);

export const Pareto = kept(function Pareto({ pareto, oldPareto, pin, doc, old, set }) {
  const priced = pareto.some((r) => r.usd_mtok > 0), same = pareto === oldPareto;
  const adopt = (r) => set((s) => {
    for (const n of ["pp", "ep", "dp", "price", "memory-utilization"]) delete s.flags[n];
    s.view.load = "batch";
    Object.assign(s.flags, { gpu: r.gpu, tp: r.tp > 1 ? String(r.tp) : "", batch: String(r.batch) });
  });
  return html`<${Panel} id="pareto" title="Cost over speed" about=${`${pareto.length} of ${pareto.of ?? 0} points are possible: cards with a price, TP 1 to 8, batch 1 to 1024. Squares: nothing is cheaper and faster. Star: the one shown. ${pin ? "Empty star and dashes: A. " : ""}Click a point to adopt it.`}>
    <${Chart} height=${380} label="Cost of a million tokens over tokens a second for each user" ready=${pareto !== EMPTY} on=${[pareto, oldPareto]} signs=${[doc, old]} sign=${(f) => charts.star(f, shownOf(doc), shownOf(old), priced)}
      draw=${(width, height) => charts.pareto({ rows: pareto, pinned: same ? [] : oldPareto, priced, width, height, chosen: adopt })} />
  <//>`;
}, "pareto", "pareto", "oldPareto", "pin", "doc", "old");

const middle = (list) => { const s = [...list].sort((a, b) => a - b); return s.length ? (s[(s.length - 1) >> 1] + s[s.length >> 1]) / 2 : NaN; };

const apart = (list) => list.filter((o) => !o.fitted);
const error = (list) => { const m = middle(apart(list).map((o) => Math.abs(o.error))); return Number.isNaN(m) ? "none to score" : `median |error| ${(100 * m).toFixed(1)} %`; };

// behind is what was measured of the engine and the card of a deployment.
function behind(accuracy, doc) {
  const mine = (accuracy ?? []).filter((o) => doc && o.engine.startsWith(doc.engine)), here = mine.filter((o) => o.gpu === doc.gpu.key);
  const text = !doc ? "" : here.length ? `${here.length} times of ${doc.engine} on this card were measured: ${error(here)}` : `No time of ${doc.engine} was measured on this card; ${mine.length} on others: ${error(mine)}`;
  return { points: here.length ? here : mine, any: here.length > 0, measured: doc?.calibration.source.startsWith("measured"), text };
}

const Badge = ({ of }) => of.text && html`<span class=${`badge ${of.measured || of.any ? "" : "no"}`}>${of.measured ? "constants measured on this card" : "constants are defaults of its generation"}</span>`;

export const Accuracy = kept(function Accuracy({ accuracy, doc, old, own, here: machine, openResult, measuring }) {
  const engine = doc?.engine, now = behind(accuracy, doc), was = old && behind(accuracy, old), w = doc?.workload;
  const order = doc && { model: doc.model.name, engine: doc.engine, tp: doc.parallelism.tp, batch: w.batch, prompt: w.prompt_len, gen: w.gen_len };
  const alone = was && (old.engine !== engine || old.gpu.key !== doc?.gpu.key);
  return html`<${Panel} id="accuracy" title="Accuracy" about=${html`<${Badge} of=${now} /><span class="line">${doc ? now.text : "Nothing is predicted yet"}${own.length ? `. ${own.length} figures of your files: ${error(own.filter((o) => o.predicted > 0))}` : "."} Of those that a constant was fitted on, none is scored.</span>`}>
    ${was && html`<p class="about">A: <${Badge} of=${was} /><span class="line">${alone ? `${was.text}, grey.` : "The same engine and card."}</span></p>`}
    <${Chart} height=${380} label="Predicted over measured times" ready=${accuracy && !!doc} on=${[accuracy, doc?.engine, doc?.gpu.key, alone && old.engine, alone && old.gpu.key, own]} draw=${(width, height) => charts.accuracy({ points: now.points, pinned: alone ? was.points : [], own: own.filter((o) => o.predicted > 0), width, height })} />
    <p class="legend"><span>□ TTFT</span><span>○ TPOT</span><span>△ TTLT</span><span>× your files</span></p>
    ${machine?.token && html`<div class="row tools">
      ${machine.results.length > 0 && html`<label>Local result <select onChange=${(e) => e.target.value && openResult(e.target.value)}><option value="">choose</option>${machine.results.map((n) => html`<option key=${n}>${n}</option>`)}</select></label>`}
      ${measuring.running ? html`<button type="button" onClick=${() => measuring.running.abort()}>Stop measuring</button>`
        : html`<button type="button" disabled=${!order || !["native", "transformers"].includes(engine)} onClick=${() => measuring.start(order)} title="Runs llmprof measure on this machine, with random weights; the engine has to be native or transformers">Measure here</button>`}
    </div>`}
  <//>`;
}, "accuracy", "accuracy", "doc", "old", "own", "here", "openResult", "measuring");
