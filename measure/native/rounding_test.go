package native

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"llmprof/measure/native/internal/emulate"
)

// quant rounds the values that the engine stores in 16 bits, if the reference is to round them too.
func (r *reference) quant(values []float64) []float64 {
	if r.rounds {
		for i, v := range values {
			values[i] = float64(r.s.float().Value(r.s.float().Round(float32(v))))
		}
	}
	return values
}

const (
	tied     = 0.01 // as a share: by how much an expert has to be likelier than another to be taken in spite of rounding
	afterTie = 0.1  // how far scores may be where a token before took another expert
)

// limit is how far the engine's scores may be from the reference's: as far as rounding to 16 bits
// moves them, and further if rounding may have made a token choose another of two experts that are
// nearly as likely. The tokens after that are another model's, and the effect fades with their
// distance.
func (r *reference) limit() float64 {
	switch {
	case r.last < tied:
		return math.Inf(1)
	case r.before < tied:
		return afterTie
	}
	once, _ := limits.LoadOrStore(fmt.Sprint(r.s.fp16, r.s.quant, r.model), sync.OnceValue(func() float64 { return 1.5 * r.rounding() }))
	return once.(func() float64)()
}

var limits sync.Map // of models, by what reference.model says: func() float64

// rounding is how far scores move, at most, where the reference rounds what the
// engine keeps in 16 bits. It depends on the model: where a norm follows each block
// (Gemma 2 and 3) what a block adds is as large as the stream, with all of its error.
// What the engine does beyond that (the order of sums, which moves a rounding here and
// there) has another half of it for room.
func (r *reference) rounding() (worst float64) {
	exact := &reference{s: r.s, w: r.w, windows: r.windows}
	coarse := &reference{s: r.s, w: r.w, windows: r.windows, rounds: true}
	if r.s.quant != Unquantized { // those of a prompt are rounded when they are widened
		coarse.w = map[string][]float64{}
		for name, w := range r.w {
			coarse.w[name] = coarse.quant(slices.Clone(w))
		}
	}
	for _, prompt := range randomPrompts(17, 8, 12, r.s.vocab) {
		exact.reset()
		coarse.reset()
		for _, token := range prompt {
			want, got := exact.next(token), coarse.next(token)
			if min(exact.last, exact.before) >= tied {
				worst = max(worst, relativeError(got, want))
			}
		}
	}
	return worst
}

// Rounding moves scores by a percent at most, so the effect of a wrong kernel is larger.
func TestRounding(t *testing.T) {
	for name, config := range tiny() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !slices.Contains([]string{"llama", "mistral", "gemma2", "qwen3_moe"}, name) {
				emulate.Long(t) // The limits of these are needed in any case.
			}
			limit := newReference(t, config, 7).limit()
			t.Logf("scores may be %.2e off", limit)
			if !(limit > 2e-3 && limit < 2e-2) {
				t.Errorf("scores may be %.2e off", limit)
			}
		})
	}
}
