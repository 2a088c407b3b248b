// The operators of a phase: under the roofline, in a table and in the graph of the model.
import { useEffect, useRef, useState } from "./libraries.js";
import { html } from "./html.js";
import * as charts from "./charts.js";
import { ModelGraph } from "./graph.js";
import { kept } from "./kept.js";
import { Chart, Panel } from "./panel.js";

const legend = html`<p class="legend">${charts.BOUNDS.map((b) => html`<span key=${b}><i class=${`mark ${b}`} aria-hidden="true"></i>${b}-bound (${charts.letterOf(b)})</span>`)}</p>`;

// One token is the prefill's, and nothing is decoded.
const PhaseSwitch = ({ phase, set, id, doc }) => html`<span class="switch" role="group" aria-label="Phase">${["prefill", "decode"].map((p) => html`<button key=${p} type="button" id=${`${id}-${p}`} disabled=${doc && !doc[p]} aria-pressed=${phase === p} class=${phase === p ? "on" : ""} onClick=${() => set((s) => { s.view.phase = p; })}>${p}</button>`)}</span>`;

export const Roofline = kept(function Roofline({ doc, words, old, phase, set, op, setOp, setHover }) {
  const p = doc?.[phase];
  const hidden = p ? p.ops.filter((o) => !(o.intensity > 0 && o.flops > 0)).length : 0;
  return html`<${Panel} id="roofline" title="Roofline" wide tools=${html`<${PhaseSwitch} id="roof" phase=${phase} set=${set} doc=${doc} />`}
    about=${p ? `${p.ops.length - hidden} operators with products; size is the share of the phase's time.` : ""} press="Select one to find it in the table and the graph.">
    <${Chart} height=${380} label="Roofline: FLOP/s of operators over their arithmetic intensity" ready=${!!doc && words?.roofs?.length > 0} on=${[doc, old, phase]} signs=${[op]} sign=${(f) => charts.select(f, op)}
      draw=${(width, height) => charts.roofline({ ops: p?.ops ?? [], words: words[phase], roofs: words.roofs, bandwidth: words.bandwidth_bytes_per_s, pinned: old?.[phase]?.ops, width, height, seen: setHover, chosen: (k) => setOp((now) => (k === now ? null : k)) })} />
    ${legend}
  <//>`;
}, "roofline", "doc", "words", "old", "phase", "op");

// timesOf is how often an operator takes its time in A.
const timesOf = (now, was) => (!was ? "new" : was.expected_s > 0 ? (now.expected_s / was.expected_s).toPrecision(3) : "–");

const COLUMNS = [
  ["name", "Operator", "text"], ["expected_s", "Time", "expected"], ["share", "Share", "share"], ["bound", "Bound", "text"], ["layer", "Layer", "text"],
  ["floor_s", "Floor", "floor"], ["flops", "FLOPs", "flops"], ["bytes", "Bytes", "bytes"], ["intensity", "FLOP/B", "intensity"],
];

export const Operators = kept(function Operators({ doc, words, old, phase, set, op, setOp, hover }) {
  const [sort, setSort] = useState(["", 1]);
  const table = useRef();
  const p = doc?.[phase], list = words?.[phase];
  const before = new Map((old?.[phase]?.ops ?? []).map((o) => [charts.opKey(o), o]));
  const rows = (p?.ops ?? []).map((o, i) => ({ ...o, key: charts.opKey(o), words: list?.[i] ?? {}, bytes: o.weight_bytes + o.kv_bytes + o.state_bytes + o.act_bytes }));
  if (sort[0]) rows.sort((a, b) => sort[1] * (typeof a[sort[0]] === "string" ? a[sort[0]].localeCompare(b[sort[0]]) : (b[sort[0]] ?? -1) - (a[sort[0]] ?? -1)));
  useEffect(() => {
    const row = op && table.current.querySelector(`[aria-selected="true"]`), box = table.current.parentElement;
    if (row) box.scrollTop = Math.max(row.offsetTop - box.clientHeight / 2, 0);
  }, [op]);
  const chosen = (e) => { const { key } = rows[e.target.closest("tr").rowIndex - 1] ?? {}; if (key) { e.preventDefault(); setOp(op === key ? null : key); } };
  const lines = rows.map((o, i) => html`<tr key=${i} tabindex="0" aria-selected=${op === o.key} class=${hover === o.key ? "hover" : ""}>
    <th scope="row" title=${o.name}>${o.name}${o.in && html`<small> in ${o.in}</small>`}</th>
    <td class="n">${o.words.expected}</td><td class="n share">${o.words.share}${o.share >= 0.005 && html`<i class=${`fill ${o.bound}`} style=${{ width: `${Math.min(100 * o.share, 100)}%` }}></i>`}</td>
    <td><i class=${`mark ${o.bound}`} aria-hidden="true"></i> ${o.bound}</td>
    <td title=${o.layer}>${o.layer}${o.layers > 1 ? html` <small>× ${o.layers}</small>` : ""}</td>
    <td class="n">${o.words.floor}</td><td class="n">${o.words.flops}</td><td class="n">${o.words.bytes}</td><td class="n">${o.words.intensity}</td>
    ${old && html`<td class="n">${timesOf(o, before.get(o.key))}</td>`}</tr>`);
  return html`<${Panel} id="operators" title="Operators" wide drawn=${false} tools=${html`<${PhaseSwitch} id="ops" phase=${phase} set=${set} doc=${doc} />`}>
    <div class="scroll tall" tabindex="0" role="region" aria-label="Table of operators"><table ref=${table} class="ops fixed" onClick=${chosen} onKeyDown=${(e) => { if (e.key === "Enter" || e.key === " ") chosen(e); }}>
      <thead><tr>${COLUMNS.map(([key, name, kind]) => html`<th key=${key} scope="col" class=${kind === "text" ? "" : "n"} aria-sort=${sort[0] === key ? (sort[1] > 0 ? "descending" : "ascending") : "none"}>
        <button type="button" onClick=${() => setSort((s) => (s[0] === key ? (s[1] > 0 ? [key, -1] : ["", 1]) : [key, 1]))}>${name}</button></th>`)}${old && html`<th scope="col" class="n">× A</th>`}</tr></thead>
      <tbody>${lines}</tbody>
    </table></div>
  <//>`;
}, "operators", "doc", "words", "old", "phase", "op", "hover");

export const GraphView = kept(function GraphView({ graph, oldGraph, phase, set, op, setOp, doc }) {
  // A node of several operators stands for the one that takes longest.
  const choose = (keys) => {
    const all = (doc?.[phase]?.ops ?? []).filter((o) => keys.includes(charts.opKey(o))).sort((a, b) => b.expected_s - a.expected_s);
    if (all.length) setOp((now) => (keys.includes(now) ? null : charts.opKey(all[0])));
  };
  return html`<${Panel} id="graph" title="Model graph" wide tools=${html`<${PhaseSwitch} id="graph" phase=${phase} set=${set} doc=${doc} />`} about="One layer of each kind; bars are shares of the phase's time, on one GPU of each stage. Dashed boxes are collectives, heavy lines the residual stream.">
    ${graph ? html`<${ModelGraph} doc=${graph} phase=${phase} selected=${op} onselect=${choose} old=${oldGraph} />` : html`<div class="graph empty"></div>`}
  <//>`;
}, "graph", "graph", "oldGraph", "phase", "op", "doc");
