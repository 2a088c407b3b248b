package operator

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The pairs of queries and keys are counted one by one.
func TestPairs(t *testing.T) {
	for range 2000 {
		n, p, w := rand.IntN(40)+1, rand.IntN(60), rand.IntN(50)+1
		var window, chunk float64
		for j := p; j < p+n; j++ {
			window += math.Min(float64(j+1), float64(w))
			chunk += float64(j%w + 1)
		}
		if got := windowPairs(float64(n), float64(p), float64(w)); got != window {
			t.Fatalf("windowPairs(%d, %d, %d) = %v, want %v", n, p, w, got, window)
		}
		if got := chunkPairs(float64(p+n), float64(w)) - chunkPairs(float64(p), float64(w)); got != chunk {
			t.Fatalf("chunkPairs of %d after %d in %d = %v, want %v", n, p, w, got, chunk)
		}
	}
}
