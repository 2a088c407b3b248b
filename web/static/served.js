// The estimator of a page that "llmprof serve" shows: requests to the server, in which the same Go code answers them. It takes and
// sends the messages of the worker that runs the program in a page without a server.
import { lines, local } from "./local.js";

export const program = Promise.resolve(); // there is none to wait for
export const warms = false; // the server's code is compiled

const sent = new Map(); // files by their names
let files = Promise.resolve(); // comes when all of them are there

// send hands a file to the server, which all workers read it from.
function send(name, blob, size) {
  if (sent.get(name) === blob) return;
  sent.set(name, blob);
  const put = () => local(`file?name=${encodeURIComponent(name)}&size=${size}`, { method: "POST", body: blob });
  files = files.then(put).catch((e) => console.warn(`${name}: ${e.message}`));
}

class Estimator {
  constructor() {
    this.name = crypto.randomUUID();
    this.stop = new AbortController();
    this.last = Promise.resolve();
  }

  postMessage(message) {
    if ("module" in message) queueMicrotask(() => this.onmessage({ data: { started: true } }));
    else if (message.file) send(message.file, message.blob, message.size);
    else this.last = this.last.then(() => this.ask(message));
  }

  async ask({ id, request }) {
    try {
      const body = JSON.stringify(request);
      await files;
      for await (const line of lines(await local(`ask?worker=${this.name}`, { method: "POST", body, signal: this.stop.signal }))) {
        this.onmessage({ data: line.startsWith('{"progress":') ? JSON.parse(line) : { id, answer: line } });
      }
    } catch (e) {
      if (!this.stop.signal.aborted) this.onerror(e);
    }
  }

  terminate() { this.stop.abort(); }
}

export const begin = () => new Estimator();
