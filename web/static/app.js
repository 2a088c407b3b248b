// The page: one state, views of it, and what changes it.
import { h, htm, render, useEffect, useRef, useState } from "./libraries.js";
import { FIRST, asked, command, read, write } from "./state.js";
import { Client, addFile, program } from "./client.js";
import { Controls } from "./controls.js";
import { Accuracy, Compare, GraphView, Latency, Memory, Operators, Pareto, Roofline, Verdict } from "./views.js";
import { save } from "./save.js";
import { opened } from "./drop.js";
const html = htm.bind(h);

const first = new Client(2000), second = new Client(10000, first.answered), clients = [first, second];
export const times = (globalThis.llmprofTimes = { first: null, change: [], pareto: [] });

const TRY = {
  tp: ["1", "2", "4", "8", "16", "32"], pp: ["1", "2", "4", "8", "16"], ep: ["1", "2", "4", "8", "16", "32", "64"], dp: ["1", "2", "4", "8", "16"],
};
const key = (...parts) => JSON.stringify(parts);
const without = (flags, ...names) => Object.fromEntries(Object.entries(flags).filter(([k]) => !names.includes(k)));

// useAnswer asks when what is asked changes, and keeps the last answer until the next has come.
function useAnswer(client, kind, request, then) {
  const [answer, set] = useState({});
  const id = request ? key(request) : "";
  useEffect(() => {
    if (!request) { set({}); return; }
    const begin = performance.now();
    client.ask(kind, request).then(
      (a) => { if (a) { set({ ...a, request }); then?.(performance.now() - begin); } },
      (e) => set((old) => ({ ...old, data: null, text: null, error: e.message, request })),
    );
  }, [id]);
  return answer;
}

const lines = (text) => (text ? text.trim().split("\n").filter(Boolean).map((l) => JSON.parse(l)) : []);
const BATCHES = "1..1024x2";

function useFigures(state, catalog) {
  const flags = asked(state), load = state.view.load, again = state.again; // files that came meanwhile
  const main = useAnswer(first, "estimate", { do: "estimate", flags, again }, (t) => {
    times.first ??= performance.now();
    times.change.push(t);
  });
  const graph = useAnswer(first, "graph", { do: "graph", flags, again });
  const pinned = useAnswer(first, "pinned", state.pin && { do: "estimate", flags: state.pin });
  const one = without(flags, "batch", "rate", "concurrency", "prefix-hit-rate");
  const curve = useAnswer(second, "curve", { do: "sweep", flags: { ...one, batch: BATCHES }, again });
  const oldCurve = useAnswer(second, "oldCurve", state.pin && { do: "sweep", flags: { ...without(state.pin, "batch", "rate", "concurrency", "prefix-hit-rate"), batch: BATCHES } });
  const tries = catalog && { ...TRY, engine: ["", ...catalog.choices.engine], weights: ["", ...catalog.choices.weights], kv: ["", ...catalog.choices.kv], act: ["", ...catalog.choices.act] };
  const options = useAnswer(second, "options", tries && { do: "options", flags, try: tries, again });
  const rates = useAnswer(second, "load", { do: "load", flags: without(flags, "batch", "chunk", "cached-prefix"), again });
  const cards = catalog && paretoCards(state, catalog);
  const pareto = useAnswer(second, "pareto", cards && {
    do: "sweep", flags: { ...without(one, "gpu", "tp", "pp", "ep", "dp", "price", "memory-utilization", "gpus-per-node", "chunk", "max-num-batched-tokens", "calibration", "micro-batches", "sp"), gpu: cards.join(","), tp: "1,2,4,8", batch: "1..1024x4" }, again,
  }, (t) => times.pareto.push(t));
  const gpus = useAnswer(second, "gpus", catalog && { do: "options", flags: without(flags, "gpu", "price"), try: { gpu: catalog.gpus.map((g) => g.key) } });
  const parse = (a) => (a.text ? JSON.parse(a.text) : null);
  return {
    flags, load, error: main.error, text: main.text, doc: parse(main), words: main.data, at: main.request, old: parse(pinned), oldWords: pinned.data, graph: graph.data,
    curve: lines(curve.text), oldCurve: lines(oldCurve.text), refused: { ...options.data, ...gpus.data }, rates: rates.data ?? [], pareto: lines(pareto.text),
  };
}

// paretoCards are the cards that the chart of cost takes: those with a price, and the one chosen.
function paretoCards(state, catalog) {
  const all = catalog.gpus.filter((g) => g.price_usd_per_hour).map((g) => g.key);
  return all.includes(state.flags.gpu) || !catalog.gpus.some((g) => g.key === state.flags.gpu) ? all : [...all, state.flags.gpu];
}

// useMeasuring runs a measurement by the server, and takes its result.
function useMeasuring(local, take, setNote) {
  const [running, set] = useState(null);
  const start = async (order) => {
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
  };
  return { running, start };
}

function useCatalog() {
  const [catalog, set] = useState(null), [accuracy, setAccuracy] = useState(null), [here, setHere] = useState(null);
  useEffect(() => {
    fetch("catalog.json").then((r) => r.json()).then(set);
    program().then(() => fetch("accuracy.json")).then((r) => r.json()).then(setAccuracy, () => setAccuracy([]));
    fetch("here.json").then((r) => (r.ok ? r.json() : null)).then(setHere, () => {});
  }, []);
  return { catalog, accuracy, here };
}

function App() {
  const [state, setState] = useState(() => read(location.hash));
  const [op, setOp] = useState(null), [hover, setHover] = useState(null);
  const [own, setOwn] = useState([]), [note, setNote] = useState("");
  const latest = useRef(state);
  latest.current = state;
  const set = (change) => setState((s) => {
    const next = structuredClone(s);
    change(next);
    for (const name of Object.keys(next.flags)) if (next.flags[name] === "") delete next.flags[name];
    return next;
  });
  const { catalog, accuracy, here } = useCatalog();
  const figures = useFigures(state, catalog);
  useEffect(() => { const f = write(state); if (f !== location.hash) history.replaceState(null, "", f); }, [state]);
  useEffect(() => {
    const changed = () => { if (location.hash !== write(latest.current)) setState(read(location.hash)); };
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  useEffect(() => { document.documentElement.style.colorScheme = state.view.theme ?? ""; }, [state.view.theme]);
  const token = here?.token, asking = { headers: { "X-Llmprof-Token": token ?? "" } };
  const local = async (path, options) => {
    const response = await fetch(path, { ...asking, ...options });
    if (!response.ok) throw new Error((await response.text()).trim());
    return response;
  };
  // A model of the hub is fetched by the server, which hands its config.json on.
  const hub = useRef(new Set());
  useEffect(() => {
    const id = state.flags.model;
    if (!token || !/^[\w.-]+\/[\w.@-]+$/.test(id) || hub.current.has(id) || catalog?.models.some((m) => m.aliases.includes(id))) return;
    hub.current.add(id);
    local(`hub?id=${encodeURIComponent(id)}`).then((r) => r.arrayBuffer()).then((b) => {
      addFile(clients, `hub/${id.replaceAll("/", "--")}.json`, new Uint8Array(b));
      setNote(`${id}: read from the hub.`);
      setState((s) => ({ ...s, again: (s.again ?? 0) + 1 }));
    }, (e) => setNote(e.message));
  }, [state.flags.model, token, catalog]);
  const openResult = (name) => local(`results/${encodeURIComponent(name)}`).then((r) => r.blob()).then((b) => take([new File([b], name)]), (e) => setNote(e.message));
  const take = (list) => opened(list, { set, clients, addFile, second, setOwn, setNote });
  const measuring = useMeasuring(local, take, setNote);
  useEffect(() => {
    const over = (e) => { e.preventDefault(); document.body.classList.add("dropping"); };
    const out = (e) => { if (!e.relatedTarget) document.body.classList.remove("dropping"); };
    const drop = (e) => { e.preventDefault(); document.body.classList.remove("dropping"); take([...e.dataTransfer.files]); };
    addEventListener("dragover", over); addEventListener("dragleave", out); addEventListener("drop", drop);
    return () => { removeEventListener("dragover", over); removeEventListener("dragleave", out); removeEventListener("drop", drop); };
  }, []);
  const view = { state, set, catalog, accuracy, here, own, op, setOp, hover, setHover, take, note, setNote, openResult, measuring, ...figures };
  return html`<${Head} ...${view} />
    <div class="layout">
      <${Controls} ...${view} />
      <main class=${figures.error ? "failed" : ""}>
        <${Verdict} ...${view} />
        <${Compare} ...${view} />
        <${Memory} ...${view} />
        <${Roofline} ...${view} />
        <${Operators} ...${view} />
        <${GraphView} ...${view} />
        <${Latency} ...${view} />
        <${Pareto} ...${view} />
        <${Accuracy} ...${view} />
      </main>
    </div>
    <footer>
      <p>${catalog?.version ?? "llmprof"}. Everything is computed in this page; it asks no other host. Figures are those of <code>llmprof estimate</code>. <a href="LICENSES.txt">Licences of the libraries</a></p>
    </footer>`;
}

function Head({ state, set, flags, text, setNote, note }) {
  const copy = (what, value) => navigator.clipboard.writeText(value).then(() => setNote(`${what} copied.`), () => setNote(value));
  const csv = () => first.ask("csv", { do: "csv", flags }).then((a) => a && save("estimate.csv", a.text, "text/csv"), (e) => setNote(e.message));
  const dark = state.view.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  return html`<header>
    <h1>llmprof <small>what LLM inference costs on a GPU</small></h1>
    <div class="row">
      <button type="button" onClick=${() => copy("Command", command(flags))} title=${command(flags)}>Copy CLI command</button>
      <button type="button" onClick=${() => copy("Link", location.href)}>Copy link</button>
      <button type="button" disabled=${!text} onClick=${() => save("estimate.json", text, "application/json")}>JSON</button>
      <button type="button" disabled=${!text} onClick=${csv}>CSV</button>
      ${state.pin
        ? html`<button type="button" class="on" onClick=${() => set((s) => { s.pin = null; })}>Unpin A</button>`
        : html`<button type="button" onClick=${() => set((s) => { s.pin = asked(s); })}>Pin as A</button>`}
      <button type="button" onClick=${() => set((s) => { s.view.theme = dark === "dark" ? "light" : "dark"; })}>${dark === "dark" ? "Light" : "Dark"}</button>
      <button type="button" onClick=${() => set((s) => { Object.assign(s, structuredClone(FIRST)); })}>Reset</button>
    </div>
    <p class="note" role="status">${note}</p>
  </header>`;
}

const root = document.getElementById("app");
root.replaceChildren();
render(html`<${App} />`, root);
