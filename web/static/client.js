// The client asks a worker. Of the requests of a kind the latest wins: one that has not
// begun is dropped when the next of its kind comes. A worker that takes too long is ended
// and started anew.

import { begin, program } from "./backend.js"; // program.js in a page without a server, else served.js

const LIMIT_OF_FILES = 2000; // ms

const files = new Map(); // that were dropped, for workers that start later

export class Client {
  // limit is how many milliseconds a request may take. The worker starts once hold has come, a late one with the first request. It
  // has up to ahead requests at once, so that it begins one as it ends another; a later request of the kind drops none of them.
  constructor(limit, { hold, late, ahead = 1 } = {}) {
    Object.assign(this, { limit, hold, ahead });
    this.progress = null;
    this.answered = new Promise((resolve) => { this.onanswer = resolve; });
    this.waiting = new Map(); // by kind
    this.running = new Map(); // by number, in the order in which the worker answers
    this.count = 0;
    if (!late) this.start();
  }

  async start() {
    this.ready = false;
    this.fresh = this.started = true;
    try {
      if (this.hold) { await program; await this.hold; }
      const worker = this.listen(begin());
      const module = await program;
      for (const [name, f] of files) worker.postMessage({ file: name, ...f });
      worker.postMessage({ module });
    } catch (e) {
      this.broken = e;
      this.fail(e);
    }
  }

  // listen takes what a worker that has just started says.
  listen(worker) {
    this.worker = worker;
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
    return worker;
  }

  // ask answers with the parsed answer, or null where a later request of the kind came.
  ask(kind, request) {
    return new Promise((resolve, reject) => {
      if (this.broken) { reject(this.broken); return; }
      if (!this.started) this.start();
      this.waiting.get(kind)?.resolve(null);
      this.waiting.delete(kind); // so that the latest is last
      this.waiting.set(kind, { kind, request, resolve, reject });
      this.next();
    });
  }

  busy() { return this.running.size + this.waiting.size > 0; }

  next() {
    while (this.ready && this.running.size < this.ahead && this.waiting.size) {
      const [kind, job] = this.waiting.entries().next().value;
      this.waiting.delete(kind);
      this.running.set(++this.count, job);
      if (this.running.size === 1) this.begins(job);
      this.worker.postMessage({ id: this.count, request: job.request });
    }
  }

  // begins limits the time of a request from when the worker has no other before it.
  begins(job) {
    const limit = this.limitOf(job.request);
    job.timer = setTimeout(() => this.again(`no answer within ${limit / 1000} s: the estimator was ended and starts anew`), limit);
  }

  // first takes the request that the worker is at.
  first() {
    const [[id, job] = []] = this.running;
    clearTimeout(job?.timer);
    this.running.delete(id);
    return job;
  }

  // limitOf is how long a request may take: one about a file is from anyone, and in a new worker the browser compiles as
  // it goes. A search is stopped by hand.
  limitOf({ do: what, flags = {} }) {
    if (what !== "plan" && Object.values(flags).some((v) => v.startsWith("./"))) return Math.min(this.limit, LIMIT_OF_FILES);
    return this.fresh ? 5 * this.limit : this.limit;
  }

  finish({ id, answer }) {
    if (!this.running.has(id)) return;
    const job = this.first(), [then] = this.running.values();
    this.fresh = false;
    if (then) this.begins(then);
    this.onanswer();
    this.next();
    const parsed = JSON.parse(answer);
    if (parsed.error) job.reject(new Error(parsed.error));
    else job.resolve(parsed);
  }

  // again replaces a worker that takes too long or has failed. What it had not begun is asked anew, unless a later request of its kind waits.
  again(why) {
    this.worker.terminate();
    this.onanswer();
    this.first()?.reject(new Error(why));
    for (const job of this.running.values()) if (this.waiting.has(job.kind)) job.resolve(null); else this.waiting.set(job.kind, job);
    this.running.clear();
    this.start();
  }

  // stop ends what runs, if anything does.
  stop() {
    const jobs = this.unanswered();
    if (jobs.length) this.end();
    for (const job of jobs) job.resolve(null);
  }

  // end ends the worker, until the next request.
  end() {
    this.worker?.terminate();
    this.worker = null;
    this.started = false;
  }

  // unanswered takes all requests.
  unanswered() {
    const jobs = [...this.running.values(), ...this.waiting.values()];
    this.running.clear();
    this.waiting.clear();
    for (const job of jobs) clearTimeout(job.timer);
    return jobs;
  }

  fail(error) {
    for (const job of this.unanswered()) job.reject(error);
  }

  file(name, f) { this.worker?.postMessage({ file: name, ...f }); }
}

// addFile hands a file to all clients, and to the workers that they start later.
export function addFile(clients, name, blob, size = blob.size) {
  files.set(name, { blob, size });
  for (const c of clients) c.file(name, { blob, size });
}
