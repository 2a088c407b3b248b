package main

import (
	"strings"
	"testing"
)

// What is found while a case is set up stands among the notes of its estimate, and no note says the opposite.
func TestNotesOfTheCase(t *testing.T) {
	const even, uneven = "experts are taken as chosen evenly", "experts are chosen unevenly, by --expert-skew text"
	for _, x := range []struct{ args, want, not string }{
		{"qwen3-30b-a3b h200 --dp 2", "2 servers, each with experts of its own", uneven},
		{"qwen3-30b-a3b h200 --dp 2", even, uneven},
		{"qwen3-30b-a3b h200 --expert-skew text", uneven, even},
		{"qwen3-30b-a3b h200 --expert-skew 0", even, "unevenly"},
		{"deepseek-v3 h200 --dp 16 --ep 16", "every rank gathers the tokens of all 16", "servers, each with"},
		{"deepseek-v3 h200 --dp 16 --ep 16 --engine vllm+deepep", even, "gathers the tokens"},
	} {
		for _, command := range []string{"estimate --format json ", "estimate --explain --format markdown "} {
			out := try(t, strings.Fields(command+x.args)...).stdout
			if !strings.Contains(out, x.want) || strings.Contains(out, x.not) {
				t.Errorf("%s%s: want %q, and no %q\n%s", command, x.args, x.want, x.not, out[max(0, len(out)-1500):])
			}
		}
	}
}
