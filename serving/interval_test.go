package serving

import (
	"math"
	"math/rand/v2"
	"testing"

	"llmprof/analytic"
	"llmprof/internal/testkit"
)

// One client's requests take so many times as long on a server that is so many times as slow, and each cause has its part of the interval.
func TestIntervalOfOneClient(t *testing.T) {
	s := server(t, "llama3.1-8b", "h100", 1, "vllm")
	load := Load{Arrival: Arrival{Kind: "closed", Concurrency: 1}, Prompt: Fixed(1024), Gen: Fixed(64), Requests: 100}
	r := simulate(t, s, load, Options{Intervals: true})
	source, err := load.Source()
	testkit.Must(t, err)
	slow := newCluster(s, source, &Options{priced: s.prices(), scale: &analytic.TimeScale{Prompts: 1.2, Decodes: 1.2, Host: 1.2}})
	for slow.step() {
	}
	slow.result.finish(slow.all, slow.now, false)
	for i, times := range slow.result.Sketches() {
		if got := times.Quantile(0.5) / r.Sketches()[i].Quantile(0.5); math.Abs(got-1.2) > 0.006 {
			t.Errorf("%s: %.3f times as long at 1.2 times the time of everything", Times[i], got)
		}
	}
	_, host, err := s.Predictor.TimeScales(&analytic.Workload{Batch: 1, PromptLen: 1024, GenLen: 64})
	testkit.Must(t, err)
	if host.Fast.Decodes != 1 || host.Slow.Host < 1.2 {
		t.Errorf("the host's ends are %+v", host)
	}
	e, err := s.Predictor.Predict(&analytic.Workload{Batch: 1, PromptLen: 1024, GenLen: 64})
	testkit.Must(t, err)
	for _, x := range []struct {
		of       string
		expected analytic.Span
	}{{"ttft", e.TTFT}, {"tpot", e.TPOT}} {
		whole := r.Interval(x.of, 0.5).Whole()
		low, high := float64(x.expected.Low/x.expected.Expected), float64(x.expected.High/x.expected.Expected)
		if math.Abs(whole.Low-low) > 0.05 || math.Abs(whole.High-high) > 0.07 {
			t.Errorf("%s: ends %+v, and %.3f and %.3f by the estimate", x.of, whole, low, high)
		}
	}
}

// The seed's interval of a percentile of independent values has nine in ten of the true ones, and so has that of values each of which is
// like the one before.
func TestLuckCovers(t *testing.T) {
	for _, like := range []float64{0.8, 0}[:testkit.Cases(1, 2)] {
		random := rand.New(rand.NewPCG(1, 2))
		trials := testkit.Cases(200, 400)
		inside := map[float64]int{}
		for range trials {
			b := newBatchMeans(&Options{Intervals: true})
			x := random.NormFloat64()
			for i := range 2000 {
				x = like*x + math.Sqrt(1-like*like)*random.NormFloat64()
				f := b.of(i)
				f.TTFT.Add(math.Exp(x), 1)
			}
			all := b.all()
			for _, share := range []float64{0.5, 0.9} {
				ends, at := b.luck(0, &all.TTFT, share), all.TTFT.Quantile(share)
				truth := math.Exp(math.Sqrt2 * math.Erfinv(2*share-1))
				if at*ends.Low <= truth && truth <= at*ends.High {
					inside[share]++
				}
			}
		}
		for share, n := range inside {
			if got := float64(n) / float64(trials); got < 0.86 || got > 0.95 {
				t.Errorf("values that are alike by %g: the interval of the percentile %g has %.1f %% of the true ones", like, 100*share, 100*got)
			}
		}
	}
}

// Intervals are of the same requests whichever load they come by, and change no other figure.
func TestIntervalsChangeNothing(t *testing.T) {
	s := server(t, "llama3.1-8b", "h100", 1, "vllm")
	for _, load := range []Load{poisson(8, 1024, 64, 600), {Arrival: Arrival{Kind: "closed", Concurrency: 20}, Prompt: Fixed(512),
		Gen: Fixed(32), Requests: 300}} {
		without := simulate(t, s, load, Options{Steady: load.HasSteadyState()})
		with := simulate(t, s, load, Options{Steady: load.HasSteadyState(), Intervals: true})
		for i, times := range with.Sketches() {
			for j, share := range Percentiles {
				if got, want := times.Quantile(share), without.Sketches()[i].Quantile(share); got != want {
					t.Errorf("%s, %g: %g with intervals and %g without", Times[i], share, got, want)
				}
				x := &with.Intervals[i][j]
				if whole := x.Whole(); !(whole.Low > 0.1 && whole.Low <= 1 && whole.High > 1 && whole.High < 10) {
					t.Errorf("%s, %g: %+v", Times[i], share, x)
				}
			}
		}
	}
}
