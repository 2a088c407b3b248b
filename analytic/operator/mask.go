package operator

import (
	"math"

	"llmprof/models"
)

// A mask says which keys a query attends to under the causal mask. Pairs and keys, and so FLOPs and bytes of attention in prefill and
// decode, follow from it, and so do the contexts at which they stop to grow as they did.
type mask struct {
	window  float64 // most keys nearest to the query: a sliding window, or a chunk; +Inf without either
	chunked bool    // The query sees the chunk that it lies in, back to the chunk's begin (Llama 4).
	chosen  float64 // most keys, or entries further away, that an indexer chooses for each query; +Inf without an indexer
	stride  float64 // tokens that an entry beyond the window stands for (DeepSeek-V4); 0 without such entries
}

// maskOf is the mask of an attention.
func maskOf(a *models.Attention) mask {
	m := mask{window: math.Inf(1), chosen: math.Inf(1), chunked: a.Chunked, stride: float64(a.Compress)}
	if a.Window > 0 {
		m.window = float64(a.Window)
	}
	if a.Indexer != nil {
		m.chosen = float64(a.Indexer.TopK)
		if m.stride == 0 {
			m.window, m.chunked = m.chosen, false
		}
	}
	return m
}

// pairs is the number of pairs of a query and a key of one sequence that gains fresh tokens after past ones.
func (m *mask) pairs(fresh, past float64) float64 {
	switch {
	case m.stride > 0:
		return windowPairs(fresh, past, m.window) + windowPairs(fresh, past, m.chosen*m.stride)/m.stride
	case m.chunked && !math.IsInf(m.window, 1):
		return chunkPairs(past+fresh, m.window) - chunkPairs(past, m.window)
	}
	return windowPairs(fresh, past, m.window)
}

// keys is the number of keys of one sequence that the step reads, each once for all queries.
func (m *mask) keys(fresh, past float64) float64 {
	all := past + fresh
	inWindow := min(all, m.window-1+fresh)
	switch {
	case m.stride > 0:
		return inWindow + min(all/m.stride, m.chosen*fresh)
	case !math.IsInf(m.chosen, 1):
		return min(all, m.chosen*fresh)
	case m.chunked && !math.IsInf(m.window, 1):
		return min(fresh+math.Mod(past, m.window), all)
	}
	return inWindow
}

// bends are the contexts up to end at which pairs and keys of steps of fresh tokens stop to grow as they did.
func (m *mask) bends(fresh, end float64) (at []float64) {
	switch {
	case m.chunked:
		for n := 1.0; n*m.window < end && n <= mostBends; n++ {
			at = append(at, n*m.window)
		}
		return at
	case m.stride > 0:
		return []float64{m.window, m.chosen * m.stride, m.chosen*m.stride*fresh - fresh}
	}
	return []float64{m.window, m.chosen*fresh - fresh}
}

// windowPairs is the sum over i = 1..n of min(p+i, w).
func windowPairs(n, p, w float64) float64 {
	growing := min(max(w-p, 0), n) // queries whose window is not full yet
	full := 0.0
	if growing < n {
		full = (n - growing) * w
	}
	return growing*p + growing*(growing+1)/2 + full
}

// chunkPairs is the sum over positions j = 0..n-1 of (j mod w) + 1.
func chunkPairs(n, w float64) float64 {
	full := math.Floor(n / w)
	rest := n - full*w
	return full*w*(w+1)/2 + rest*(rest+1)/2
}
