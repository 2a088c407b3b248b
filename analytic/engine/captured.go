package engine

import (
	"math"

	"llmprof/analytic"
)

// Capturing is the engine with CUDA graphs of steps of up to so many tokens, which its launch asked for; an engine that
// captures none in pieces stays as it is.
func Capturing(e analytic.Engine, tokens int) analytic.Engine {
	g, ok := e.(*graphed)
	if !ok || g.pieces == 0 || tokens <= 0 {
		return e
	}
	own := *g
	own.pieces = float64(tokens)
	own.rows = func(batch float64) (rows float64, ok bool) {
		if batch > own.pieces {
			return batch, false
		}
		if rows, ok = g.rows(batch); !ok { // beyond the default, sizes are multiples of 16
			rows = 16 * math.Ceil(batch/16)
		}
		return rows, true
	}
	return &own
}
