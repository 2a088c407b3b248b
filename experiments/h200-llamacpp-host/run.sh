#!/usr/bin/env bash
# Build llama-bench and measure the points: run.sh SOURCE RESULTS. SOURCE is llama.cpp's folder (vendor/llama.cpp of the source
# distribution of llama-cpp-python 0.3.36, without models/, media/, docs/ and tests/); Python needs numpy.
set -u
here=$(cd "$(dirname "$0")" && pwd); source=$1; results=$2; build=${BUILD:-/tmp/llama-build}
mkdir -p "$results"
nvidia-smi --query-gpu=name,driver_version,clocks.sm,power.limit --format=csv,noheader >"$results/gpu.txt"; lscpu >"$results/cpu.txt"
if [ ! -x "$build/bin/llama-bench" ]; then
  cmake -S "$source" -B "$build" -DCMAKE_BUILD_TYPE=Release -DGGML_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=90 -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF \
    -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_SERVER=OFF >"$results/build.log" 2>&1
  cmake --build "$build" --target llama-bench -j"$(nproc)" >>"$results/build.log" 2>&1 || { tail -5 "$results/build.log"; exit 1; }
fi
scratch=$(mktemp -d "${SCRATCH:-/dev/shm}/gguf.XXXX"); trap 'rm -rf "$scratch"' EXIT
for model in olmoe-1b-7b qwen3-14b; do python3 "$here/gguf.py" "$scratch/$model.gguf" "$model" || exit 1; done
python3 "$here/points.py" commands "$build/bin/llama-bench" "$scratch" | while read -r line; do
  echo "$line" >>"$results/commands.txt"
  timeout 120 env $(echo "$line" | grep -o '^GGML[^ ]*') ${line#GGML_CUDA_DISABLE_GRAPHS=1 } >>"$results/llama-bench.jsonl" 2>>"$results/llama-bench.log" </dev/null
done
timeout 60 "$build/bin/llama-bench" -m "$scratch/olmoe-1b-7b.gguf" -p 32 -n 0 -r 1 -ncmoe 16 -v >"$results/placement.log" 2>&1
wc -l "$results/llama-bench.jsonl"
