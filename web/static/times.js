// How long changes take, for the tests: when what was answered and drawn has been painted, in milliseconds since the
// latest change. first: until the first figures, since the page was opened. idle: whether all views have followed. warm: what
// warm.js ended with.
import { change } from "./order.js";

export const times = (globalThis.llmprofTimes = { first: null, warm: null, answered: {}, drawn: {}, change: () => change });

function painted(list) {
  const began = change;
  requestAnimationFrame(() => setTimeout(() => list.push(performance.now() - began)));
}

// answered notes that an answer of a kind is shown.
export function answered(kind) {
  painted((times.answered[kind] ??= []));
  if (kind === "estimate" && times.first === null) requestAnimationFrame(() => setTimeout(() => { times.first ??= performance.now(); }));
}

// drawn notes that a view is drawn anew.
export function drawn(view) { painted((times.drawn[view] ??= [])); }
