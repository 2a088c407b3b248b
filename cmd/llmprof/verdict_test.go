package main

import (
	"encoding/json"
	"testing"
)

// TestVerdict checks that what cannot run exits with 1, says by how much, has no throughput
// and no price, and is whole otherwise.
func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		code int
	}{
		{"fits", []string{"estimate", "llama3.1-8b", "h100"}, 0},
		{"memory", []string{"estimate", "llama2-70b", "a100"}, 1},
		{"context", []string{"estimate", "llama2-7b", "a100", "--prompt-len", "5000"}, 1},
	} {
		got := try(t, append(c.args, "--format=json")...)
		if got.code != c.code {
			t.Errorf("%s: exit %d: %s", c.name, got.code, got.stderr)
		}
		var doc struct {
			Verdict struct {
				Possible bool     `json:"possible"`
				Short    *float64 `json:"memory_short_bytes"`
				Over     *int     `json:"context_over_tokens"`
			} `json:"verdict"`
			Memory struct {
				Total  float64 `json:"total_bytes"`
				Usable float64 `json:"usable_bytes"`
			} `json:"memory"`
			TTFT       *struct{ Expected float64 } `json:"ttft_s"`
			Throughput *struct{}                   `json:"throughput_tok_s"`
			Cost       *struct{}                   `json:"cost_usd"`
		}
		if err := json.Unmarshal([]byte(got.stdout), &doc); err != nil {
			t.Fatal(err)
		}
		v := doc.Verdict
		if doc.TTFT == nil || doc.TTFT.Expected <= 0 {
			t.Errorf("%s: no TTFT", c.name)
		}
		if runs := c.code == 0; v.Possible != runs || (doc.Throughput != nil) != runs || (doc.Cost != nil) != runs {
			t.Errorf("%s: possible %v, throughput %v, cost %v", c.name, v.Possible, doc.Throughput, doc.Cost)
		}
		if (v.Short != nil) != (c.name == "memory") || v.Short != nil && *v.Short != doc.Memory.Total-doc.Memory.Usable {
			t.Errorf("%s: short by %v", c.name, v.Short)
		}
		if (v.Over != nil) != (c.name == "context") || v.Over != nil && *v.Over != 5128-4096 {
			t.Errorf("%s: over by %v", c.name, v.Over)
		}
	}
}

// TestExitStatus checks that a wrong command line exits with 2.
func TestExitStatus(t *testing.T) {
	for _, args := range [][]string{
		{"help", "nonsense"}, {"nonsense"}, {"estimate", "--nonsense"}, {"estimate", "a", "b", "c"}, {"man", "nonsense"},
		{"estimate", "--batch", "x"}, {"estimate", "--batch"},
	} {
		if got := try(t, args...); got.code != 2 || got.stdout != "" {
			t.Errorf("%q: exit %d, %q", args, got.code, got.stdout)
		}
	}
}
