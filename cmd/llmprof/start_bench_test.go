package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

// BenchmarkCommand times commands that measure nothing, from the command line to the last
// byte. A process takes some 5 ms beside that to start.
func BenchmarkCommand(b *testing.B) {
	for _, line := range []string{
		"version", "--help", "estimate llama2-70b a100 --tp 8", "estimate deepseek-v3 h200 --tp 8 --format json", "models list",
		"models show llama3.1-8b",
		"gpus list", "gpus show h100", "validate", "graph llama3.1-8b h100 --format dot -o -", "plot roofline llama3.1-8b h100 --format svg -o -",
	} {
		b.Run(strings.ReplaceAll(line, " ", "_"), func(b *testing.B) {
			for b.Loop() {
				if code := run(strings.Fields(line), bytes.NewReader(nil), io.Discard, io.Discard, func(string) string { return "" }); code != 0 {
					b.Fatal(code)
				}
			}
		})
	}
}
