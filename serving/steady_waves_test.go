package serving

import (
	"fmt"
	"math"
	"testing"

	"llmprof/internal/testkit"
)

// The waves that are simulated have the times of those that come much later.
func TestWavesRepeat(t *testing.T) {
	for _, x := range []struct {
		gpu, scheduler         string
		replicas, clients, gen int
	}{{"h100", "vllm", 1, 1, 50}, {"h100", "vllm", 1, 8, 128}, {"h100", "vllm", 1, 64, 16}, {"h200", "sglang", 1, 20, 128},
		{"h200", "tensorrt-llm", 1, 64, 128}, {"h200", "vllm", 4, 48, 32}, {"h200", "vllm", 1, 500, 64}} {
		s := server(t, "llama3.1-8b", x.gpu, 1, x.scheduler)
		s.Replicas = x.replicas
		st, err := s.SteadyConcurrency(x.clients, Fixed(1024), Fixed(x.gen))
		if err != nil {
			t.Fatal(err)
		}
		var ttft, e2e, begin, end float64
		answers, late := 0, 40*x.clients
		simulate(t, s, Load{Arrival: Arrival{Kind: "closed", Concurrency: x.clients}, Prompt: Fixed(1024), Gen: Fixed(x.gen),
			Requests: 62 * x.clients}, Options{Each: func(q *Record) {
			switch answers++; {
			case answers == late:
				begin = float64(q.Last)
			case answers > late && answers <= late+20*x.clients:
				ttft, e2e, end = ttft+float64(q.TTFT()), e2e+float64(q.E2E()), float64(q.Last)
			}
		}})
		n := float64(20 * x.clients)
		what := fmt.Sprintf("%+v", x)
		agree(t, what+": TTFT", float64(st.TTFT), ttft/n, 0.01)
		agree(t, what+": E2E", float64(st.E2E), e2e/n, 0.01)
		agree(t, what+": rate", st.Rate, n/(end-begin), 0.01)
	}
}

// Of waves that repeat no more than some are simulated, of requests that differ as many as are needed for their means.
func TestFewWavesThatRepeat(t *testing.T) {
	s := server(t, "llama3.1-8b", "h100", 1, "vllm")
	steps := func(gen Lengths) int {
		all, err := s.Steadies(t.Context(), Fixed(1024), gen)
		testkit.Must(t, err)
		events := mostEvents
		all.Within(&events)
		_, err = all.Clients(100, s.Layout)
		testkit.Must(t, err)
		return mostEvents - events
	}
	few, many := steps(Fixed(64)), steps(Lengths{Kind: "uniform", Low: 63, High: 65})
	if 3*few > many {
		t.Errorf("waves that repeat take %d events, others %d", few, many)
	}
}

// Clients beyond those that keep a server busy wait for longer, and change nothing else: they need no simulation.
func TestCrowdOfClients(t *testing.T) {
	s := server(t, "llama3.1-8b", "l4", 1, "vllm")
	s.Scheduler.MaxSeqs, s.Replicas = 16, 2
	some, err := s.SteadyConcurrency(300, Fixed(100), Fixed(20))
	testkit.Must(t, err)
	many, err := s.SteadyConcurrency(1<<20, Fixed(100), Fixed(20))
	testkit.Must(t, err)
	if off := many.Rate/some.Rate - 1; math.Abs(off) > 0.01 || math.Abs(float64(many.TPOT/some.TPOT)-1) > 0.01 {
		t.Errorf("%d clients have %g requests/s and a TPOT of %v, 300 have %g and %v", 1<<20, many.Rate, many.TPOT, some.Rate, some.TPOT)
	}
	if clients := many.Rate * float64(many.E2E); math.Abs(clients/(1<<20)-1) > 0.01 {
		t.Errorf("by Little's law there are %g clients, not %d", clients, 1<<20)
	}
}

// A part of a crowd whose requests wait for longer has the times that all of it has.
func TestPartOfACrowd(t *testing.T) {
	s := server(t, "llama3.1-8b", "l4", 1, "vllm")
	s.Scheduler.MaxSeqs, s.Replicas = 16, 4
	uneven := [2]Lengths{{Kind: "uniform", Low: 20, High: 400}, {Kind: "uniform", Low: 5, High: 60}}
	for _, lengths := range [][2]Lengths{{Fixed(100), Fixed(20)}, uneven} {
		all, err := s.Steadies(t.Context(), lengths[0], lengths[1])
		testkit.Must(t, err)
		closed := func(clients int) *Result {
			source, err := (&Load{Arrival: Arrival{Kind: "closed", Concurrency: clients}, Prompt: lengths[0], Gen: lengths[1],
				Requests: 8*clients + 4000, Seed: 1}).Source()
			testkit.Must(t, err)
			r, err := all.Simulate(source, s.Layout, Options{Warmup: 3 * clients})
			testkit.Must(t, err)
			return r
		}
		const clients = 800
		want, part := closed(clients), all.Crowd(clients, s.Replicas)
		if part.Replicas != 1 || part.Clients != 2*s.Scheduler.MaxSeqs || part.Beyond != clients/4-float64(part.Clients) {
			t.Fatalf("%+v stands for all", part)
		}
		s.Replicas = part.Replicas
		got := closed(part.Clients)
		s.Replicas = 4
		part.Wait(&got.Figures)
		for i, of := range got.Sketches() {
			figure, is := fmt.Sprint(lengths, []string{": TTFT", ": TPOT", ": ITL", ": E2E"}[i]), want.Sketches()[i]
			agree(t, figure+" in the mean", of.Mean(), is.Mean(), 0.03)
			agree(t, figure+" at p50", of.Quantile(0.5), is.Quantile(0.5), 0.03)
			for _, share := range []float64{0.1, 0.95} { // the queues of replicas that take turns differ in length
				agree(t, fmt.Sprint(figure, " at ", share), of.Quantile(share), is.Quantile(share), 0.08)
			}
		}
	}
}
