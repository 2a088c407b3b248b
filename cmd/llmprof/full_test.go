package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// A full is standard output on a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// Help that could not be written is a failure, as any other result is.
func TestHelpOnFullDisk(t *testing.T) {
	for _, line := range []string{"--help", "estimate --help", "estimate --help-all", "help", "help plan", "gpus --help", "--version",
		"version"} {
		var said bytes.Buffer
		status := run(strings.Fields(line), strings.NewReader(""), full{}, &said, func(string) string { return "" })
		if status != 1 || !strings.Contains(said.String(), "llmprof: standard output: no space left on device") {
			t.Errorf("llmprof %s: status %d, %q", line, status, said.String())
		}
	}
}
