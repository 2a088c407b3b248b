#!/usr/bin/env bash
# Predict every load before it is measured: SET=first predict.sh writes first-predictions-SHA256.jsonl. Needs LLMPROF, and what loads.py wrote to first-traces.
set -eu
here=$(cd "$(dirname "$0")" && pwd); set=${SET:-first}; traces=$here/$set-traces; tmp=$(mktemp)
predicted() { python3 -c 'import json, sys
d = json.load(sys.stdin)
d.pop("timeline", None)
print(json.dumps(d))'; }
tail -n +2 "$traces/loads.tsv" | while IFS=$'\t' read -r server model weights load rate; do
  echo "{\"load\":\"$load\",\"model\":\"$model\",\"weights\":\"$weights\",\"rate\":$rate}"
  "${LLMPROF:-llmprof}" simulate -m "$model" -g h100 --engine vllm --weights "$weights" --trace "$traces/$load.jsonl" --format json |
    predicted
done > "$tmp"
if [ "$set" = third ]; then
  for clients in 16 32 64 96 128 256; do
    echo "{\"load\":\"llama3.1-8b-closed$clients\",\"model\":\"llama3.1-8b\",\"weights\":\"bf16\"}"
    "${LLMPROF:-llmprof}" simulate -m llama3.1-8b -g h100 --engine vllm --concurrency $clients --requests $((4 * clients)) --prompt-len 1024 --gen-len 128 --format json | predicted
  done >> "$tmp"
fi
mv "$tmp" "$here/$set-predictions-$(sha256sum < "$tmp" | cut -d' ' -f1).jsonl"; ls "$here"
