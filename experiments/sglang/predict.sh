#!/usr/bin/env bash
# Predict every load before it is measured: predict.sh FOLDER writes FOLDER/predictions-SHA256.jsonl. Needs LLMPROF, and the traces of experiments/vllm-load-mixed.
# SERVERS names some of the servers.
set -eu
here=$(cd "$(dirname "$0")" && pwd); to=$(realpath "$1"); llmprof=${LLMPROF:-llmprof}; tmp=$(mktemp); gpu=${GPU:-h200}
cd "$here/../vllm-load-mixed"
line() { echo "{\"load\":\"$1\",\"command\":\"${*:2} -g $gpu --engine sglang --format json\"}"; nice "$llmprof" "${@:2}" -g "$gpu" --engine sglang --format json | python3 -c 'import json, sys
d = json.load(sys.stdin)
for p in d.get("points", []): p.pop("timeline", None)
print(json.dumps(d))'; }
both() { # name, model and its flags: the loads of one server
  server=$1; shift
  for c in 1 4 16 64; do
    line "$server-batch$c" estimate -m "$@" --batch $c --prompt-len 1024 --gen-len 128
    line "$server-batch$c" simulate -m "$@" --concurrency $c --requests $((c * 4 < 12 ? 12 : c * 4)) --prompt-len 1024 --gen-len 128
  done
  for n in 128 1024 4096 8192; do
    line "$server-prompt$n" estimate -m "$@" --batch 1 --prompt-len $n --gen-len 16
    line "$server-prompt$n" simulate -m "$@" --concurrency 1 --requests 16 --prompt-len $n --gen-len 16
  done
  for l in load20 load50 load80 load95 mixed50; do line "$server-$l" simulate -m "$@" --trace traces/$l.jsonl; done
}
declare -A flags=([bf16]="llama3.1-8b" [fp8]="llama3.1-8b --weights fp8" [moe]="qwen3-30b-a3b" [tp2]="qwen3-32b --tp 2")
for s in ${SERVERS:-bf16 fp8 moe tp2}; do both $s ${flags[$s]}; done > "$tmp"
mv "$tmp" "$to/predictions-$(sha256sum < "$tmp" | cut -d' ' -f1).jsonl"; ls "$to"/predictions-*
