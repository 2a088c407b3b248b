// The client asks a worker. Of the requests of a kind the latest wins: one that has not
// begun is dropped when the next of its kind comes. A worker that takes too long is ended
// and started anew.

const TYPE = "application/wasm";

// compiled is the page's program, compiled as it comes.
async function compiled() {
  const response = await fetch("llmprof.wasm.gz");
  if (!response.ok) throw new Error(`llmprof.wasm.gz: ${response.status} ${response.statusText}`);
  const decoded = response.headers.get("Content-Encoding") === "gzip";
  if (decoded && response.headers.get("Content-Type") === TYPE) return WebAssembly.compileStreaming(response); // the browser keeps its code
  const text = decoded ? response.body : response.body.pipeThrough(new DecompressionStream("gzip"));
  return WebAssembly.compileStreaming(new Response(text, { headers: { "Content-Type": TYPE } }));
}

const program = compiled(); // begins while the libraries load
program.catch(() => {}); // who waits for it tells what went wrong

const LIMIT_OF_FILES = 2000; // ms

const files = new Map(); // that were dropped, for workers that start later

export class Client {
  // limit is how many milliseconds a request may take. The worker starts once hold has come, a late one
  // with the first request.
  constructor(limit, hold, late) {
    this.limit = limit;
    this.hold = hold;
    this.progress = null;
    this.answered = new Promise((resolve) => { this.onanswer = resolve; });
    this.waiting = new Map(); // by kind
    this.running = null;
    this.count = 0;
    if (!late) this.start();
  }

  async start() {
    this.ready = false;
    this.fresh = true;
    const worker = (this.worker = new Worker("worker.js", { type: "module" }));
    worker.onmessage = ({ data }) => {
      if (worker !== this.worker) return;
      if (data.progress) { this.progress?.(...data.progress); return; }
      if (data.started) { this.ready = true; this.next(); return; }
      if (data.ended) { this.again("the estimator stopped and starts anew"); return; }
      this.finish(data);
    };
    worker.onerror = (e) => {
      if (worker !== this.worker) return;
      if (this.ready) this.again(e.message);
      else this.fail(new Error(e.message || "the worker failed"));
    };
    try {
      const module = await program;
      await this.hold;
      for (const [name, f] of files) worker.postMessage({ file: name, ...f });
      worker.postMessage({ module });
    } catch (e) {
      this.broken = e;
      this.fail(e);
    }
  }

  // ask answers with the parsed answer, or null where a later request of the kind came.
  ask(kind, request) {
    return new Promise((resolve, reject) => {
      if (this.broken) { reject(this.broken); return; }
      if (!this.worker) this.start();
      this.waiting.get(kind)?.resolve(null);
      this.waiting.delete(kind); // so that the latest is last
      this.waiting.set(kind, { kind, request, resolve, reject });
      this.next();
    });
  }

  next() {
    if (!this.ready || this.running || this.waiting.size === 0) return;
    const [kind, job] = this.waiting.entries().next().value;
    this.waiting.delete(kind);
    job.id = ++this.count;
    this.running = job;
    const limit = this.limitOf(job.request);
    job.timer = setTimeout(() => this.again(`no answer within ${limit / 1000} s: the estimator was ended and starts anew`), limit);
    this.worker.postMessage({ id: job.id, request: job.request });
  }

  // limitOf is how long a request may take: one about a file is from anyone, and in a new worker the browser compiles as
  // it goes. A search is stopped by hand.
  limitOf({ do: what, flags = {} }) {
    if (what !== "plan" && Object.values(flags).some((v) => v.startsWith("./"))) return Math.min(this.limit, LIMIT_OF_FILES);
    return this.fresh ? 5 * this.limit : this.limit;
  }

  finish({ id, answer }) {
    const job = this.running;
    if (!job || job.id !== id) return;
    clearTimeout(job.timer);
    this.running = null;
    this.fresh = false;
    this.onanswer();
    const parsed = JSON.parse(answer);
    if (parsed.error) job.reject(new Error(parsed.error));
    else job.resolve(parsed);
    this.next();
  }

  // again replaces a worker that takes too long or has failed.
  again(why) {
    const job = this.running;
    this.worker.terminate();
    this.running = null;
    this.onanswer();
    clearTimeout(job?.timer);
    job?.reject(new Error(why));
    this.start();
  }

  // stop ends what runs, if anything does.
  stop() {
    const job = this.running;
    if (!job) return;
    clearTimeout(job.timer);
    this.worker.terminate();
    this.running = this.worker = null;
    job.resolve(null);
  }

  fail(error) {
    const jobs = [this.running, ...this.waiting.values()].filter(Boolean);
    this.running = null;
    this.waiting.clear();
    for (const job of jobs) { clearTimeout(job.timer); job.reject(error); }
  }

  file(name, f) { this.worker?.postMessage({ file: name, ...f }); }
}

// addFile hands a file to all clients, and to the workers that they start later.
export function addFile(clients, name, blob, size = blob.size) {
  files.set(name, { blob, size });
  for (const c of clients) c.file(name, { blob, size });
}
