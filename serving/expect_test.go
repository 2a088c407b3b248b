package serving

import "testing"

// TestReservedShareFalls holds the share of the answers that SGLang reserves room for to its decay: within 600 steps that only decode,
// whether prompts share steps with decodes or not. More sequences run then at once.
func TestReservedShareFalls(t *testing.T) {
	for _, name := range []string{"sglang", "sglang-mixed"} {
		s := server(t, "llama3.1-8b", "h100", 1, name)
		source, err := (&Load{Arrival: Arrival{Kind: "closed", Concurrency: 4}, Prompt: Fixed(100), Gen: Fixed(700), Requests: 4}).Source()
		if err != nil {
			t.Fatal(err)
		}
		c := newCluster(s, source, &Options{})
		for c.step() {
		}
		if r := c.mixed[0]; r.cache.expect > 1.01*expectLeast {
			t.Errorf("%s: after 700 steps a share of %g is reserved, want %g", name, r.cache.expect, expectLeast)
		}
	}
}
