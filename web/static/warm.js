// A browser compiles a function well only once it has run for some time. Workers share compiled code: once the page rests, a worker of its own asks what
// changes ask, so that a reader's first changes find compiled functions.
import { warms } from "./backend.js";
import { Client } from "./client.js";
import { requestsOf, shown } from "./figures.js";
import { change } from "./order.js";
import { times } from "./times.js";

const REST = 1000; // ms without a change, since a reader who makes one makes more

// DEPLOYMENTS differ in what their estimates go through.
const DEPLOYMENTS = [
  {}, { gpu: "b200-sxm-180gb" }, { dp: "2" }, { ep: "8" }, { pp: "2", "micro-batches": "2" }, { kv: "fp8" }, { engine: "sglang" }, { "expert-skew": "0.5" }, { weights: "bf16", tp: "16" },
  { "gpus-per-node": "4" }, { act: "bf16" }, { model: "qwen3-30b-a3b", tp: "1" }, { model: "llama3.1-8b", tp: "1" }, { sp: "true" }, { "max-num-batched-tokens": "4096" }, { calibration: "default" },
];
const LENGTHS = [{}, { "prompt-len": "300", "gen-len": "300" }];

// settings are flags of each deployment, some of them of clients.
function settings(lengths) {
  return DEPLOYMENTS.map((deployment, i) => ({ model: "deepseek-v3", gpu: "h200-sxm-141gb", tp: "8", ...deployment, ...lengths, ...(i % 4 === 0 && { concurrency: "60" }) }));
}

const resting = () => !document.hidden && times.idle() && performance.now() - change >= REST;

// rest waits until the page rests.
async function rest() {
  while (!resting()) await new Promise((done) => setTimeout(done, REST / 4));
}

// warm ends with what was refused, which none should be, and the milliseconds in which each of the lengths was answered.
export async function warm() {
  if (!warms) return;
  await shown;
  const client = new Client(10000, { late: true }), refused = [], took = [];
  for (const lengths of LENGTHS) {
    let sum = 0;
    for (const request of settings(lengths).flatMap((flags) => Object.values(requestsOf(flags)).filter(Boolean))) {
      await rest();
      const began = performance.now();
      await client.ask("warm", request).catch((e) => refused.push(e.message));
      sum += performance.now() - began;
    }
    took.push(sum);
  }
  client.end();
  times.warm = { refused, took };
}
