// The page: one state, views of it, and what changes it.
import { render, useCallback, useEffect, useMemo, useRef, useState } from "./libraries.js";
import { html } from "./html.js";
import { FIRST, asked, changed, command, read, write } from "./state.js";
import { addFile } from "./client.js";
import { ask, clients, figures, second, shown } from "./figures.js";
import { awaiting, begins, figuring, later } from "./order.js";
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
import { warm } from "./warm.js";
import { opened } from "./drop.js";
import { lines, local, token } from "./local.js";

// useMeasuring runs a measurement by the server, and takes its result.
function useMeasuring(take, setNote) {
  const [running, set] = useState(null);
  const start = useCallback(async (order) => {
    const stop = new AbortController();
    set(stop);
    setNote("Measuring begins.");
    try {
      const response = await local("measure", { method: "POST", body: JSON.stringify(order), signal: stop.signal });
      for await (const line of lines(response)) {
        const event = JSON.parse(line);
        if (event.error) throw new Error(event.error);
        if (event.progress) setNote(event.progress);
        if (event.result) take([new File([event.result], "measured.json")]);
      }
    } catch (e) { setNote(stop.signal.aborted ? "The measurement was stopped." : e.message); }
    set(null);
  }, [take]);
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

function useCatalog(setNote) {
  const [catalog, set] = useState(null), [accuracy, setAccuracy] = useState(null), [here, setHere] = useState(null);
  useEffect(() => {
    fetch("catalog.json").then((r) => r.json()).then(set);
    shown.then(() => fetch("accuracy.json")).then((r) => r.json()).then((columns) => setAccuracy(observations(columns)), () => setAccuracy([]));
    if (token) local("here.json").then((r) => r.json()).then(setHere, (e) => setNote(e.message));
  }, []);
  return { catalog, accuracy, here };
}

const PAUSE = 1000; // ms between changes that the back button takes back one by one

// readLink is the state of the address; what it has besides is told.
function readLink(tell) {
  const left = [];
  const found = read(location.hash, (key) => left.push(key));
  if (left.length) tell(`The link also has ${left.slice(0, 3).map((k) => k.slice(0, 30)).join(", ")}${left.length > 3 ? ` and ${left.length - 3} more` : ""}, which this version cannot read.`);
  return found;
}

// linked keeps the address as the state is: a change is an entry of the browser's history, and those that follow at once, as
// of a slider, are one with it. It gives what writes the address, and what takes the state of one that has changed. The address is
// written once views in the window have followed: for a new one the browser takes some 10 ms of a processor, in which it draws none.
function linked(page, setNote) {
  let last = -PAUSE, moved = true, shown = location.hash;
  const put = () => {
    if (location.hash !== shown) return; // it was changed meanwhile, of which the event comes
    const link = write(page.state), now = performance.now();
    if (link !== location.hash) {
      if (moved || now - last < PAUSE) history.replaceState(null, "", link);
      else history.pushState(null, "", link);
      last = now;
      shown = location.hash;
    }
    moved = false;
  };
  const came = () => {
    shown = location.hash;
    if (shown === write(page.state)) return;
    moved = true;
    last = -PAUSE;
    const found = readLink(setNote);
    page.set((next) => Object.assign(next, found));
  };
  return { came, wrote: () => later("address", put) };
}

const PATIENCE = 12; // ms for which a change or an answer waits for further answers to views in the window; a change waits as long again for the figures

// useChanges is the state and what changes it. A change asks at once and is drawn with its answers, those that come soon after each other together,
// as two drawings take the browser twice as long.
function useChanges(catalog, setNote) {
  const [, redraw] = useState(0);
  const page = useMemo(() => {
    const page = { state: readLink(setNote), catalog: null }, link = linked(page, setNote);
    let timer = 0;
    const draw = () => { clearTimeout(timer); timer = 0; redraw((n) => n + 1); };
    const wait = (then) => { timer ||= setTimeout(then, PATIENCE); };
    const tire = () => { timer = 0; if (figuring()) wait(draw); else draw(); };
    page.follow = () => ask(page.state, page.catalog, () => { if (awaiting()) wait(draw); else draw(); });
    page.set = (change) => {
      begins();
      page.state = changed(page.state, change);
      wait(tire);
      page.follow();
      if (!awaiting()) draw();
      link.wrote();
    };
    page.came = link.came;
    page.follow();
    link.wrote();
    return page;
  }, []);
  useEffect(() => { page.catalog = catalog; page.follow(); }, [catalog]);
  useEffect(() => {
    addEventListener("popstate", page.came); addEventListener("hashchange", page.came);
    return () => { removeEventListener("popstate", page.came); removeEventListener("hashchange", page.came); };
  }, []);
  return [page.state, page.set];
}

const darkness = matchMedia("(prefers-color-scheme: dark)");

// useDarkness reports whether the reader's system is dark, which may change while the page is open.
function useDarkness() {
  const [dark, set] = useState(darkness.matches);
  useEffect(() => darkness.addEventListener("change", (e) => set(e.matches)), []);
  return dark;
}

// shareOf is the share of the memory that the engine of an estimate takes.
const shareOf = (doc) => (doc ? String(Math.round(1000 * doc.memory.utilization) / 1000) : "");

// cardOf is the GPU of the catalog that a name stands for, which an estimate says where it is another name.
const cardOf = (catalog, name, { doc, error }) => catalog?.gpus.find((g) => g.key === name) ?? (!error && catalog?.gpus.find((g) => g.key === doc?.gpu.key)) ?? undefined;

function App() {
  const [op, setOp] = useState(null), [hover, setHover] = useState(null);
  const [own, setOwn] = useState([]), [note, setNote] = useState("");
  const { catalog, accuracy, here } = useCatalog(setNote), [state, set] = useChanges(catalog, setNote), now = figures();
  useEffect(() => { document.documentElement.style.colorScheme = state.view.theme ?? ""; }, [state.view.theme]);
  // A model of the hub is fetched by the server, which hands its config.json on.
  const hub = useRef(new Set());
  useEffect(() => {
    const id = state.flags.model;
    if (!here || !/^[\w-][\w.-]*\/[\w.@-]+$/.test(id) || hub.current.has(id) || catalog?.models.some((m) => m.aliases.includes(id))) return;
    hub.current.add(id);
    local(`hub?id=${encodeURIComponent(id)}`).then((r) => r.blob()).then((b) => {
      addFile(clients, `hub/${id.replaceAll("/", "--")}.json`, b);
      setNote(`${id}: read from the hub.`);
      set((s) => { s.again = (s.again ?? 0) + 1; });
    }, (e) => setNote(e.message));
  }, [state.flags.model, here, catalog]);
  const take = useCallback((list) => opened(list, { set, clients, addFile, second, setOwn, setNote }), []);
  const openResult = useCallback((name) => local(`results/${encodeURIComponent(name)}`).then((r) => r.blob()).then((b) => take([new File([b], name)]), (e) => setNote(e.message)), [take]);
  const measuring = useMeasuring(take, setNote);
  useEffect(() => {
    const over = (e) => { e.preventDefault(); document.body.classList.add("dropping"); };
    const out = (e) => { if (!e.relatedTarget) document.body.classList.remove("dropping"); };
    const drop = (e) => { e.preventDefault(); document.body.classList.remove("dropping"); take([...e.dataTransfer.files]); };
    addEventListener("dragover", over); addEventListener("dragleave", out); addEventListener("drop", drop);
    return () => { removeEventListener("dragover", over); removeEventListener("dragleave", out); removeEventListener("drop", drop); };
  }, []);
  const { flags, targets, view: { phase: wanted, load }, pin } = state, phase = now.doc && !now.doc.decode ? "prefill" : wanted;
  const all = { state, set, targets, phase, load, pin, catalog, accuracy, here, own, utilization: shareOf(now.doc), card: cardOf(catalog, flags.gpu, now), op, setOp, hover, setHover, take, night: useDarkness(), note, setNote, openResult, measuring, ...now,
    model: flags.model, batch: flags.batch ?? "1", rate: now.flags.rate, clients: now.flags.concurrency, prompt: flags["prompt-len"], gen: flags["gen-len"], engine: flags.engine, host: flags.host, ram: flags.ram };
  return html`<${Head} all=${all} />
    <${Brief} all=${all} />
    <div class="layout">
      <${Controls} all=${all} />
      <main class=${now.error ? "failed" : ""}>
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
      <p>${catalog?.version.split(" ").slice(0, 2).join(" ") ?? "llmprof"}. It asks no host but its own. Figures are those of <code>llmprof estimate</code>. <a href="LICENSES.txt">Licences of the libraries</a></p>
    </footer>`;
}

const Head = kept(function Head({ state, set, flags, error, noState, doc, setNote, note, night }) {
  const none = !doc || error || noState;
  const copy = (what, value) => navigator.clipboard.writeText(value).then(() => setNote(`${what} copied.`), () => setNote(value));
  const file = (ask, name, type) => second.ask(name, { do: ask, flags, again: state.again }).then((a) => a && save(name, a.text, type), (e) => setNote(e.message));
  const dark = state.view.theme ?? (night ? "dark" : "light");
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
}, null, "state", "flags", "error", "noState", "doc", "note", "night");

const root = document.getElementById("app");
root.replaceChildren();
render(html`<${App} />`, root);
warm();
