// What is done first after a change. Views in the window follow it at once. The work of other views waits until no
// change has come for a moment and views in the window have their answers, or until the view comes into the window.
const QUIET = 50; // ms without a change: a slider that is drawn changes more often
const inside = new Set(["verdict"]), waiting = new Map(); // views in the window by their name, at first the verdict; work by its key, the latest last

const awaited = new Map(); // kinds of answers that views in the window wait for, with the view
let early = []; // views that are followed once the first figures are painted, which are the verdict's

// FIRST is the kind of the first answer.
const FIRST = "estimate";

// LAST is the view with the most points, which lets the answers of others go first where workers share few processors.
const LAST = "pareto";
export const few = navigator.hardwareConcurrency <= 2;

// awaits and arrived say that an answer of a kind is waited for, and no more.
export function awaits(view, kind) { if (view === null || inside.has(view)) awaited.set(kind, view); }
export function arrived(kind) {
  if (!awaited.delete(kind)) return;
  if (early && kind === FIRST) requestAnimationFrame(() => setTimeout(follow));
  if (!awaited.size && inside.has(LAST)) finish(LAST);
  if (waiting.size) wake();
}

// awaiting reports whether a view in the window waits for an answer, but for the last view, which others are drawn without.
export const awaiting = () => [...awaited.values()].some((view) => view !== LAST);

// figuring reports whether the figures of the verdict are waited for.
export const figuring = () => awaited.has(FIRST);

// idle reports whether no view waits for anything.
export const idle = () => !awaited.size && !waiting.size;

// change is when the latest change began.
export let change = 0;
export function begins() { change = performance.now(); }

const observer = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (isIntersecting) { inside.add(target.id); finish(target.id); } else inside.delete(target.id);
  }
});

function follow() {
  for (const element of early ?? []) observer.observe(element);
  early = null;
}

// watch follows whether a view is in the window.
export function watch(element) {
  if (early) early.push(element);
  else observer.observe(element);
  return () => { observer.unobserve(element); inside.delete(element.id); };
}

// visible reports whether a view is in the window, as the verdict is at first; what the verdict has of a load always counts as in it.
export const visible = (view) => view === null || view === "under" || inside.has(view);

// schedule does the work of a view now where the view is visible, else later, in place of earlier work of the same key.
export function schedule(view, key, work) {
  waiting.delete(key);
  if (visible(view) && !(few && view === LAST && awaited.size)) work();
  else later(key, work, view);
}

// later does the work of a view once it is quiet; that of no view is out of sight in one that is in the window.
export function later(key, work, view = key) {
  waiting.set(key, { view, work });
  wake();
}

export const cancel = (key) => waiting.delete(key);

function begin(key) {
  const { work } = waiting.get(key);
  waiting.delete(key);
  work();
}

// finish does now what waits for a view, or for any.
export function finish(view) {
  for (const [key, job] of [...waiting]) if ((!view || job.view === view) && waiting.has(key)) begin(key);
}

const whenIdle = globalThis.requestIdleCallback ?? ((f) => setTimeout(f, 16));
let timer = 0;

// wake does what waits piece by piece once it is quiet, so that a change that comes meanwhile goes first.
function wake() {
  if (timer || awaited.size) return;
  timer = setTimeout(() => whenIdle((deadline) => {
    timer = 0;
    if (awaited.size) return;
    const [key] = waiting.keys();
    if (key !== undefined && performance.now() - change >= QUIET) begin(key);
    while (waiting.size && deadline?.timeRemaining() > 10 && performance.now() - change >= QUIET) begin(waiting.keys().next().value);
    if (waiting.size) wake();
  }, { timeout: 200 }), Math.max(change + QUIET - performance.now(), 0));
}

const paper = matchMedia("print");

// onPaper calls the one before the page is drawn on paper and the other one after it, either perhaps more than once.
export function onPaper(before, after) {
  const turn = () => (paper.matches ? before() : after()), all = [[globalThis, "beforeprint", before], [globalThis, "afterprint", after], [paper, "change", turn]];
  for (const [on, event, f] of all) on.addEventListener(event, f);
  return () => { for (const [on, event, f] of all) on.removeEventListener(event, f); };
}

onPaper(() => finish(), () => {});
