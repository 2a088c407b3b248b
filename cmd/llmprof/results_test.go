package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"llmprof/internal/stats"
	"llmprof/internal/testkit"
	"llmprof/measure/result"
)

// writeFixtures fills a folder with results that were made up for tests: one of
// a single process, a pair, three cycles of one configuration, and one of which
// next to nothing was measured.
func writeFixtures(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	write := func(change func(*result.Result)) error {
		r, err := result.Read(fixturePath)
		if err != nil {
			return err
		}
		change(r)
		_, err = result.Write(dir, r)
		return err
	}
	list := []func(*result.Result){
		func(r *result.Result) { r.ID = "example-c0" },
		func(r *result.Result) {
			r.ID, r.Marks = "bare", []string{"contaminated"}
			r.TTFT, r.TPOT, r.TTLT, r.Throughput, r.Sizes, r.Energy = nil, nil, nil, nil, nil, nil
		},
	}
	for i := range 2 {
		list = append(list, func(r *result.Result) {
			r.ID, r.Process, r.Processes = "pair", i, 2
			uuid := fmt.Sprintf("GPU-%d", i)
			r.Machine.GPUs[0].UUID = uuid
			for _, w := range []*result.Window{r.Energy.Request, r.Energy.IdleLoaded} {
				w.Domains[0].ID = uuid
			}
		})
	}
	for i := range 3 {
		list = append(list, func(r *result.Result) {
			r.ID, r.Cycle, r.Provenance.Hash = fmt.Sprintf("repeated-0123-c%d", i), i, "0123"
			samples := []float64{0.20 + 0.01*float64(i), 0.21 + 0.01*float64(i)}
			if s, err := stats.Summarize(samples); err == nil {
				r.TTFT.Summary, r.TTFT.Samples = *s, samples
			}
		})
	}
	for _, change := range list {
		if err := write(change); err != nil {
			return err
		}
	}
	return nil
}

// TestAggregateSchema validates what the command writes, of every fixture.
func TestAggregateSchema(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "results")
	if err := writeFixtures(dir); err != nil {
		t.Fatal(err)
	}
	s := schema(t, "aggregate")
	got := try(t, "aggregate", "--all", "--results", dir, "--format", "json")
	if got.code != 0 {
		t.Fatal(got.stderr)
	}
	checkSchema(t, s, got.stdout)
	got = try(t, "results", "show", "pair", "--results", dir, "--format", "json")
	checkSchema(t, s, got.stdout)
	got = try(t, "results", "show", "pair", "--raw", "--results", dir, "--format", "json")
	var raw []json.RawMessage
	if err := json.Unmarshal([]byte(got.stdout), &raw); err != nil || len(raw) != 2 {
		t.Fatalf("%d results, %v", len(raw), err)
	}
	for _, r := range raw {
		checkSchema(t, schema(t, "measure"), string(r))
	}
}

// TestServersAreListed names the models of servers where no width is asked for, gives a wide page all columns, and captions the table of a
// server with where it is, not with its client's machine.
func TestServersAreListed(t *testing.T) {
	r, err := result.Read(fixturePath)
	testkit.Must(t, err)
	r.ID, r.Machine.CPU, r.Machine.GPUs, r.Energy, r.Conditions = "measure-20261129T071254-4e64a038810d-c0", "Client 9000", nil, nil, nil
	r.Serving = &result.Serving{
		Endpoint: "http://gpu1:8000/v1", API: "chat", Concurrency: 4, Requests: 1, Completed: 1, Failures: map[string]int{}, Duration: 4,
		Records: []result.Record{{FirstTokenS: new(0.1), LastTokenS: new(2.), Prompt: new(100), Generated: new(20)}},
	}
	delete(r.Reasons, "serving")
	dir := t.TempDir()
	_, err = result.Write(dir, r)
	testkit.Must(t, err)
	in := func(width string, args ...string) string {
		var out, errs bytes.Buffer
		env := func(name string) string { return map[string]string{"COLUMNS": width, "LANG": "C.UTF-8"}[name] }
		if code := run(args, nil, &out, &errs, env); code != 0 {
			t.Errorf("%v at %s columns: exit %d: %s", args, width, code, errs.String())
		}
		return out.String()
	}
	for width, whole := range map[string]bool{"": false, "200": true} {
		if got := in(width, "results", "list", dir); !strings.Contains(got, r.Model.Name) || strings.Contains(got, "left out") == whole {
			t.Errorf("%s columns:\n%s", width, got)
		}
	}
	if got := in("100", "results", "table", dir); strings.Contains(got, "Client 9000") || !strings.Contains(got, "on "+r.Serving.Endpoint) {
		t.Error(got)
	}
	r.Serving.PromptTokens, r.Serving.GeneratedTokens = &stats.Summary{N: 1, Mean: 99.6}, &stats.Summary{N: 1, Mean: 20}
	_, err = result.Write(dir, r)
	testkit.Must(t, err)
	if got := in("100", "results", "table", dir); !strings.Contains(got, ", 100 + 20 tokens") {
		t.Errorf("the lengths are not those that the server counted:\n%s", got)
	}
}
