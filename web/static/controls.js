// The controls. Each sets a flag of "llmprof estimate"; what cannot be chosen is grey and says why.
import { h, useMemo, useRef, useState } from "./libraries.js";
import { html } from "./html.js";
import { kept } from "./kept.js";
import { finish } from "./order.js";

const short = (reason) => { const t = reason.replace(/\s+/g, " "); return t.length > 90 ? t.slice(0, 89) + "…" : t; };

const same = (a, b) => a === b || typeof a === "function" || (Array.isArray(a) && a.length === b?.length);

// compared is a control that is drawn again only where what it shows is another. What it calls does the same at any time, and
// a list of values is another where it has more of them.
const compared = (View) => function Compared(props) {
  this.shouldComponentUpdate = (next) => Object.keys({ ...props, ...next }).some((n) => !same(next[n], this.props[n]));
  return h(View, props);
};

// Choice is a list of values of which the refused ones are grey.
const Choice = compared(function Choice({ id, label, hint, value, values, no, first, off, onchange }) {
  const options = useMemo(() => [...new Set([...values, value ?? ""])].filter(Boolean).map((v) => {
    const why = no?.[v];
    return html`<option key=${v} value=${v} disabled=${why !== undefined && v !== value} title=${why ?? ""}>${v}${why !== undefined && v !== value ? ` (${short(why)})` : ""}</option>`;
  }), [values.length, value, no]);
  return html`<div class="control">
    <label for=${id}>${label}</label>
    <select id=${id} value=${value ?? ""} title=${off || hint} disabled=${!!off} onChange=${(e) => onchange(e.target.value)}>
      ${first !== undefined && html`<option value="">${first}</option>`}
      ${options}
    </select>
  </div>`;
});

// back takes back what is no number that can be, once the control is left.
const back = ({ target }, value) => { if (!target.validity.valid) target.value = value ?? ""; };

// Amount is a number with a slider, which has a step for each doubling where log is set.
const Amount = compared(function Amount({ id, label, unit, hint, value, fallback, min, max, step = 1, log, off, onchange }) {
  const now = Number(value === undefined || value === "" ? fallback : value);
  const at = log ? Math.log2(Math.max(now, min || 1)) : now;
  const slide = (e) => { const v = Number(e.target.value); onchange(String(log ? Math.round(2 ** v) : v)); };
  return html`<div class="control amount">
    <label for=${id}>${label}</label>
    <input id=${id} type=${Number.isNaN(Number(value ?? "")) ? "text" : "number" /* lengths that differ are text */} inputmode="decimal" min=${min} step="any" value=${value ?? ""} placeholder=${fallback ?? ""} title=${off || hint} disabled=${!!off} onInput=${(e) => { if (e.target.value === "" || e.target.validity.valid) onchange(e.target.value); }} onBlur=${(e) => back(e, value)} />
    <span class="unit">${unit}</span>
    <input type="range" disabled=${!!off} title=${off || ""} aria-label=${`${label}, slider`} min=${log ? Math.log2(min || 1) : min} max=${log ? Math.log2(max) : max} step=${log ? 0.25 : step} value=${Number.isFinite(at) ? at : 0} onInput=${slide} />
  </div>`;
});

const Target = compared(function Target({ id, label, unit, value, onchange }) {
  return html`<div class="control target">
    <label for=${`target-${id}`}>${label}</label>
    <input id=${`target-${id}`} type="number" inputmode="decimal" min="0" step="any" value=${value ?? ""} placeholder="none" onInput=${(e) => { if (e.target.value === "" || e.target.validity.valid) onchange(e.target.value); }} onBlur=${(e) => back(e, value)} />
    <span class="unit">${unit}</span>
  </div>`;
});

const billions = (n) => `${(n / 1e9).toPrecision(3)} B`;

// ModelChoice searches the built-in models; what is typed counts once it is chosen or entered.
function ModelChoice({ value, catalog, here, onchange, take }) {
  const [text, setText] = useState(null), file = useRef();
  const models = catalog?.models ?? [], found = models.find((m) => m.name === value);
  const enter = (v) => { setText(null); if (v.trim()) onchange(v.trim()); };
  const input = (e) => { const v = e.target.value; if (models.some((m) => m.name === v)) enter(v); else setText(v); };
  const list = useMemo(() => html`<datalist id="models">${models.map((m) => html`<option key=${m.name} value=${m.name}>${billions(m.params_total)}${m.params_active !== m.params_total ? `, ${billions(m.params_active)} active` : ""}</option>`)}</datalist>`, [catalog]);
  return html`<div class="control wide">
    <label for="model">Model</label>
    <input id="model" list="models" autocomplete="off" spellcheck="false" value=${text ?? value} onInput=${input} onFocus=${(e) => e.target.select()}
      onKeyDown=${(e) => { if (e.key === "Enter") enter(e.target.value); if (e.key === "Escape") setText(null); }} onBlur=${(e) => (text !== null ? enter(e.target.value) : null)} />
    ${list}
    <button type="button" onClick=${() => file.current.click()} title="A config.json, the header of a .gguf, a result of llmprof measure, or a calibration (.toml). Dropping it on the page does the same.">Open a file</button>
    <input ref=${file} type="file" id="file" hidden multiple accept=".json,.gguf,.toml" onChange=${(e) => { take([...e.target.files]); e.target.value = ""; }} />
    <p class="about">${found ? `${billions(found.params_total)} parameters${found.params_active !== found.params_total ? `, ${billions(found.params_active)} active` : ""}, ${found.layers} layers${found.max_context ? `, context ${found.max_context}` : ""}` : here ? "a hub id, a built-in name, or a file" : "a built-in name, or a file dropped here"}</p>
  </div>`;
}

// measuredOf says with which engines constants were measured on a card; nothing where they were with none.
const measuredOf = ({ measured }, engines) => (!measured.length ? "" : measured.length === engines.length ? " · measured" : ` · measured with ${measured.join(", ")}`);

function GPUChoice({ value, catalog, refused, onchange }) {
  const gpus = catalog?.gpus ?? [], no = refused?.gpu, found = gpus.find((g) => g.key === value);
  const groups = useMemo(() => [...new Set(gpus.map((g) => g.vendor))].map((v) => html`<optgroup key=${v} label=${v}>${gpus.filter((g) => g.vendor === v).map((g) => {
    const why = g.key !== value && no?.[g.key];
    return html`<option key=${g.key} value=${g.key} disabled=${!!why} title=${why || ""}>${g.name}${measuredOf(g, catalog.choices.engine)}${why ? ` (${short(why)})` : ""}</option>`;
  })}</optgroup>`), [catalog, no, value]);
  return html`<div class="control wide">
    <label for="gpu">GPU</label>
    <select id="gpu" value=${value} onChange=${(e) => onchange(e.target.value)}>
      ${!found && html`<option value=${value}>${value}</option>`}
      ${groups}
    </select>
    <p class="about">${found ? `${(found.memory_bytes / 1e9).toPrecision(3)} GB, ${(found.bandwidth_bytes_per_s / 1e12).toPrecision(3)} TB/s${found.price_usd_per_hour ? `, $${found.price_usd_per_hour}/h` : ", no price known"}` : "\u00a0"}</p>
  </div>`;
}

// On a narrow window the verdict stands below the settings, of which only the first are open then.
const narrow = matchMedia("(max-width: 820px)").matches;
const Group = ({ title, children, open = !narrow }) => html`<details class="group" open=${open}><summary>${title}</summary>${children}</details>`;

const seen = () => finish("choices");

// HOSTED are the settings of what lies in the memory of the host.
const HOSTED = ["fit", "host", "ram", "n-cpu-moe", "ngl", "ubatch", "load-mode"];

export const Controls = kept(function Controls({ state, set, catalog, refused, here, take, utilization, card }) {
  const f = state.flags, load = state.view.load;
  const flag = (name) => (value) => set((s) => { s.flags[name] = String(value); });
  const usage = (name) => catalog?.flags[name]?.usage ?? "", fallback = (name) => catalog?.flags[name]?.default ?? "";
  const numbers = ["1", "2", "4", "8", "16", "32"];
  const found = catalog?.models.find((m) => m.name === f.model), dense = found && found.params_active === found.params_total;
  const fits = f.fit === "true" && "It is chosen by what the GPU has room for";
  const gpus = Number(f.tp || 1) * Number(f.pp || 1) * Number(f.dp || 1);
  const amount = (id, label, unit, more) => html`<${Amount} id=${id} label=${label} unit=${unit} hint=${usage(id)} value=${f[id]} fallback=${fallback(id)} onchange=${flag(id)} ...${more} />`;
  const choose = (id, label, values, more) => html`<${Choice} id=${id} label=${label} hint=${usage(id)} value=${f[id]} values=${values} no=${refused?.[id]} onchange=${flag(id)} ...${more} />`;
  const split = (id, label, values) => choose(id, label, values, { value: f[id] || "1", onchange: (v) => flag(id)(v === "1" ? "" : v) });
  const target = (id, label, unit) => html`<${Target} id=${id} label=${label} unit=${unit} value=${state.targets[id]} onchange=${(v) => set((s) => { if (v) s.targets[id] = v; else delete s.targets[id]; })} />`;
  return html`<aside aria-label="Settings" onPointerEnter=${seen} onFocusIn=${seen}>
    <${Group} title="Model and GPU" open>
      <${ModelChoice} value=${f.model} catalog=${catalog} here=${here} take=${take} onchange=${(v) => set((s) => { s.flags.model = v; for (const n of ["weights", "kv", "act", "expert-skew"]) delete s.flags[n]; })} />
      <${GPUChoice} value=${card?.key ?? f.gpu} catalog=${catalog} refused=${refused} onchange=${(v) => set((s) => { s.flags.gpu = v; for (const n of ["price", "power-limit", "clock"]) delete s.flags[n]; })} />
      ${here?.gpus?.length > 0 && html`<p class="about">This machine: ${here.gpus.map((g) => html`<button type="button" key=${g.uuid ?? g.name} disabled=${!g.key} onClick=${() => flag("gpu")(g.key)}>${g.name}</button>`)}</p>`}
      ${choose("engine", "Engine", catalog?.choices.engine ?? [], { first: "default" })}
    <//>
    <${Group} title=${`Split: ${gpus} GPU${gpus === 1 ? "" : "s"}`}>
      <div class="four">
        ${split("tp", "TP", numbers)}${split("pp", "PP", ["1", "2", "4", "8", "16"])}${split("ep", "EP", [...numbers, "64"])}${split("dp", "DP", ["1", "2", "4", "8", "16"])}
      </div>
      <div class="two">
        ${choose("micro-batches", "Micro-batches", ["1", "2", "4", "8", "16"], { first: "default: 1", off: Number(f.pp || 1) === 1 && "Only a pipeline has them: choose PP above 1" })}
        ${choose("moe-tp", "TP of an expert", numbers, { first: "TP / EP", off: dense && "This model has no experts" })}
        ${choose("gpus-per-node", "GPUs per node", ["1", "2", "4", "8", "16", "72"], { first: "default", off: gpus === 1 && "One GPU needs no node" })}
      </div>
      <label class="radio" title=${Number(f.tp || 1) === 1 ? "It splits the tokens over the TP ranks: choose TP above 1" : usage("sp")}><input type="checkbox" id="sp" disabled=${Number(f.tp || 1) === 1} checked=${f.sp === "true"} onChange=${(e) => flag("sp")(e.target.checked ? "true" : "")} />Sequence parallelism</label>
      ${amount("expert-skew", "Expert skew", "Zipf's s", { min: 0, max: 2, step: 0.05, fallback: "0", off: dense && "This model has no experts" })}
    <//>
    <${Group} title="Formats">
      ${choose("weights", "Weights", catalog?.choices.weights ?? [], { first: "the checkpoint's" })}
      <div class="two">
        ${choose("kv", "KV cache", catalog?.choices.kv ?? [], { first: "default" })}
        ${choose("act", "Activations", catalog?.choices.act ?? [], { first: "the scheme's" })}
      </div>
    <//>
    <${Group} title="Load" open>
      <fieldset class="row"><legend class="sr">Load is given as</legend>
        ${[["batch", "Batch"], ["rate", "Rate"], ["concurrency", "Concurrency"]].map(([v, name]) => html`<label key=${v} class="radio"><input type="radio" name="load" value=${v} checked=${load === v} onChange=${() => set((s) => { s.view.load = v; })} />${name}</label>`)}
      </fieldset>
      ${load === "batch" && amount("batch", "Batch", "sequences", { min: 1, max: 1024, log: true })}
      ${load === "rate" && amount("rate", "Rate", "requests/s", { min: 0.1, max: 100, step: 0.1, fallback: "1" })}
      ${load === "concurrency" && amount("concurrency", "Concurrency", "requests", { min: 1, max: 1024, log: true, fallback: "8" })}
      ${amount("prompt-len", "Prompt", "tokens", { min: 1, max: 131072, log: true })}
      ${amount("gen-len", "Generated", "tokens", { min: 1, max: 16384, log: true })}
      ${load === "rate" && amount("prefill-replicas", "Prefill replicas", "besides DP", { min: 0, max: 16, fallback: "0" })}
      ${load === "batch" ? amount("cached-prefix", "Prefix hit", "tokens", { min: 0, max: Math.max(Number(f["prompt-len"] || 1024) - 1, 1) }) : amount("prefix-hit-rate", "Prefix hit", "share", { min: 0, max: 0.95, step: 0.05 })}
    <//>
    <${Group} title="Host memory, by llama.cpp" open=${HOSTED.some((n) => f[n])}>
      <label class="radio" title=${usage("fit")}><input type="checkbox" id="fit" checked=${f.fit === "true"} onChange=${(e) => set((s) => { s.flags.fit = e.target.checked ? "true" : ""; for (const n of ["n-cpu-moe", "ngl"]) delete s.flags[n]; })} />Leave there what the GPU has no room for</label>
      <div class="two">${choose("host", "Host", catalog?.choices.host ?? [], { first: "usual" })}${choose("ram", "Its memory", ["16GB", "32GB", "64GB", "96GB", "128GB", "256GB", "512GB"], { first: "usual" })}</div>
      ${amount("n-cpu-moe", "Experts there", "layers", { min: 0, max: found?.layers ?? 128, fallback: "0", off: fits || dense && "This model has no experts" })}
      ${amount("ngl", "Layers on the GPU", "with the output", { min: 0, max: (found?.layers ?? 128) + 1, fallback: "all", off: fits })}
      ${amount("ubatch", "Pass", "tokens", { min: 32, max: 4096, log: true, fallback: "512" })}
      ${choose("load-mode", "Loaded as", ["mmap", "none"], { first: "none: pinned" })}
    <//>
    <${Group} title="Limits and price">
      ${amount("max-num-batched-tokens", "Chunk budget", "tokens a step", { min: 0, max: 32768, step: 256, fallback: "default" })}
      ${amount("memory-utilization", "Memory utilization", "share", { min: 0.5, max: 1, step: 0.01, fallback: utilization })}
      ${amount("power-limit", "Power limit", "W per GPU", { min: 50, max: 1500, step: 10, fallback: card?.tdp_w ?? "" })}
      ${amount("clock", "Highest clock", "MHz", { min: 210, max: 3000, step: 15, fallback: card ? card.clock_hz / 1e6 : "" })}
      ${amount("price", "Price", "$/h", { min: 0, max: 15, step: 0.05, fallback: card?.price_usd_per_hour ?? "" })}
      <label class="radio"><input type="checkbox" id="calibration" checked=${f.calibration === "default"} onChange=${(e) => flag("calibration")(e.target.checked ? "default" : "")} />Ignore what was measured on this GPU</label>
    <//>
    <${Group} title="Targets, at the slow end of the interval">
      <div class="two">${target("ttft", "TTFT", "ms")}${target("tpot", "TPOT", "ms")}${target("tps", "Throughput", "tok/s")}${target("usd", "Cost", "$/M")}</div>
    <//>
  </aside>`;
}, null, "state", "catalog", "refused", "here", "utilization", "card");
