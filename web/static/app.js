// The page: one state, views of it, and what changes it.
import { h, htm, render, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./libraries.js";
import { FIRST, asked, changed, command, read, write } from "./state.js";
import { addFile } from "./client.js";
import { clients, first, second, useFigures } from "./figures.js";
import { begins } from "./order.js";
import { kept } from "./kept.js";
import { Controls } from "./controls.js";
import { Brief, Verdict } from "./verdict.js";
import { Compare } from "./compare.js";
import { Memory } from "./memory.js";
import { GraphView, Operators, Roofline } from "./operators.js";
import { Latency, Rates } from "./latency.js";
import { Pareto } from "./pareto.js";
import { Accuracy } from "./accuracy.js";
import { Plan } from "./plan.js";
import { save } from "./save.js";
import { opened } from "./drop.js";
const html = htm.bind(h);

// useMeasuring runs a measurement by the server, and takes its result.
function useMeasuring(local, take, setNote) {
  const [running, set] = useState(null);
  const start = useCallback(async (order) => {
    const stop = new AbortController();
    set(stop);
    setNote("Measuring begins.");
    try {
      const response = await local("measure", { method: "POST", body: JSON.stringify(order), signal: stop.signal });
      let rest = "";
      for await (const part of response.body.pipeThrough(new TextDecoderStream())) {
        const all = (rest + part).split("\n");
        rest = all.pop();
        for (const line of all.filter(Boolean)) {
          const event = JSON.parse(line);
          if (event.error) throw new Error(event.error);
          if (event.progress) setNote(event.progress);
          if (event.result) take([new File([event.result], "measured.json")]);
        }
      }
    } catch (e) { setNote(stop.signal.aborted ? "The measurement was stopped." : e.message); }
    set(null);
  }, [local, take]);
  return useMemo(() => ({ running, start }), [running, start]);
}

// observations are the measured times, which come as columns.
function observations(columns) {
  const names = Object.keys(columns);
  return columns.value.map((value, i) => {
    const o = Object.fromEntries(names.map((n) => [n, columns[n][i]]));
    return { ...o, error: o.predicted / value - 1 };
  });
}

function useCatalog() {
  const [catalog, set] = useState(null), [accuracy, setAccuracy] = useState(null), [here, setHere] = useState(null);
  useEffect(() => {
    fetch("catalog.json").then((r) => r.json()).then(set);
    first.answered.then(() => fetch("accuracy.json")).then((r) => r.json()).then((columns) => setAccuracy(observations(columns)), () => setAccuracy([]));
    fetch("here.json").then((r) => (r.ok ? r.json() : null)).then(setHere, () => {});
  }, []);
  return { catalog, accuracy, here };
}

const PAUSE = 1000; // ms between changes that the back button takes back one by one

// readLink is the state of the address; what it has besides is told.
function readLink(tell) {
  const left = [];
  const found = read(location.hash, (key) => left.push(key));
  if (left.length) tell(`The link also has ${left.slice(0, 3).map((k) => k.slice(0, 30)).join(", ")}${left.length > 3 ? ` and ${left.length - 3} more` : ""}, which this version does not know.`);
  return found;
}

// useLink keeps the address and the state the same: a change is an entry of the browser's history, and
// those that follow at once, as of a slider, are one with it.
function useLink(state, setState, setNote) {
  const latest = useRef(state), last = useRef(-PAUSE), moved = useRef(true), waits = useRef(false), shown = useRef(location.hash);
  latest.current = state;
  const put = () => {
    waits.current = false;
    if (location.hash !== shown.current) return; // it was changed meanwhile, of which the event comes
    const link = write(latest.current), now = performance.now();
    if (link !== location.hash) {
      if (moved.current || now - last.current < PAUSE) history.replaceState(null, "", link);
      else history.pushState(null, "", link);
      last.current = now;
      shown.current = location.hash;
    }
    moved.current = false;
  };
  useLayoutEffect(() => { // while the worker computes, for the browser takes milliseconds
    if (!waits.current) { waits.current = true; setTimeout(put); }
  }, [state]);
  useEffect(() => {
    const came = () => {
      shown.current = location.hash;
      if (location.hash === write(latest.current)) return;
      begins();
      moved.current = true;
      last.current = -PAUSE;
      const found = readLink(setNote);
      setState((s) => changed(s, (next) => Object.assign(next, found)));
    };
    addEventListener("popstate", came);
    addEventListener("hashchange", came);
    return () => { removeEventListener("popstate", came); removeEventListener("hashchange", came); };
  }, []);
}

// shareOf is the share of the memory that the engine of an estimate takes.
const shareOf = (doc) => (doc ? String(Math.round((100 * doc.memory.usable_bytes) / doc.memory.capacity_bytes) / 100) : "");

function App() {
  const [op, setOp] = useState(null), [hover, setHover] = useState(null);
  const [own, setOwn] = useState([]), [note, setNote] = useState("");
  const [state, setState] = useState(() => readLink(setNote));
  const set = useCallback((change) => { begins(); setState((s) => changed(s, change)); }, []);
  useLink(state, setState, setNote);
  const { catalog, accuracy, here } = useCatalog();
  const figures = useFigures(state, catalog);
  useEffect(() => { document.documentElement.style.colorScheme = state.view.theme ?? ""; }, [state.view.theme]);
  const token = here?.token;
  const local = useCallback(async (path, options) => {
    const response = await fetch(path, { headers: { "X-Llmprof-Token": token ?? "" }, ...options });
    if (!response.ok) throw new Error((await response.text()).trim());
    return response;
  }, [token]);
  // A model of the hub is fetched by the server, which hands its config.json on.
  const hub = useRef(new Set());
  useEffect(() => {
    const id = state.flags.model;
    if (!token || !/^[\w-][\w.-]*\/[\w.@-]+$/.test(id) || hub.current.has(id) || catalog?.models.some((m) => m.aliases.includes(id))) return;
    hub.current.add(id);
    local(`hub?id=${encodeURIComponent(id)}`).then((r) => r.blob()).then((b) => {
      addFile(clients, `hub/${id.replaceAll("/", "--")}.json`, b);
      setNote(`${id}: read from the hub.`);
      setState((s) => ({ ...s, again: (s.again ?? 0) + 1 }));
    }, (e) => setNote(e.message));
  }, [state.flags.model, token, catalog]);
  const take = useCallback((list) => opened(list, { set, clients, addFile, second, setOwn, setNote }), []);
  const openResult = useCallback((name) => local(`results/${encodeURIComponent(name)}`).then((r) => r.blob()).then((b) => take([new File([b], name)]), (e) => setNote(e.message)), [local]);
  const measuring = useMeasuring(local, take, setNote);
  useEffect(() => {
    const over = (e) => { e.preventDefault(); document.body.classList.add("dropping"); };
    const out = (e) => { if (!e.relatedTarget) document.body.classList.remove("dropping"); };
    const drop = (e) => { e.preventDefault(); document.body.classList.remove("dropping"); take([...e.dataTransfer.files]); };
    addEventListener("dragover", over); addEventListener("dragleave", out); addEventListener("drop", drop);
    return () => { removeEventListener("dragover", over); removeEventListener("dragleave", out); removeEventListener("drop", drop); };
  }, []);
  const { flags, targets, view: { phase, load }, pin } = state;
  const all = { state, set, targets, phase, load, pin, catalog, accuracy, here, own, utilization: shareOf(figures.doc), op, setOp, hover, setHover, take, note, setNote, openResult, measuring, ...figures,
    model: flags.model, batch: flags.batch ?? "1", rate: figures.flags.rate, clients: figures.flags.concurrency, prompt: flags["prompt-len"], gen: flags["gen-len"], engine: flags.engine };
  return html`<${Head} all=${all} />
    <${Brief} all=${all} />
    <div class="layout">
      <${Controls} all=${all} />
      <main class=${figures.error ? "failed" : ""}>
        <${Verdict} all=${all} />
        <${Compare} all=${all} />
        <${Memory} all=${all} />
        <${Roofline} all=${all} />
        <${Operators} all=${all} />
        <${GraphView} all=${all} />
        <${Latency} all=${all} />
        <${Rates} all=${all} />
        <${Pareto} all=${all} />
        <${Accuracy} all=${all} />
        <${Plan} all=${all} />
      </main>
    </div>
    <footer>
      <p>${catalog?.version.split(" ").slice(0, 2).join(" ") ?? "llmprof"}. Everything is computed in this page; it asks no other host. Figures are those of <code>llmprof estimate</code>. <a href="LICENSES.txt">Licences of the libraries</a></p>
    </footer>`;
}

const darkness = matchMedia("(prefers-color-scheme: dark)");

const Head = kept(function Head({ state, set, flags, error, noState, doc, setNote, note }) {
  const none = !doc || error || noState;
  const copy = (what, value) => navigator.clipboard.writeText(value).then(() => setNote(`${what} copied.`), () => setNote(value));
  const file = (ask, name, type) => second.ask(name, { do: ask, flags, again: state.again }).then((a) => a && save(name, a.text, type), (e) => setNote(e.message));
  const dark = state.view.theme ?? (darkness.matches ? "dark" : "light");
  return html`<header>
    <button type="button" class="skip" onClick=${() => document.getElementById("verdict").focus()}>To the verdict</button>
    <h1>llmprof <small>what LLM inference costs on a GPU</small></h1>
    <div class="row">
      <button type="button" onClick=${() => copy("Command", command(flags))} title=${command(flags)}>Copy CLI command</button>
      <button type="button" onClick=${() => copy("Link", location.href.split("#")[0] + write(state))}>Copy link</button>
      <button type="button" disabled=${none} onClick=${() => file("json", "estimate.json", "application/json")}>JSON</button>
      <button type="button" disabled=${none} onClick=${() => file("csv", "estimate.csv", "text/csv")}>CSV</button>
      ${state.pin
        ? html`<button type="button" class="on" onClick=${() => set((s) => { s.pin = null; })}>Unpin A</button>`
        : html`<button type="button" onClick=${() => set((s) => { s.pin = asked(s); })}>Pin as A</button>`}
      <button type="button" onClick=${() => set((s) => { s.view.theme = dark === "dark" ? "light" : "dark"; })}>${dark === "dark" ? "Light" : "Dark"}</button>
      <button type="button" onClick=${() => set((s) => { Object.assign(s, structuredClone(FIRST)); })}>Reset</button>
    </div>
    <div class="notes" role="status"><p key=${note} class="note" title=${note}>${note}</p></div>
  </header>`;
}, null, "state", "flags", "error", "noState", "doc", "note");

const root = document.getElementById("app");
root.replaceChildren();
render(html`<${App} />`, root);
