package calibrate

import (
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/hardware"
	"llmprof/internal/stats"
	"llmprof/internal/testkit"
	"llmprof/internal/testkit/casetest"
	"llmprof/models"
	"llmprof/roofline"
	"llmprof/serving"
)

// slowServer is a server of vLLM whose host and kernels are slower than the profile's.
var slowServer = map[roofline.Constant]float64{
	roofline.HostAsync: 3.6e-3, roofline.HostRequest: 6e-3, roofline.HostLaunch: 90e-6, roofline.HostDispatch: 320e-6,
	roofline.GEMMMemory: 0.70, roofline.GEMMCompute: 0.60,
}

// servedBy simulates a server with the constants, and what its client sees of the points.
func servedBy(t *testing.T, s *Served, gpu string, constants map[roofline.Constant]float64) {
	t.Helper()
	g := casetest.GPU(t, gpu)
	c, err := analytic.Constants(g, s.Engine, nil)
	if err != nil {
		t.Fatal(err)
	}
	ratio := c.Constants[roofline.GEMMSustained] / c.Constants[roofline.GEMMCompute]
	for k, v := range constants {
		c.Constants[k] = v
	}
	c.Constants[roofline.GEMMSustained] = ratio * c.Constants[roofline.GEMMCompute]
	m, err := analytic.NewMachine(g, c, s.Engine)
	if err != nil {
		t.Fatal(err)
	}
	p, err := analytic.NewPredictor(&analytic.Case{
		Model: s.Model, Machine: m, Scheme: s.Scheme, Parallel: s.Parallel, Workload: analytic.Workload{Batch: 1, PromptLen: 1, GenLen: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	rules, err := engine.SchedulerOf("vllm", m.Engine, g)
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.Points {
		s.Points[i].Seconds = seenBy(t, &serving.Server{Predictor: p, Scheduler: rules, Layout: serving.Layout{Replicas: 1}}, &s.Points[i])
	}
}

// seenBy is the TTFT of one request, or the least TPOT of a batch in a simulation. The sequence with the least TPOT shares
// no step with a prompt, and no stream ends before its last token is sent.
func seenBy(t *testing.T, server *serving.Server, p *ServedPoint) (seconds float64) {
	t.Helper()
	if p.First {
		e, err := server.Predictor.Predict(&analytic.Workload{Batch: 1, PromptLen: p.Context, GenLen: 1})
		if err != nil {
			t.Fatal(err)
		}
		return float64(e.TTFT.Expected)
	}
	gen := 33
	l := serving.Load{
		Arrival: serving.Arrival{Kind: "closed", Concurrency: p.Batch}, Prompt: serving.Fixed(max(p.Context-gen/2, 1)), Gen: serving.Fixed(gen),
		Requests: p.Batch, Seed: 1,
	}
	source, err := l.Source()
	if err != nil {
		t.Fatal(err)
	}
	seconds = math.Inf(1)
	_, err = serving.Simulate(context.Background(), server, source, serving.Options{Each: func(r *serving.Record) {
		if tpot, ok := r.TPOT(); ok {
			seconds = min(seconds, float64(tpot))
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	return seconds
}

func served(t *testing.T, model, runs, gpu string, tokens int) *Served {
	t.Helper()
	c := casetest.Case(t, model, gpu, 1, 1)
	plan := ServedPlan{Seed: 7, MostTokens: tokens, MostBatch: 32, MostTogether: 32768, Answer: 64}
	return &Served{
		Points: plan.Draw(), Engine: casetest.Machine(t, gpu, runs).Engine, Model: c.Model, Scheme: c.Scheme, Parallel: c.Parallel,
		Name: "mine", Server: Server{Kernels: "vllm 0.25.1 by its server", Version: "test", Tools: map[string]string{"vllm": "0.25.1"},
			When: time.Unix(1e9, 0).UTC()},
	}
}

// A server whose constants are known, simulated step by step, is recovered within a few
// percent, and constants that the points do not determine keep their values with a reason.
func TestServedConstantsAreRecovered(t *testing.T) {
	for _, x := range []struct {
		name, model string
		tokens      int
		unseen      []roofline.Constant
	}{
		{"host hidden in steps", "llama3.1-8b", 8192, []roofline.Constant{roofline.HostAsync}},
		{"long prompts", "llama3.2-1b", 65536, nil},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := served(t, x.model, "vllm", "h200", x.tokens)
			constants := maps.Clone(slowServer)
			for _, k := range x.unseen {
				delete(constants, k)
			}
			servedBy(t, s, "h200", constants)
			g := casetest.GPU(t, "h200")
			f, err := FitServed(s, g)
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range f.Notes {
				t.Log(n)
			}
			found := 0
			for k, want := range constants {
				v, ok := f.Values[k.String()]
				if !ok || v.N == 0 {
					t.Logf("%s was not determined", k)
					continue
				}
				found++
				if math.Abs(v.Value/want-1) > 0.05 {
					t.Errorf("%s = %.4g (n %d, ± %.2g), want %.4g", k, v.Value, v.N, v.Uncertainty, want)
				}
			}
			if found < 3 {
				t.Errorf("%d constants were found: %v", found, f.Notes)
			}
			all, err := s.Score(g, f)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range all {
				if math.Abs(e.After) > 0.04 {
					t.Errorf("%v (held out: %v): off by %.1f %% after, %.1f %% before", e.Point, e.Point.HeldOut, 100*e.After, 100*e.Before)
				}
			}
			text := f.Text()
			read, err := hardware.ParseCalibration("mine", text)
			if err != nil || read.Engine != "vllm" || !read.Serves("vllm") {
				t.Fatalf("%v: %s", err, text)
			}
		})
	}
}

// The file of a server in another format than 16 bits has all constants of that format, the fitted ones and the others.
func TestServedFileIsWhole(t *testing.T) {
	for _, weights := range []string{"fp8-block", "fp8", "w4a16"}[:testkit.Cases(1, 3)] {
		s := served(t, "qwen3-8b", "vllm", "h200", 8192)
		scheme, err := models.ParseScheme(weights)
		testkit.Must(t, err)
		s.Scheme = scheme.For(casetest.GPU(t, "h200"))
		servedBy(t, s, "h200", slowServer)
		f, err := FitServed(s, casetest.GPU(t, "h200"))
		testkit.Must(t, err)
		if _, err := hardware.ParseCalibration("mine", f.Text()); err != nil {
			t.Errorf("%s: %v", weights, err)
		}
	}
}

// A server whose host takes longer than any of its kernels determines the constants of the host alone.
func TestServedBySlowHost(t *testing.T) {
	for _, model := range []string{"llama3.2-1b", "llama3.1-8b"} {
		s := served(t, model, "vllm", "h200", 2048)
		for i := range s.Points {
			p := &s.Points[i]
			if p.Seconds = 15e-3 + 1e-3*float64(p.Batch); p.First {
				p.Seconds = 40e-3 + 20e-6*float64(p.Context)
			}
		}
		f, err := FitServed(s, casetest.GPU(t, "h200"))
		if err != nil {
			t.Fatal(err)
		}
		for k, want := range map[string]float64{"host.async_step": 15e-3, "host.async_sequence": 1e-3} {
			if v := f.Values[k]; math.Abs(v.Value/want-1) > 0.05 {
				t.Errorf("%s: %s = %v ± %v of %d points, want %v", model, k, v.Value, v.Uncertainty, v.N, want)
			}
		}
		if v, ok := f.Values["gemm.memory"]; ok && v.N > 0 {
			t.Errorf("%s: gemm.memory = %v ± %v of %d points that the host takes all of", model, v.Value, v.Uncertainty, v.N)
		}
	}
}

// Points that are too few, or that no hardware of the kind can do, are refused.
func TestServedRefusals(t *testing.T) {
	s := served(t, "llama3.1-8b", "vllm", "h200", 8192)
	servedBy(t, s, "h200", nil)
	all := s.Points
	s.Points = all[:5]
	if _, err := FitServed(s, casetest.GPU(t, "h200")); err == nil || !strings.Contains(err.Error(), "a fit needs 6") {
		t.Errorf("five points: %v", err)
	}
	s.Points = all
	for i := range s.Points {
		s.Points[i].Seconds /= 20
	}
	if _, err := FitServed(s, casetest.GPU(t, "h200")); err == nil || !strings.Contains(err.Error(), "at its best takes") {
		t.Errorf("a server of 20 times the GPU's speed: %v", err)
	}
}

// A point whose client saw several tokens at once is left out, and the file says so.
func TestServedPointBelowFloor(t *testing.T) {
	s := served(t, "llama3.1-8b", "vllm", "h200", 8192)
	servedBy(t, s, "h200", nil)
	n := len(s.Points)
	s.Points[1].Seconds /= 20
	f, err := FitServed(s, casetest.GPU(t, "h200"))
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Points) != n-1 || !strings.Contains(strings.Join(f.Notes, "\n"), "it is left out") {
		t.Errorf("%d of %d points, notes %q", len(s.Points), n, f.Notes)
	}
}

// pointsOf reads the points that calibrate printed.
func pointsOf(t *testing.T, file string) (all []ServedPoint) {
	t.Helper()
	text, err := os.ReadFile(file)
	testkit.Must(t, err)
	for line := range strings.Lines(string(text)) {
		_, line, _ = strings.Cut(line, "/30: ")
		var p ServedPoint
		var ms float64
		if _, err := fmt.Sscanf(line, "TPOT of %d at a context of %d: %g ms", &p.Batch, &p.Context, &ms); err != nil {
			if _, err := fmt.Sscanf(line, "TTFT of a prompt of %d: %g ms", &p.Context, &ms); err != nil {
				continue
			}
			p.First, p.Batch = true, 1
		}
		p.Seconds, p.HeldOut = ms/1e3, strings.Contains(line, "held out")
		all = append(all, p)
	}
	return all
}

// A constant that comes out beyond the peak keeps its value, with the reason, and the others are fitted.
func TestServedConstantThatCannotBe(t *testing.T) {
	testkit.Long(t, "a fit of seconds, whose code other tests run too")
	s := served(t, "llama3.1-8b", "vllm", "h200", 8192)
	servedBy(t, s, "h200", nil)
	for i := range s.Points {
		if s.Points[i].First { // prompts take less than their arithmetic does at its share of the peak
			s.Points[i].Seconds *= 0.7
		}
	}
	f, err := FitServed(s, casetest.GPU(t, "h200"))
	testkit.Must(t, err)
	notes := strings.Join(f.Notes, "\n")
	if f.Values["gemm.compute"].N != 0 || !strings.Contains(notes, "gemm.compute stays at") || !strings.Contains(notes, "which cannot be") {
		t.Errorf("gemm.compute is %+v: %s", f.Values["gemm.compute"], notes)
	}
	if got := f.Values["host.launch"]; got.N == 0 {
		t.Errorf("host.launch is %+v, though prompts wait for it: %s", got, notes)
	}
}

// The prompts of a real server with a mixture wait for its host. A calibration of it betters the points that were held out.
func TestServedMixture(t *testing.T) {
	testkit.Long(t, "a fit of seconds, whose code other tests run too")
	s := served(t, "qwen3-30b-a3b", "vllm", "h100", 8192)
	s.Points = pointsOf(t, "../../experiments/vllm-calibrate/h100/qwen3-30b-a3b/calibrate.txt")
	if len(s.Points) != 27 {
		t.Fatalf("%d points", len(s.Points))
	}
	g := casetest.GPU(t, "h100")
	f, err := FitServed(s, g)
	if err != nil {
		t.Fatal(err)
	}
	notes := strings.Join(f.Notes, "\n")
	if f.Values["gemm.compute"].N != 0 || !strings.Contains(notes, "gemm.compute stays at") {
		t.Errorf("gemm.compute is %+v: %s", f.Values["gemm.compute"], notes)
	}
	all, err := s.Score(g, f)
	testkit.Must(t, err)
	var before, after []float64
	for _, e := range all {
		t.Logf("%v: %.2f ms, %+.1f %% %+.1f %%", e.Point, 1e3*e.Point.Seconds, 100*e.Before, 100*e.After)
		if e.Point.HeldOut {
			before, after = append(before, math.Abs(e.Before)), append(after, math.Abs(e.After))
		}
	}
	slices.Sort(before)
	slices.Sort(after)
	if was, is := stats.Percentile(before, 50), stats.Percentile(after, 50); is > was {
		t.Errorf("the median error of points that were held out is %.1f %%, and %.1f %% without the calibration", 100*is, 100*was)
	}
}

// Whatever the server takes, points lie within it, and a third of each kind is held out.
func TestServedPlan(t *testing.T) {
	for _, p := range []ServedPlan{{MostTokens: 8192, MostBatch: 32, MostTogether: 1 << 20, Answer: 64},
		{Seed: 5, MostTokens: 100, MostBatch: 1, MostTogether: 100, Answer: 16}} {
		held, batches := 0, 0
		points := p.Draw()
		for i := range points {
			x := &points[i]
			if x.HeldOut {
				held++
			}
			batches = max(batches, x.Batch)
			if x.Context < 1 || x.Context+p.Answer > p.MostTokens || x.Batch < 1 || x.Batch > p.MostBatch ||
				x.Batch > 1 && x.Batch*x.Context > p.MostTogether {
				t.Errorf("%+v of %+v", x, p)
			}
		}
		if 3*held != len(points) || p.MostBatch > 1 && batches < p.MostBatch/2 {
			t.Errorf("%d of %d held out, batches up to %d", held, len(points), batches)
		}
	}
}

// Prompts that all wait for the host do not distinguish calls of Python from launches, and the calls then take as many
// launches as before; long prompts distinguish them.
func TestServedCallsOfPython(t *testing.T) {
	for tokens, told := range map[int]bool{4096: false, 65536: true} {
		s := served(t, "llama3.2-1b", "vllm", "h200", tokens)
		v, err := s.evaluator(casetest.GPU(t, "h200"))
		if err != nil {
			t.Fatal(err)
		}
		keys, err := v.keys()
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Contains(keys, roofline.HostDispatch); got != told {
			t.Errorf("prompts of up to %d tokens: calls are fitted: %v, want %v", tokens, got, told)
		}
		only := []roofline.Constant{roofline.HostLaunch}
		base := v.base.Constants
		if got, want := v.with(only, []float64{2 * base[roofline.HostLaunch]})[roofline.HostDispatch],
			2*base[roofline.HostDispatch]; math.Abs(got/want-1) > 1e-9 {
			t.Errorf("launches of twice the time make calls of %v, want %v", got, want)
		}
	}
}
