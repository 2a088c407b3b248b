#!/usr/bin/env bash
# Predict loads before they are measured by `ONLY=loads run.sh`, on both kinds of GPU that may come: predict.sh writes predictions-SHA256.jsonl. Needs LLMPROF.
set -eu
cd "$(dirname "$0")/.."; tmp=$(mktemp)
for gpu in h100 h200; do
  for load in vllm-load-models/third-traces/qwen3-30b-a3b-{50,80} vllm-load-models/second-traces/llama3.1-8b-fp8-{20,50,80} vllm-load-models/first-traces/qwen2.5-7b-{50,80,short-80}; do
    name=$(basename "$load") weights=bf16; model=${name%-*}; [[ $name == *-fp8-* ]] && weights=fp8 model=${name%-fp8-*}; model=${model%-short}
    echo "{\"load\":\"$name\",\"gpu\":\"$gpu\",\"model\":\"$model\",\"weights\":\"$weights\"}"
    "${LLMPROF:-llmprof}" simulate -m "$model" -g "$gpu" --engine vllm --weights "$weights" --trace "$load.jsonl" --format json | python3 -c 'import json, sys
d = json.load(sys.stdin)
d.pop("timeline", None)
print(json.dumps(d))'
  done
done > "$tmp"
mv "$tmp" "vllm-host/predictions-$(sha256sum < "$tmp" | cut -d' ' -f1).jsonl"; ls vllm-host
