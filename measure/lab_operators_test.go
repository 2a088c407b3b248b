package measure

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"llmprof/internal/testkit"
	"llmprof/measure/experiment"
	"llmprof/measure/native"
	"llmprof/measure/native/process"
	"llmprof/measure/result"
	"llmprof/measure/tracefile"
)

// nativeStandIn makes this test's program a native engine on a GPU that computes
// nothing.
const nativeStandIn = "LLMPROF_TEST_NATIVE_STAND_IN"

func serveStandIn() error {
	return process.ServeOn(context.Background(), os.Stdin, os.Stdout, "test", native.TeamOnStandIns)
}

// A whole measurement with operators and traces, by a worker process whose GPU
// computes nothing.
func TestNativeOperators(t *testing.T) {
	t.Setenv(nativeStandIn, "1")
	folder, traces := t.TempDir(), filepath.Join(t.TempDir(), "new", "traces")
	testkit.Must(t, os.WriteFile(filepath.Join(folder, "config.json"), []byte(nativeTiny), 0o644))
	lab := nativeLab(t)
	lab.NativeCommand, lab.WarmupBlock, lab.WarmupLimit, lab.Shared = []string{os.Args[0]}, time.Millisecond, 100*time.Millisecond, true
	defer lab.Close()
	p := experiment.Default()
	p.Engine, p.Model, p.RandomWeights, p.Energy, p.Ops, p.Trace = experiment.Native, folder, true, false, true, traces
	p.PromptLen, p.GenLen, p.Repeats, p.Warmup = 20, 6, 3, 1
	results, err := lab.Measure(t.Context(), p)
	testkit.Must(t, err)
	r := results[0]
	keepsSchema(t, r)
	r.ID = "stand-in"
	if _, err := result.Encode(r); err != nil {
		t.Errorf("the result cannot be written: %v", err)
	}
	o := r.Operators
	if o == nil || o.Prefill == nil || o.Decode == nil || o.Decode.Context != 22 || len(o.Decode.Ops) != 8 || len(o.Prefill.Ops) != 13 {
		t.Fatalf("operators: %+v, reasons %v", o, r.Reasons)
	}
	for _, c := range r.Closure {
		if strings.HasPrefix(c.Name, "operators") && !c.Passed { // a microsecond a kernel
			t.Errorf("%+v", c)
		}
	}
	for phase, names := range map[string][]string{"prefill": {"prefill"}, "decode": {"decode", "decode step 1", "decode step 5"},
		"request": {"request", "prefill", "decode step 5"}} {
		files, err := filepath.Glob(filepath.Join(traces, "trace-*-"+phase+".json"))
		if err != nil || len(files) != 1 {
			t.Fatalf("%s: traces %v, %v", phase, files, err)
		}
		trace, err := tracefile.ReadFile(files[0])
		testkit.Must(t, err)
		for _, name := range names {
			if err := trace.Anchor(name, 0); err != nil {
				t.Errorf("%s: %v", phase, err)
			}
		}
		table, err := os.ReadFile(strings.TrimSuffix(files[0], ".json") + "-kernels.csv")
		if err != nil || !strings.Contains(string(table), "\ngate_up_proj,compute,") {
			t.Errorf("%s: %v, %s", phase, err, table)
		}
		nested(t, files[0])
	}
}

// nested checks that a trace is what Perfetto takes: rows that are named, and on
// each of them spans that lie one in another or apart.
func nested(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	testkit.Must(t, err)
	type span struct {
		Phase string `json:"ph"`
		Name  string
		PID   int
		TID   int
		TS    float64
		Dur   float64
	}
	var whole struct{ TraceEvents []span }
	testkit.Must(t, json.Unmarshal(text, &whole))
	rows, named := map[int][]span{}, []string{}
	for _, e := range whole.TraceEvents {
		switch e.Phase {
		case "X":
			rows[e.TID] = append(rows[e.TID], e)
		case "M":
			named = append(named, e.Name)
		}
	}
	if len(named) != 7 || len(rows) != 3 {
		t.Errorf("%d rows, names %v", len(rows), named)
	}
	const rounding = 5e-4 // Perfetto counts whole nanoseconds
	for _, spans := range rows {
		slices.SortStableFunc(spans, func(a, b span) int { return cmp.Or(cmp.Compare(a.TS, b.TS), cmp.Compare(b.Dur, a.Dur)) })
		var open []span
		for _, s := range spans {
			for len(open) > 0 && open[len(open)-1].TS+open[len(open)-1].Dur <= s.TS+rounding {
				open = open[:len(open)-1]
			}
			if len(open) > 0 && s.TS+s.Dur > open[len(open)-1].TS+open[len(open)-1].Dur+rounding {
				t.Errorf("%s: %q overlaps %q", filepath.Base(path), s.Name, open[len(open)-1].Name)
			}
			open = append(open, s)
		}
	}
}

// Two GPUs that share a model, of which the theory has the sizes and the operators.
func TestNativeShared(t *testing.T) {
	t.Setenv(nativeStandIn, "1")
	folder := t.TempDir()
	testkit.Must(t, os.WriteFile(filepath.Join(folder, "config.json"), []byte(nativeTiny), 0o644))
	lab := nativeLab(t)
	lab.NativeCommand, lab.WarmupBlock, lab.WarmupLimit, lab.Shared = []string{os.Args[0]}, time.Millisecond, 100*time.Millisecond, true
	defer lab.Close()
	p := experiment.Default()
	p.Engine, p.Model, p.RandomWeights, p.Energy, p.Ops, p.TP = experiment.Native, folder, true, false, true, 2
	p.PromptLen, p.GenLen, p.Repeats, p.Warmup = 20, 6, 3, 1
	results, err := lab.Measure(t.Context(), p)
	testkit.Must(t, err)
	r := results[0]
	if r.Parallelism.TP != 2 || r.Sizes == nil || r.Operators == nil {
		t.Fatalf("%+v, sizes %+v, operators %+v", r.Parallelism, r.Sizes, r.Operators)
	}
	if s := r.Sizes; s.Analytic == nil || float64(*s.Params) != s.Analytic.Params {
		t.Errorf("parameters of both %+v, in theory %+v", *s.Params, s.Analytic)
	}
	names := map[string]bool{}
	for _, o := range r.Operators.Decode.Ops {
		names[o.Name] = true
		for _, n := range o.Includes {
			names[n] = true
		}
	}
	if !names["all_reduce"] {
		t.Errorf("no all_reduce among %v", names)
	}
}
