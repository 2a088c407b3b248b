// A browser compiles a function well once it has run for some time, until when it takes two to three times as long. Workers share compiled
// code: once the page rests, a worker of its own asks what changes ask, so that a reader's first changes are as quick as later ones.
import { Client } from "./client.js";
import { shown } from "./figures.js";
import { change } from "./order.js";
import { times } from "./times.js";

const REST = 1000; // ms without a change, since a reader who makes one makes more

// DEPLOYMENTS differ in what their estimates go through.
const DEPLOYMENTS = [
  {}, { gpu: "b200-sxm-180gb" }, { dp: "2" }, { ep: "8" }, { pp: "2", "micro-batches": "2" }, { kv: "fp8" }, { engine: "sglang" }, { "expert-skew": "0.5" }, { weights: "bf16", tp: "16" },
  { "gpus-per-node": "4" }, { act: "bf16" }, { model: "qwen3-30b-a3b", tp: "1" }, { model: "llama3.1-8b", tp: "1" }, { sp: "true" }, { "max-num-batched-tokens": "4096" }, { calibration: "default" },
];
const LENGTHS = [{}, { "prompt-len": "300", "gen-len": "300" }];

// requests are what the views of some deployments ask.
function* requests() {
  for (const lengths of LENGTHS) {
    for (const [i, deployment] of DEPLOYMENTS.entries()) {
      const flags = { model: "deepseek-v3", gpu: "h200-sxm-141gb", tp: "8", ...deployment, ...lengths };
      yield { do: "load", flags };
      yield { do: "estimate", flags };
      yield { do: "sweep", flags: { ...flags, batch: "1..1024x2" } };
      if (i % 4 === 0) yield { do: "under", flags: { ...flags, concurrency: "60" } };
    }
  }
}

const resting = () => !document.hidden && times.idle() && performance.now() - change >= REST;

// rest waits until the page rests.
async function rest() {
  while (!resting()) await new Promise((done) => setTimeout(done, REST / 4));
}

export async function warm() {
  await shown;
  const client = new Client(10000, { late: true });
  for (const request of requests()) {
    await rest();
    await client.ask("warm", request).catch(() => {}); // as of a model that a later table lacks
  }
  client.end();
  times.warm = true;
}
