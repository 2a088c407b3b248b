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
	}{{"llama3.2-1b", "h200", 1, 500, 400, 40}, {"llama3.2-1b", "h200", 1, 500, 400, 48}, {"qwen3-0.6b", "h100", 2, 758, 399, 28}} {
		s := server(t, x.model, x.gpu, x.tp, "vllm")
		all, err := s.Steadies(Fixed(x.prompt), Fixed(x.gen))
		testkit.Must(t, err)
		st, err := all.Rate(x.rate, Layout{Replicas: 1})
		testkit.Must(t, err)
		r := simulate(t, s, poisson(x.rate, x.prompt, x.gen, 6000), Options{Warmup: 1000})
		what := fmt.Sprintf("%+v, the API server busy for %.2f of the time: ", x, all.flow.front.load(x.rate, float64(x.gen)))
		agree(t, what+"TTFT", float64(st.TTFT), r.TTFT.Mean(), 0.05)
		agree(t, what+"E2E", float64(st.E2E), r.E2E.Mean(), 0.05)
	}
}
