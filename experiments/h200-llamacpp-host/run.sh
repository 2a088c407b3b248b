#!/usr/bin/env bash
# Build llama-bench and measure the points: run.sh SOURCE RESULTS. SOURCE is llama.cpp's folder (vendor/llama.cpp of the source
# distribution of llama-cpp-python 0.3.36, without models/, media/, docs/ and tests/). A second call goes on with the build of the first,
# and with those lines of points.py that have no result yet.
set -u
here=$(cd "$(dirname "$0")" && pwd); source=$1; results=$2; build=${BUILD:-/tmp/llama-build}; done=$build/done
mkdir -p "$results"
nvidia-smi --query-gpu=name,driver_version,clocks.sm,power.limit --format=csv,noheader >"$results/gpu.txt"; lscpu >"$results/cpu.txt"
files=${SCRATCH:-/tmp}/llmprof-gguf; mkdir -p "$files" "$done"
for model in olmoe-1b-7b qwen3-14b; do
  [ -e "$files/$model.done" ] || { python3 "$here/gguf.py" "$files/$model.gguf" "$model" && touch "$files/$model.done"; } &
done
if [ ! -x "$build/bin/llama-bench" ]; then
  cmake -S "$source" -B "$build" -DCMAKE_BUILD_TYPE=Release -DGGML_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=90 -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF \
    -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_APP=OFF >"$results/build.log" 2>&1
  cmake --build "$build" --target llama-bench -j"$(nproc)" >>"$results/build.log" 2>&1 || { tail -5 "$results/build.log"; exit 1; }
fi
wait
number=0
python3 "$here/points.py" commands "$build/bin/llama-bench" "$files" >"$results/commands.txt"
while read -r line; do
  number=$((number + 1))
  [ -s "$done/$number.jsonl" ] || timeout 150 env $line >"$done/$number.part" 2>>"$results/llama-bench.log" </dev/null &&
    mv "$done/$number.part" "$done/$number.jsonl" 2>/dev/null
  cat "$done"/[0-9]*.jsonl >"$results/llama-bench.jsonl"
done <"$results/commands.txt"
timeout 60 "$build/bin/llama-bench" -m "$files/olmoe-1b-7b.gguf" -p 32 -n 0 -r 1 -ncmoe 16 -v 2>&1 | grep -E 'buffer size|splits' >"$results/placement.log"
wc -l "$results/llama-bench.jsonl"
