package serving

import (
	"fmt"
	"testing"

	"llmprof/internal/testkit"
)

// Requests wait for an API server that is busy with tokens: up to half of TTFT.
func TestSteadyOfBusyFrontends(t *testing.T) {
	for _, x := range []struct {
		model, gpu  string
		tp          int
		prompt, gen int
		rate        float64
	}{
		{"llama3.2-1b", "h200", 1, 500, 400, 40}, {"llama3.2-1b", "h200", 1, 500, 400, 48}, {"qwen3-0.6b", "h100", 2, 758, 399, 28},
	}[:testkit.Cases(1, 3)] {
		s := server(t, x.model, x.gpu, x.tp, "vllm")
		all, err := s.Steadies(t.Context(), Fixed(x.prompt), Fixed(x.gen))
		testkit.Must(t, err)
		st, err := all.Rate(x.rate, Layout{Replicas: 1})
		testkit.Must(t, err)
		r := simulate(t, s, poisson(x.rate, x.prompt, x.gen, 6000), Options{Warmup: 1000})
		what := fmt.Sprintf("%+v, the API server busy for %.2f of the time: ", x, all.flow.front.load(x.rate, float64(x.gen)))
		agree(t, what+"TTFT", float64(st.TTFT), r.TTFT.Mean(), 0.05)
		agree(t, what+"E2E", float64(st.E2E), r.E2E.Mean(), 0.05)
	}
}

// Clients whose answers have one token are as many as wait for one: the end of a stream comes after its token, and the next token waits
// for it.
func TestClientsOfOneToken(t *testing.T) {
	for _, x := range []struct {
		model, gpu string
		tp         int
		clients    int
		tolerance  float64
	}{{"llama3.2-1b", "h100", 1, 1, 1e-3}, {"llama3.2-1b", "h100", 1, 16, 0.02}, {"llama3.1-8b", "h100", 8, 4, 0.02},
		{"llama3.1-70b", "h100", 4, 16, 0.02}, {"falcon-mamba-7b", "h200", 1, 200, 0.02}} {
		s := engineServer(t, x.model, x.gpu, x.tp, "vllm", "vllm")
		st, err := s.SteadyConcurrency(x.clients, Fixed(128), Fixed(1))
		testkit.Must(t, err)
		r := simulate(t, s, Load{Arrival: Arrival{Kind: "closed", Concurrency: x.clients}, Prompt: Fixed(128), Gen: Fixed(1),
			Requests: 40 * x.clients}, Options{Warmup: 10 * x.clients})
		what := fmt.Sprintf("%s on %s, %d clients: ", x.model, x.gpu, x.clients)
		agree(t, what+"Little's law", st.Rate*float64(st.E2E), float64(x.clients), x.tolerance)
		agree(t, what+"TTFT", float64(st.TTFT), r.TTFT.Mean(), 0.05)
	}
}

// At a rate the end of a stream is after its only token too.
func TestRatesOfOneToken(t *testing.T) {
	s := engineServer(t, "llama3.2-1b", "h100", 1, "vllm", "vllm")
	for _, rate := range []float64{20, 250} { // followed by steps alone, and through the API server
		st, err := s.SteadyRate(t.Context(), rate, Fixed(128), Fixed(1))
		testkit.Must(t, err)
		r := simulate(t, s, Load{Arrival: Arrival{Kind: "poisson", Rate: rate}, Prompt: Fixed(128), Gen: Fixed(1), Requests: 6000},
			Options{Warmup: 500})
		agree(t, fmt.Sprintf("%g requests a second: TTFT", rate), float64(st.TTFT), r.TTFT.Mean(), 0.05)
	}
}
