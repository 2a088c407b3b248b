package serving

import (
	"strconv"
	"testing"

	"llmprof/internal/testkit"
)

// BenchmarkSaturated follows a part of a saturated replica, which each deployment or length that is new has to.
func BenchmarkSaturated(b *testing.B) {
	for _, gen := range []int{128, 1050} {
		b.Run(strconv.Itoa(gen), func(b *testing.B) {
			x := fullCache{"llama3.1-70b", "h200", "vllm", 0, Fixed(1024), Fixed(gen), 0}
			f, err := x.server(b).flow(x.prompt, x.gen)
			testkit.Must(b, err)
			p, _ := f.part()
			for b.Loop() {
				p.follow(b.Context())
			}
		})
	}
}
