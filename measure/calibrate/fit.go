package calibrate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"gonum.org/v1/gonum/optimize"

	"llmprof/hardware"
	"llmprof/measure/stats"
)

// A sample is a row as an equation sees it: seconds that its work would take at
// the peaks of the data sheet.
type sample struct {
	time    float64
	compute float64 // at the peak of its format
	perKey  float64 // at that peak, of one more key for every query
	memory  float64 // at the memory's bandwidth
	wire    float64 // at the link's rate
	ranks   float64
	rows    float64 // of a product
	groups  float64 // at the memory's bandwidth, of what groups of a mixture's pairs read beyond memory
	again   float64 // the same of what pairs read again
	several bool    // sequences of a mixture
	acts    float64 // at the memory's bandwidth, of inputs and results of a product of many sequences
	order   float64 // at the memory's bandwidth, of what is gathered and summed of a prompt's experts
	pairs   float64 // of a token and an expert, of a prompt's choice
	experts float64 // of a prompt's choice
	up      bool    // the first product of a prompt's experts

	drawing // of power: time is a share of it then
}

// An equation says what a sample takes with certain constants, and which part of
// that each constant accounts for: one that accounts for little cannot be read
// off the sample.
type equation struct {
	keys  []string // of the constants
	parts func(p []float64, s *sample, parts []float64) (time float64)
}

// kernel is the time of one kernel, that of package analytic:
//
//	fixed + max((FLOPs + ramp/2 × FLOPs a key)/(compute × peak), bytes/(memory × bandwidth))
func kernel(keys ...string) equation {
	return equation{keys, func(p []float64, s *sample, parts []float64) float64 {
		pairs, ramp, memory := s.compute/p[0], 0.0, s.memory/p[1]
		if len(p) > 3 {
			ramp = s.perKey * p[3] / 2 / p[0]
		}
		clear(parts)
		parts[2] = p[2]
		if pairs+ramp > memory {
			if parts[0] = pairs + ramp; len(p) > 3 {
				parts[3] = ramp
			}
		} else {
			parts[1] = memory
		}
		return p[2] + max(pairs+ramp, memory)
	}}
}

// streamed is the time of an engine's own product of few rows, whose bytes are nearly
// all weights:
//
//	fixed + bytes/(memory × bandwidth) + rows × row × bytes/bandwidth
func streamed(keys ...string) equation {
	return equation{keys, func(p []float64, s *sample, parts []float64) float64 {
		parts[0], parts[1], parts[2] = s.memory/p[0], s.rows*p[1]*s.memory, p[2]
		return parts[0] + parts[1] + parts[2]
	}}
}

// mixed is the time of a mixture in a decode step, whose weights are read once for each group of pairs
// of one expert, or, of gate and up, for each pair:
//
//	(fixed or several) + bytes/(memory × bandwidth) + again × bytes that come again/bandwidth
func mixed(keys ...string) equation {
	return equation{keys, func(p []float64, s *sample, parts []float64) float64 {
		parts[0], parts[1], parts[2], parts[3] = (s.memory+s.groups)/p[0], s.again*p[1], p[2], 0
		if s.several {
			parts[2], parts[3] = 0, p[3]
		}
		return parts[0] + parts[1] + parts[2] + parts[3]
	}}
}

// again is the time of an engine's own product of many sequences, whose inputs come again for
// every tile of weights:
//
//	fixed + bytes of weights/(memory × bandwidth) + again × bytes of inputs and results/bandwidth
func again(keys ...string) equation {
	return equation{keys, func(p []float64, s *sample, parts []float64) float64 {
		parts[0], parts[1], parts[2] = (s.memory-s.acts)/p[0], s.acts*p[1], p[2]
		return parts[0] + parts[1] + parts[2]
	}}
}

// grouped is the time of a product of a prompt's experts with what is gathered ahead of it or
// summed behind it, beside the fixed time of a product:
//
//	√(C² + M²) + (gather or sum) × bytes of pairs/bandwidth
//	C = FLOPs/(compute × peak), M = bytes of weights/(memory × bandwidth)
func grouped(fixed float64, keys ...string) equation {
	return equation{keys, func(p []float64, s *sample, parts []float64) float64 {
		memory, compute := s.memory/p[0], s.compute/p[1]
		busy := math.Hypot(memory, compute)
		clear(parts)
		parts[0], parts[1] = memory*memory/busy, compute*compute/busy
		move := 3
		if s.up {
			move = 2
		}
		parts[move] = s.order * p[move]
		return fixed + busy + parts[move]
	}}
}

// chosen is the time of a prompt's choice, in which one block puts the pairs in order:
//
//	fixed + pairs × pair + experts × expert
func chosen(keys ...string) equation {
	return equation{keys, func(p []float64, s *sample, parts []float64) float64 {
		parts[0], parts[1], parts[2] = s.pairs*p[0], s.experts*p[1], p[2]
		return parts[0] + parts[1] + parts[2]
	}}
}

// allReduce is the time of an all-reduce over n GPUs:
//
//	base + n × per_gpu + wire/(share × link)
func allReduce(keys ...string) equation {
	return equation{keys, func(p []float64, s *sample, parts []float64) float64 {
		parts[0], parts[1], parts[2] = s.wire/p[0], p[1], s.ranks*p[2]
		return parts[0] + parts[1] + parts[2]
	}}
}

// A fit is what was found: constants, each free or held at its default.
type fit struct {
	equation
	samples []sample
	value   []float64
	held    []bool
	n       []int     // samples that each free constant can be read off
	half    []float64 // of the 95 % interval
	errors  []float64 // of each sample while it was left out, as a share of its time; nil where too few
}

// The rules of the fit.
const (
	least     = 3    // samples that a constant needs to be read off
	bearing   = 0.2  // share of a sample's time that a constant has to account for
	tenth     = 0.1  // the same of what a row adds, or what starts and ends draw, which is never more
	intercept = 0.5  // the same of a fixed time: read off larger samples it would be extrapolated to small ones
	knee      = 0.02 // relative error from which it counts by its size and not its square
	resamples = 200
	folds     = 3 // a third is left out at a time
	seed      = 20261121
)

// solve finds the constants of an equation by the least relative errors. Errors
// above the knee count by their size, so that rows that something disturbed weigh
// as others do (a smooth form of least absolute deviations). Constants that too few
// samples tell anything of are held at start, as are those that hold names and
// those of which the samples leave open whether they are 0.
func solve(e equation, samples []sample, start []float64, hold ...string) (*fit, error) {
	f := &fit{equation: e, samples: samples, value: slices.Clone(start), held: make([]bool, len(e.keys)), n: make([]int, len(e.keys)), half: make([]float64, len(e.keys))}
	for i, key := range e.keys {
		f.held[i] = slices.Contains(hold, key)
	}
	for {
		value, err := f.minimize(samples, start, 2)
		if err != nil {
			return nil, err
		}
		f.value = value
		if f.release(start) {
			continue
		}
		if err := f.bootstrap(); err != nil {
			return nil, err
		}
		if !f.unknown() {
			return f, f.leaveOut()
		}
	}
}

// unknown holds the constant whose interval is widest, if it reaches down to 0 or
// the constant is none that there can be: rows that something disturbed may ask for
// any ramp. A ramp may be 0, and so may what starts and ends draw. A share above 1 is
// left to be told of: it says that a peak is wrong.
func (f *fit) unknown() (again bool) {
	worst, widest := -1, 0.0
	for _, k := range f.free() {
		c := hardware.ConstantOf(f.keys[k])
		ratio := f.half[k] / f.value[k]
		switch {
		case !c.Relative() && !c.Valid(f.value[k]):
			ratio = math.Inf(1)
		case strings.HasSuffix(c.Key, ".ramp") && f.value[k] < rampOfNone, c.Key == "power.fixed" && f.value[k] < drawOfNone:
			continue
		}
		if ratio >= 1 && ratio > widest {
			worst, widest = k, ratio
		}
	}
	if worst >= 0 {
		f.held[worst], f.half[worst] = true, 0
	}
	return worst >= 0
}

// rampOfNone is a ramp of so few tokens that it is as good as none.
const rampOfNone = 64

// drawOfNone is what starts and ends draw that is as good as nothing.
const drawOfNone = 0.05

// release counts the samples that each constant can be read off and holds the one
// that has the fewest, if they are too few. A constant can be read off a sample
// that it would be a good part of at the value that it began with, too: to come
// out small is to be known.
func (f *fit) release(start []float64) (again bool) {
	clear(f.n)
	parts := make([]float64, len(f.keys))
	for k := range f.keys {
		begun := slices.Clone(f.value)
		begun[k] = start[k]
		for i := range f.samples {
			bears := false
			for _, p := range [][]float64{f.value, begun} {
				t := f.parts(p, &f.samples[i], parts)
				bears = bears || parts[k] >= f.bears(k)*t
			}
			if bears {
				f.n[k]++
			}
		}
	}
	worst := -1
	for k := range f.keys {
		if !f.held[k] && f.n[k] < least && (worst < 0 || f.n[k] < f.n[worst]) {
			worst = k
		}
	}
	if worst >= 0 {
		f.held[worst] = true
	}
	return worst >= 0
}

// bears is the share of a sample's time from which a constant can be read off it.
func (f *fit) bears(k int) float64 {
	switch {
	case f.keys[k] == "power.fixed" || strings.HasSuffix(f.keys[k], ".row"), strings.HasSuffix(f.keys[k], ".again"), f.keys[k] == "experts.gather", f.keys[k] == "experts.sum":
		return tenth
	case slices.Contains([]string{"mixture.fixed", "mixture.several", "choice.fixed", "wide.fixed"}, f.keys[k]): // hardly anything is estimated that is smaller than what was timed
		return bearing
	case strings.HasSuffix(f.keys[k], ".fixed"):
		return intercept
	}
	return bearing
}

// free lists the constants that are fitted.
func (f *fit) free() (at []int) {
	for i, held := range f.held {
		if !held {
			at = append(at, i)
		}
	}
	return at
}

// minimize fits the free constants to samples, in their logarithms, so that none
// becomes negative. Nelder and Mead's simplex (1965) needs no derivative, which the
// maximum in the equation has not everywhere; started again where it ended, it
// leaves a corner that it was stuck in.
func (f *fit) minimize(samples []sample, start []float64, restarts int) ([]float64, error) {
	free := f.free()
	value := slices.Clone(start)
	if len(free) == 0 || len(samples) == 0 {
		return value, nil
	}
	parts := make([]float64, len(f.keys))
	trial := slices.Clone(start)
	problem := optimize.Problem{Func: func(x []float64) float64 {
		for i, at := range free {
			trial[at] = math.Exp(x[i])
		}
		sum := 0.0
		for i := range samples {
			r := math.Log(f.parts(trial, &samples[i], parts) / samples[i].time)
			sum += math.Sqrt(r*r+knee*knee) - knee
		}
		return sum
	}}
	x := make([]float64, len(free))
	for i, at := range free {
		x[i] = math.Log(max(start[at], 1e-12))
	}
	for range 1 + restarts {
		found, err := optimize.Minimize(problem, x, &optimize.Settings{MajorIterations: 2000, Converger: &optimize.FunctionConverge{Absolute: 1e-10, Iterations: 60}},
			&optimize.NelderMead{SimplexSize: 0.2})
		if err != nil && found == nil {
			return nil, fmt.Errorf("the constants %v cannot be fitted: %w", f.keys, err)
		}
		x = found.X
	}
	for i, at := range free {
		value[at] = math.Exp(x[i])
	}
	return value, nil
}

// bootstrap fits samples drawn from the samples with replacement (Efron 1979), and
// takes half of the range that 95 % of the fits lie in. It draws the same every
// time.
func (f *fit) bootstrap() error {
	random := rand.New(rand.NewPCG(seed, uint64(len(f.samples))))
	seen := make([][]float64, len(f.keys))
	drawn := make([]sample, len(f.samples))
	begin := slices.Clone(f.value)
	for k, key := range f.keys {
		if key == "power.fixed" { // of nothing there is no way back, in logarithms
			begin[k] = max(begin[k], drawOfNone)
		}
	}
	for range resamples {
		for i := range drawn {
			drawn[i] = f.samples[random.IntN(len(f.samples))]
		}
		value, err := f.minimize(drawn, begin, 0)
		if err != nil {
			return err
		}
		for k, v := range value {
			seen[k] = append(seen[k], v)
		}
	}
	for _, k := range f.free() {
		slices.Sort(seen[k])
		f.half[k] = (stats.Percentile(seen[k], 97.5) - stats.Percentile(seen[k], 2.5)) / 2
	}
	return nil
}

// leaveOut predicts each third of the samples by constants fitted to the others.
func (f *fit) leaveOut() error {
	if len(f.samples) < folds*least {
		return nil
	}
	f.errors = make([]float64, len(f.samples))
	parts := make([]float64, len(f.keys))
	for fold := range folds {
		var kept []sample
		for i := range f.samples {
			if i%folds != fold {
				kept = append(kept, f.samples[i])
			}
		}
		value, err := f.minimize(kept, f.value, 1)
		if err != nil {
			return err
		}
		for i := fold; i < len(f.samples); i += folds {
			f.errors[i] = math.Abs(f.parts(value, &f.samples[i], parts)/f.samples[i].time - 1)
		}
	}
	return nil
}

// heldOut gives the errors of the samples that constant k bounds, in order; of all
// samples where it bounds none any more. Where too few samples could be left out,
// they are the errors of the fit itself.
func (f *fit) heldOut(k int) []float64 {
	var bound, all []float64
	parts := make([]float64, len(f.keys))
	for i := range f.samples {
		s := &f.samples[i]
		t := f.parts(f.value, s, parts)
		off := math.Abs(t/s.time - 1)
		if f.errors != nil {
			off = f.errors[i]
		}
		if all = append(all, off); parts[k] > 0 && parts[k] >= bearing*t {
			bound = append(bound, off)
		}
	}
	if len(bound) == 0 {
		bound = all
	}
	slices.Sort(bound)
	return bound
}
