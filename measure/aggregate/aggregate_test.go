package aggregate

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"llmprof"
	"llmprof/internal/stats"
	"llmprof/internal/testkit"
	"llmprof/internal/testkit/schematest"
	"llmprof/measure/result"
	"llmprof/models"
)

// fixture is process i of n of a made-up experiment, on a GPU of its own.
func fixture(t testing.TB, i, n int) *result.Result {
	t.Helper()
	r, err := result.Read(filepath.Join("..", "result", "testdata", "fixture-8b-b8.p0.json"))
	testkit.Must(t, err)
	r.Process, r.Processes = i, n
	uuid := fmt.Sprintf("GPU-%012d", i)
	r.Machine.GPUs[0].UUID = uuid
	for _, w := range []*result.Window{r.Energy.Request, r.Energy.IdleLoaded, r.Energy.Idle} {
		w.Domains[0].ID = uuid
	}
	return r
}

func times5(t testing.TB, xs ...float64) *result.Times {
	t.Helper()
	s, err := stats.Summarize(xs)
	testkit.Must(t, err)
	return &result.Times{Summary: *s, Samples: xs}
}

// analyticFLOPs counts FLOPs by the tables of the repository.
func analyticFLOPs(t testing.TB) FLOPs {
	t.Helper()
	table, err := models.Load(llmprof.ModelsJSON)
	testkit.Must(t, err)
	return Analytic(table)
}

func want(t *testing.T, name string, got *float64, want float64) {
	t.Helper()
	if got == nil {
		t.Errorf("%s is null, want %v", name, want)
	} else if math.Abs(*got-want) > 1e-9*math.Abs(want) {
		t.Errorf("%s is %v, want %v", name, *got, want)
	}
}

// TestByHand works two processes out by hand: 40 passes of 8 sequences of 1024
// and 128 tokens in 46.04 s at 588 W each, 118 W of idling.
func TestByHand(t *testing.T) {
	a, err := build([]*result.Result{fixture(t, 1, 2), fixture(t, 0, 2)}, Options{FLOPs: analyticFLOPs(t)})
	testkit.Must(t, err)
	const seconds, joules = 46.04, 46.04 * 588
	want(t, "total_input_tokens", a.Totals.InputTokens, 2*40*8*1024)
	want(t, "total_output_tokens", a.Totals.OutputTokens, 2*40*8*128)
	want(t, "total_tokens", a.Totals.Tokens, 2*40*8*1152)
	want(t, "total_energy_j", a.Totals.EnergyJ, 2*joules)
	want(t, "tokens_per_second", a.Totals.TokensPerS, 2*40*8*128/seconds)
	want(t, "avg_tokens_per_second", a.Totals.AvgTokensPerS, 40*8*128/seconds)
	want(t, "effective_batch_throughput", a.Totals.EffectiveRate, 2*40*8*128/seconds)
	want(t, "tokens_per_joule", a.Efficiency.TokensPerJoule, 40*8*1152/joules)
	want(t, "watts_per_token_per_second", a.Efficiency.WattsPerTokRate, 588/(40*8*128/seconds))
	want(t, "adjusted_j", a.Breakdown.AdjustedJ, 2*seconds*(588-118))
	want(t, "baseline_power_w", a.Breakdown.BaselinePowerW, 2*118)
	want(t, "mj_per_tok_total", a.Efficiency.MJPerTokTotal, 1000*joules/(40*8*128))
	want(t, "energy_per_request_j", a.AIPerf.PerRequest, joules/(40*8))
	want(t, "energy_per_user_j", a.AIPerf.PerUser, 2*joules/16)
	want(t, "average_gpu_power_w", a.AIPerf.AverageGPUPower, 2*588)
	want(t, "performance_per_watt", a.AIPerf.PerformancePerWatt, 40*8/seconds/588)
	want(t, "energy_delay_product_js", a.AIPerf.EnergyDelayProduct, joules/(40*8)*1.1518)
	want(t, "token_efficiency_index", a.Extended.TokenEfficiencyIndex, 2*40*8*128/seconds*40*8*1152/joules)
	want(t, "total_vram_mb", a.Extended.Memory.TotalVRAM, 2*150754820096/1048576.)
	want(t, "kv_cache_memory_ratio", a.Extended.Memory.KVCacheToMemory, 1207959552/18468482048.)
	want(t, "tokens_per_gb_vram", a.Extended.Memory.TokensPerGB, 40*8*128/(18468482048/1073741824.))
	want(t, "num_batches", a.Extended.Batch.Batches, 80)
	want(t, "sm_utilisation_mean", a.Extended.GPUUtilisation.SMMean, 98)
	want(t, "throttle_duration_sec", a.Throttle.DurationS, 0.8)
	if !a.Method.Overlap || a.Method.Attribution == nil || !*a.Method.Attribution || len(a.Method.Warnings) > 0 {
		t.Errorf("%+v", a.Method)
	}
	if diff := cmp.Diff(map[string]float64{"GPU-000000000000": joules, "GPU-000000000001": joules}, a.Breakdown.PerDevice); diff != "" {
		t.Error(diff)
	}
}

// TestIdentities checks what must be so whatever the figures.
func TestIdentities(t *testing.T) {
	a, err := build([]*result.Result{fixture(t, 0, 2), fixture(t, 1, 2)}, Options{FLOPs: analyticFLOPs(t)})
	testkit.Must(t, err)
	e := &a.Efficiency
	want(t, "tokens/J × J/token", times(e.TokensPerJoule, e.JoulesPerToken), 1)
	want(t, "FLOP/J × J/token", times(e.FLOPsPerJoule, e.JoulesPerToken), *e.FLOPsPerToken)
	want(t, "the GPUs' energy is all there is", a.AIPerf.PerTotalToken, *e.JoulesPerToken)
	want(t, "power × time", times(a.AIPerf.AverageGPUPower, new(46.04)), *a.Totals.EnergyJ)
	want(t, "FLOPs of prompts and answers", add(times(e.FLOPsPerInput, a.Totals.InputTokens), times(e.FLOPsPerOutput, a.Totals.OutputTokens)),
		*a.Totals.FLOPs)
	sum := 0.
	for _, j := range a.Breakdown.PerDevice {
		sum += j
	}
	want(t, "devices", &sum, *a.Breakdown.RawJ)
}

// TestFLOPs counts Llama 3.1 8B by its published shape: 32 layers of 4096, 32
// query and 8 KV heads of 128, 14336 wide, and 128256 tokens.
func TestFLOPs(t *testing.T) {
	r := fixture(t, 0, 1)
	w, err := analyticFLOPs(t)(r)
	testkit.Must(t, err)
	const layers, hidden, kv, wide, vocab, batch, prompt, gen = 32., 4096., 1024., 14336., 128256., 8., 1024., 128.
	linear := 2 * layers * (2*hidden*hidden + 2*hidden*kv + 3*hidden*wide)
	head := 2 * hidden * vocab
	prefill := batch * (prompt*linear + head + 4*layers*hidden*prompt*(prompt+1)/2)
	past := 0.
	for i := 1.; i < gen; i++ {
		past += prompt + i
	}
	decode := batch * ((gen-1)*(linear+head) + 4*layers*hidden*past)
	for name, pair := range map[string][2]float64{"prefill": {w.Prefill, prefill}, "decode": {w.Decode, decode}} {
		if math.Abs(pair[0]/pair[1]-1) > 2e-3 {
			t.Errorf("%s: %g FLOPs, by hand %g", name, pair[0], pair[1])
		}
	}
	for name, change := range map[string]func(){
		"it is not in the table of models": func() { r.Model.Name = "nobody-7b" },
		"it is another model":              func() { r.Model.Name, r.Model.ParamsTotal = "llama3.1-8b", 7 },
	} {
		change()
		if _, err := analyticFLOPs(t)(r); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want %s", err, name)
		}
	}
}

// TestPercentiles checks that percentiles are of all samples: the mean of the
// processes' own would be 55.5 and 1100.
func TestPercentiles(t *testing.T) {
	a, b := fixture(t, 0, 2), fixture(t, 1, 2)
	a.TTLT, b.TTLT = times5(t, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10), times5(t, 100)
	got, err := build([]*result.Result{a, b}, Options{})
	testkit.Must(t, err)
	if s := got.Latency.TTLT; s.N != 11 || s.Median != 6 || s.P95 != 55 || s.Max != 100 {
		t.Errorf("%+v", s)
	}
	want(t, "e2e_latency_median_ms", got.Extended.RequestLatency.Median, 6000)
}

// TestChecks spoils one thing at a time.
func TestChecks(t *testing.T) {
	for name, test := range map[string]struct {
		spoil   func(a, b *result.Result)
		options Options
		err     string
		warning string
		null    []string // keys that have to be null with a reason
	}{
		"one after the other": {
			spoil: func(_, b *result.Result) {
				b.Started, b.Ended = b.Started.Add(70*time.Second), b.Ended.Add(70*time.Second)
			},
			warning: "all processes ran together for 50.0 s only",
			null:    []string{"totals.tokens_per_second", "aiperf"},
		},
		"just enough": {spoil: func(_, b *result.Result) {
			b.Started, b.Ended = b.Started.Add(60*time.Second), b.Ended.Add(60*time.Second)
		}},
		"one GPU for both": {
			spoil:   func(a, b *result.Result) { *b = *a; b.Process = 1 },
			warning: "GPU GPU-000000000000 is in more than one process",
			null:    []string{"totals.total_energy_j", "efficiency.tokens_per_joule", "aiperf", "energy_breakdown"},
		},
		"no GPU named": {
			spoil: func(_, b *result.Result) {
				b.Energy, b.Machine.GPUs = nil, nil
				b.Reasons["energy"] = "no sensor"
			},
			warning: "a process does not say which GPUs it used",
			null:    []string{"totals.total_energy_j", "aggregation.gpu_attribution_verified"},
		},
		"other batch": {spoil: func(_, b *result.Result) { b.Workload.Batch = 4 }, err: "process 1 has another workload than process 0"},
		"other hash":  {spoil: func(_, b *result.Result) { b.Provenance.Hash = "x" }, err: "another configuration"},
		"other model": {spoil: func(_, b *result.Result) { b.Model.Name = "x" }, err: "another model (x)"},
		"allowed": {spoil: func(_, b *result.Result) { b.Workload.Batch = 4 }, options: Options{AllowMixed: true},
			warning: "another workload"},
		"twice": {spoil: func(_, b *result.Result) { b.Process = 0 }, err: "process 0 is there twice"},
		"missing": {spoil: func(a, b *result.Result) { a.Processes, b.Processes = 4, 4 },
			err: "2 of 4 processes have no result: fixture-8b-b8.p2.json, fixture-8b-b8.p3.json"},
		"missing, known": {spoil: func(a, b *result.Result) { a.Processes, b.Processes = 3, 3 }, options: Options{AllowMissing: true},
			warning: "1 of 3 processes have no result"},
		"other id": {spoil: func(_, b *result.Result) { b.ID = "x" }, err: "want those of one experiment"},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := fixture(t, 0, 2), fixture(t, 1, 2)
			test.spoil(a, b)
			got, err := build([]*result.Result{a, b}, test.options)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("got %v, want %s", err, test.err)
				}
				return
			}
			testkit.Must(t, err)
			if text := strings.Join(got.Method.Warnings, "\n"); (test.warning == "") != (text == "") || !strings.Contains(text, test.warning) {
				t.Errorf("warnings %q, want %q", text, test.warning)
			}
			for _, key := range test.null {
				if got.Reasons[key] == "" {
					t.Errorf("no reason for %s: %v", key, got.Reasons)
				}
			}
			explained(t, got)
		})
	}
}

// explained checks that every null has a reason, by its own key or one above it.
// TestManyProcesses refuses results that claim more processes than there can be, without a list of those.
func TestManyProcesses(t *testing.T) {
	for _, o := range []Options{{}, {AllowMissing: true}} {
		r := fixture(t, 3, 1_000_000_000)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := build([]*result.Result{r}, o)
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; err == nil || len(err.Error()) > 2000 || used > 10<<20 {
			t.Fatalf("%+v: %d MB, %v", o, used>>20, err)
		}
		for _, want := range []string{"999999999 of 1000000000 processes have no result: ", ".p19.json", ".p20.json and 999999979 more"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: no %q in %v", o, want, err)
			}
		}
	}
}

func explained(t *testing.T, a *Aggregate) {
	t.Helper()
	text, err := json.Marshal(a)
	testkit.Must(t, err)
	var tree any
	testkit.Must(t, json.Unmarshal(text, &tree))
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, value := range v {
				walk(strings.TrimPrefix(path+"."+key, "."), value)
			}
		case []any:
			for _, item := range v {
				walk(path, item)
			}
		case nil:
			if strings.HasPrefix(path, "latency.") && strings.Count(path, ".") > 1 {
				return // a sample of one has no spread
			}
			for at := path; at != ""; at = at[:max(strings.LastIndexByte(at, '.'), 0)] {
				if a.Reasons[at] != "" {
					return
				}
			}
			t.Errorf("%s is null without a reason", path)
		}
	}
	walk("", tree)
}

// bare is a result of which next to nothing was measured.
func bare(t testing.TB) *result.Result {
	r := fixture(t, 0, 1)
	r.TTFT, r.TPOT, r.TTLT, r.Throughput, r.Sizes, r.Energy, r.Meter, r.Conditions = nil, nil, nil, nil, nil, nil, nil, nil
	for _, key := range []string{"ttft_s", "tpot_s", "ttlt_s", "throughput_tok_s", "sizes_bytes", "energy", "meter"} {
		r.Reasons[key] = "not asked for"
	}
	r.Workload.Weights, r.Workload.Prompts = "nvfp4", "prompts.txt"
	return r
}

// servedResult is one of a server, with a request that failed.
func servedResult(t testing.TB) *result.Result {
	r := fixture(t, 0, 1)
	r.Serving = &result.Serving{
		Endpoint: "http://localhost:8000", API: "chat", Concurrency: 4, Requests: 3, Completed: 2, Failures: map[string]int{"timeout": 1},
		Duration: 4,
		Records: []result.Record{
			{FirstTokenS: new(0.1), LastTokenS: new(2.), Prompt: new(100), Generated: new(20)},
			{FirstTokenS: new(0.1), LastTokenS: new(3.), Prompt: new(50), Generated: new(10)},
			{Failure: "timeout"},
		},
	}
	delete(r.Reasons, "serving")
	return r
}

// TestServed counts the tokens of requests that were completed.
func TestServed(t *testing.T) {
	a, err := build([]*result.Result{servedResult(t)}, Options{})
	testkit.Must(t, err)
	want(t, "total_tokens", a.Totals.Tokens, 180)
	want(t, "tokens_per_second", a.Totals.TokensPerS, 30/4.)
	want(t, "effective_batch_size", a.Extended.Batch.EffectiveSize, 5/4.)
	want(t, "energy_per_user_j", a.AIPerf.PerUser, 46.04*588/4)
	explained(t, a)
	r := servedResult(t)
	r.Serving.Records[0].Generated = nil
	if a, err = build([]*result.Result{r}, Options{}); err != nil || a.Totals.OutputTokens != nil {
		t.Errorf("tokens of a request that are not known: %v, %v", a.Totals.OutputTokens, err)
	}
	explained(t, a)
}

// TestJSONSchema holds the schema: it takes what is written,
// has every key and refuses others.
func TestJSONSchema(t *testing.T) {
	s := schematest.Of(t, Schema, Report{})
	var err error
	reports := map[string]*Report{}
	for name, list := range map[string][]*result.Result{
		"two": {fixture(t, 0, 2), fixture(t, 1, 2)}, "bare": {bare(t)}, "served": {servedResult(t)}, "none": nil,
		"cycles": cycle(t, 0.2, 0.21, 0.22),
	} {
		if reports[name], err = Make(list, Options{FLOPs: analyticFLOPs(t)}); err != nil {
			t.Fatal(err)
		}
		for i := range reports[name].Experiments {
			explained(t, &reports[name].Experiments[i])
		}
	}
	all := &Report{}
	testkit.Fill(reflect.ValueOf(all).Elem())
	all.Schema, all.Experiments[0].ID = Schema, "x"
	reports["everything"] = all
	for name, r := range reports {
		text, err := json.Marshal(r)
		testkit.Must(t, err)
		for bad, text := range map[bool]string{false: string(text), true: strings.Replace(string(text), `"cycles"`, `"cycels"`, 1)} {
			if err := s.Check(text); (err != nil) != bad {
				t.Errorf("%s: %#v", name, err)
			}
		}
	}
	golden(t, reports["two"])
}

// golden compares a report with the one in testdata, to the digits that all
// machines agree on.
func golden(t *testing.T, r *Report) {
	t.Helper()
	file := filepath.Join("testdata", "two.json")
	text, err := json.MarshalIndent(r, "", "  ")
	testkit.Must(t, err)
	if testkit.Update() {
		testkit.Must(t, os.WriteFile(file, append(text, '\n'), 0o644))
	}
	kept, err := os.ReadFile(file)
	testkit.Must(t, err)
	var got, wanted any
	testkit.Must(t, json.Unmarshal(text, &got))
	testkit.Must(t, json.Unmarshal(kept, &wanted))
	nearly := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(math.Abs(a), math.Abs(b)) })
	if diff := cmp.Diff(wanted, got, nearly); diff != "" {
		t.Error(diff)
	}
}

// cycle is an experiment repeated, with these times to the first token.
func cycle(t testing.TB, ttft ...float64) []*result.Result {
	var list []*result.Result
	for i, s := range ttft {
		r := fixture(t, 0, 1)
		r.ID, r.Cycle, r.Provenance.Hash = fmt.Sprintf("exp-0123-c%d", i), i, "0123"
		r.TTFT = times5(t, s, s, s)
		list = append(list, r)
	}
	return list
}

// TestCycles compares three cycles: 0.1, 0.2 and 0.3 s have a mean of 0.2, a
// standard deviation of 0.1 and, with t = 4.302653 for 2 degrees of freedom
// (any t table), an interval of ±0.248414.
func TestCycles(t *testing.T) {
	r, err := Make(cycle(t, 0.3, 0.1, 0.2), Options{})
	testkit.Must(t, err)
	if len(r.Experiments) != 3 || len(r.Cycles) != 1 || r.Cycles[0].N != 3 || r.Cycles[0].Experiment != "exp-0123" {
		t.Fatalf("%+v", r.Cycles)
	}
	s := r.Cycles[0].Metrics[0]
	if s.Name != "ttft_s" || s.Class == nil || *s.Class != "bad" {
		t.Errorf("%+v", s)
	}
	for name, pair := range map[string][2]float64{
		"mean": {s.Mean, 0.2}, "std": {*s.Std, 0.1}, "se": {*s.SE, 0.1 / math.Sqrt(3)}, "cv": {*s.CV, 0.5},
		"t": {*s.TCritical, 4.302653}, "low": {*s.CILow, 0.2 - 0.248414}, "high": {*s.CIHigh, 0.2 + 0.248414},
	} {
		if math.Abs(pair[0]-pair[1]) > 1e-5 {
			t.Errorf("%s is %v, want %v", name, pair[0], pair[1])
		}
	}
	other := cycle(t, 0.1, 0.2)
	other[1].Provenance.Hash = "4567"
	if r, err = Make(other, Options{}); err != nil || len(r.Cycles) != 0 {
		t.Errorf("two configurations were taken for cycles: %+v, %v", r.Cycles, err)
	}
}

// TestMakeGoesOn checks that one experiment that cannot be aggregated does not
// take the others with it.
func TestMakeGoesOn(t *testing.T) {
	broken := fixture(t, 0, 2)
	broken.ID = "broken"
	r, err := Make([]*result.Result{broken, fixture(t, 0, 1)}, Options{})
	if err == nil || !strings.Contains(err.Error(), "broken: 1 of 2 processes have no result: broken.p1.json") || len(r.Experiments) != 1 {
		t.Errorf("%v, %d experiments", err, len(r.Experiments))
	}
}

// TestClass probes each class at its edges.
func TestClass(t *testing.T) {
	for cv, want := range map[float64]string{
		0: "excellent", 0.0499: "excellent", 0.05: "good", 0.0999: "good", 0.10: "fair", 0.20: "fair", 0.2001: "bad", 3: "bad",
	} {
		if got := class(cv); got != want {
			t.Errorf("%v: %s, want %s", cv, got, want)
		}
	}
}
