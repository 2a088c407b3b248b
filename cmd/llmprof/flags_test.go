package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"llmprof/internal/testkit"
)

// base is the estimate that the flags are tried on: all parts of the theory
// have something to do in it.
func base() []string {
	return strings.Fields("estimate --model qwen3-30b-a3b --gpu h100 --prompt-len 512 --gen-len 8 --batch 4")
}

// flagCases has, for every flag of estimate, flags that need it to have an
// effect and the value that is tried.
func flagCases() map[string]struct {
	with  string // further flags, on both sides
	value string
	alone string // error where the flag stands alone; "" where it has an effect there
} {
	return map[string]struct{ with, value, alone string }{
		"model":                      {"", "--model=llama3.1-8b", ""},
		"gpu":                        {"", "--gpu=a100", ""},
		"batch":                      {"", "--batch=8", ""},
		"prompt-len":                 {"", "--prompt-len=600", ""},
		"gen-len":                    {"", "--gen-len=9", ""},
		"chunk":                      {"", "--chunk=128", ""},
		"cached-prefix":              {"", "--cached-prefix=256", ""},
		"all-logits":                 {"", "--all-logits", ""},
		"audio":                      {"--model=testdata/phi4_multimodal.json", "--audio=10", "how many tokens its processor makes of audio"},
		"images":                     {"--model=qwen3-vl-8b", "--images=1", "how many tokens its processor makes of images"},
		"weights":                    {"", "--weights=fp8", ""},
		"act":                        {"--weights=int8", "--act=int8", ""},
		"kv":                         {"", "--kv=fp8", ""},
		"tp":                         {"", "--tp=2", ""},
		"pp":                         {"", "--pp=2", ""},
		"ep":                         {"--tp=2", "--ep=2", "ep 2 does not divide tp × dp = 1"},
		"moe-tp":                     {"--dp=2", "--moe-tp=2", "moe-tp 2 × ep 1 is 2 ranks, which does not divide tp × dp = 1"},
		"expert-skew":                {"", "--expert-skew=0.8", ""},
		"dp":                         {"", "--dp=2", ""},
		"sp":                         {"--tp=2", "--sp", "needs tp above 1"},
		"micro-batches":              {"--pp=2", "--micro-batches=2", "give pp above 1"},
		"gpus-per-node":              {"--tp=4", "--gpus-per-node=2", "one GPU needs no node"},
		"engine":                     {"", "--engine=transformers", ""},
		"enforce-eager":              {"", "--enforce-eager", ""},
		"max-cudagraph-capture-size": {"", "--max-cudagraph-capture-size=2", ""},
		"max-num-seqs":               {"", "--max-num-seqs=16", ""},
		"no-prefix-cache":            {"--model=qwen3.5-9b --engine=sglang", "--no-prefix-cache", "no memory of qwen3-30b-a3b depends on it"},
		"prefix-cache":               {"--model=qwen3.5-9b --engine=vllm", "--prefix-cache", "no memory of qwen3-30b-a3b depends on it"},
		"max-num-batched-tokens":     {"--batch=64", "--max-num-batched-tokens=512", ""},
		"memory-utilization":         {"", "--memory-utilization=0.8", ""},
		"max-model-len":              {"--engine=vllm", "--max-model-len=8192", ""},
		"compute-eff":                {"", "--compute-eff=0.5", ""},
		"memory-eff":                 {"", "--memory-eff=0.5", ""},
		"link-eff":                   {"--tp=2 --prompt-len=16384", "--link-eff=0.3", "nothing is sent between GPUs"},
		"p2p":                        {"--gpu=rtx-4090 --tp=4", "--p2p", "no GPUs talk over PCIe whose driver"},
		"no-p2p":                     {"--gpu=rtx-pro-6000 --tp=2", "--no-p2p", "no GPUs talk over PCIe that"},
		"nvlink":                     {"--gpu=h100-pcie --tp=2", "--nvlink", "no GPUs talk that a bridge"},
		"inter-node-eff":             {"--tp=4 --gpus-per-node=2", "--inter-node-eff=0.3", "are in one node"},
		"power-limit":                {"", "--power-limit=300W", ""},
		"clock":                      {"", "--clock=1200MHz", ""},
		"price":                      {"", "--price=7.5", ""},
		"hardware":                   {"", "--hardware=testdata/h100.toml", ""},
		"calibration":                {"", "--calibration=testdata/h100-calibration.toml", ""},
		"fit":                        {"--engine=llama.cpp", "--fit", ""},
		"host":                       {"--cpu-moe", "--host=ddr5-6000x2", ""},
		"host-bandwidth":             {"--cpu-moe", "--host-bandwidth=50GB/s", ""},
		"pageable-bandwidth":         {"--cpu-moe --load-mode=mmap", "--pageable-bandwidth=5GB/s", ""},
		"ram":                        {"--cpu-moe", "--ram=256GB", ""},
		"threads":                    {"--cpu-moe", "--threads=4", ""},
		"ngl":                        {"--engine=llama.cpp", "--ngl=20", ""},
		"n-cpu-moe":                  {"--engine=llama.cpp", "--n-cpu-moe=20", ""},
		"cpu-moe":                    {"--engine=llama.cpp", "--cpu-moe", ""},
		"override-tensor":            {"--engine=llama.cpp", "--override-tensor=_exps=CPU", ""},
		"ubatch":                     {"--engine=llama.cpp", "--ubatch=256", ""},
		"load-mode":                  {"--cpu-moe", "--load-mode=mmap", ""},
		"no-op-offload":              {"--cpu-moe", "--no-op-offload", ""},
		"no-kv-offload":              {"--engine=llama.cpp", "--no-kv-offload", ""},
		"cpu-offload-gb":             {"", "--cpu-offload-gb=4", ""},
		"offline":                    {"", "", ""}, // tested in testdata/script/hub.txtar
		"format":                     {"", "--format=json", ""},
		"output":                     {"", "--output=/dev/null", ""},
		"color":                      {"", "--color=always", ""},
		"binary":                     {"", "--binary", ""},
		"top":                        {"--ops", "--top=3", ""},
		"ops":                        {"", "--ops", ""},
		"explain":                    {"", "--explain", ""},
		"full":                       {"", "--full", ""},
		"verbose":                    {"", "--verbose", ""},
		"help":                       {"", "--help", ""},
		// Flags of a server under load do not go with --batch: serving's TestEveryOptionCounts and simulate.txtar hold them.
		"lenient":                 {},
		"language-model-only":     {}, // testdata/script/towers.txtar tries it on a model with towers
		"rate":                    {},
		"concurrency":             {},
		"scheduler":               {},
		"block-size":              {},
		"kv-cache-tokens":         {},
		"watermark":               {},
		"preemption":              {},
		"no-async-scheduling":     {},
		"prefix-hit-rate":         {},
		"scheduler-recv-interval": {},
		"stream-interval":         {},
		"kv-offload":              {},
		"speculative-tokens":      {},
		"acceptance":              {},
		"draft-model":             {},
		"routing":                 {},
		"prefill-replicas":        {},
		"kv-link":                 {},
	}
}

// TestEveryFlagMatters checks that a flag changes the result or is refused.
func TestEveryFlagMatters(t *testing.T) {
	cases, known := flagCases(), map[string]string{}
	flags := (&app{}).estimate()
	flags.InitDefaultHelpFlag()
	flags.Flags().VisitAll(func(f *pflag.Flag) {
		c, ok := cases[f.Name]
		if !ok {
			t.Errorf("--%s has no case", f.Name)
			return
		}
		if c.value == "" {
			return
		}
		t.Run(f.Name, func(t *testing.T) {
			args := append(base(), strings.Fields(c.with)...)
			if presentation(f.Name) {
				without, with := try(t, args...), try(t, append(args, c.value)...)
				if without.code != 0 || with.code != 0 || without.stdout == with.stdout && without.stderr == with.stderr {
					t.Errorf("%s changes nothing, or exit %d and %d: %s%s", c.value, without.code, with.code, without.stderr, with.stderr)
				}
			} else {
				if known[c.with] == "" {
					known[c.with] = figures(t, args...)
				}
				if known[c.with] == figures(t, append(args, c.value)...) {
					t.Errorf("%s changes no figure", c.value)
				}
			}
			if c.alone == "" {
				return
			}
			alone := try(t, append(base(), c.value)...)
			if alone.code != 2 || !strings.Contains(alone.stderr, c.alone) {
				t.Errorf("%s alone: exit %d, %q; want exit 2 and %q", c.value, alone.code, alone.stderr, c.alone)
			}
		})
	})
}

// presentation reports whether a flag is about the looks of the result alone.
func presentation(flag string) bool {
	switch flag {
	case "format", "output", "color", "binary", "top", "verbose", "help", "ops", "explain", "full":
		return true
	}
	return false
}

// figures is the part of an estimate's JSON that does not repeat the question.
func figures(t *testing.T, args ...string) string {
	t.Helper()
	got := try(t, append(args, "--format=json")...)
	if got.code != 0 {
		t.Fatalf("exit %d: %s", got.code, got.stderr)
	}
	var all map[string]json.RawMessage
	testkit.Must(t, json.Unmarshal([]byte(got.stdout), &all))
	for _, echo := range []string{"model", "gpu", "parallelism", "workload", "engine", "calibration", "warnings", "flops_count",
		"sensitivity"} {
		delete(all, echo)
	}
	rest, err := json.Marshal(all)
	testkit.Must(t, err)
	return string(rest)
}

// TestEfficiencyMovesNumbers checks that a lower efficiency is a longer time, not
// only another caption.
func TestEfficiencyMovesNumbers(t *testing.T) {
	for _, c := range []struct{ with, flag, key string }{
		{"--prompt-len=8192", "--compute-eff", "ttft_s"},
		{"", "--memory-eff", "tpot_s"},
		{"--tp=2 --prompt-len=4096", "--link-eff", "ttft_s"},
		{"--tp=4 --gpus-per-node=2 --prompt-len=16384", "--inter-node-eff", "ttft_s"},
	} {
		args := append(base(), append(strings.Fields(c.with), "--format=json")...)
		slow := expected(t, c.key, append(args, c.flag+"=0.2")...)
		fast := expected(t, c.key, append(args, c.flag+"=0.9")...)
		if !(slow > fast) {
			t.Errorf("%s: %s is %g at 0.2 and %g at 0.9", c.flag, c.key, slow, fast)
		}
	}
}
