#!/usr/bin/env bash
# Measures SGLang 0.5.23 on one H200: run.sh full|layers|experts|radix, after `source env-sglang`, with $OUT and $LIMIT, the seconds that all may take.
# All engines start beside each other, then each measures alone: full models, or models of a few layers with traces. The set "experts" has both, and
# leaves biases at zero: those of the dummy weights, which are as large as what tells tokens apart, would have all of them choose the same experts. The set
# "radix" keeps the radix cache on for two full models, and traces three of a few layers.
begun=$SECONDS; limit=${LIMIT:-480}; set=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d); turns=$work/turns; res=$work/results; mkdir -p "$turns" "$res"
case $set in
full) jobs_list="llama3.1-8b qwen3.5-9b deepseek-v2-lite"; seconds=45; res=$OUT; points="1x128 1x1024 8x1024 32x1024 1x8192 1x512 8x128 128x512 128x1024" ;;
layers) jobs_list="dense hybrid moe-hybrid"; seconds=30 ;;
radix) jobs_list="llama3.1-8b qwen3.5-9b moe mla gpt-oss"; seconds=34; points="1x128 1x1024 8x1024 32x1024" ;;
experts) jobs_list="gpt-oss-20b qwen3-30b-a3b gpt-oss mla"; seconds=50; points="1x128 1x1024 8x1024 32x1024 1x8192 8x128 128x512 128x1024" ;;
esac
case $set in experts | radix)
  loader=$(python3 -c "import importlib.util as u; print(u.find_spec('sglang').submodule_search_locations[0])")/srt/model_loader/weight_utils.py
  sed -i 's/for \(.*\)param in model.state_dict().items():/&\n        if "bias" in name:\n            param.zero_()\n            continue/' "$loader"
esac
groups=()
pack() { for f in "$res"/*.log; do tail -c 40000 "$f" >"$f.t" && mv "$f.t" "$f"; done; [ "$res" = "$OUT" ] || tar czf "$OUT/sglang-$set.tgz" -C "$res" .; ls -la "$OUT"; echo "done after $((SECONDS - begun)) s"; }
finish() { for g in "${groups[@]}"; do kill -9 -- "-$g" 2>/dev/null; done; pack; }
trap finish EXIT
port=30100
for j in $jobs_list; do
  case $j in hybrid | moe-hybrid | qwen3.5-9b) more=', "enable_multimodal": false, "max_mamba_cache_size": 160' ;; *) more= ;; esac
  [ $set = radix ] && case $j in *[0-9]b) more="$more, \"disable_radix_cache\": false" ;; esac
  case $j in *[0-9]b | *-a3b | *-lite) traces=0; these=$points ;; *) traces=1; these="1x128 1x1024 8x1024" ;; esac
  setsid python3 "$here/job.py" "$j" "$here/models/$j" "$res" "$turns" "$seconds" "$these" "$traces" "{\"port\": $port, \"nccl_port\": $((port + 50))$more}" >"$res/$j.log" 2>&1 &
  groups+=($!); port=$((port + 100)); sleep 2
done
nvidia-smi --query-gpu=name,memory.used,clocks.max.sm,power.limit,driver_version --format=csv >"$res/machine.txt" 2>&1; lscpu | grep -E '^(Model name|CPU\(s\)|BogoMIPS)' >>"$res/machine.txt"
pending=$jobs_list; all=0
while [ -n "$pending" ] && [ $((SECONDS - begun)) -lt $((limit - 20)) ]; do
  # No engine measures while another starts, unless there is no time left to wait.
  if [ $all = 0 ]; then
    n=0; for j in $jobs_list; do [ -e "$turns/$j.ready" ] && n=$((n + 1)); done
    [ "$n" -lt "$(wc -w <<<"$jobs_list")" ] && [ $((SECONDS - begun)) -lt $((limit * 6 / 10)) ] && { sleep 0.5; continue; }
    all=1; echo "after $((SECONDS - begun)) s ready: $(cd "$turns" && echo *.ready)"; nvidia-smi --query-gpu=memory.used --format=csv,noheader
  fi
  next=; for j in $pending; do [ -e "$turns/$j.ready" ] && { next=$j; break; }; done
  [ -z "$next" ] && { sleep 0.5; continue; }
  pending=$(tr ' ' '\n' <<<"$pending" | grep -vx "$next" | tr '\n' ' ' | sed 's/ *$//')
  touch "$turns/$next.go"; t=$SECONDS
  while [ ! -e "$turns/$next.done" ] && [ $((SECONDS - begun)) -lt $((limit - 8)) ]; do sleep 0.2; done
  echo "$next: $((SECONDS - t)) s, $(grep -c . "$res/$next.jsonl") rows, $(grep '"error"' "$res/$next.jsonl" | head -2 | cut -c1-400)"
done
for j in $pending; do echo "not measured: $j"; tail -5 "$res/$j.log" | cut -c1-300; done
