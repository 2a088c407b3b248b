package served_test

import (
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/hardware"
	"llmprof/internal/testkit"
	"llmprof/internal/testkit/casetest"
	"llmprof/measure/result"
	"llmprof/serving"
	"llmprof/unit"
	"llmprof/validate/served"
)

// The runs are whole: every request has its times, and throughputs are those of the results.
func TestRuns(t *testing.T) {
	runs, err := served.Runs()
	if err != nil {
		t.Fatal(err)
	}
	if len(runs) != 210 {
		t.Errorf("%d runs", len(runs))
	}
	n := 0
	for i := range runs {
		r := &runs[i]
		n += len(r.Requests)
		if r.Source == "" || r.Licence == "" || len(r.Requests) == 0 {
			t.Errorf("%s: %d requests, source %q, licence %q", r.Name, len(r.Requests), r.Source, r.Licence)
		}
		for _, q := range r.Requests {
			if q.TTFT <= 0 || q.E2E < q.TTFT || q.Prompt < 1 || q.Gen < 1 {
				t.Errorf("%s: %+v", r.Name, q)
			}
		}
	}
	if want := 2*(24+96+192+80+150) + 4*300 + (320 + 512 + 320 + 400 + 400 + 600 + 60) + (131 + 306 + 476 + 587 + 724 + 264 + 379 + 480) +
		194 +
		(146 + 296 + 2*562 + 611 + 816 + 239 + 422 + 2*208 + 512 + 480) + (813 + 100 + 571 + 320 + 128 + 475 + 821) +
		2*(12+16+64+256+4*16+306+587+264) + 476 + (12 + 16 + 64 + 256 + 4*16 + 131 + 306 + 264) +
		4*(12+16+64+256+4*16) + 2*(12+64+2*16) + 16 + (476 + 587 + 264) + 306 + (306 + 476 + 587 + 264) + (131 + 306 + 264) +
		(164 + 380 + 628 + 774 + 907) + (349 + 559 + 659 + 832 + 1580 + 2442) + (194 + 474 + 792 + 970 + 1202) +
		(288 + 533 + 587 + 686 + 1421 + 2114) + (215 + 300 + 326 + 427) + (64 + 128 + 256 + 384 + 512 + 1024) +
		(194 + 474 + 792 + 306 + 476 + 349 + 559 + 1580 + 215 + 300 + 380 + 628 + 608) +
		(330 + 499 + 676 + 1028) + (461 + 782) + (392 + 820 + 1247) + 845 +
		300 + 508 + (84 + 142 + 325 + 349) + (237 + 589 + 1019 + 976 + 2440) + (167 + 452 + 671 + 886 + 484 + 1227 + 2064 + 82 + 105); n != want {
		t.Errorf("%d requests, want %d", n, want)
	}
}

// server is the server of a run, as it is predicted.
func server(t *testing.T, r *served.Run) *serving.Server {
	t.Helper()
	c := casetest.Case(t, r.Model, r.GPU, 1, r.TP)
	c.Parallel.DP, c.Parallel.EP, c.Parallel.MoETP = r.DP, r.EP, r.MoETP
	if r.PP > 1 {
		c.Parallel.PP, c.Parallel.MicroBatches = r.PP, r.PP
	}
	c.Machine = casetest.MachineOf(t, casetest.GPU(t, r.GPU).Linked(hardware.Links{NoP2P: r.NoP2P}), r.Engine)
	if r.Weights != "" {
		c.Scheme = casetest.Scheme(t, r.Weights, c.Machine.GPU)
	}
	p, err := analytic.NewPredictor(c)
	testkit.Must(t, err)
	rules, err := engine.SchedulerOf(c.Machine.Engine.Profile().Engine(), c.Machine.Engine, c.Machine.GPU)
	testkit.Must(t, err)
	s := &serving.Server{Predictor: p, Scheduler: rules, Layout: serving.Layout{Replicas: 1}}
	r.Apply(s)
	return s
}

// The servers of this project are within what users are told over all loads of an engine, and the logs of vLLM 0.19
// on other cards, of which no constant was fitted, each within 10 %.
func TestScore(t *testing.T) {
	testkit.Long(t, "210 runs, of which TestScoreByUse scores 80")
	runs, err := served.Runs()
	testkit.Must(t, err)
	all, inside := map[string][]*served.Scored{}, 0.0
	for i := range runs {
		r := &runs[i]
		scored, err := r.Score(t.Context(), server(t, r))
		testkit.Must(t, err)
		if r.Licence == served.Own {
			all[r.Engine] = append(all[r.Engine], scored)
			continue
		}
		for _, name := range []string{"ttft_p50", "ttft_p99", "tpot_p50", "e2e_p50", "e2e_p99"} {
			if off := scored.Figure(name).Error(); max(off, -off) > 0.1 {
				t.Errorf("%s: %s is %.1f %% off", r.Name, name, 100*off)
			}
		}
	}
	var every []*served.Scored
	for _, of := range all {
		every = append(every, of...)
	}
	for _, name := range []string{"ttft_p50", "ttft_p90", "ttft_p99", "tpot_p50", "tpot_p90", "tpot_p99", "e2e_p50", "e2e_p90", "e2e_p99"} {
		inside += served.Coverage(every, name) / 9
		if got := served.Coverage(every, name); got < 0.8 {
			t.Errorf("%s: %.1f %% of the runs are within the interval", name, 100*got)
		}
	}
	if inside < 0.8 || inside > 0.97 {
		t.Errorf("%.1f %% of all percentiles are within their intervals, want 80 to 97", 100*inside)
	}
	for _, engine := range []string{"vllm", "sglang"} {
		for name, most := range map[string]float64{"ttft_p50": 0.12, "ttft_p99": 0.2, "tpot_p50": 0.05, "e2e_p50": 0.06, "requests_s": 0.04} {
			if got := served.Median(all[engine], name); got > most {
				t.Errorf("%s, %s: median error %.1f %%, want at most %.0f %%", engine, name, 100*got, 100*most)
			}
		}
	}
}

// Open loads of vLLM from 20 to 95 % of the capacity are off by no more than what is promised, in the median, and those beyond it in
// the throughput and the TTFT. No constant is fitted on them.
func TestScoreByUse(t *testing.T) {
	testkit.Long(t, "80 runs; the documents of servers, which TestServingSchemas checks, score those of one GPU")
	runs, err := served.Runs()
	testkit.Must(t, err)
	stable := regexp.MustCompile(
		`^h[12]00-(load(20|50|80|95)(-off)?|mixed[58]0|prefix(-off)?|short[48]0|long80|moe[58]0-sampled|(qwen|llama|mistral).*-(20|50|80|` +
			`95))(-b)?$`)
	var within, beyond []*served.Scored
	for i := range runs {
		switch r := &runs[i]; {
		case stable.MatchString(r.Name), strings.HasSuffix(r.Name, "120"):
			scored, err := r.Score(t.Context(), server(t, r))
			testkit.Must(t, err)
			if stable.MatchString(r.Name) {
				within = append(within, scored)
			} else {
				beyond = append(beyond, scored)
			}
		}
	}
	if len(within) != 71 || len(beyond) != 9 {
		t.Fatalf("%d loads within the capacity and %d beyond", len(within), len(beyond))
	}
	for name, most := range map[string]float64{"ttft_p50": 0.12, "ttft_p99": 0.2, "tpot_p50": 0.05, "e2e_p50": 0.06, "requests_s": 0.04} {
		if got := served.Median(within, name); got > most {
			t.Errorf("%s: median error %.1f %%, want at most %.0f %%", name, 100*got, 100*most)
		}
	}
	if got := served.Median(beyond, "ttft_p50"); got > 0.15 {
		t.Errorf("beyond the capacity, TTFT: median error %.1f %%, want at most 15 %%", 100*got)
	}
	for _, s := range beyond {
		most := 0.04
		if s.Run.Model == "qwen3-30b-a3b" && s.Run.GPU == "h100" { // its host launches prompts in 0.7 of the time of vLLM's constants
			most = 0.08
		}
		if off := s.Figure("requests_s").Error(); max(off, -off) > most {
			t.Errorf("%s: throughput is %.1f %% off", s.Run.Name, 100*off)
		}
	}
}

// The tables of runs are reduced from the results that their sources name.
func TestReduced(t *testing.T) {
	runs, err := served.Runs()
	testkit.Must(t, err)
	for i := range runs {
		r := &runs[i]
		_, file, _ := strings.Cut(r.Source, ": ")
		if i%testkit.Cases(8, 1) > 0 || r.Licence != served.Own || !strings.HasPrefix(file, "experiments/") {
			continue
		}
		d, err := result.Read("../../" + file)
		testkit.Must(t, err)
		want, err := served.FromResult(r.Name, d, r.GPU)
		testkit.Must(t, err)
		named := strings.HasPrefix(r.Engine, want.Engine) || strings.HasPrefix(want.Engine, r.Engine+"@") // a table may leave the release out
		if r.Model != want.Model || !named || r.Weights != strings.TrimPrefix(want.Weights, "bf16") ||
			r.Concurrency != want.Concurrency || want.CacheTokens != 0 && r.CacheTokens != 0 && r.CacheTokens != want.CacheTokens {
			t.Errorf("%s: %s on %s, %d clients", r.Name, r.Model, r.Engine, r.Concurrency)
		}
		begin := want.Requests[0].At - r.Requests[0].At // arrivals of some runs count from the first
		for k := range want.Requests {
			want.Requests[k].At -= begin
		}
		near := cmp.Comparer(func(a, b unit.Seconds) bool { return math.Abs(float64(a-b)) < 1.1e-4 }) // tables have tenths of a millisecond
		if diff := cmp.Diff(want.Requests, r.Requests, near, cmpopts.IgnoreFields(served.Request{}, "Hashes")); diff != "" {
			t.Errorf("%s: %s", r.Name, diff)
		}
	}
}

// A result of a server is a run with the arrivals and the tokens of its records.
func TestFromResult(t *testing.T) {
	d, err := result.Read("../../experiments/vllm-load/h100/rate16.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	r, err := served.FromResult("rate16.json", d, "h100")
	if err != nil {
		t.Fatal(err)
	}
	if r.Engine != "vllm@0.25.1" || r.Rate != 16 || r.Concurrency != 0 || r.CacheTokens != 462944 || len(r.Requests) != 320 ||
		r.Requests[319].At < 15 || r.Requests[0].Prompt != 1024 {
		t.Errorf("%s, %g/s, %d clients, %d tokens of cache, %d requests, the last at %g", r.Engine, r.Rate, r.Concurrency,
			r.CacheTokens, len(r.Requests), float64(r.Requests[319].At))
	}
	d.Serving.Completed--
	if _, err := served.FromResult("rate16.json", d, "h100"); err == nil {
		t.Error("a run with a failure is taken")
	}
}
