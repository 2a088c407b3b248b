#!/usr/bin/env bash
# Predict every load before it is measured: predict.sh writes predictions-SHA256.jsonl of what prepare.py drew in FOLDER. Needs LLMPROF.
set -eu
here=$(cd "$(dirname "$0")" && pwd); tmp=$(mktemp)
cd "$here"
tail -n +2 loads.tsv | while IFS=$'\t' read -r load model rate; do
  echo "{\"load\":\"$load\",\"model\":\"$model\",\"rate\":$rate}"
  "${LLMPROF:-llmprof}" simulate -m "$model" -g h200 --engine vllm@0.33.0+gdn-triton --trace "$load.jsonl" --format json |
    python3 -c 'import json, sys; d = json.load(sys.stdin); d.pop("timeline", None); d.pop("points", None); print(json.dumps(d))'
done > "$tmp"
mv "$tmp" "predictions-$(sha256sum < "$tmp" | cut -d' ' -f1).jsonl"
