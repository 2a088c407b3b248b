// The state of the page is the flags of "llmprof estimate", with targets and what is shown.
// It is what the fragment of the address holds, so that a link is the whole page.

// FLAGS are the flags that the page sets, in the order in which a command line has them.
export const FLAGS = [
  "model", "gpu", "engine", "tp", "pp", "ep", "moe-tp", "dp", "sp", "micro-batches", "gpus-per-node", "weights", "kv", "act", "expert-skew",
  "batch", "rate", "concurrency", "prompt-len", "gen-len", "cached-prefix", "prefix-hit-rate", "chunk", "max-num-batched-tokens", "max-num-seqs",
  "prefill-replicas", "speculative-tokens", "acceptance", "memory-utilization", "power-limit", "clock", "price", "calibration", "fit", "host", "ram",
  "n-cpu-moe", "ngl", "ubatch", "load-mode",
];
// Flags of a batch, and those of a server under a load.
const OF_BATCH = ["batch", "chunk", "cached-prefix"];
export const OF_LOAD = ["rate", "concurrency", "prefix-hit-rate", "prefill-replicas", "speculative-tokens", "acceptance"];
export const WORKLOAD = [...OF_BATCH, ...OF_LOAD, "prompt-len", "gen-len", "max-num-batched-tokens", "max-num-seqs"];
// TARGETS are limits that the verdict is held to.
export const TARGETS = ["ttft", "tpot", "tps", "usd"];
const VIEWS = { phase: ["decode", "prefill"], load: ["batch", "rate", "concurrency"], theme: ["light", "dark"] };
const LONGEST = 200; // characters of a value in a link

export const FIRST = { flags: { model: "llama3.1-8b", gpu: "h100-sxm-80gb", batch: "16" }, targets: {}, view: { phase: "decode", load: "batch" }, pin: null };

// read makes a state of a fragment. What it does not know it leaves out and tells to left: a link is
// from anyone, and may be of another version.
export function read(fragment, left = () => {}) {
  const params = new URLSearchParams(fragment.replace(/^#/, ""));
  const state = { flags: {}, targets: {}, view: { ...FIRST.view }, pin: null };
  let any = false;
  for (const [key, raw] of params) {
    const value = raw.slice(0, LONGEST);
    if (!value) continue;
    if (/[\u0000-\u001f]/.test(value)) { left(key); continue; }
    if (FLAGS.includes(key)) state.flags[key] = value;
    else if (key.startsWith("pin.") && FLAGS.includes(key.slice(4))) (state.pin ??= {})[key.slice(4)] = value;
    else if (key.startsWith("target.") && TARGETS.includes(key.slice(7)) && Number(value) > 0) state.targets[key.slice(7)] = value;
    else if (key.startsWith("view.") && Object.hasOwn(VIEWS, key.slice(5))) {
      if (VIEWS[key.slice(5)].includes(value)) state.view[key.slice(5)] = value;
      else left(key);
    } else { left(key); continue; }
    any = true;
  }
  if (!any) return structuredClone(FIRST);
  state.flags.model ??= FIRST.flags.model;
  state.flags.gpu ??= FIRST.flags.gpu;
  return state;
}

// write makes the fragment of a state.
export function write(state) {
  const params = new URLSearchParams();
  for (const name of FLAGS) if (state.flags[name]) params.set(name, state.flags[name]);
  for (const name of TARGETS) if (state.targets[name]) params.set("target." + name, state.targets[name]);
  for (const name of Object.keys(VIEWS)) if (state.view[name] && state.view[name] !== FIRST.view[name]) params.set("view." + name, state.view[name]);
  if (state.pin) for (const name of FLAGS) if (state.pin[name]) params.set("pin." + name, state.pin[name]);
  return "#" + params.toString();
}

// asked are the flags that the state asks with: those of a batch or those of a load, and of a split
// those that it has a use for.
export function asked({ flags: all, view: { load } }) {
  const flags = { ...all }, drop = (...names) => names.forEach((n) => delete flags[n]), count = (name) => Number(flags[name] || 1);
  if (load === "batch") drop(...OF_LOAD);
  else drop(...OF_BATCH, load === "rate" ? "concurrency" : "rate");
  if (load !== "batch" && !flags[load]) flags[load] = load === "rate" ? "1" : "8";
  if (load === "concurrency") drop("prefill-replicas");
  if (!flags["speculative-tokens"]) drop("acceptance");
  if (count("tp") === 1) drop("sp");
  if (count("pp") === 1) drop("micro-batches");
  if (count("tp") * count("pp") * count("dp") === 1) drop("gpus-per-node");
  for (const name of Object.keys(flags)) if (!flags[name]) delete flags[name];
  return flags;
}

// changed is a state after a change. Parts that stay the same stay the same objects, so that what
// depends on them alone is not drawn again.
export function changed(state, change) {
  const next = structuredClone(state);
  change(next);
  for (const name of Object.keys(next.flags)) if (next.flags[name] === "") delete next.flags[name];
  for (const part of Object.keys(next)) if (JSON.stringify(next[part]) === JSON.stringify(state[part])) next[part] = state[part];
  return next;
}

// commandOf is a command line of flags.
export function commandOf(verb, flags, names = Object.keys(flags)) {
  const word = (text) => (/^[A-Za-z0-9_.,:/@%+=-]+$/.test(text) ? text : "'" + text.replaceAll("'", "'\\''") + "'");
  return `llmprof ${verb}` + names.filter((n) => flags[n]).map((n) => (flags[n] === "true" ? ` --${n}` : ` --${n} ${word(flags[n])}`)).join("");
}

// command is the command line that gives the same figures.
export const command = (flags) => commandOf("estimate", flags, FLAGS);
