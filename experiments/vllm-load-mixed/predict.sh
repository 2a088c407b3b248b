#!/usr/bin/env bash
# Predict every load before it is measured: GPU=h100 predict.sh FOLDER writes FOLDER/predictions-SHA256.jsonl. Needs LLMPROF, and the traces beside this script.
# GPU=h200 LOADS=lengths predicts the loads of the servers `lengths` and `sampled` of load.sh.
set -eu
here=$(cd "$(dirname "$0")" && pwd); to=$(cd "$1" && pwd); llmprof=${LLMPROF:-llmprof}; gpu=${GPU:-h100}; tmp=$(mktemp)
traces=traces; [ "$gpu" = h100 ] || traces=traces-$gpu
p() { # name, model and flags
  echo "{\"load\":\"$1\",\"model\":\"$2\",\"args\":\"${*:3}\"}"; (cd "$here"; $llmprof simulate -m "$2" -g "$gpu" --engine vllm "${@:3}" --format json) | python3 -c 'import json, sys
d = json.load(sys.stdin)
for p in d["points"]: p.pop("timeline", None)
print(json.dumps(d))'; }
lengths() {
  for l in short80 long80 short40; do p $l llama3.1-8b --trace $traces/$l.jsonl; done
  p prompts llama3.1-8b --concurrency 8 --requests 320 --prompt-len 1024 --gen-len 1
  p closed32 llama3.1-8b --concurrency 32 --requests 128 --prompt-len 1024 --gen-len 256
  for l in moe50 moe80; do p $l-sampled qwen3-30b-a3b --trace $traces/$l.jsonl; done
}
capacity() {
  for l in load20 load50 load80 load95 load120 mixed50 mixed80 prefix; do p $l llama3.1-8b --trace $traces/$l.jsonl; done
  for l in prefix load80; do p $l-off llama3.1-8b --trace $traces/$l.jsonl --no-prefix-cache; done
  p closed64 llama3.1-8b --concurrency 64 --requests 512 --prompt-len 1024 --gen-len 128
  p closed96-mixed llama3.1-8b --concurrency 96 --requests 480 --prompt-len lognormal:1024,1 --gen-len lognormal:200,0.8
  if [ "$gpu" = h200 ]; then
    for l in moe50 moe80; do p $l qwen3-30b-a3b --trace $traces/$l.jsonl; done
    p moe-closed32 qwen3-30b-a3b --concurrency 32 --requests 256 --prompt-len 1024 --gen-len 128
  fi
}
${LOADS:-capacity} > "$tmp"
mv "$tmp" "$to/predictions-$(sha256sum < "$tmp" | cut -d' ' -f1).jsonl"; ls "$to"/predictions-*
