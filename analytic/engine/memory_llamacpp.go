package engine

import (
	"math"

	"llmprof/analytic/operator"
	"llmprof/hardware"
)

// ggmlCells is the multiple of the cells of a cache, and ggmlStep the tokens of a pass (--ubatch-size) by default, for which a window has
// cells.
const ggmlCells, ggmlStep = 256, 512

// ggmlAllocation is how llama.cpp shares out the memory of a rank: every slot has a cache of its own, whose layers with a window have cells
// for it and for a pass (llama_kv_cache_iswa of src/llama-kv-cache-iswa.cpp).
func ggmlAllocation(r *operator.Rank, g *hardware.GPU) *operator.Allocation {
	return &operator.Allocation{
		Slots:   ggmlSlots,
		Outside: operator.Reserve(r.Par, g.System(), 0),
		Copied:  r.LargestOnHost(), // a graph is reserved for a pass, whose splits copy one matrix each into the same memory
		Caches: func(pass float64) (all []operator.Pages) {
			for _, s := range cachedLayers(r, 0) {
				n := float64(s.layers)
				p := operator.Pages{Each: s.each.Times(ggmlCells * n), Tokens: ggmlCells, Limit: math.Inf(1)}
				switch {
				case s.state:
					p = operator.Pages{Each: s.each.Times(n), Fixed: 1, State: true}
				case s.window > 0:
					p.Limit = float64(s.window) + pass
				}
				all = append(all, p)
			}
			return all
		},
	}
}
