package main

import (
	"encoding/json"
	"strings"
	"testing"

	"llmprof/internal/testkit"
)

// A server under a load has as many batches in its pipeline as there are stages, where its engine does so and no flag says
// otherwise: a second stage adds throughput, and not memory alone.
func TestPipelineUnderLoad(t *testing.T) {
	answer := func(args string) (parts int, rate float64) {
		var e struct {
			Parallelism struct {
				MicroBatches int `json:"micro_batches"`
			}
			Load struct {
				Rate float64 `json:"requests_s"`
			}
		}
		out := try(t, append(strings.Fields("estimate --format json"), strings.Fields(args)...)...)
		testkit.Must(t, json.Unmarshal([]byte(out.stdout), &e))
		return e.Parallelism.MicroBatches, e.Load.Rate
	}
	const load = " --concurrency 16 --prompt-len 2k"
	_, one := answer("llama3.1-8b h100" + load)
	for _, x := range []struct {
		args  string
		parts int
	}{
		{"llama3.1-8b h100 --pp 2", 1},
		{"llama3.1-8b h100 --pp 2 --micro-batches 1" + load, 1},
		{"llama3.1-8b h100 --pp 2 --engine llama.cpp" + load, 1},
		{"llama3.1-8b h100 --pp 2" + load, 2},
		{"llama3.1-8b h100 --pp 2 --engine sglang" + load, 2},
	} {
		if parts, _ := answer(x.args); parts != x.parts {
			t.Errorf("estimate %s: %d micro-batches, want %d", x.args, parts, x.parts)
		}
	}
	if _, two := answer("llama3.1-8b h100 --pp 2" + load); two < 1.1*one {
		t.Errorf("two stages answer %v requests a second, one %v", two, one)
	}
	for args, want := range map[string]string{"": "Latency", " --micro-batches 1": "one micro-batch keeps one of the 2 pipeline stages busy"} {
		out := try(t, strings.Fields("simulate llama3.1-8b h100 --pp 2 --rate 2 --requests 30"+args)...)
		if busy := strings.Contains(out.stdout, want); !busy || args == "" && strings.Contains(out.stdout, "one micro-batch") {
			t.Errorf("simulate%s says\n%s", args, out.stdout)
		}
	}
}
