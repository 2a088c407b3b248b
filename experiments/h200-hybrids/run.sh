#!/usr/bin/env bash
# Measures what the host does for prompts of hybrids under vLLM 0.33: run.sh, after `source env-vllm-0.33`, with $OUT set. Ends within 575 s.
# All engines start beside each other, then each measures alone.
begun=$SECONDS; limit=${LIMIT:-545}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export PYTHONPATH=$here:$PYTHONPATH VLLM_ALLOW_INSECURE_SERIALIZATION=1 VLLM_WORKER_MULTIPROC_METHOD=spawn
work=$(mktemp -d); turns=$work/turns; res=$work/results; mkdir -p "$turns" "$res"
jobs_list="hybrid moe-hybrid dense mamba moe hybrid-eager dense-eager gemma-eager mla-eager moe-hybrid-eager"
groups=()
cleanup() { for g in "${groups[@]}"; do kill -9 -- "-$g" 2>/dev/null; done; }
trap cleanup EXIT
start() { # NAME FOLDER ARGS
  setsid python3 "$here/job.py" "$1" "$here/models/$2" "$res" "$turns" 26 "$3" >"$res/$1.log" 2>&1 &
  groups+=($!)
}
for j in $jobs_list; do
  case $j in
    moe-hybrid-eager) start "$j" moe-hybrid-4 '{"enforce_eager": true}' ;;
    *-eager) start "$j" "${j%-eager}" '{"enforce_eager": true}' ;;
    *) start "$j" "$j" '{}' ;;
  esac
  sleep 1
done
# Wait until all are ready, but no longer than what leaves time to measure.
until=$((begun + limit - 310))
while [ $SECONDS -lt $until ]; do
  n=0; for j in $jobs_list; do [ -e "$turns/$j.ready" ] && n=$((n + 1)); done
  [ $n -eq $(wc -w <<<"$jobs_list") ] && break
  sleep 1
done
echo "after $((SECONDS - begun)) s ready: $(cd "$turns" && echo *.ready)"
nvidia-smi --query-gpu=name,memory.used,clocks.sm,power.draw,power.limit --format=csv >"$res/gpu.txt" 2>&1; lscpu >"$res/cpu.txt"; uname -a >>"$res/cpu.txt"
pending=$jobs_list
while [ -n "$pending" ] && [ $((SECONDS - begun)) -lt $((limit - 25)) ]; do
  next=; for j in $pending; do [ -e "$turns/$j.ready" ] && { next=$j; break; }; done
  [ -z "$next" ] && { sleep 1; continue; }
  pending=$(tr ' ' '\n' <<<"$pending" | grep -vx "$next" | tr '\n' ' ' | sed 's/ *$//')
  touch "$turns/$next.go"
  t=$SECONDS
  while [ ! -e "$turns/$next.done" ] && [ $((SECONDS - t)) -lt 45 ] && [ $((SECONDS - begun)) -lt $((limit - 10)) ]; do sleep 0.2; done
  echo "$next: $((SECONDS - t)) s, $(grep -c . "$res/$next.jsonl" 2>/dev/null) rows"
done
cleanup
for f in "$res"/*.log; do tail -c 30000 "$f" >"$f.t" && mv "$f.t" "$f"; done
tar czf "$OUT/hybrids-host.tgz" -C "$res" . && ls -la "$OUT"
echo "done after $((SECONDS - begun)) s"
