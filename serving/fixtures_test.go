package serving

import (
	"context"
	"math"
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/internal/testkit"
	"llmprof/internal/testkit/casetest"
)

// server is one replica of a model on GPUs with a scheduler.
func server(t testing.TB, model, gpu string, tp int, scheduler string) *Server {
	t.Helper()
	rules, err := engine.SchedulerOf(scheduler, nil, casetest.GPU(t, gpu))
	if err != nil {
		t.Fatal(err)
	}
	return &Server{Predictor: casetest.Predictor(t, model, gpu, tp), Scheduler: rules, Layout: Layout{Replicas: 1}}
}

// engineServer is one replica of a model on GPUs by an engine, with a scheduler.
func engineServer(t testing.TB, model, gpu string, tp int, name, scheduler string) *Server {
	t.Helper()
	s := server(t, model, gpu, tp, scheduler)
	c := casetest.Case(t, model, gpu, 1, tp)
	c.Machine = casetest.Machine(t, gpu, name)
	p, err := analytic.NewPredictor(c)
	testkit.Must(t, err)
	s.Predictor = p
	return s
}

// simulate runs a load.
func simulate(t testing.TB, s *Server, l Load, o Options) *Result {
	t.Helper()
	source, err := l.Source()
	if err != nil {
		t.Fatal(err)
	}
	r, err := Simulate(context.Background(), s, source, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// poisson is a load of prompts and answers of fixed lengths.
func poisson(rate float64, prompt, gen, requests int) Load {
	return Load{Arrival: Arrival{Kind: "poisson", Rate: rate}, Prompt: Fixed(prompt), Gen: Fixed(gen), Requests: requests, Seed: 1}
}

// loaded is the rate at a share of the largest stable rate, up to 0.8 of it.
func loaded(f *flow, share float64) float64 { return min(share, 0.8) * f.capacity().Rate }

// queue is one of the queues of a server.
func (s *Server) queue(t testing.TB, prompt, gen Lengths) *flow {
	t.Helper()
	f, err := s.flow(context.Background(), prompt, gen, s.turns())
	testkit.Must(t, err)
	return f
}

// idle is the steady state of requests that meet hardly any other.
func (t *Steadies) idle() *Steady {
	t.flow.behindRouter(1)
	st, _ := t.flow.sample(1e-6, 64)
	return st
}

// SteadyRate is the steady state of the server at a rate.
func (s *Server) SteadyRate(ctx context.Context, rate float64, prompt, gen Lengths) (*Steady, error) {
	all, err := s.Steadies(ctx, prompt, gen)
	if err != nil {
		return nil, err
	}
	return all.Rate(rate, s.Layout)
}

// SteadyConcurrency is the steady state of clients of the server that have one request each at a time.
func (s *Server) SteadyConcurrency(clients int, prompt, gen Lengths) (*Steady, error) {
	all, err := s.Steadies(context.Background(), prompt, gen)
	if err != nil {
		return nil, err
	}
	return all.Clients(clients, s.Layout)
}

// agree holds a figure of the steady state to the simulated one.
func agree(t *testing.T, what string, got, want, rel float64) {
	t.Helper()
	if !(math.Abs(got-want) <= rel*want) {
		t.Errorf("%s: steady state %.4g, simulated %.4g (%+.1f %%)", what, got, want, 100*(got/want-1))
	}
}
