// The compiler is a worker that fetches the page's program, compiles it as it comes and hands it to the page.
const TYPE = "application/wasm";

async function compile() {
  const response = await fetch("llmprof.wasm.gz");
  if (!response.ok) throw new Error(`llmprof.wasm.gz: ${response.status} ${response.statusText}`);
  const decoded = response.headers.get("Content-Encoding") === "gzip";
  if (decoded && response.headers.get("Content-Type") === TYPE) return WebAssembly.compileStreaming(response); // the browser keeps its code
  const text = decoded ? response.body : response.body.pipeThrough(new DecompressionStream("gzip"));
  return WebAssembly.compileStreaming(new Response(text, { headers: { "Content-Type": TYPE } }));
}

compile().then((module) => postMessage({ module }), (e) => postMessage({ error: e.message }));
