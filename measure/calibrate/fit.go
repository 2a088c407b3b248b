package calibrate

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"llmprof/measure/stats"
	"llmprof/roofline"
	"llmprof/unit"
)

// A sample is what a row saw of a kernel.
type sample struct {
	time    float64 // seconds; of power, the share that was drawn
	kernel  roofline.Kernel
	drawing              // only for power
	point   *ServedPoint // only for a server
	copies  int          // copies of the weights that calls took in turn; 0 where that is not known
	random  bool         // The weights were random numbers.
	inTurn  bool         // The rows of these weights were timed one after the other.

	// Seconds of a burst that the rows before this one had spent, where the board rested between them by each of rests.
	spent [len(rests)]float64
}

// An equation says what a sample takes with certain constants, and which part of
// that each constant accounts for: one that accounts for little cannot be read
// off the sample.
type equation struct {
	keys  []roofline.Constant
	parts func(p []float64, s *sample, parts []float64) (time float64)

	fast func(p []float64, s *sample) (time float64) // the time alone, where parts cost more; nil for parts

	resamples int // number of fits of an interval; 0 for the default

	// basins are where else a fit begins: the loss may have several minima. Of them it takes one that is better by the
	// loss of a sample that is off by the knee. Nil for none.
	basins func(start []float64) [][]float64
}

// byLaw is the time of a sample's kernel by the law of its class, on a machine whose
// other constants are known.
func byLaw(m *roofline.Machine, keys ...roofline.Constant) equation {
	var list []roofline.Part
	var last []float64
	set := func(p []float64) { // all samples are evaluated at one point, and then at the next
		if slices.Equal(last, p) {
			return
		}
		last = append(last[:0], p...)
		for i, k := range keys {
			m.Set(k, p[i])
		}
	}
	fast := func(p []float64, s *sample) float64 {
		set(p)
		return float64(m.Time(&s.kernel))
	}
	return equation{keys: keys, fast: fast, parts: func(p []float64, s *sample, parts []float64) float64 {
		set(p)
		var t unit.Seconds
		t, list = m.Parts(&s.kernel, list[:0])
		clear(parts)
		for i := range list {
			for j, k := range keys {
				if list[i].By == k || list[i].And == k {
					parts[j] += list[i].Time
				}
			}
		}
		return float64(t)
	}}
}

// A fit is what was found: constants, each free or held at its default.
type fit struct {
	equation
	samples []sample
	value   []float64
	held    []bool
	n       []int     // samples that each free constant can be read off
	half    []float64 // half-widths of the 95 % intervals
	errors  []float64 // error of each sample while it was left out, as a share of its time; nil where too few
}

// The rules of the fit.
const (
	least     = 3    // samples that a constant needs to be read off
	bearing   = 0.2  // share of a sample's time that a constant has to account for
	tenth     = 0.1  // share of what a row adds, or of what starts and ends draw, which is never more
	intercept = 0.5  // share of a fixed time: read off larger samples it would be extrapolated to small ones
	knee      = 0.02 // relative error from which it counts by its size and not its square
	resamples = 200
	folds     = 3 // a third is left out at a time
	seed      = 20261121
)

// solve finds the constants of an equation by the least relative errors. Errors
// above the knee count by their size and not by its square, a smooth form of least absolute
// deviations, so that a disturbed row weighs no more than any other. Constants on which too
// few samples depend stay at start, as do those that hold names and those of which the
// samples leave open whether they are 0.
func solve(e equation, samples []sample, start []float64, hold ...roofline.Constant) *fit {
	f := newFit(e, samples, start, hold)
	for {
		f.nearest(samples, start)
		if f.release(start) {
			continue
		}
		if f.bootstrap(); !f.unknown() {
			f.leaveOut()
			return f
		}
	}
}

// newFit begins at start with the constants held that hold names.
func newFit(e equation, samples []sample, start []float64, hold []roofline.Constant) *fit {
	n := len(e.keys)
	f := &fit{equation: e, samples: samples, value: slices.Clone(start), held: make([]bool, n), n: make([]int, n), half: make([]float64, n)}
	for i, key := range e.keys {
		f.held[i] = slices.Contains(hold, key)
	}
	return f
}

// nearest fits the free constants from start and from the other basins.
func (f *fit) nearest(samples []sample, start []float64) {
	begins, better, least := [][]float64{start}, loss([]float64{knee}), math.Inf(1)
	if f.basins != nil {
		begins = append(begins, f.basins(start)...)
	}
	for _, begin := range begins {
		if value, sum := f.minimize(samples, f.holding(begin, start)); sum < least-better {
			f.value, least = value, sum
		}
	}
}

// holding is begin with the constants that are held as they are at start.
func (f *fit) holding(begin, start []float64) []float64 {
	begin = slices.Clone(begin)
	for i, held := range f.held {
		if held {
			begin[i] = start[i]
		}
	}
	return begin
}

// unknown holds the constant whose interval is widest, if it reaches down to 0 or
// the constant is none that there can be: rows that something disturbed may ask for
// any ramp. A ramp may be 0, and so may what starts and ends draw. A share above 1 is
// left to be told of: it says that a peak is wrong.
func (f *fit) unknown() (again bool) {
	worst, widest := -1, 0.0
	for _, k := range f.free() {
		c := f.keys[k]
		ratio := f.half[k] / f.value[k]
		switch {
		case c.Info().Engine && f.value[k] < hostOfNone:
			f.value[k] = max(f.value[k], leastHost)
			continue
		case !c.Relative() && !c.Valid(f.value[k]):
			ratio = math.Inf(1)
		case c == roofline.AttentionRamp && f.value[k] < rampOfNone, c == roofline.PowerFixed && f.value[k] < drawOfNone, f.value[k] < nothing[c]:
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

// hostOfNone is a time of the host that is as good as none, and leastHost what stands for
// none: the constant is above 0.
const hostOfNone, leastHost = 10e-6, 1e-6

// drawOfNone is what starts and ends draw that is as good as nothing.
const drawOfNone = 0.05

// release counts the samples that each constant can be read off and holds the one
// that has the fewest, if they are too few. A constant can be read off a sample
// that it would be a good part of at the value that it began with, too: to come
// out small is to be known.
func (f *fit) release(start []float64) (again bool) {
	clear(f.n)
	bears := make([]bool, len(f.keys)*len(f.samples)) // index: key, then sample
	at := func(p []float64, keys ...int) {
		parts := make([]float64, len(f.keys))
		for i := range f.samples {
			t := f.parts(p, &f.samples[i], parts)
			for _, k := range keys {
				b := &bears[k*len(f.samples)+i]
				*b = *b || parts[k] >= f.bears(k)*t
			}
		}
	}
	all := make([]int, len(f.keys))
	for k := range all {
		all[k] = k
	}
	at(f.value, all...)
	for k := range f.keys {
		begun := slices.Clone(f.value)
		if begun[k] = start[k]; begun[k] != f.value[k] {
			at(begun, k)
		}
		for _, b := range bears[k*len(f.samples):][:len(f.samples)] {
			if b {
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
	c := f.keys[k]
	if c.OfScheme() && c.Info().Quantity != roofline.Time {
		c = c.Info().Base
	}
	if c == roofline.GEMMFixed && f.samples[0].point != nil { // whole steps have GEMMs of all sizes
		return bearing
	}
	switch c {
	case roofline.TileEmpty, roofline.TileIdle, roofline.GEMMIdle, roofline.GEMMExposed, roofline.GEMMQuantize, roofline.GEMMRow,
		roofline.AttentionTile, roofline.ScanChunk, roofline.GroupedPermute, roofline.GroupedExpert:
		return tenth
	case roofline.PowerFixed, roofline.SkinnyGEMMRow, roofline.WGMMAReload, roofline.MoEDecodeReload, roofline.MoEPrefillPermute,
		roofline.MoEPrefillUnpermute,
		roofline.HostStep, roofline.HostAsync, roofline.HostSequence, roofline.HostRequest, roofline.HostLaunch, roofline.HostDispatch:
		return tenth
	case roofline.GEMMFixed, roofline.SkinnyGEMMFixed, roofline.AttentionFixed, roofline.ElementwiseFixed:
		return intercept
	}
	return bearing // hardly anything is estimated that is smaller than what was timed
}

func (f *fit) free() (at []int) {
	for i, held := range f.held {
		if !held {
			at = append(at, i)
		}
	}
	return at
}

// minimize fits the free constants to samples, in their logarithms, so that none
// becomes negative.
func (f *fit) minimize(samples []sample, start []float64) (value []float64, loss float64) {
	free := f.free()
	value = slices.Clone(start)
	if len(free) == 0 || len(samples) == 0 {
		return value, 0
	}
	parts := make([]float64, len(f.keys))
	trial := slices.Clone(start)
	d := descent{n: len(samples), residuals: func(x, r []float64) {
		for i, at := range free {
			trial[at] = math.Exp(x[i])
		}
		for i := range samples {
			var t float64
			if f.fast != nil {
				t = f.fast(trial, &samples[i])
			} else {
				t = f.parts(trial, &samples[i], parts)
			}
			r[i] = math.Log(t / samples[i].time)
		}
	}}
	x := make([]float64, len(free))
	for i, at := range free {
		x[i] = math.Log(max(start[at], 1e-12))
	}
	x, loss = d.from(x)
	for i, at := range free {
		value[at] = math.Exp(x[i])
	}
	return value, loss
}

// bootstrap fits samples drawn from the samples with replacement (Efron 1979), and
// takes half of the range that 95 % of the fits lie in. It draws the same every
// time.
func (f *fit) bootstrap() {
	random := rand.New(rand.NewPCG(seed, uint64(len(f.samples))))
	seen := make([][]float64, len(f.keys))
	drawn := make([]sample, len(f.samples))
	begin := slices.Clone(f.value)
	for k, key := range f.keys {
		if key == roofline.PowerFixed { // zero cannot be left again in logarithms
			begin[k] = max(begin[k], drawOfNone)
		}
	}
	for range cmp.Or(f.resamples, resamples) {
		for i := range drawn {
			drawn[i] = f.samples[random.IntN(len(f.samples))]
		}
		value, _ := f.minimize(drawn, begin)
		for k, v := range value {
			seen[k] = append(seen[k], v)
		}
	}
	for _, k := range f.free() {
		slices.Sort(seen[k])
		f.half[k] = (stats.Percentile(seen[k], 97.5) - stats.Percentile(seen[k], 2.5)) / 2
	}
}

// leaveOut predicts each third of the samples by constants fitted to the others.
func (f *fit) leaveOut() {
	if len(f.samples) < folds*least {
		return
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
		value, _ := f.minimize(kept, f.value)
		for i := fold; i < len(f.samples); i += folds {
			f.errors[i] = math.Abs(f.parts(value, &f.samples[i], parts)/f.samples[i].time - 1)
		}
	}
}

// heldOut gives the errors of the samples that constant k bounds, in order; of all
// samples where it bounds none any more. Where too few samples could be left out,
// they are the errors of the fit itself.
func (f *fit) heldOut(k int) []float64 {
	errs := f.errors
	if errs == nil {
		errs = f.errorsOf(f.samples)
	}
	return slices.Sorted(slices.Values(f.boundBy(k, bearing, f.samples, errs)))
}

// errorsOf is by how much each sample's time is missed, as a share of it.
func (f *fit) errorsOf(samples []sample) []float64 {
	parts := make([]float64, len(f.keys))
	out := make([]float64, len(samples))
	for i := range samples {
		out[i] = math.Abs(f.parts(f.value, &samples[i], parts)/samples[i].time - 1)
	}
	return out
}

// boundBy returns the errors of those samples of whose time a constant accounts for a share, and of all
// samples where there are none.
func (f *fit) boundBy(k int, share float64, samples []sample, errs []float64) (out []float64) {
	parts := make([]float64, len(f.keys))
	for i := range samples {
		if t := f.parts(f.value, &samples[i], parts); parts[k] > 0 && parts[k] >= share*t {
			out = append(out, errs[i])
		}
	}
	if len(out) == 0 {
		return errs
	}
	return out
}
