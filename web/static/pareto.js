// Cost over speed of all cards and splits.
import { useMemo } from "./libraries.js";
import { html } from "./html.js";
import * as charts from "./charts.js";
import { EMPTY } from "./figures.js";
import { kept } from "./kept.js";
import { Chart, Panel } from "./panel.js";

// shownOf is a deployment as a point of the chart of cost.
const shownOf = (doc) => (doc?.verdict.possible && doc.tpot_s ? { user: 1 / doc.tpot_s.expected, usd_mtok: doc.cost_usd?.per_million_generated_tokens, tok_s_gpu: doc.throughput_tok_s.per_gpu } : null);

// nameOf is a point in words, for those who do not point at it.
const nameOf = (p, priced) => `${p.gpus} × ${p.gpu}, TP ${p.tp}, batch ${p.batch}: ${charts.plain(p.user)} tok/s a user, ${priced ? `$${charts.plain(p.usd_mtok)}/M` : `${charts.plain(p.tok_s_gpu)} tok/s per GPU`}`;

export const Pareto = kept(function Pareto({ pareto, oldPareto, pin, doc, old, set }) {
  const priced = pareto.some((r) => r.usd_mtok > 0), same = pareto === oldPareto;
  const adopt = (r) => set((s) => {
    for (const n of ["pp", "ep", "moe-tp", "dp", "price", "memory-utilization", "power-limit", "clock"]) delete s.flags[n];
    s.view.load = "batch";
    Object.assign(s.flags, { gpu: r.gpu, tp: r.tp > 1 ? String(r.tp) : "", batch: String(r.batch) });
  });
  const front = useMemo(() => charts.frontier(charts.usable(pareto, priced), priced), [pareto, priced]);
  const tools = html`<select aria-label="Adopt a point that nothing betters" value="" onChange=${(e) => adopt(front[e.target.value])}><option value="">Adopt a point</option>${front.map((p, i) => html`<option key=${i} value=${i}>${nameOf(p, priced)}</option>`)}</select>`;
  return html`<${Panel} id="pareto" title="Cost over speed" tools=${tools} about=${`${pareto.length} of ${pareto.of ?? 0} points are possible: cards with a price, TP 1 to 8, batch 1 to 1024. Squares: nothing is cheaper and faster. Star: the one shown.`} press="Click a point to adopt it." more=${pin && " Empty star and dashes: A."}>
    <${Chart} height=${380} label="Cost of a million tokens over tokens a second for each user" ready=${pareto !== EMPTY} on=${[pareto, oldPareto]} signs=${[doc, old]} sign=${(f) => charts.star(f, shownOf(doc), shownOf(old), priced)}
      draw=${(width, height) => charts.pareto({ rows: pareto, pinned: same ? [] : oldPareto, priced, width, height, chosen: adopt })} />
  <//>`;
}, "pareto", "pareto", "oldPareto", "pin", "doc", "old");
