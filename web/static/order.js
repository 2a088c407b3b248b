// What is done first: views in the window follow a change at once, the others once they come there or nothing
// more pressing is left.
const PAUSE = 150; // ms without anything new, after which what waits is done
const inside = new Set(), waiting = new Map(); // views by their name; work by its key, the latest last
let timer = 0;

const later = globalThis.requestIdleCallback ?? ((f) => setTimeout(f, 50)), notLater = globalThis.cancelIdleCallback ?? clearTimeout;
let idle = 0;

const observer = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (isIntersecting) { inside.add(target.id); wanted(target.id); } else inside.delete(target.id);
  }
}, { rootMargin: "100px" });

// watch follows whether a view is in the window, or close to it.
export function watch(element) {
  observer.observe(element);
  return () => { observer.unobserve(element); inside.delete(element.id); };
}

export const near = (view) => view === null || inside.has(view);

// due does the work of a view now, or later in place of earlier work of the same key.
export function due(view, key, work) {
  waiting.delete(key);
  if (near(view)) { work(); return; }
  waiting.set(key, { view, work });
  clearTimeout(timer);
  notLater(idle);
  timer = setTimeout(rest, PAUSE);
}

export const drop = (key) => waiting.delete(key);

function begin(key) {
  const { work } = waiting.get(key);
  waiting.delete(key);
  work();
}

// wanted does what waits for a view.
export function wanted(view) {
  for (const [key, job] of [...waiting]) if (job.view === view && waiting.has(key)) begin(key);
}

// rest does what waits, one after the other, so that a change that comes meanwhile goes first.
function rest() {
  idle = later(() => {
    const [key] = waiting.keys();
    if (key !== undefined) begin(key);
    if (waiting.size) rest();
  }, { timeout: 1000 });
}

addEventListener("beforeprint", () => { for (const key of [...waiting.keys()]) if (waiting.has(key)) begin(key); });
