package serving

import "testing"

// Where a step with more prompts takes less time, the steady state has numbers, too.
func TestSteadyNumbers(t *testing.T) {
	for _, rate := range []float64{8, 9.5, 10, 11} {
		st, err := server(t, "qwen3-235b-a22b", "b200", 8, "vllm").SteadyRate(t.Context(), rate, Fixed(2048), Fixed(512))
		if err != nil {
			t.Fatal(err)
		}
		if !(st.TPOT > 0 && st.E2E > st.TTFT && st.Running > 0) {
			t.Errorf("at %v/s: TPOT %v, E2E %v, %v sequences", rate, float64(st.TPOT), float64(st.E2E), st.Running)
		}
	}
}
