#!/usr/bin/env bash
# Predict every load before it is measured, and a prompt by itself: predict.sh writes predictions-SHA256.jsonl. Needs LLMPROF, and what loads.py wrote.
set -eu
here=$(cd "$(dirname "$0")" && pwd); tmp=$(mktemp)
simulated() { # load, what predicts it
  echo "{\"load\":\"$1\"}"
  ${LLMPROF:-llmprof} simulate "${@:2}" -g h100 --engine vllm --format json | python3 -c 'import json, sys
d = json.load(sys.stdin)
d.pop("timeline", None)
print(json.dumps(d))'
}
tail -n +2 "$here/loads.tsv" | while IFS=$'\t' read -r server gpus model ours theirs load rate; do
  [ "${last:-}" = "$server" ] || simulated "$server-prompt" -m "$model" $ours --concurrency 1 --requests 16 --gen-len 16
  last=$server
  simulated "$load" -m "$model" $ours --trace "$here/traces/$load.jsonl"
done > "$tmp"
mv "$tmp" "$here/predictions-$(sha256sum < "$tmp" | cut -d' ' -f1).jsonl"; ls "$here"
