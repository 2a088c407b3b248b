package main

import (
	"bytes"
	"encoding/csv"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"llmprof/internal/testkit"
)

// evilGPU is a hardware file whose GPU has a terminal's commands in its name and a
// spreadsheet's formula in another.
const evilGPU = `[gpu.evil]
name = "=cmd|' /C calc'!A0 \u001b[2J\u0007"
vendor = "nvidia"
generation = "hopper"
compute_capability = "9.0"
sms = 132
clock = "1980 MHz"
peak.fp32 = "67 TFLOP/s"
peak.bf16 = "989.4 TFLOP/s"
memory = "141 GB"
bandwidth = "4.8 TB/s"
l2 = "50 MB"
tdp = "700 W"
source = "nobody \u009b31m \u202e"
`

// What a terminal could take as a command is shown and not sent, whatever the form of
// the output, and no cell of a CSV file begins a formula.
func TestTerminalEscapes(t *testing.T) {
	dir := t.TempDir()
	hw := filepath.Join(dir, "evil.toml")
	testkit.Must(t, os.WriteFile(hw, []byte(evilGPU), 0o600))
	for _, args := range [][]string{
		{"gpus", "list", "--hardware", hw}, {"gpus", "list", "--hardware", hw, "--format", "markdown"},
		{"gpus", "list", "--hardware", hw, "--format", "csv"},
		{"gpus", "show", "evil", "--hardware", hw}, {"estimate", "--model", "llama3.2-1b", "--gpu", "evil", "--hardware", hw},
		{"estimate", "--model", "llama3.2-1b", "--gpu", "evil", "--hardware", hw, "--verbose"},
		{"estimate", "--model", filepath.Join(dir, "no\x1b[31msuch"), "--gpu", "h100", "--offline"},
		{"estimate", "--model", "llama3.2-1b", "--gpu", "h\x1b]0;x\a", "--hardware", hw}, {"results", "list", "--results", dir + "\x1b[2J"},
		{"no\x1b[1msuch"}, {"estimate", "--no\x1bsuch"},
	} {
		var out, errs bytes.Buffer
		run(args, strings.NewReader(""), &out, &errs, func(string) string { return "" })
		all := out.String() + errs.String()
		if strings.ContainsAny(all, "\x1b\a\u009b\u202e") {
			t.Errorf("%q: %q", args, all)
		}
		if args[len(args)-1] != "csv" {
			continue
		}
		rows, err := csv.NewReader(&out).ReadAll()
		testkit.Must(t, err)
		for _, r := range rows {
			for _, cell := range r {
				if strings.HasPrefix(cell, "=") {
					t.Errorf("a formula: %q", cell)
				}
			}
		}
	}
}
