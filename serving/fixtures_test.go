package serving

import (
	"context"
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/casetest"
	"llmprof/analytic/engine"
	"llmprof/internal/testkit"
)

// server is one replica of a model on GPUs with a scheduler.
func server(t testing.TB, model, gpu string, tp int, scheduler string) *Server {
	t.Helper()
	rules, err := engine.SchedulerOf(scheduler, casetest.GPU(t, gpu))
	if err != nil {
		t.Fatal(err)
	}
	return &Server{Predictor: casetest.Predictor(t, model, gpu, tp), Scheduler: rules, Replicas: 1}
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

// loaded is the rate at a share of the capacity without preemption, up to 0.8 of the largest stable rate.
func loaded(f *flow, share float64) float64 {
	return min(share*f.unpreempted().Rate, 0.8*f.capacity().Rate)
}
