// What the page asks the estimator, and what it has been answered.
import { OF_LOAD, WORKLOAD, asked } from "./state.js";
import { Client } from "./client.js";
import { arrived, awaits, cancel, few, idle, schedule } from "./order.js";
import { answered, times } from "./times.js";

// One worker answers what the verdict shows and the chart over the batch, which is quick, one the other charts, one loads and the
// chart over the rate, and one searches.
export const first = new Client(2000, { ahead: 2 });
// shown comes when the first figures are painted, which nothing is to keep from the processors.
export const shown = first.answered.then(() => new Promise((painted) => requestAnimationFrame(() => setTimeout(painted))));
export const second = new Client(10000, { hold: shown }), loads = new Client(10000, { hold: shown }), planner = new Client(600000, { late: true });
export const clients = [first, second, loads, planner];
times.idle = () => idle() && !clients.some((c) => c.busy());

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

const asks = new Map(); // by kind: what was asked last, and what is shown
let draw; // is called when an answer is shown

// answer is the latest answer of a kind.
const answer = (kind) => asks.get(kind)?.answer ?? NONE;

// follow asks as soon as what is asked changes, those for a view in the window first, and keeps the last answer until
// the next has come; a lasting one is kept beside an error. Parsed makes of an answer what views take.
function follow(client, view, kind, request, parsed, lasting) {
  if (!asks.has(kind)) asks.set(kind, { id: "", last: 0, shown: 0, answer: NONE });
  const ask = asks.get(kind), id = request ? JSON.stringify(request) : "";
  if (id === ask.id) return;
  ask.id = id;
  const number = ++ask.last;
  const show = (found) => {
    if (number < ask.shown) return; // a later one is shown
    ask.shown = number;
    ask.answer = found;
    if (number === ask.last) { busy(view, kind, false); arrived(kind); }
    answered(kind);
    draw();
  };
  cancel(kind);
  arrived(kind);
  if (!request) { ask.shown = number; busy(view, kind, false); ask.answer = NONE; return; }
  if (known.has(id)) { show(known.get(id)); keep(id, known.get(id)); return; }
  busy(view, kind, true);
  schedule(view, kind, () => {
    awaits(view, kind);
    client.ask(kind, request).then(
      (a) => {
        if (!a) return; // a later request of the kind came
        const made = { ...parsed(a), id };
        keep(id, made);
        show(made);
      },
      (e) => show({ ...(lasting ? ask.answer : NONE), error: e.message.slice(0, LONGEST), id }),
    );
  });
}

// without and withAll keep flags in the order of their names, as answers are known by what was asked.
const ordered = (pairs) => Object.fromEntries(pairs.sort(([a], [b]) => (a < b ? -1 : 1)));
const without = (flags, ...names) => ordered(Object.entries(flags).filter(([k]) => !names.includes(k)));
const withAll = (flags, more) => ordered(Object.entries({ ...flags, ...more }));
const estimate = ({ data: { figures, words, graph } }) => ({ doc: figures, words, graph });
const points = (a) => ({ list: Object.assign(a.data.points, { of: a.data.of }) });
const rates = (a) => ({ list: Object.assign(a.data.points, { slower: a.data.slower, top: a.data.top }) });
const given = (a) => ({ list: a.data }), steady = (a) => ({ under: a.data });
export const EMPTY = [];

const BATCHES = "1..1024x2";
const TRY = {
  tp: ["1", "2", "4", "8", "16", "32"], pp: ["1", "2", "4", "8", "16"], ep: ["1", "2", "4", "8", "16", "32", "64"], "moe-tp": ["1", "2", "4", "8", "16", "32"], dp: ["1", "2", "4", "8", "16"],
};
// OF_SPLIT are flags that say how one deployment runs, which the chart of all cards leaves to each card.
const OF_SPLIT = ["gpu", "tp", "pp", "ep", "moe-tp", "dp", "price", "memory-utilization", "power-limit", "clock", "gpus-per-node", "max-num-batched-tokens", "calibration", "micro-batches", "sp", "expert-skew", "chunk"];

const loaded = (flags) => !!(flags.rate || flags.concurrency);
// least is the batch of a request that meets no other one.
const least = (flags) => (flags["micro-batches"] ? { batch: flags["micro-batches"] } : {});
const alone = (flags, again) => ({ do: "estimate", flags: loaded(flags) ? withAll(without(flags, ...OF_LOAD), { batch: "1", ...least(flags) }) : flags, again });
const overBatch = (flags, again) => ({ do: "sweep", flags: withAll(without(flags, ...OF_LOAD, "price"), { batch: BATCHES }), again });
const overRate = (flags, again) => ({ do: "load", flags: withAll(without(flags, "batch", "chunk", "cached-prefix", "rate", "concurrency", "price"), least(flags)), again });
const overCards = (flags, cards, again) => ({ do: "sweep", expected: true, flags: withAll(without(flags, ...OF_LOAD, ...OF_SPLIT), { gpu: cards.join(","), tp: "1,2,4,8", batch: "1..1024x4" }), again });

// spare is the second worker where nothing else keeps it and there is a processor for it.
const spare = () => (few || second.busy() ? loads : second);
// PLACES are the workers that have the chart over the rate but for its highest rate, which takes as long as all others, and that rate: they share the
// chart where two may. With a rate the worker of loads is at its steady state first; clients may take that worker long.
const PLACES = { batch: () => [loads, spare()], rate: () => [spare(), loads], concurrency: () => [second, second] };
const chartBy = (places) => ({
  async ask(kind, request) {
    const [below, top] = places();
    if (below === top) return below.ask(kind, request);
    const all = await Promise.all([below.ask(kind, { ...request, part: "below" }), top.ask(`top ${kind}`, { ...request, part: "top" })]);
    return all.every(Boolean) && { data: { ...all[0].data, points: all.flatMap((a) => a.data.points) } };
  },
});

// requestsOf are what the views of some flags ask.
export function requestsOf(flags, cards, again) {
  return flags && {
    alone: alone(flags, again), under: loaded(flags) && { do: "under", flags, again }, batch: overBatch(flags, again),
    cards: cards && overCards(flags, cards, again), rate: overRate(flags, again),
  };
}

let flags = NONE, requests = NONE; // of the latest state

// ask asks what a state shows, that of the verdict first; came is called with each answer.
export function ask(state, catalog, came) {
  draw = came;
  const pin = state.pin, again = state.again, next = asked(state); // again: files that came meanwhile
  if (JSON.stringify(next) !== JSON.stringify(flags)) flags = next;
  const cards = catalog && paretoCards(flags.gpu, pin?.gpu, catalog), b = (requests = requestsOf(flags, cards, again)), a = requestsOf(pin, cards, again), chart = chartBy(PLACES[state.view.load]);
  follow(first, null, "estimate", b.alone, estimate, true);
  follow(first, null, "pinned", a?.alone, estimate);
  follow(loads, "under", "load", b.under, steady);
  follow(loads, "under", "load of A", a?.under, steady);
  follow(first, "latency", "batch", b.batch, points);
  follow(chart, "rates", "rate", b.rate, rates);
  follow(second, "pareto", "cards", b.cards, points);
  follow(second, "latency", "batch of A", a?.batch, points);
  follow(chart, "rates", "rate of A", a?.rate, rates);
  follow(second, "pareto", "cards of A", a?.cards, points);
  if (catalog) askChoices(catalog, again);
}

// askChoices asks for the choices that cannot be, with the reasons. No workload changes them, and nobody sees them before
// a control is used.
function askChoices(catalog, again) {
  const tries = { ...TRY, ...Object.fromEntries(["engine", "weights", "kv", "act"].map((n) => [n, ["", ...catalog.choices[n]]])) };
  const fixed = without(flags, ...WORKLOAD, "price", "memory-utilization", "power-limit", "clock", "expert-skew", "gpus-per-node", "micro-batches", "sp");
  follow(second, "choices", "choices", { do: "options", flags: fixed, try: tries, again }, given);
  follow(second, "choices", "gpus", { do: "options", flags: without(fixed, "gpu"), try: { gpu: catalog.gpus.map((g) => g.key) }, again }, given);
}

let refused = [];
// refusedNow are the choices that cannot be, the same object as long as they are the same.
function refusedNow() {
  const lists = [answer("choices").list, answer("gpus").list];
  if (!refused.length || lists.some((l, i) => l !== refused[i])) refused = [...lists, { ...lists[0], ...lists[1] }];
  return refused[2];
}

// figures are what the latest state has been answered.
export function figures() {
  const main = answer("estimate"), pinned = answer("pinned"), under = answer("load"), list = (kind) => answer(kind).list ?? EMPTY;
  return {
    flags, error: main.error ?? null, noState: (!main.error && requests.under && under.id === asks.get("load").id && under.error) || null,
    doc: main.doc ?? null, words: main.words ?? null, graph: main.graph ?? null, old: pinned.doc ?? null, oldError: pinned.error ?? null, oldWords: pinned.words ?? null, oldGraph: pinned.graph ?? null,
    under: under.under ?? null, oldUnder: answer("load of A").under ?? null, curve: list("batch"), oldCurve: list("batch of A"),
    rates: list("rate"), oldRates: list("rate of A"), pareto: list("cards"), oldPareto: list("cards of A"), refused: refusedNow(),
  };
}

// paretoCards are the cards that the chart of cost takes: those with a price, the one chosen and that of A.
function paretoCards(gpu, old, catalog) {
  const all = catalog.gpus.filter((g) => g.price_usd_per_hour).map((g) => g.key);
  for (const g of [gpu, old]) if (g && !all.includes(g) && catalog.gpus.some((x) => x.key === g)) all.push(g);
  return all;
}
