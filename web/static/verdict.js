// The verdict: whether it fits and meets the targets, and its headline figures.
import { useLayoutEffect, useRef } from "./libraries.js";
import { html } from "./html.js";
import { command } from "./state.js";
import { kept } from "./kept.js";
import { watch } from "./order.js";

const ratio = (now, before) => {
  if (!(now > 0) || !(before > 0)) return "";
  const r = now / before;
  return r >= 0.9995 && r < 1.0005 ? "same as A" : `${r.toPrecision(3)} × A`;
};

// slowest is the figure at the slow end of the interval that a target is held to; undefined where there is none. Under a
// load it is that of the steady state: with clients that wait for answers everything is as much slower as a request alone.
function slowest(key, doc, words, under) {
  if (!under) return words.headlines.find((x) => x.key === key)?.high;
  const clients = under.concurrency !== null, share = (t) => (t ? t.high / t.expected : 1), slower = clients ? Math.max(share(doc.ttft_s), share(doc.tpot_s)) : 1;
  if (key === "tps") return under.generated_tok_s / slower;
  if (key === "usd") return under.cost_usd_request === null ? undefined : (slower * 1e6 * under.cost_usd_request) / doc.workload.gen_len;
  return clients ? slower * under[`${key}_s`] : under.high?.[`${key}_s`];
}

const UNITS = { ttft: "ms", tpot: "ms", tps: "tok/s", usd: "$/M" };

// met compares a figure with its target: { key, ok, text, why } or null where there is no target.
function met(key, targets, doc, words, under) {
  const limit = Number(targets[key]), want = UNITS[key] === "ms" ? limit / 1000 : limit;
  if (!limit) return null;
  const v = slowest(key, doc, words, under);
  const ok = v > 0 && (key === "tps" ? v >= want : v <= want), text = `${ok ? "meets" : "misses"} ${limit} ${UNITS[key]}`;
  return { key, ok, text, why: v > 0 ? text : `${text}: there is no figure at the slow end of the interval` };
}

const TILES = [["ttft", "TTFT"], ["tpot", "TPOT"], ["ttlt", "TTLT"], ["tps", "Throughput"], ["usd", "Cost"], ["j", "Energy"]]; // in places that stay where one has no figure

// together keeps numbers and their units on one line.
const together = (text) => text.replace(/(\d) /g, "$1\u00a0").replace(/floor /g, "floor\u00a0");

function Tile({ name, now, was, m, idle }) {
  return html`<div class="tile">
    <dt>${name}<${Mark} m=${m} /></dt>
    <dd class="value">${now?.value ?? "–"}</dd>
    <dd class="interval">${now?.interval ? `${now.interval} (90 %)` : "\u00a0"}</dd>
    <dd class="about">${now?.note ? together(now.note) : idle ? "only where it runs" : "\u00a0"}</dd>
    ${was && html`<dd class="diff">A ${was.value}; ${(now && ratio(now.si, was.si)) || "–"}</dd>`}
  </div>`;
}

const lineOf = (words, key) => words?.headlines.find((x) => x.key === key);

const NO_LOAD = Array.from({ length: 8 }, (_, i) => [`${i}`, "\u00a0"]); // until the first answer

// OF_LOAD are the targets by the rows of the steady state that are held to them.
const OF_LOAD = { TTFT: "ttft", TPOT: "tpot", Throughput: "tps", "A request": "usd" };

const Mark = ({ m }) => m && html` <span class=${m.ok ? "ok" : "no"} title=${m.why}>${m.ok ? "✓" : "✗"} ${m.text}</span>`;

// Load is the steady state, with that of A below. What comes first of a figure is what matters most.
function Load({ rows, old, held }) {
  const before = new Map(old ?? []);
  return html`<div id="under"><h3>Under load</h3><dl class="tiles load">${(rows ?? NO_LOAD).map(([name, text]) => {
    const [value, ...more] = text.split(", ");
    return html`<div key=${name} class="tile">
      <dt>${rows ? name : "\u00a0"}<${Mark} m=${rows && held.find((m) => m.key === OF_LOAD[name])} /></dt><dd class="value">${value}</dd><dd class="about">${together(more.join(", ")) || "\u00a0"}</dd>
      ${before.has(name) && html`<dd class="diff">A ${before.get(name)}</dd>`}</div>`;
  })}</dl></div><h3>One request alone</h3>`;
}

// heldOf are the targets with the figures that are held to them.
function heldOf({ targets, error, doc, words, flags, under }) {
  const loaded = flags.rate || flags.concurrency;
  if (error || !doc || !words || (loaded && !under)) return [];
  return Object.keys(UNITS).map((k) => met(k, targets, doc, words, loaded && under.load)).filter(Boolean);
}

// answerOf says in a few words whether it runs, and how many targets it meets.
function answerOf({ error, noState, doc }, held) {
  if (error || noState) return error ? "Not possible" : "No steady state";
  const missed = held.filter((m) => !m.ok).length, all = ["", "the target", "both targets"][held.length] ?? `all ${held.length} targets`;
  if (!doc?.verdict.possible) return "Does not run";
  return `Fits${!held.length ? "" : !missed ? `, meets ${all}` : `, misses ${missed === held.length ? all : `${missed} of ${held.length} targets`}`}`;
}

const toneOf = ({ error, noState, doc }, held) => (error || noState || (doc && !doc.verdict.possible) || held.some((m) => !m.ok) ? "no" : doc ? "" : "wait");

// SHORT are the figures of a narrow window, those of a load where there is one.
const SHORT = [["ttft", "TTFT"], ["tpot", "TPOT"], ["tps", ""], ["usd", ""]];

// Brief is the verdict in two lines, which stay in sight on a narrow window, where settings stand above the views.
export const Brief = kept(function Brief(all) {
  const { error, noState, words, under, flags } = all, loaded = (flags.rate || flags.concurrency) && under, held = heldOf(all);
  const figures = loaded ? under.words.filter(([name]) => ["TTFT", "TPOT", "Throughput"].includes(name)).map(([name, text]) => `${name === "Throughput" ? "" : `${name} `}${text.split(/ mean|, /)[0]}`)
    : SHORT.map(([key, name]) => [name, lineOf(words, key)]).filter(([, line]) => line && line.value !== "n/a").map(([name, line]) => `${name} ${line.value}${line.key === "usd" ? " a million" : ""}`.trim());
  const rest = error ?? noState ?? figures.join(" · ");
  return html`<div class="brief" role="region" aria-label="Verdict in short"><button type="button" class=${toneOf(all, held)} title="To the whole verdict" onClick=${() => document.getElementById("verdict").focus()}>
    <strong>${all.doc || error ? answerOf(all, held) : "The estimator is loading."}</strong><span>${rest || "\u00a0"}</span></button></div>`;
}, null, "targets", "error", "noState", "doc", "words", "flags", "under");

// unbroken keeps flags and their values on one line.
const unbroken = (text) => text.split(/(--[a-z-]+(?: [a-z0-9.]+)?)/).map((part, i) => (i % 2 ? html`<span class="flag">${part}</span>` : part));

// Line is the first sentence, then what the figures rest on.
function Line({ all, held }) {
  const { error, noState, doc, words } = all, possible = doc?.verdict.possible;
  // Each sentence is one text, which stays in its place where its words change.
  return html`<div class=${`verdict ${toneOf(all, held)}`} role="status" aria-live="polite">
    ${error || noState ? html`<strong>${answerOf(all, held)}</strong> <span>${error ?? noState}</span>` : !doc || !words ? "The estimator is loading." : html`
      <strong>${answerOf(all, held)}</strong>
      ${" "}<span>${unbroken(`${doc.model.name} on ${doc.gpu.count} × ${doc.gpu.name}, ${words.fits.replace(/^(yes|no): /, "")}.`)}</span>
      ${possible && html` <small>${`Rests on: ${words.basis}.`}</small>`}`}
  </div>`;
}

export const Verdict = kept(function Verdict(all) {
  const box = useRef();
  useLayoutEffect(() => watch(box.current), []);
  const { error, noState, doc, words, oldWords, flags, under, oldUnder } = all;
  const now = error ? null : words, loaded = flags.rate || flags.concurrency, held = heldOf(all), notes = error ? [] : [...(doc?.warnings ?? []), ...(loaded && under?.warning ? [under.warning] : [])];
  return html`<section id="verdict" ref=${box} class="wide" tabindex="-1" aria-labelledby="verdict-title">
    <h2 id="verdict-title" class="sr">Verdict</h2>
    <${Line} all=${all} held=${held} />
    ${loaded && !error && !noState && html`<${Load} rows=${under?.words} old=${oldUnder?.words} held=${held} />`}
    ${noState && html`<h3>One request alone</h3>`}
    <dl class="tiles">
      ${TILES.map(([key, name]) => html`<${Tile} key=${key} name=${name} now=${lineOf(now, key)} was=${lineOf(oldWords, key)} m=${!loaded && held.find((m) => m.key === key)} idle=${now && !doc.verdict.possible} />`)}
    </dl>
    ${now?.home?.length > 0 && html`<dl class="home">${now.home.map(([name, text]) => html`<div key=${name}><dt>${name}</dt><dd>${text}</dd></div>`)}</dl>`}
    <details class=${`warnings ${notes.length ? "" : "none"}`}><summary>${notes.length} note${notes.length === 1 ? "" : "s"}</summary><ul>${notes.map((w) => html`<li key=${w}>${w}</li>`)}</ul></details>
    <p class="command" tabindex="0" role="group" aria-label="Command line"><code>${command(flags)}</code></p>
  </section>`;
}, "verdict", "targets", "error", "noState", "doc", "words", "oldWords", "flags", "under", "oldUnder");
