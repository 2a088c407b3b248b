package main

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"llmprof/internal/testkit"
)

// GPUs are linked as they usually are unless a flag says otherwise, and an estimate says what the other choice would give. TPOT of the
// two 4090 was 5.11 ms without peer access, and 4.18 with it, when every GPU was taken to have it.
func TestLinksAreUsual(t *testing.T) {
	for _, x := range []struct {
		args string
		tpot float64 // ms
		says string
	}{
		{"llama3.1-8b rtx-4090 --tp 2 --weights awq", 5.112,
			"GPUs are taken to talk over PCIe through the host's memory; TPOT is 4.2 ms with --p2p"},
		{"llama3.1-8b rtx-4090 --tp 2 --weights awq --p2p", 4.175, "GPUs are taken to talk over PCIe; TPOT is 5.1 ms without --p2p"},
		{"qwen2-7b rtx-3090 --tp 2", 12.05,
			"GPUs are taken to talk over PCIe through the host's memory; TPOT is 11 ms with --p2p, 11 ms with --nvlink"},
		{"qwen2-7b rtx-3090 --tp 2 --nvlink", 11.15, "GPUs are taken to talk over a bridge; TPOT is 12 ms without --nvlink"},
		{"qwen2-7b a100-pcie --tp 2 --batch 10", 7.563,
			"GPUs are taken to talk over PCIe; TPOT is 9.0 ms with --no-p2p, 7.1 ms with --nvlink"},
		{"qwen2-7b a100-pcie --tp 2 --batch 10 --no-p2p", 8.970,
			"GPUs are taken to talk over PCIe through the host's memory; TPOT is 7.6 ms without --no-p2p, 7.1 ms with --nvlink"},
		{"qwen2-7b a100-pcie --tp 4", 0, "GPUs are taken to talk over PCIe; TPOT is"},
		{"llama3.1-8b h100 --tp 2", 0, ""},
		{"llama3.1-8b rtx-4090 --weights awq", 0, ""},
		{"llama3.1-8b rtx-4090 --dp 2 --weights awq", 0, ""},
	} {
		args := append([]string{"estimate", "--format", "json"}, strings.Fields(x.args)...)
		got := try(t, args...)
		var d struct {
			Warnings []string `json:"warnings"`
		}
		testkit.Must(t, json.Unmarshal([]byte(got.stdout), &d))
		i := slices.IndexFunc(d.Warnings, func(w string) bool { return strings.HasPrefix(w, "GPUs are taken to talk") })
		if x.says == "" {
			if i >= 0 {
				t.Errorf("%s: %s", x.args, d.Warnings[i])
			}
			continue
		}
		if i < 0 || !strings.HasPrefix(d.Warnings[i], x.says) {
			t.Errorf("%s: %q, want %q", x.args, d.Warnings, x.says)
		}
		if tpot := 1e3 * expected(t, "tpot_s", args...); x.tpot > 0 && math.Abs(tpot-x.tpot) > 0.005*x.tpot {
			t.Errorf("%s: TPOT %.4g ms, want %.4g", x.args, tpot, x.tpot)
		}
	}
}

// The short answer has the line about links, and the remark that it had before.
func TestLinksAreALine(t *testing.T) {
	out := try(t, strings.Fields("estimate qwen2-7b mi210 --tp 4")...).stdout
	if !strings.Contains(out, "\nLinks       GPUs are taken to talk over PCIe") || !strings.Contains(out, "\nNote        no kernel of vllm") {
		t.Errorf("%s", out)
	}
}

// A flag about links that changes nothing is refused by every command that has it.
func TestIdleLinks(t *testing.T) {
	for args, want := range map[string]string{
		"estimate qwen2-7b rtx-3090 --tp 2 --no-p2p":                       "--no-p2p: no GPUs talk over PCIe that are taken to have peer access",
		"estimate qwen2-7b rtx-3090 --tp 4 --nvlink":                       "--nvlink: no GPUs talk that a bridge could join",
		"estimate qwen2-7b l40s --tp 2 --p2p":                              "--p2p: no GPUs talk over PCIe whose driver refuses peer access",
		"estimate qwen2-7b rtx-3090 --p2p":                                 "--p2p: no GPUs talk",
		"compare qwen2-7b rtx-3090 l40s --nvlink":                          "--nvlink: no GPUs talk",
		"simulate qwen2-7b rtx-3090 --rate 1 --requests 10 --nvlink":       "--nvlink: no GPUs talk",
		"plan qwen2-7b --gpus l40s,h100 --nvlink":                          "--nvlink: no GPUs talk",
		"plan qwen2-7b --gpus l40s,h100 --p2p":                             "--p2p: no GPUs talk",
		"plan qwen2-7b --gpus rtx-4090 --no-p2p":                           "--no-p2p: no GPUs talk",
		"compare qwen2-7b \"rtx-3090 tp2 p2p=true\" \"l40s tp2 p2p=true\"": "--p2p: no GPUs talk",
	} {
		if got := try(t, quotedFields(args)...); got.code != 2 || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: exit %d, %q: want %q", args, got.code, got.stderr, want)
		}
	}
}

// Every command answers by the links that were asked for, as estimate does.
func TestLinksEverywhere(t *testing.T) {
	grid := try(t, strings.Fields("sweep llama3.1-8b -g rtx-4090 --tp 2 --weights awq --p2p=false,true --format jsonl")...)
	var tpots []float64
	for line := range strings.Lines(grid.stdout) {
		var row struct {
			TPOT float64 `json:"tpot_s"`
		}
		testkit.Must(t, json.Unmarshal([]byte(line), &row))
		tpots = append(tpots, 1e3*row.TPOT)
	}
	if len(tpots) != 2 || math.Abs(tpots[0]-5.112) > 0.01 || math.Abs(tpots[1]-4.175) > 0.01 {
		t.Errorf("TPOT of a sweep %v ms, want 5.112 and 4.175: %s", tpots, grid.stderr)
	}
	both := try(t, "compare", "llama3.1-8b", "rtx-4090 tp2 awq", "rtx-4090 tp2 awq p2p=true").stdout
	if !strings.Contains(both, "5.1") || !strings.Contains(both, "4.2") {
		t.Errorf("%s", both)
	}
	load := "simulate llama3.1-8b rtx-4090 --tp 2 --weights awq --concurrency 1 --requests 20 --format json"
	if slow, fast := try(t, strings.Fields(load)...).stdout, try(t, strings.Fields(load+" --p2p")...).stdout; slow == fast {
		t.Error("--p2p changes nothing in simulate")
	}
	for _, links := range []string{"", " --p2p", " --nvlink"} {
		p := planJSON(t, 0, "qwen2-7b --gpus rtx-3090 --max-gpus 2 --tpot 14ms --expected --per-gpu 0"+links)
		split := 0
		for _, row := range p.Rows {
			if !slices.Contains(row.Args, "--tp") {
				continue
			}
			split++
			if given := links == "" || slices.Contains(row.Args, strings.TrimSpace(links)); !given {
				t.Errorf("%q: %v", links, row.Args)
			}
			if got := try(t, append([]string{"estimate"}, row.Args...)...); got.code != 0 {
				t.Errorf("%q: %v: %s", links, row.Args, got.stderr)
			}
		}
		if split == 0 {
			t.Errorf("plan%s has no row of two GPUs that share the model", links)
		}
	}
}
