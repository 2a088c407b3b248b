package serving

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"llmprof/internal/testkit"
	"llmprof/internal/testkit/casetest"
	"llmprof/unit"
)

// The truncation is that of the definition, evaluated for every length from nothing.
func TestTransientByDefinition(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 1))
	for range 50 {
		f, n := &filling{}, 50+random.IntN(400)
		batches := make([]float64, n/5)
		for i := range n {
			v := int(40 * (1 - math.Exp(-float64(i)/float64(1+n/10)*random.Float64())) * (0.5 + random.Float64()))
			f.arrive(v)
			if i/5 < len(batches) {
				batches[i/5] += float64(v) / 5
			}
		}
		best, at := math.Inf(1), 0
		for d := 0; d <= len(batches)/2; d++ {
			rest := batches[d:]
			mean, squares := 0.0, 0.0
			for _, v := range rest {
				mean += v / float64(len(rest))
			}
			for _, v := range rest {
				squares += (v - mean) * (v - mean)
			}
			if of := squares / math.Pow(float64(len(rest)), 2); of < best*(1-1e-9) {
				best, at = of, d
			}
		}
		if got, steady := f.length(); got != 5*at || steady != (at < len(batches)/2) {
			t.Errorf("%d requests: %d and %v, by the definition %d of %d batches", n, got, steady, at, len(batches))
		}
	}
}

// busy are requests that come at a constant rate to a server that answers each after a time.
func busy(n int, rate float64, answer func(i int) float64) (arrivals, ends []unit.Seconds) {
	for i := range n {
		at := float64(i) / rate
		arrivals = append(arrivals, unit.Seconds(at))
		ends = append(ends, unit.Seconds(at+answer(i)))
	}
	return arrivals, ends
}

// A server that answers within 4 s is full after 4 s, and the requests of the last 4 s are answered while none
// comes.
func TestTransientOfFilling(t *testing.T) {
	x := Examine(busy(1000, 10, func(int) float64 { return 4.05 }))
	if !x.Steady || x.Begin < 35 || x.Begin > 45 || x.End < 955 || x.End > 965 || x.Warning() != "" {
		t.Errorf("%+v, want the 40 requests of 4 s left out at each end", x)
	}
	casetest.Near(t, "requests under way", x.Third, 40, 0.03)
	casetest.Near(t, "requests under way in the last quarter", x.Fourth, 40, 0.03)
}

// Requests that are answered slower than they come are never in a steady state, nor are those of a load that
// lasts no longer than one answer.
func TestTransientOfOverload(t *testing.T) {
	const rate, answered = 12.0, 10.0
	x := Examine(busy(1200, rate, func(i int) float64 { return 2 + float64(i)/answered - float64(i)/rate }))
	if x.Steady || x.Begin != 0 || x.End != 1200 || !strings.Contains(x.Warning(), "overloaded") {
		t.Errorf("overload: %+v: %s", x, x.Warning())
	}
	x = Examine(busy(100, 20, func(int) float64 { return 6 }))
	if x.Steady || !strings.Contains(x.Warning(), "too short") {
		t.Errorf("a short run: %+v: %s", x, x.Warning())
	}
	if x := Examine(busy(fewest-1, 20, func(int) float64 { return 6 })); x != nil {
		t.Errorf("so few requests tell of a transient: %+v", x)
	}
}

// An M/M/infinity queue that begins empty has 1 - exp(-t) of its requests under way after t mean answers: those
// that are left out are the ones that come before it is nearly full.
func TestTransientOfRandomArrivals(t *testing.T) {
	const runs, n, rate = 40, 2000, 20.0
	kept, whole, unsteady := 0.0, 0.0, 0
	for seed := range uint64(runs) {
		random := rand.New(rand.NewPCG(seed, 5))
		var arrivals, ends []unit.Seconds
		at := 0.0
		for range n {
			at += random.ExpFloat64() / rate
			arrivals = append(arrivals, unit.Seconds(at))
			ends = append(ends, unit.Seconds(at+5*random.ExpFloat64()))
		}
		x := Examine(arrivals, ends)
		if !x.Steady {
			unsteady++
			if strings.Contains(x.Warning(), "overloaded") {
				t.Errorf("seed %d: %s", seed, x.Warning())
			}
		}
		under := func(from, to int) (mean float64) {
			for i := from; i < to; i++ {
				for _, end := range ends[:i] {
					if end > arrivals[i] {
						mean++
					}
				}
			}
			return mean / float64(to-from)
		}
		kept += under(x.Begin, x.End) / runs
		whole += under(0, n) / runs
	}
	if unsteady > runs/20 {
		t.Errorf("%d of %d loads reach no steady state", unsteady, runs)
	}
	casetest.Near(t, "requests under way, of those that count", kept, 100, 0.02)
	casetest.Near(t, "requests under way, of all", whole, 100*(1-5/(n/rate)), 0.02)
}

// A simulation leaves out the requests that Examine does, in whole parts, and its figures are then those of a
// long load.
func TestSteadyFigures(t *testing.T) {
	s := server(t, "llama3.1-8b", "h200", 1, "vllm")
	l := poisson(13, 1024, 400, 700)
	var arrivals, ends [700]unit.Seconds
	var records [700]Record
	each := func(r *Record) { arrivals[r.Index], ends[r.Index], records[r.Index] = r.Request.At, r.Last, *r }
	got, whole := simulate(t, s, l, Options{Steady: true, Each: each}), simulate(t, s, l, Options{})
	want := Examine(arrivals[:], ends[:])
	x := got.Transient
	const part = 20
	if !x.Steady || x.Begin < want.Begin-5 || x.Begin > want.Begin+part || x.End > want.End || x.End < want.End-part ||
		got.Counted() != x.End-x.Begin || x.Begin == 0 {
		t.Errorf("%d to %d of %d count, %d to %d by the arrivals and ends", x.Begin, x.End, got.Counted(), want.Begin, want.End)
	}
	mean := 0.0
	for _, r := range records[x.Begin:x.End] {
		mean += float64(r.E2E()) / float64(x.End-x.Begin)
	}
	casetest.Near(t, "mean E2E", got.E2E.Mean(), mean, 1e-9)
	gaps := (x.End - x.Begin) * (400 - 1)
	if got.ITL.N > gaps || got.ITL.N < gaps*9/10 { // tokens that come together have one gap
		t.Errorf("%d gaps of %d requests", got.ITL.N, got.Counted())
	}
	l.Requests = 8000
	long := simulate(t, s, l, Options{Warmup: 500})
	if off, without := math.Abs(got.E2E.Mean()/long.E2E.Mean()-1), math.Abs(whole.E2E.Mean()/long.E2E.Mean()-1); off > 0.6*without {
		t.Errorf("E2E is %.1f %% off that of a long load, and %.1f %% with all requests", 100*off, 100*without)
	}
	if over := simulate(t, s, poisson(40, 1024, 400, 2000), Options{Steady: true}); over.Transient.Steady || over.Counted() != 2000 {
		t.Errorf("overload: %+v of %d", over.Transient, over.Counted())
	}
}

// Parts of a load sum to the whole.
func TestTallyParts(t *testing.T) {
	s := server(t, "llama3.1-8b", "h200", 1, "vllm")
	l := poisson(10, 512, 30, 1000)
	l.Gen = Lengths{Kind: "lognormal", Mean: 30, Spread: 1}
	whole := simulate(t, s, l, Options{})
	var parted *Result
	{
		source, _ := l.Source()
		c := newCluster(s, source, &Options{Steady: true})
		for c.step() {
		}
		c.result.finish(c.all, c.now, false)
		parted = c.result
	}
	if parted.batches.size != 20 || len(parted.batches.parts) != 50 {
		t.Errorf("%d parts of %d requests", len(parted.batches.parts), parted.batches.size)
	}
	for _, share := range []float64{0.1, 0.5, 0.99} {
		if parted.TTFT.Quantile(share) != whole.TTFT.Quantile(share) || parted.TPOT.Quantile(share) != whole.TPOT.Quantile(share) {
			t.Errorf("quantile %g differs", share)
		}
		casetest.Near(t, "ITL", parted.ITL.Quantile(share), whole.ITL.Quantile(share), 0.005)
	}
	if parted.ITL.N != whole.ITL.N || parted.Generated != whole.Generated || parted.Duration != whole.Duration || parted.Counted() != 1000 {
		t.Errorf("%d gaps, %d tokens in %v, want %d and %d in %v", parted.ITL.N, parted.Generated, parted.Duration, whole.ITL.N, whole.Generated,
			whole.Duration)
	}
}

// Loads of 3,000 requests are steady at 20 to 90 % of the capacity without preemption, and are not at 120 and 150 %. Of the
// lower one with preemption 120 % is too little for 3,000 requests to show it each time.
func TestSteadyByLoad(t *testing.T) {
	seeds := testkit.Cases(1, 10)
	s := server(t, "llama3.1-8b", "h100", 1, "vllm")
	prompt, gen := Lengths{Kind: "lognormal", Mean: 1024, Spread: 0.8}, Lengths{Kind: "lognormal", Mean: 250, Spread: 0.8}
	f := s.queue(t, prompt, gen)
	wrong := map[bool]int{}
	for _, use := range []float64{0.2, 0.5, 0.8, 0.9, 1.2, 1.5} {
		for seed := range uint64(seeds) {
			rate := use * f.capacity().Rate
			r := simulate(t, s, Load{Arrival: Arrival{Kind: "poisson", Rate: rate}, Prompt: prompt, Gen: gen, Requests: 3000, Seed: seed},
				Options{Steady: true})
			if x := r.Transient; x.Steady != (use < 1) {
				wrong[x.Steady]++
				t.Logf("%g of the capacity, seed %d: %+v", use, seed, *x)
			}
		}
	}
	if wrong[false] > 2 || wrong[true] > 2 {
		t.Errorf("%d of %d stable loads have no steady state, %d of %d overloads have one", wrong[false], 4*seeds, wrong[true], 2*seeds)
	}
}

// The rate in the steady state is that at which requests come, however few count beside the time that an answer takes.
func TestRateOfFew(t *testing.T) {
	s := server(t, "llama3.1-8b", "h200", 1, "vllm")
	for _, rate := range []float64{8, 24, 30} {
		r := simulate(t, s, poisson(rate, 1024, 128, 400), Options{Steady: true})
		if r.Transient == nil || !r.Transient.Steady {
			t.Fatalf("%g/s: no steady state", rate)
		}
		if got := r.Rate(); got < 0.85*rate || got > 1.15*rate {
			t.Errorf("%g/s: %.3g requests a second are answered, by %d that count", rate, got, r.Counted())
		}
	}
}
