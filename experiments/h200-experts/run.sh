#!/usr/bin/env bash
# Measures steps and power of models of a few layers by vLLM 0.33 on one H200: run.sh steps|experts|whole, after `source env-vllm-0.33`, with $OUT, and $LIMIT, the seconds that
# all may take. models/ has gpt-oss of ../h200-sglang/models.py, and hybrid and dense of ../h200-hybrids/models. Engines start beside each other, then each measures alone. Biases are
# zero: those of the dummy weights, which are as large as what tells tokens apart, would have all of them choose the same experts.
begun=$SECONDS; limit=${LIMIT:-560}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export PYTHONPATH=$here:$here/../h200-hybrids:$PYTHONPATH VLLM_ALLOW_INSECURE_SERIALIZATION=1 VLLM_WORKER_MULTIPROC_METHOD=spawn
work=$(mktemp -d); turns=$work/turns; res=$work/results; mkdir -p "$turns" "$res"; groups=()
finish() {
  for g in "${groups[@]}"; do kill -9 -- "-$g" 2>/dev/null; done
  for f in "$res"/*.log; do tail -c 60000 "$f" >"$f.t" && mv "$f.t" "$f"; done
  tar czf "$OUT/experts.tgz" -C "$res" .; echo "done after $((SECONDS - begun)) s"
}
trap finish EXIT
loader=$(python3 -c "import importlib.util as u; print(u.find_spec('vllm').submodule_search_locations[0])")/model_executor/model_loader/weight_utils.py
sed -i 's/^    if param.device.type == "meta":/    if "bias" in name:\n        param.zero_()\n        return\n&/' "$loader"
start() { # NAME MODEL SECONDS ARGUMENTS
  setsid python3 "$here/job.py" "$1" "$here/models/$2" "$res" "$turns" "$3" "$4" >"$res/$1.log" 2>&1 &
  groups+=($!); names+=("$1"); sleep 1
}
nvidia-smi --query-gpu=name,clocks.max.sm,power.limit,driver_version --format=csv
names=()
kv='"kv_cache_memory_bytes": 6442450944'
case $1 in
steps) # of models of a few layers, with traces
  start gpt-oss gpt-oss 60 "{$kv}"
  start gpt-oss-marlin gpt-oss 40 "{$kv, \"moe_backend\": \"marlin\"}"
  start hybrid hybrid 45 "{$kv}"
  start dense dense 30 "{$kv}" ;;
experts) # power and times of the experts' kernels
  start experts-triton gpt-oss 50 "{$kv}"
  start experts-marlin gpt-oss 50 "{$kv, \"moe_backend\": \"marlin\"}" ;;
whole) # steps and power of whole models
  start whole-triton gpt-oss-20b 40 "{$kv}"
  start whole-triton-120b gpt-oss-120b 75 "{$kv}"
  start whole-marlin gpt-oss-20b 40 "{$kv, \"moe_backend\": \"marlin\"}" ;;
esac
for j in "${names[@]}"; do
  while [ "$(ls "$turns"/*.ready 2>/dev/null | wc -l)" -lt ${#names[@]} ] && [ $((SECONDS - begun)) -lt $((limit / 2 + 20)) ]; do sleep 0.5; done
  [ -e "$turns/$j.ready" ] || { echo "not started: $j"; tail -5 "$res/$j.log" | cut -c1-300; continue; }
  touch "$turns/$j.go"; t=$SECONDS
  until [ -e "$turns/$j.done" ] || [ $((SECONDS - begun)) -gt $((limit - 6)) ]; do sleep 0.2; done
  echo "$j: $((SECONDS - t)) s, $(grep -c . "$res/$j.jsonl") rows, $(grep '"error"' "$res/$j.jsonl" | head -3 | cut -c1-400)"
done
