// Latency over the batch and over the rate, with what was measured.
import { useMemo } from "./libraries.js";
import { html } from "./html.js";
import * as charts from "./charts.js";
import { EMPTY } from "./figures.js";
import { kept } from "./kept.js";
import { Chart, Panel } from "./panel.js";

// observed are the measured points of the model, the card, the engine and the lengths.
function observed(accuracy, doc, key) {
  if (!accuracy || !doc) return [];
  const w = doc.workload, metric = `${key}_s`;
  return accuracy.filter((o) => o.prompt === w.prompt_len && o.metric === metric && o.load === "static" && o.model === doc.model.name && o.gpu === doc.gpu.key && o.engine.startsWith(doc.engine) &&
    o.tp === doc.parallelism.tp && (key === "ttft" || o.gen === w.gen_len || o.gen > 1) && (o.weights === w.scheme || o.weights === w.weights));
}

const limitOf = (targets, k) => (Number(targets[k]) || 0) / 1000;
const KEYS = ["ttft", "tpot"];

// lines says what lines of other looks are, where there are some.
const lines = (old, targets) => `${old.length ? " Dashed: A." : ""}${KEYS.some((k) => targets[k]) ? " Red: the target." : ""}`;

export const Latency = kept(function Latency({ curve, oldCurve, batch, load, set, targets, doc, accuracy, own }) {
  const at = load === "batch" ? batch : doc?.workload.batch, adopt = (r) => set((s) => { s.view.load = "batch"; s.flags.batch = String(r.batch); });
  const measured = useMemo(() => KEYS.map((k) => [...observed(accuracy, doc, k), ...own.filter((o) => o.metric === `${k}_s` && o.model === doc?.model.name && o.prompt === doc?.workload.prompt_len && (k === "ttft" || o.gen === doc?.workload.gen_len))]),
    [accuracy, own, doc && JSON.stringify([doc.model.name, doc.gpu.key, doc.engine, doc.parallelism.tp, doc.workload.prompt_len, doc.workload.gen_len, doc.workload.scheme, doc.workload.weights])]);
  return html`<${Panel} id="latency" title="Latency over batch" about=${curve !== EMPTY && !curve.length ? "No batch runs on these GPUs." : "Expected, with its 90 % interval; dotted: the floor; crosses: measured."} more=${lines(oldCurve, targets)} press=${(curve === EMPTY || curve.length > 0) && "Click a point to take its batch."}>
      <div class="pair">${KEYS.map((k, i) => html`<${Chart} key=${k} height=${230} label=${`${k.toUpperCase()} over batch`} ready=${curve !== EMPTY} on=${[curve, oldCurve, measured[i], targets[k]]} signs=${[at, doc]} sign=${(f) => charts.point(f, k, "batch", at, load === "batch" && doc?.[`${k}_s`]?.expected)}
        draw=${(width, height) => charts.curve({ rows: curve, key: k, measured: measured[i], pinned: oldCurve, limit: limitOf(targets, k), width, height, chosen: adopt })} />`)}</div>
    <//>`;
}, "latency", "curve", "oldCurve", "batch", "load", "targets", "doc", "accuracy", "own");

export const Rates = kept(function Rates({ rates, oldRates, rate, set, targets, under }) {
  const rows = rates.filter((r) => r.ttft_s), old = oldRates.filter((r) => r.ttft_s), adopt = (r) => set((s) => { s.view.load = "rate"; s.flags.rate = String(Number(r.rate.toPrecision(3))); }), why = rates.find((r) => r.error)?.error;
  return html`<${Panel} id="rates" title="Latency over rate" about=${why && !rows.length ? `No steady state: ${why}` : `Means of the steady state with Poisson arrivals${rates.top ? `, up to ${Math.round(100 * rates.top)} % of what the server takes at most` : ""}. The band reaches the slow end of the 90 % interval, as far as the same share of what the server takes there.`} more=${lines(old, targets)} press=${!(why && !rows.length) && "Click a point to take its rate."}>
      <div class="pair">${KEYS.map((k) => html`<${Chart} key=${k} height=${230} label=${`${k.toUpperCase()} over rate`} ready=${rates !== EMPTY} on=${[rates, oldRates, targets[k]]} signs=${[rate, under]} sign=${(f) => charts.point(f, k, "rate", rate, under?.load[`${k}_s`])}
        draw=${(width, height) => charts.curve({ rows, slower: rates.slower, key: k, x: "rate", xlabel: "requests a second", measured: [], pinned: old, limit: limitOf(targets, k), width, height, chosen: adopt })} />`)}</div>
    <//>`;
}, "rates", "rates", "oldRates", "rate", "targets", "under");
