#!/usr/bin/env bash
# Time llama.cpp's library: run.sh FOLDER RESULTS [MODEL:MIX...]; FOLDER holds batched-bench, llama-bench, kernels.so and the libraries.
set -u
here=$(cd "$(dirname "$0")" && pwd); run=$1; results=$2; shift 2
export LD_LIBRARY_PATH=$run:/usr/local/cuda/lib64:${LD_LIBRARY_PATH:-}
mkdir -p "$results"; scratch=$(mktemp -d "${SCRATCH:-/dev/shm}/gguf.XXXX"); trap 'rm -rf "$scratch"' EXIT
nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,power.limit --format=csv,noheader >"$results/gpu.txt"
for point in "$@"; do
  model=${point%%:*}; mix=${point##*:}; file=$scratch/$model.gguf; name=$results/$model-$mix; begin=$SECONDS
  python3 "$here/gguf.py" "$file" "$model" "$mix" || continue
  bench="$run/batched-bench -m $file -ngl 99 --output-format jsonl"
  timeout 150 $bench -npp 128,1024,4096 -ntg 32 -npl 1,2,3,4,8,16,32 -c 140000 -pps >"$name.jsonl" 2>"$name.log"
  timeout 60 $bench -npp 16384 -ntg 32 -npl 1,2,4,8 -c 140000 -pps >>"$name.jsonl" 2>>"$name.log"
  timeout 60 $run/llama-bench -m "$file" -ngl 99 -p 128,512,1024,2048,4096,8192 -n 0 -r 3 -o jsonl >"$name-prompts.jsonl" 2>>"$name.log"
  timeout 60 $run/llama-bench -m "$file" -ngl 99 -p 0 -n 64 -d 128,1024,4096 -r 3 -o jsonl >"$name-decode.jsonl" 2>>"$name.log"
  for batch in 1 4 8 32; do
    KERNELS=$name-b$batch.csv CUDA_INJECTION64_PATH=$run/kernels.so timeout 60 $bench -npp 1024 -ntg 8 -npl $batch -c 40000 -pps >>"$name.log" 2>&1
  done
  rm "$file"; grep -c '"pp"' "$name.jsonl"; echo "$point after $((SECONDS - begin)) s"; tail -1 "$name.jsonl"
done
nvidia-smi --query-gpu=clocks.sm,power.draw,clocks_event_reasons.active --format=csv,noheader >>"$results/gpu.txt"
gzip -9 "$results"/*-b*.csv
