// The estimator of a page that no server answers: workers that run its program.

// compiled is the page's program, compiled as it comes. The browser does not keep the code: for that it would hash all of the
// program again whenever it has compiled more of it, 9 ms in which views wait on two processors.
async function compiled() {
  const response = await fetch("llmprof.wasm.gz");
  if (!response.ok) throw new Error(`llmprof.wasm.gz: ${response.status} ${response.statusText}`);
  const text = response.headers.get("Content-Encoding") === "gzip" ? response.body : response.body.pipeThrough(new DecompressionStream("gzip"));
  return WebAssembly.compileStreaming(new Response(text, { headers: { "Content-Type": "application/wasm" } }));
}

export const program = compiled(); // begins while the libraries load
program.catch(() => {}); // who waits for it tells what went wrong
export const warms = true;

export const begin = () => new Worker("worker.js", { type: "module" });
