// The worker runs the page's program and answers one request at a time.
import { put } from "./files.js";
import "./wasm_exec.js";

let ready;
const started = new Promise((resolve) => { ready = resolve; });
globalThis.llmprofReady = () => ready();

globalThis.llmprofProgress = (done, of) => postMessage({ progress: [done, of] });

async function start(module) {
  const go = new Go();
  go.run(await WebAssembly.instantiate(module, go.importObject)).then(() => postMessage({ ended: true })); // as without memory
  await started;
  postMessage({ started: true });
}

onmessage = ({ data }) => {
  if (data.module) { start(data.module); return; }
  if (data.file) {
    put(data.file, data.blob, data.size);
    if (globalThis.llmprof) globalThis.llmprof('{"do":"forget"}');
    return;
  }
  const answer = globalThis.llmprof(JSON.stringify(data.request));
  if (answer !== undefined) postMessage({ id: data.id, answer });
};
