// The search of deployments: "llmprof plan" with the model, the lengths and the load of the page.
import { useEffect, useState } from "./libraries.js";
import { html } from "./html.js";
import { planner } from "./figures.js";
import { Panel } from "./panel.js";
import { kept } from "./kept.js";
import { commandOf } from "./state.js";

// FIELDS are what a search is bounded by, besides what the page has already.
const FIELDS = [["budget", "Budget", "$/h"], ["max-gpus", "GPUs at most", ""], ["tps", "Throughput", "tok/s"], ["headroom", "Headroom", "times"]];
// WORDS are what a search takes as text, with an example of each.
const WORDS = [["in", "Prompts", "mean=2000,p95=6000"], ["out", "Answers", "mean=300,p95=900"], ["prefix-hit-rate", "Cached share", "0.8"], ["price", "Prices", "h100=2.10,l40s=0.80"]];
const HEAD = [["gpus", "GPUs"], ["split", "Split"], ["weights", "Weights"], ["kv", "KV"], ["batch", "Batch", 1], ["ttft", "TTFT", 1], ["tpot", "TPOT", 1], ["tok_s", "tok/s", 1], ["usd_h", "$/h", 1], ["usd_month", "$/month", 1], ["usd_mtok", "$/M", 1], ["j_token", "J/tok", 1]];

// priced are the GPUs of prices, as "h100=2.10,l40s=0.80".
const priced = (text) => (text ?? "").split(",").map((x) => x.split("=")[0].trim()).filter(Boolean);

// flagsOf are the flags of the search.
function flagsOf({ model, prompt, gen, engine, rate, clients, targets, catalog, host, ram }, own) {
  const flags = { model, in: prompt || "1024", out: gen || "128", by: own.by || "cost", gpus: own.class ? undefined : [...catalog.gpus.filter((g) => g.price_usd_per_hour).map((g) => g.key), ...priced(own.price)].join(",") };
  if (engine) flags.engines = engine;
  if (own.class) flags.class = own.class;
  if (own.class === "consumer" || engine === "llama.cpp") for (const [n, v] of Object.entries({ host, ram })) if (v) flags[n] = v;
  for (const t of ["ttft", "tpot"]) if (targets[t]) flags[t] = `${own.at ? `${own.at}=` : ""}${targets[t]}ms`;
  if (rate) flags.rate = rate;
  else if (clients) flags.concurrency = clients;
  else if (own.tps) flags.tps = own.tps;
  for (const [n] of [...FIELDS, ...WORDS]) if (own[n] && n !== "tps") flags[n] = own[n];
  return flags;
}

// settings are the flags of an estimate, of its arguments.
function settings(args) {
  const flags = {};
  for (let i = 0; i < args.length; i++) {
    const name = args[i].replace(/^--/, ""), more = i + 1 < args.length && !args[i + 1].startsWith("--");
    flags[name] = more ? args[++i] : "true";
  }
  return flags;
}

function adopt(set, row) {
  const found = settings(row.estimate_args);
  set((s) => {
    s.view.load = found.rate ? "rate" : found.concurrency ? "concurrency" : "batch";
    s.flags = { ...found };
    for (const n of ["tp", "pp", "ep", "dp", "micro-batches"]) if (s.flags[n] === "1") delete s.flags[n];
  });
}

export const Plan = kept(function Plan(props) {
  const { catalog, set, targets, rate, clients } = props;
  const [own, setOwn] = useState({}), [found, setFound] = useState(null), [progress, setProgress] = useState(null), [error, setError] = useState("");
  const flags = catalog && flagsOf(props, own), id = JSON.stringify(flags);
  useEffect(() => { planner.progress = (done, of) => setProgress(`${done} of ${of} GPUs are searched`); return () => { planner.progress = null; }; }, []);
  const search = () => {
    setProgress("The search begins"); setError("");
    planner.ask("plan", { do: "plan", flags }).then(
      (a) => { if (a) setFound({ doc: JSON.parse(a.text), words: a.data, id }); setProgress(null); },
      (e) => { setFound(null); setError(e.message); setProgress(null); },
    );
  };
  const field = ([name, label, unit]) => html`<div key=${name} class="control target"><label for=${`plan-${name}`}>${label}</label>
    <input id=${`plan-${name}`} type="number" inputmode="decimal" min="0" step="any" placeholder="any" value=${own[name] ?? ""} disabled=${name === "tps" && (rate || clients)} title=${name === "tps" && (rate || clients) ? "The load of the page is the load" : ""} onInput=${(e) => setOwn({ ...own, [name]: e.target.value })} /><span class="unit">${unit}</span></div>`;
  const text = ([name, label, example]) => html`<div key=${name} class="control target"><label for=${`plan-${name}`}>${label}</label>
    <input id=${`plan-${name}`} placeholder=${example} value=${own[name] ?? ""} onInput=${(e) => setOwn({ ...own, [name]: e.target.value.trim() })} /></div>`;
  const choice = (name, label, options) => html`<div class="control target"><label for=${`plan-${name}`}>${label}</label><select id=${`plan-${name}`} value=${own[name] ?? ""} onChange=${(e) => setOwn({ ...own, [name]: e.target.value })}>${options.map(([value, said]) => html`<option key=${value} value=${value}>${said}</option>`)}</select></div>`;
  const rows = found?.doc.rows ?? [], asked = ["ttft", "tpot"].filter((t) => targets[t]).map((t) => `${t.toUpperCase()} ${targets[t]} ms`);
  return html`<${Panel} id="plan" title="Deployments" drawn=${false} wide about=${`What runs ${props.model} at least cost: cards with a price, their number, split, formats and batch, held to ${asked.length ? asked.join(" and ") : "no target (the settings have them)"} at the slow end of the interval${rate ? `, ${rate} requests a second` : clients ? `, ${clients} clients` : ""}. Click a row to adopt it.`}>
    <div class="plan">
      ${FIELDS.map(field)}
      ${choice("class", "Class", [["", "any"], ...["datacenter", "workstation", "consumer", "edge"].map((c) => [c, c])])}
      ${WORDS.map(text)}
      ${choice("at", "Targets at", [["", "the mean"], ...["p50", "p90", "p95", "p99"].map((p) => [p, p])])}
      ${choice("by", "Ranked by", [["", "cost"], ...["energy", "latency", "throughput"].map((o) => [o, o])])}
      ${progress ? html`<button type="button" onClick=${() => { planner.stop(); setProgress(null); }}>Stop the search</button>` : html`<button type="button" id="plan-search" disabled=${!catalog} onClick=${search}>Search</button>`}
    </div>
    <p class="about" role="status">${progress ?? (error || (found ? `${rows.length} cards qualify, ${found.doc.searched} deployments were searched${rows.some((r) => r.pareto) ? "; nothing betters those with * in cost, TTFT and TPOT together" : ""}${found.id === id ? "" : "; settings have changed since"}.` : "\u00a0"))}</p>
    ${found && html`<div class="scroll tall" tabindex="0" role="region" aria-label="Deployments that qualify"><table class="ops">
      <thead><tr><th scope="col" class="n">#</th>${HEAD.map(([k, name, n]) => html`<th key=${k} scope="col" class=${n ? "n" : ""}>${name}</th>`)}</tr></thead>
      <tbody>${rows.map((r, i) => html`<tr key=${i} tabindex="0" title=${`llmprof ${r.command} ${r.estimate_args.join(" ")}`} onClick=${() => adopt(set, r)} onKeyDown=${(e) => { if (e.key === "Enter" || e.key === " ") { e.preventDefault(); adopt(set, r); } }}>
        <td class="n">${i + 1}${r.pareto ? "*" : ""}</td>${HEAD.map(([k, , n], at) => (at ? html`<td key=${k} class=${n ? "n" : ""}>${found.words[i][k] ?? r[k]}</td>` : html`<th key=${k} scope="row">${found.words[i][k]}</th>`))}</tr>`)}
        ${!rows.length && html`<tr><td colspan=${HEAD.length + 1}>No deployment qualifies: ${found.doc.rejected[0]?.reason ?? "no GPU was searched"}</td></tr>`}</tbody>
    </table></div>
    <p class="command" tabindex="0" role="group" aria-label="Command line of the search"><code>${commandOf("plan", flags)}</code></p>`}
  <//>`;
}, "plan", "catalog", "model", "prompt", "gen", "engine", "rate", "clients", "targets", "host", "ram");
