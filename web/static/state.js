// The state of the page is the flags of "llmprof estimate", with targets and what is shown.
// It is what the fragment of the address holds, so that a link is the whole page.

// FLAGS are the flags that the page sets, in the order in which a command line has them.
export const FLAGS = [
  "model", "gpu", "engine", "tp", "pp", "ep", "dp", "sp", "micro-batches", "gpus-per-node", "weights", "kv", "act",
  "batch", "rate", "concurrency", "prompt-len", "gen-len", "cached-prefix", "prefix-hit-rate", "chunk", "max-num-batched-tokens",
  "memory-utilization", "price", "calibration",
];
// TARGETS are limits that the verdict is held to.
export const TARGETS = ["ttft", "tpot", "tps", "usd"];
const VIEWS = { phase: ["decode", "prefill"], load: ["batch", "rate", "concurrency"], cards: null, theme: ["light", "dark"] };
const LONGEST = 200; // characters of a value in a link

export const FIRST = { flags: { model: "llama3.1-8b", gpu: "h100-sxm-80gb", batch: "16" }, targets: {}, view: { phase: "decode", load: "batch" }, pin: null };

// read makes a state of a fragment. What it does not know it leaves out: a link is from anyone.
export function read(fragment) {
  const params = new URLSearchParams(fragment.replace(/^#/, ""));
  const state = { flags: {}, targets: {}, view: { ...FIRST.view }, pin: null };
  let any = false;
  for (const [key, raw] of params) {
    const value = raw.slice(0, LONGEST);
    if (!value || /[\u0000-\u001f]/.test(value)) continue;
    if (FLAGS.includes(key)) state.flags[key] = value;
    else if (key.startsWith("pin.") && FLAGS.includes(key.slice(4))) (state.pin ??= {})[key.slice(4)] = value;
    else if (key.startsWith("target.") && TARGETS.includes(key.slice(7)) && Number(value) > 0) state.targets[key.slice(7)] = value;
    else if (key.startsWith("view.") && Object.hasOwn(VIEWS, key.slice(5))) {
      const allowed = VIEWS[key.slice(5)];
      if (!allowed || allowed.includes(value)) state.view[key.slice(5)] = value;
    } else continue;
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

// asked are the flags that the state asks with: those of a batch or those of a load.
export function asked(state) {
  const flags = { ...state.flags }, load = state.view.load;
  const drop = (...names) => names.forEach((n) => delete flags[n]);
  if (load === "batch") drop("rate", "concurrency", "prefix-hit-rate");
  else drop("batch", "chunk", "cached-prefix", load === "rate" ? "concurrency" : "rate");
  if (load !== "batch" && !flags[load]) flags[load] = load === "rate" ? "1" : "8";
  for (const name of Object.keys(flags)) if (!flags[name]) delete flags[name];
  return flags;
}

// command is the command line that gives the same figures.
export function command(flags, verb = "estimate") {
  const word = (text) => (/^[A-Za-z0-9_.,:/@%+=-]+$/.test(text) ? text : "'" + text.replaceAll("'", "'\\''") + "'");
  let line = `llmprof ${verb}`;
  for (const name of FLAGS) {
    if (!flags[name]) continue;
    line += name === "sp" ? " --sp" : ` --${name} ${word(flags[name])}`;
  }
  return line;
}
