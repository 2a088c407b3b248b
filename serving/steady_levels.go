package serving

import (
	"math"
	"math/bits"
	"slices"
)

// The levels of the queue are its numbers n of sequences that decode. With requests at a rate λ that decode for s steps of mean length
// c(n) level n has the weight Π λ·s·c(i)/i. Prompts that are computed together begin to decode together, so that levels are entered in
// batches; behind a router intervals between arrivals have less variance than those of a Poisson process (steady_erlang.go).

// unlikely is the weight over the greatest one below which a number of sequences is left out.
const unlikely = 1e-6

// weights are the probabilities of n sequences in the replica, 0 where they are negligible, and the cycles of the others. Beyond f.most
// further ones wait. They are nil where the rate is not stable.
func (f *flow) weights(rate float64) ([]float64, []*cycle) {
	cycles := []*cycle{{}} // without any, steps come when prompts do
	// ratio is the weight of n sequences over the weight of one fewer if sequences begin one by one; -1 where the rate is not stable.
	ratio := func(n int) float64 {
		at := min(n, f.most)
		for len(cycles) <= at {
			cycles = append(cycles, nil)
		}
		if cycles[at] == nil {
			cycles[at] = f.at(at, rate)
		}
		m := rate * f.steps * cycles[at].decode
		if at == f.most && m >= float64(at)*(1-1e-6) || cycles[at].unstable {
			return -1
		}
		if n > f.most {
			return max(m/float64(at), 1e-300)
		}
		return max(f.birth(n, m), 1e-300)
	}
	n := f.likely(rate)
	for next, top := 0.0, 0.0; n > 0; n-- {
		r := ratio(n)
		if r < 0 {
			return nil, nil
		}
		next -= math.Log(r) * (1 - min(cycles[min(n, f.most)].load, 0.8)) // batches make the number vary by so much more
		if top = max(top, next); r > 1 && next < top+math.Log(unlikely) {
			break
		}
	}
	weights := f.balance(n, rate, func(n int) (float64, float64) { return ratio(n), cycles[min(n, f.most)].load }) // which adds cycles
	return weights, cycles
}

// balance works out the weights from some number of sequences on: the balance equations of a queue with batch arrivals. Prompts that come
// while others are computed, a load of them for each, begin to decode at about the same time: they are a batch, whose size has a geometric
// distribution with the mean of those that come in a busy period. Between n sequences and n + 1 as many end as
// begin. Where steps take as long with prompts as without the load is 0, and sequences begin one by one.
func (f *flow) balance(from int, rate float64, at func(n int) (ratio, load float64)) []float64 {
	const longest = 1 << 16
	weights := make([]float64, from+1, 2*from+64)
	weights[from] = 1
	alone := 0.0 // no sequence decodes while a busy period has prompts alone
	if from == 0 && !f.handed {
		a := f.alone(rate)
		alone = rate * float64(a.Time)
	}
	up, top, sum := 1.0, 1+alone, 1+alone
	for n := from + 1; n < longest; n++ {
		r, load := at(n)
		if r < 0 {
			return nil
		}
		w := r * up
		weights = append(weights, w)
		if sum += w; r < 1 && w < top*unlikely {
			break
		}
		if top = max(top, w); top > 1e200 {
			for i := range weights {
				weights[i] *= 1e-200
			}
			top, sum, alone, w, up = top*1e-200, sum*1e-200, alone*1e-200, w*1e-200, up*1e-200
		}
		up = w*(1-load) + load*up
	}
	weights[from] += alone
	for n := range weights {
		weights[n] /= sum
	}
	return weights
}

// likely is a number of sequences below the mode of their distribution, by the mean step: fewer end than come there.
func (f *flow) likely(rate float64) int {
	var some []int
	for grid := 1; grid < f.most; grid *= 2 {
		some = append(some, grid)
	}
	i, _ := slices.BinarySearchFunc(some, 1, func(n int, _ int) int {
		more := func(step float64) bool { return rate*f.steps*step > float64(n) }
		p := f.level(n)
		if more(float64(p.decode.Time)) { // a mean step, which has prompts to price, is longer
			return -1
		}
		if c, ok := p.mean(rate); ok && more(c) {
			return -1
		}
		return 1
	})
	if i == 0 {
		return 0
	}
	return some[i-1]
}

// at is the cycle with n sequences: solved for two numbers in each power of two, and interpolated between them, but for steps that only
// decode, which have the stairs of the sizes of CUDA graphs.
func (f *flow) at(n int, rate float64) *cycle {
	grid := 1 << max(bits.Len(uint(n))-2, 0)
	low := n / grid * grid
	if n == low || n == f.most {
		return f.cycle(f.level(n), rate)
	}
	s := &f.segment
	if s.low != low || s.rate != rate || s.stages != f.stages {
		high := min(low+grid, f.most)
		*s = segment{rate: rate, stages: f.stages, low: low, high: high, a: f.cycle(f.level(low), rate), b: f.cycle(f.level(high), rate),
			few: f.decode(low), many: f.decode(high)}
	}
	x := float64(n-s.low) / float64(s.high-s.low)
	if len(f.between) == cap(f.between) { // cycles are made some at a time
		f.between = make([]cycle, 0, 32)
	}
	f.between = append(f.between, s.a.toward(s.b, x))
	y := &f.between[len(f.between)-1]
	stair := f.graphStep(n)
	time := float64(stair.Time-s.few.Time) - x*float64(s.many.Time-s.few.Time) // by which the stair is above the line
	energy := float64(stair.Energy-s.few.Energy) - x*float64(s.many.Energy-s.few.Energy)
	share := y.plain * y.decode / y.mean // plain steps in the time between two tokens
	y.mean += y.plain * time
	y.decode += share * time
	y.energy += share * energy
	return y
}

// A segment is the numbers of sequences whose cycles are on the line between the same two, which at asks for one after the other.
type segment struct {
	rate      float64
	stages    int
	low, high int // whose cycles were solved
	a, b      *cycle
	few, many Cost // steps that only decode
}

// graphStep is a step that decodes n sequences: interpolated between the fewest and the most of those that run alike. Graphs have
// multiples of 8 sequences, and of 16 above 256; kernels without them have tiles of at least 32.
func (f *flow) graphStep(n int) Cost {
	size := 8
	switch {
	case n <= 16:
		return f.decode(n)
	case n > 512:
		size = 32
	case n > 256:
		size = 16
	}
	fewest := (n-1)/size*size + 1
	most := min(fewest+size-1, f.most)
	if n > most || fewest == most { // a full replica may run more for a while
		return f.decode(n)
	}
	a, b := f.decode(fewest), f.decode(most)
	return toward(&a, &b, float64(n-fewest)/float64(most-fewest))
}
