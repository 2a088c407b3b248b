#!/usr/bin/env bash
# Predict every load before it is measured: SET=first predict.sh writes first-predictions-SHA256.jsonl. Needs LLMPROF, and what loads.py wrote to first-traces.
set -eu
here=$(cd "$(dirname "$0")" && pwd); set=${SET:-first}; traces=$here/$set-traces; tmp=$(mktemp)
tail -n +2 "$traces/loads.tsv" | while IFS=$'\t' read -r server model weights load rate; do
  echo "{\"load\":\"$load\",\"model\":\"$model\",\"weights\":\"$weights\",\"rate\":$rate}"
  "${LLMPROF:-llmprof}" simulate -m "$model" -g h100 --engine vllm --weights "$weights" --trace "$traces/$load.jsonl" --format json |
    python3 -c 'import json, sys
d = json.load(sys.stdin)
for p in d["points"]: p.pop("timeline", None)
d["load"].pop("trace", None) if isinstance(d.get("load"), dict) else None
print(json.dumps(d))'
done > "$tmp"
mv "$tmp" "$here/$set-predictions-$(sha256sum < "$tmp" | cut -d' ' -f1).jsonl"; ls "$here"
