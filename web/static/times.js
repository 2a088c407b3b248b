// How long changes take, for the tests. Milliseconds from a change until what it changed has been painted, of each
// kind of answer and of each view; first: until the first figures, since the page was opened.
export const times = (globalThis.llmprofTimes = { first: null, views: {}, drawn: {} });
let change = 0;
export function begins() { change = performance.now(); }

function painted(list) {
  const begin = change;
  requestAnimationFrame(() => setTimeout(() => list.push(performance.now() - begin)));
}

// answered notes that an answer of a kind is shown.
export function answered(kind) {
  painted((times.views[kind] ??= []));
  if (kind === "estimate" && times.first === null) requestAnimationFrame(() => setTimeout(() => { times.first ??= performance.now(); }));
}

// drawn notes that a view is drawn anew.
export function drawn(view) { painted((times.drawn[view] ??= [])); }
