// What was measured of the engine and the card, beside what is predicted.
import { useMemo } from "./libraries.js";
import { html } from "./html.js";
import * as charts from "./charts.js";
import { kept } from "./kept.js";
import { Chart, Panel } from "./panel.js";

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
  const engine = doc?.engine, w = doc?.workload;
  const now = useMemo(() => behind(accuracy, doc), [accuracy, engine, doc?.gpu.key, doc?.calibration.source]), was = useMemo(() => old && behind(accuracy, old), [accuracy, old]);
  const order = doc && { model: doc.model.name, engine: doc.engine, tp: doc.parallelism.tp, batch: w.batch, prompt: w.prompt_len, gen: w.gen_len };
  const alone = was && (old.engine !== engine || old.gpu.key !== doc?.gpu.key);
  return html`<${Panel} id="accuracy" title="Accuracy" about=${html`<${Badge} of=${now} /><span class="line">${doc ? now.text : "Nothing is predicted yet"}${own.length ? `. ${own.length} figures of your files: ${error(own.filter((o) => o.predicted > 0))}` : ""}. Of those that a constant was fitted on, none is scored.</span>`}>
    ${was && html`<p class="about">A: <${Badge} of=${was} /><span class="line">${alone ? `${was.text}, grey.` : "The same engine and card."}</span></p>`}
    <${Chart} height=${380} label="Predicted over measured times" ready=${accuracy && !!doc} on=${[accuracy, doc?.engine, doc?.gpu.key, alone && old.engine, alone && old.gpu.key, own]} draw=${(width, height) => charts.accuracy({ points: now.points, pinned: alone ? was.points : [], own: own.filter((o) => o.predicted > 0), width, height })} />
    <p class="legend">${charts.METRICS.map(([key, name, color, , sign]) => html`<span key=${key}><i style=${{ color }} aria-hidden="true">${sign}</i>${name}</span>`)}<span><i class="own" aria-hidden="true">×</i>your files</span></p>
    ${machine && html`<div class="row tools">
      ${machine.results.length > 0 && html`<label>Local result <select onChange=${(e) => e.target.value && openResult(e.target.value)}><option value="">choose</option>${machine.results.map((n) => html`<option key=${n}>${n}</option>`)}</select></label>`}
      ${measuring.running ? html`<button type="button" onClick=${() => measuring.running.abort()}>Stop measuring</button>`
        : html`<button type="button" disabled=${!order || !["native", "transformers"].includes(engine)} onClick=${() => measuring.start(order)} title="Runs llmprof measure on this machine, with random weights; the engine has to be native or transformers">Measure here</button>`}
    </div>`}
  <//>`;
}, "accuracy", "accuracy", "doc", "old", "own", "here", "openResult", "measuring");
