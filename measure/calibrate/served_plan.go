package calibrate

import (
	"math"
)

// A ServedPlan bounds the points that are drawn.
type ServedPlan struct {
	Seed         uint64 `json:"seed"`
	MostTokens   int    `json:"most_tokens"` // most tokens of a prompt with its answer
	MostBatch    int    `json:"most_batch"`
	MostTogether int    `json:"most_together"` // tokens of all prompts that run at a time
	Answer       int    `json:"answer_tokens"` // tokens generated for a decode step's time
}

// shortest is the fewest tokens of a prompt that is drawn.
const shortest = 32

// servedRounds is how many points of each kind are drawn.
const servedRounds = 15

// Draw lists points without a time, in an order in which any beginning of the list is spread
// over all lengths and batches. Every third of each kind is held out.
func (p *ServedPlan) Draw() (points []ServedPoint) {
	const golden, plastic = 0.6180339887498949, 0.7548776662466927
	frac := func(x float64) float64 { return x - math.Floor(x) }
	between := func(low, high int, u float64) int {
		return int(math.Round(float64(low) * math.Pow(float64(max(high, low))/float64(low), u)))
	}
	offset := frac(float64(p.Seed%1000) * golden)
	longest := max(p.MostTokens-p.Answer, shortest)
	for i := range servedRounds {
		u, w := frac(offset+float64(i)*golden), frac(offset+float64(i)*plastic)
		held := i%folds == folds-1
		prompt := between(shortest, longest, u) // short prompts, where the host shows
		if i%2 == 1 {
			prompt = between(max(longest/8, shortest), longest, u) // long prompts, where arithmetic shows
		}
		batch := between(1, max(p.MostBatch, 1), w)
		room := min(longest, max(p.MostTogether/batch, shortest))
		points = append(points,
			ServedPoint{First: true, Batch: 1, Context: prompt, HeldOut: held},
			ServedPoint{Batch: batch, Context: between(shortest, room, frac(u+0.5)), HeldOut: held})
	}
	return points
}
