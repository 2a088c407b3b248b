// What the page asks the estimator, and what it has been answered.
import { useMemo, useRef, useState } from "./libraries.js";
import { OF_LOAD, WORKLOAD, asked } from "./state.js";
import { Client } from "./client.js";
import { arrived, awaits, cancel, schedule } from "./order.js";
import { answered } from "./times.js";

// One worker answers what the verdict shows and the chart over the batch, which is quick, one the other charts, one loads,
// and one searches.
export const first = new Client(2000), second = new Client(10000, first.answered), loads = new Client(10000, first.answered), planner = new Client(60000, null, true);
export const clients = [first, second, loads, planner];

// known are the latest answers by what was asked: going back and comparing ask nothing anew.
const known = new Map(), MOST = 60;
function keep(id, answer) {
  known.delete(id);
  known.set(id, answer);
  if (known.size > MOST) known.delete(known.keys().next().value);
}

const LONGEST = 600; // characters of an error, which may quote a file
const NONE = {}, SLOW = 100; // ms after which a view is marked as not yet up to date

// busy marks a view as long as an answer for it is waited for.
const late = new Map(); // timers of the kinds of answers
function busy(view, kind, begins) {
  clearTimeout(late.get(kind)?.timer);
  late.delete(kind);
  const mark = () => document.getElementById(view ?? "verdict")?.setAttribute("aria-busy", [...late.values()].some((l) => l.view === view && l.shown));
  if (begins) { const l = { view, shown: false }; l.timer = setTimeout(() => { l.shown = true; mark(); }, SLOW); late.set(kind, l); } else mark();
}

const texts = new WeakMap(); // of requests, which stay the same objects as long as they ask the same
function textOf(request) {
  if (!texts.has(request)) texts.set(request, JSON.stringify(request));
  return texts.get(request);
}

// useAnswer asks as soon as what is asked changes, those for a view in the window first, and keeps the last answer until
// the next has come; a lasting one is kept beside an error. Parsed makes of an answer what views take. It asks while the page
// is drawn, so that the worker computes while the controls are compared.
function useAnswer(client, view, kind, request, parsed, lasting) {
  const [, draw] = useState(0), asks = useRef({ id: "", last: 0, shown: 0, answer: NONE }).current;
  const id = request ? textOf(request) : "";
  if (id === asks.id) return asks.answer;
  asks.id = id;
  const number = ++asks.last;
  const show = (answer) => {
    if (number < asks.shown) return false; // a later one is shown
    asks.shown = number;
    if (number === asks.last) { busy(view, kind, false); arrived(kind); }
    asks.answer = answer;
    answered(kind);
    return true;
  };
  const later = (answer) => { if (show(answer)) draw(number); };
  cancel(kind);
  arrived(kind);
  if (!request) { asks.shown = number; busy(view, kind, false); asks.answer = NONE; return NONE; }
  if (known.has(id)) { show(known.get(id)); keep(id, known.get(id)); return asks.answer; }
  busy(view, kind, true);
  schedule(view, kind, () => {
    awaits(view, kind);
    client.ask(kind, request).then(
      (a) => {
        if (!a) return; // a later request of the kind came
        const made = { ...parsed(a), request };
        keep(id, made);
        later(made);
      },
      (e) => later({ ...(lasting ? asks.answer : NONE), error: e.message.slice(0, LONGEST), request }),
    );
  });
  return asks.answer;
}

// without and withAll keep flags in the order of their names, as answers are known by what was asked.
const ordered = (pairs) => Object.fromEntries(pairs.sort(([a], [b]) => (a < b ? -1 : 1)));
const without = (flags, ...names) => ordered(Object.entries(flags).filter(([k]) => !names.includes(k)));
const withAll = (flags, more) => ordered(Object.entries({ ...flags, ...more }));
const estimate = ({ data: { figures, words, graph } }) => ({ doc: figures, words, graph });
const points = (a) => ({ list: Object.assign(a.data.points, { of: a.data.of }) });
const given = (a) => ({ list: a.data }), steady = (a) => ({ under: a.data });
export const EMPTY = [];

const BATCHES = "1..1024x2";
const TRY = {
  tp: ["1", "2", "4", "8", "16", "32"], pp: ["1", "2", "4", "8", "16"], ep: ["1", "2", "4", "8", "16", "32", "64"], "moe-tp": ["1", "2", "4", "8", "16", "32"], dp: ["1", "2", "4", "8", "16"],
};
// OF_SPLIT are flags that say how one deployment runs, which the chart of all cards leaves to each card.
const OF_SPLIT = ["gpu", "tp", "pp", "ep", "moe-tp", "dp", "price", "memory-utilization", "gpus-per-node", "max-num-batched-tokens", "calibration", "micro-batches", "sp", "expert-skew", "chunk"];

const loaded = (flags) => !!(flags.rate || flags.concurrency);
// least is the batch of a request that meets no other one.
const least = (flags) => (flags["micro-batches"] ? { batch: flags["micro-batches"] } : {});
const alone = (flags, again) => ({ do: "estimate", flags: loaded(flags) ? withAll(without(flags, ...OF_LOAD), least(flags)) : flags, again });
const overBatch = (flags, again) => ({ do: "sweep", flags: withAll(without(flags, ...OF_LOAD, "price"), { batch: BATCHES }), again });
const overRate = (flags, again) => ({ do: "load", flags: withAll(without(flags, "batch", "chunk", "cached-prefix", "rate", "concurrency", "price"), least(flags)), again });
const overCards = (flags, cards, again) => ({ do: "sweep", expected: true, flags: withAll(without(flags, ...OF_LOAD, ...OF_SPLIT), { gpu: cards.join(","), tp: "1,2,4,8", batch: "1..1024x4" }), again });

// requestsOf are what the views of some flags ask. Clients may take the worker of loads long, so that the chart over the
// rate has the other one then.
function requestsOf(flags, cards, again) {
  return flags && {
    alone: alone(flags, again), under: loaded(flags) && { do: "under", flags, again }, batch: overBatch(flags, again),
    cards: cards && overCards(flags, cards, again), rate: overRate(flags, again), free: loaded(flags) && !flags.rate ? second : loads,
  };
}

// useFigures are the answers that the state asks for, those of the verdict first.
export function useFigures(state, catalog) {
  const flags = useMemo(() => asked(state), [state.flags, state.view.load]), pin = state.pin, again = state.again; // files that came meanwhile
  const cards = useMemo(() => catalog && paretoCards(state.flags.gpu, pin?.gpu, catalog), [state.flags.gpu, pin?.gpu, catalog]);
  const b = useMemo(() => requestsOf(flags, cards, again), [flags, cards, again]), a = useMemo(() => requestsOf(pin, cards, again), [pin, cards, again]);
  const main = useAnswer(first, null, "estimate", b.alone, estimate, true);
  const pinned = useAnswer(first, null, "pinned", a?.alone, estimate);
  const under = useAnswer(loads, "under", "load", b.under, steady);
  const oldUnder = useAnswer(loads, "under", "load of A", a?.under, steady);
  const curve = useAnswer(first, "latency", "batch", b.batch, points);
  const rates = useAnswer(b.free, "rates", "rate", b.rate, given);
  const pareto = useAnswer(second, "pareto", "cards", b.cards, points);
  const oldCurve = useAnswer(second, "latency", "batch of A", a?.batch, points);
  const oldRates = useAnswer(b.free, "rates", "rate of A", a?.rate, given);
  const oldPareto = useAnswer(second, "pareto", "cards of A", a?.cards, points);
  const refused = useRefused(flags, catalog, again);
  return {
    flags, error: main.error ?? null, noState: (!main.error && b.under && under.error && textOf(under.request) === textOf(b.under) && under.error) || null, under: under.under ?? null, oldUnder: oldUnder.under ?? null, doc: main.doc ?? null, words: main.words ?? null, old: pinned.doc ?? null, oldWords: pinned.words ?? null, graph: main.graph ?? null, oldGraph: pinned.graph ?? null,
    curve: curve.list ?? EMPTY, oldCurve: oldCurve.list ?? EMPTY, rates: rates.list ?? EMPTY, oldRates: oldRates.list ?? EMPTY, pareto: pareto.list ?? EMPTY, oldPareto: oldPareto.list ?? EMPTY, refused,
  };
}

// useRefused are the choices that cannot be, with the reasons. No workload changes them, and nobody sees them before
// a control is used.
function useRefused(flags, catalog, again) {
  const tries = useMemo(() => catalog && { ...TRY, ...Object.fromEntries(["engine", "weights", "kv", "act"].map((n) => [n, ["", ...catalog.choices[n]]])) }, [catalog]);
  const [some, cards] = useMemo(() => {
    const fixed = without(flags, ...WORKLOAD, "price", "memory-utilization", "expert-skew", "gpus-per-node", "micro-batches", "sp");
    return catalog ? [{ do: "options", flags: fixed, try: tries, again }, { do: "options", flags: without(fixed, "gpu"), try: { gpu: catalog.gpus.map((g) => g.key) }, again }] : [];
  }, [flags, tries, catalog, again]);
  const options = useAnswer(second, "choices", "choices", some, given), gpus = useAnswer(second, "choices", "gpus", cards, given);
  return useMemo(() => ({ ...options.list, ...gpus.list }), [options.list, gpus.list]);
}

// paretoCards are the cards that the chart of cost takes: those with a price, the one chosen and that of A.
function paretoCards(gpu, old, catalog) {
  const all = catalog.gpus.filter((g) => g.price_usd_per_hour).map((g) => g.key);
  for (const g of [gpu, old]) if (g && !all.includes(g) && catalog.gpus.some((x) => x.key === g)) all.push(g);
  return all;
}
