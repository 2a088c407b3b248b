#!/usr/bin/env bash
# Predict every load before it is measured: predict.sh FOLDER writes FOLDER/predictions-SHA256.jsonl. Needs LLMPROF, and traces/ beside this script.
set -eu
here=$(cd "$(dirname "$0")" && pwd); to=$1; llmprof=${LLMPROF:-llmprof}; tmp=$(mktemp)
p() { echo "{\"load\":\"$1\",\"args\":\"${*:2}\"}"; (cd "$here"; $llmprof simulate -m llama3.1-8b -g "${GPU:-h100}" --engine vllm "${@:2}" --format json) | python3 -c 'import json, sys
d = json.load(sys.stdin)
for p in d["points"]: p.pop("timeline", None)
print(json.dumps(d))'; }
{ for l in load20 load50 load80 load95 load120 mixed50 mixed80 prefix; do p $l --trace traces/$l.jsonl; done
  p prefix-off --trace traces/prefix.jsonl --no-prefix-cache
  p closed96-mixed --concurrency 96 --requests 480 --prompt-len lognormal:1024,1 --gen-len lognormal:200,0.8; } > "$tmp"
mv "$tmp" "$to/predictions-$(sha256sum < "$tmp" | cut -d' ' -f1).jsonl"; ls "$to"/predictions-*
