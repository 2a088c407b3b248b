package serving

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"llmprof/internal/testkit"
)

// oddServer is a server with settings that people give by mistake or to try what happens.
func oddServer(t *testing.T, random *rand.Rand) *Server {
	pick := func(all ...int) int { return all[random.IntN(len(all))] }
	names := []string{"vllm", "vllm-2024", "sglang", "sglang-mixed", "tensorrt-llm", "tensorrt-llm-max-utilization", "llama.cpp"}
	s := server(t, "qwen2.5-0.5b", "l4", 1, names[random.IntN(len(names))])
	r := &s.Scheduler
	s.ToHost, r.Swap = 25e9, random.IntN(2) == 0
	s.CacheTokens = pick(0, 200, 300, 1000, 5000)
	r.Block = pick(r.Block, 1, 7, 16)
	r.Watermark = []float64{r.Watermark, 0.5, 0.99}[random.IntN(3)]
	r.MaxSeqs = pick(r.MaxSeqs, 1, 2, 100)
	r.Budget = pick(r.Budget, 1, 16, 500)
	s.HitRate = []float64{0, 0.5, 0.999}[random.IntN(3)]
	if random.IntN(4) == 0 {
		s.Drafts, s.Acceptance = pick(1, 4), []float64{0, 0.5, 1}[random.IntN(3)]
	}
	s.Replicas = pick(1, 1, 2)
	if random.IntN(6) == 0 {
		s.Prefillers, s.Link = 1, 1e9
	}
	return s
}

// TestOddServersEnd runs random loads on random servers: all requests are answered or refused within a bound of steps, or an error says
// which is not, and every figure is a number.
func TestOddServersEnd(t *testing.T) {
	for seed := range uint64(testkit.Cases(40, 400)) {
		random := rand.New(rand.NewPCG(seed, 7))
		s := oddServer(t, random)
		lengths := []Lengths{Fixed(1), Fixed(100), {Kind: "uniform", Low: 1, High: 250}, Fixed(700)}
		l := Load{Arrival: Arrival{Kind: "poisson", Rate: []float64{1, 100, 1e5}[random.IntN(3)]}, Requests: 1 + random.IntN(60), Seed: seed}
		if random.IntN(3) == 0 {
			l.Arrival = Arrival{Kind: "closed", Concurrency: 1 + random.IntN(40)}
		}
		l.Prompt, l.Gen = lengths[random.IntN(4)], lengths[random.IntN(4)]
		source, err := l.Source()
		testkit.Must(t, err)
		if s.Check() != nil {
			continue
		}
		steps, c := 0, newCluster(s, source, &Options{})
		for c.step() {
			if steps++; steps > 1_000_000 {
				t.Fatalf("seed %d: no end after %d events: %d answered of %d", seed, steps, c.result.Completed, l.Requests)
			}
		}
		source, _ = l.Source()
		r, err := Simulate(t.Context(), s, source, Options{})
		switch {
		case err != nil:
			continue
		case r.Completed+r.Refused != l.Requests || r.Completed == 0:
			t.Errorf("seed %d: %d answered and %d refused of %d without an error: %+v %+v", seed, r.Completed, r.Refused, l.Requests, s.Scheduler, l)
		}
		for what, x := range map[string]float64{"TTFT": r.TTFT.Mean(), "rate": r.Rate(), "energy": float64(r.Energy), "running": r.MeanRunning,
			"cache": r.MeanCache, "busy": r.Busy} {
			if math.IsNaN(x) || math.IsInf(x, 0) || x < 0 {
				t.Errorf("seed %d: %s of %g", seed, what, x)
			}
		}
	}
}

// TestOddSteadyStatesEnd asks the steady states of such servers: each is one of numbers, or an error.
func TestOddSteadyStatesEnd(t *testing.T) {
	for seed := range uint64(testkit.Cases(10, 150)) {
		random := rand.New(rand.NewPCG(seed, 8))
		s := oddServer(t, random)
		lengths := []Lengths{Fixed(1), Fixed(100), {Kind: "uniform", Low: 1, High: 250}, Fixed(700)}
		prompt, gen := lengths[random.IntN(4)], lengths[random.IntN(4)]
		begin := time.Now()
		all, err := s.Steadies(t.Context(), prompt, gen)
		if err != nil {
			continue
		}
		layout := s.Layout
		open, _ := all.Rate(1, layout)
		c, _ := all.Capacity(layout)
		clients, _ := all.Clients(1+random.IntN(200), layout)
		for _, st := range []*Steady{open, clients, {Capacity: c}} {
			if st == nil {
				continue
			}
			for _, x := range []float64{st.Running, st.Waiting, float64(st.TTFT), float64(st.TPOT), float64(st.E2E), st.Rate, st.Throughput,
				st.Utilization, st.Cache, float64(st.Energy), st.Capacity.Rate} {
				if math.IsNaN(x) || math.IsInf(x, 0) || x < 0 {
					t.Errorf("seed %d: a steady state has %g: %+v", seed, x, st)
				}
			}
		}
		if took := time.Since(begin); took > 2*time.Minute {
			t.Errorf("seed %d took %v", seed, took)
		}
	}
}

// An ending context ends when it was asked so many times whether it has.
type ending struct {
	context.Context
	asked, most int
}

func (e *ending) Err() error {
	if e.asked++; e.asked > e.most {
		return context.Canceled
	}
	return nil
}

// TestCancelledAnywhere ends a context at any of the times at which steady states ask for it: they end with its error, and what is asked of
// them later is as if they had never been asked before.
func TestCancelledAnywhere(t *testing.T) {
	s := server(t, "llama3.1-8b", "h100", 1, "vllm")
	for what, ask := range map[string]func(*Steadies) (*Steady, error){
		"rate":    func(all *Steadies) (*Steady, error) { return all.Rate(20, Layout{Replicas: 1}) },
		"clients": func(all *Steadies) (*Steady, error) { return all.Clients(64, Layout{Replicas: 1}) },
	} {
		fresh, err := s.Steadies(t.Context(), Fixed(512), Fixed(128))
		testkit.Must(t, err)
		want, err := ask(fresh)
		testkit.Must(t, err)
		for most := 0; ; most += 1 + most {
			ctx := &ending{t.Context(), 0, most}
			all, err := s.Steadies(ctx, Fixed(512), Fixed(128))
			testkit.Must(t, err)
			_, err = ask(all)
			if err == nil {
				break
			}
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: ended after %d: %v", what, most, err)
			}
			all.During(t.Context())
			if got, err := ask(all); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: asked again after %d: %+v, %v, want %+v", what, most, got, err, want)
			}
		}
	}
}

// TestCancelled ends a context in the middle of what takes long.
func TestCancelled(t *testing.T) {
	busy := server(t, "llama3.1-8b", "h100", 1, "vllm")
	uneven := Lengths{Kind: "uniform", Low: 1, High: 100000}
	load := Load{Arrival: Arrival{Kind: "closed", Concurrency: 5000}, Prompt: uneven, Gen: uneven, Requests: 1 << 20}
	full := server(t, "llama3.1-8b", "h100", 1, "sglang")
	full.Drafts, full.Acceptance = 4, 0.5
	for name, ask := range map[string]func(ctx context.Context) error{
		"simulation": func(ctx context.Context) error {
			source, err := load.Source()
			testkit.Must(t, err)
			r, err := Simulate(ctx, busy, source, Options{})
			if err == nil && r.Interrupted {
				err = ctx.Err()
			}
			return err
		},
		"clients": func(ctx context.Context) error {
			all, err := busy.Steadies(ctx, uneven, uneven)
			testkit.Must(t, err)
			_, err = all.Clients(1<<20, Layout{Replicas: 16})
			return err
		},
		"waves": func(ctx context.Context) error {
			all, err := busy.Steadies(ctx, Fixed(20000), Fixed(20001))
			testkit.Must(t, err)
			_, err = all.Clients(4999, Layout{Replicas: 7})
			return err
		},
		"capacity": func(ctx context.Context) error {
			all, err := full.Steadies(ctx, Lengths{Kind: "uniform", Low: 1, High: 2000}, uneven)
			testkit.Must(t, err)
			_, err = all.Capacity(Layout{Replicas: 1})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			ended := time.Time{}
			time.AfterFunc(10*time.Millisecond, func() { ended = time.Now(); cancel() })
			err := ask(ctx)
			if ended.IsZero() {
				return // it took less time
			}
			if late := time.Since(ended); !errors.Is(err, context.Canceled) || late > 10*time.Second {
				t.Errorf("it returned %v after it was cancelled: %v", late, err)
			}
		})
	}
}
