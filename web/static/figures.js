// What the page asks the estimator, and what it has been answered.
import { useEffect, useMemo, useRef, useState } from "./libraries.js";
import { OF_LOAD, WORKLOAD, asked } from "./state.js";
import { Client } from "./client.js";

export const first = new Client(2000), second = new Client(10000, first.answered), planner = new Client(60000, null, true), clients = [first, second, planner];

// times are milliseconds: of the first figures since the page was opened, and of each kind of answer
// from the change to when it is drawn.
export const times = (globalThis.llmprofTimes = { first: null, views: {} });
let change = 0;
export function begins() { change = performance.now(); }
function drawn(kind) {
  const begin = change;
  requestAnimationFrame(() => setTimeout(() => {
    times.first ??= performance.now();
    (times.views[kind] ??= []).push(performance.now() - begin);
  }));
}

// known are the latest answers by what was asked: going back and comparing ask nothing anew.
const known = new Map(), MOST = 60;
function keep(id, answer) {
  known.delete(id);
  known.set(id, answer);
  if (known.size > MOST) known.delete(known.keys().next().value);
}

const NONE = {};

// useAnswer asks when what is asked changes, and keeps the last answer until the next has come; a lasting
// one is kept beside an error. Parsed makes of an answer what views take.
function useAnswer(client, kind, request, parsed, lasting) {
  const [answer, set] = useState(NONE), asks = useRef({ last: 0, shown: 0 }).current;
  const id = request ? JSON.stringify(request) : "";
  useEffect(() => {
    const number = ++asks.last;
    const show = (a) => {
      if (number < asks.shown) return; // a later one is shown
      asks.shown = number;
      set(a);
      drawn(kind);
    };
    if (!request) { asks.shown = number; set(NONE); return; }
    if (known.has(id)) { show(known.get(id)); keep(id, known.get(id)); return; }
    client.ask(kind, request).then(
      (a) => {
        if (!a) return; // a later request of the kind came
        const made = { ...parsed(a), request };
        keep(id, made);
        show(made);
      },
      (e) => { if (number >= asks.shown) { asks.shown = number; set((old) => ({ ...(lasting ? old : NONE), error: e.message, request })); } },
    );
  }, [id]);
  return answer;
}

// without and withAll keep flags in the order of their names, as answers are known by what was asked.
const ordered = (pairs) => Object.fromEntries(pairs.sort(([a], [b]) => (a < b ? -1 : 1)));
const without = (flags, ...names) => ordered(Object.entries(flags).filter(([k]) => !names.includes(k)));
const withAll = (flags, more) => ordered(Object.entries({ ...flags, ...more }));
const rows = (a) => ({ list: a.text ? a.text.trim().split("\n").filter(Boolean).map((l) => JSON.parse(l)) : [] });
const estimate = (a) => ({ text: a.text, doc: JSON.parse(a.text), words: a.data });
const given = (a) => ({ list: a.data });
const EMPTY = [];

const BATCHES = "1..1024x2";
const TRY = {
  tp: ["1", "2", "4", "8", "16", "32"], pp: ["1", "2", "4", "8", "16"], ep: ["1", "2", "4", "8", "16", "32", "64"], dp: ["1", "2", "4", "8", "16"],
};
// OF_SPLIT are flags that say how one deployment runs, which the chart of all cards leaves to each card.
const OF_SPLIT = ["gpu", "tp", "pp", "ep", "dp", "price", "memory-utilization", "gpus-per-node", "max-num-batched-tokens", "calibration", "micro-batches", "sp", "expert-skew", "chunk"];

const overBatch = (flags, again) => ({ do: "sweep", flags: withAll(without(flags, ...OF_LOAD), { batch: BATCHES }), again });
const overRate = (flags, again) => ({ do: "load", flags: without(flags, "batch", "chunk", "cached-prefix", "rate", "concurrency"), again });
const overCards = (flags, cards, again) => ({ do: "sweep", flags: withAll(without(flags, ...OF_LOAD, ...OF_SPLIT), { gpu: cards.join(","), tp: "1,2,4,8", batch: "1..1024x4" }), again });

// useFigures are the answers that the state asks for, those of the verdict first.
export function useFigures(state, catalog) {
  const flags = useMemo(() => asked(state), [state.flags, state.view.load]), pin = state.pin, again = state.again; // files that came meanwhile
  const main = useAnswer(first, "estimate", { do: "estimate", flags, again }, estimate, true);
  const pinned = useAnswer(first, "pinned", pin && { do: "estimate", flags: pin, again }, estimate);
  const graph = useAnswer(first, "graph", { do: "graph", flags: without(flags, ...OF_LOAD), again }, (a) => ({ graph: a.data }));
  const curve = useAnswer(second, "batch", overBatch(flags, again), rows);
  const cards = useMemo(() => catalog && paretoCards(state.flags.gpu, pin?.gpu, catalog), [state.flags.gpu, pin?.gpu, catalog]);
  const pareto = useAnswer(second, "cards", cards && overCards(flags, cards, again), rows);
  const rates = useAnswer(second, "rate", overRate(flags, again), given);
  const oldCurve = useAnswer(second, "batch of A", pin && overBatch(pin, again), rows);
  const oldRates = useAnswer(second, "rate of A", pin && overRate(pin, again), given);
  const oldPareto = useAnswer(second, "cards of A", pin && cards && overCards(pin, cards, again), rows);
  const refused = useRefused(flags, catalog, again);
  return {
    flags, error: main.error ?? null, text: main.error ? null : main.text, doc: main.doc ?? null, words: main.words ?? null, old: pinned.doc ?? null, oldWords: pinned.words ?? null, graph: graph.graph ?? null,
    curve: curve.list ?? EMPTY, oldCurve: oldCurve.list ?? EMPTY, rates: rates.list ?? EMPTY, oldRates: oldRates.list ?? EMPTY, pareto: pareto.list ?? EMPTY, oldPareto: oldPareto.list ?? EMPTY, refused,
  };
}

// useRefused are the choices that cannot be, with the reasons. No workload changes them.
function useRefused(flags, catalog, again) {
  const fixed = without(flags, ...WORKLOAD, "price", "memory-utilization", "expert-skew", "gpus-per-node", "micro-batches", "sp");
  const tries = useMemo(() => catalog && { ...TRY, ...Object.fromEntries(["engine", "weights", "kv", "act"].map((n) => [n, ["", ...catalog.choices[n]]])) }, [catalog]);
  const options = useAnswer(second, "choices", tries && { do: "options", flags: fixed, try: tries, again }, given);
  const gpus = useAnswer(second, "gpus", catalog && { do: "options", flags: without(fixed, "gpu"), try: { gpu: catalog.gpus.map((g) => g.key) }, again }, given);
  return useMemo(() => ({ ...options.list, ...gpus.list }), [options.list, gpus.list]);
}

// paretoCards are the cards that the chart of cost takes: those with a price, the one chosen and that of A.
function paretoCards(gpu, old, catalog) {
  const all = catalog.gpus.filter((g) => g.price_usd_per_hour).map((g) => g.key);
  for (const g of [gpu, old]) if (g && !all.includes(g) && catalog.gpus.some((x) => x.key === g)) all.push(g);
  return all;
}
