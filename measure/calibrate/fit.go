package calibrate

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mat"

	"llmprof/internal/stats"
	"llmprof/roofline"
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

// An equation says what a sample takes with certain constants. It sets slopes, unless they are nil, to the derivatives of that time by the
// logarithm of what each constant stretches: a slope is also the part of the time that the constant accounts for, and a constant that
// accounts for little cannot be read off the sample.
type equation struct {
	keys []roofline.Constant
	time func(p []float64, s *sample, slopes []float64) float64

	resamples int // number of fits of an interval; 0 for the default

	// basins are where else a fit begins: the loss may have several minima. Of them it takes one that is better by the
	// loss of a sample that is off by the knee.
	basins [][]float64
}

// byLaw is the time of a sample's kernel by the law of its class, with other constants that are known.
func byLaw(peaks *roofline.Peaks, c roofline.Constants, keys ...roofline.Constant) equation {
	var m *roofline.Machine
	var last []float64
	return equation{keys: keys, time: func(p []float64, s *sample, slopes []float64) float64 {
		if m == nil || !slices.Equal(last, p) { // all samples are evaluated at one point, and then at the next
			last = append(last[:0], p...)
			for i, k := range keys {
				c[k] = p[i]
			}
			m = roofline.NewMachine(peaks, &c)
		}
		if slopes == nil {
			return float64(m.Time(&s.kernel))
		}
		var all roofline.Slopes
		cost := m.Cost(&s.kernel)
		m.AddSlopes(&all, &cost)
		for i, k := range keys {
			slopes[i] = float64(all.By[k])
		}
		return float64(cost.Time)
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
	errors  []float64 // error of each sample while it was left out, as a share of its time; of the fit itself where too few are
}

// The rules of the fit.
const (
	least     = 3    // samples that a constant needs to be read off
	bearing   = 0.2  // share of a sample's time that a constant has to account for: hardly anything smaller than what was timed is estimated
	tenth     = 0.1  // share of what a row adds, or of what starts and ends draw, which is never more
	intercept = 0.5  // share of a fixed time: read off larger samples it would be extrapolated to small ones
	knee      = 0.02 // relative error from which it counts by its size and not its square
	folds     = 3    // a third is left out at a time
	seed      = 20261121
)

// bearings are the shares of a sample's time that constants have to account for where that is not bearing.
var bearings = map[roofline.Constant]float64{
	roofline.TileEmpty: tenth, roofline.TileIdle: tenth, roofline.GEMMIdle: tenth, roofline.GEMMExposed: tenth, roofline.GEMMQuantize: tenth,
	roofline.GEMMRow: tenth, roofline.AttentionTile: tenth, roofline.ScanChunk: tenth, roofline.GroupedPermute: tenth,
	roofline.GroupedExpert: tenth, roofline.PowerFixed: tenth, roofline.SkinnyGEMMRow: tenth, roofline.WGMMAReload: tenth,
	roofline.MoEDecodeReload: tenth, roofline.MoEPrefillPermute: tenth, roofline.MoEPrefillUnpermute: tenth,
	roofline.HostStep: tenth, roofline.HostAsync: tenth, roofline.HostSequence: tenth, roofline.HostRequest: tenth, roofline.HostLaunch: tenth,
	roofline.HostDispatch: tenth,
	roofline.GEMMFixed:    intercept, roofline.SkinnyGEMMFixed: intercept, roofline.AttentionFixed: intercept,
	roofline.ElementwiseFixed: intercept,
}

// solve finds the constants of an equation by the least relative errors. Errors
// above the knee count by their size and not by its square, a smooth form of least absolute
// deviations, so that a disturbed row weighs no more than any other. Constants on which too
// few samples depend stay at start, as do those that hold names and those of which the
// samples leave open whether they are 0.
func solve(e equation, samples []sample, start []float64, hold ...roofline.Constant) *fit {
	f := newFit(e, samples, start, hold)
	for f.nearest(start); ; f.nearest(start) {
		if f.hold(f.fewest(start)) {
			continue
		}
		if f.bootstrap(); !f.hold(f.unknown()) {
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

// hold holds a constant, unless it is -1.
func (f *fit) hold(k int) bool {
	if k >= 0 {
		f.held[k], f.half[k] = true, 0
	}
	return k >= 0
}

// nearest fits the free constants from start and from the other basins.
func (f *fit) nearest(start []float64) {
	better, lowest := knee*(math.Sqrt2-1), math.Inf(1)
	for _, begin := range append([][]float64{start}, f.basins...) {
		begin = slices.Clone(begin)
		for i, held := range f.held {
			if held {
				begin[i] = start[i]
			}
		}
		if value, sum := f.minimize(f.samples, begin); sum < lowest-better {
			f.value, lowest = value, sum
		}
	}
}

// unknown is the constant whose interval is widest, if it reaches down to 0 or
// the constant is none that there can be: rows that something disturbed may ask for
// any ramp. A ramp may be 0, and so may what starts and ends draw. A share above 1 is
// left to be told of: it says that a peak is wrong.
func (f *fit) unknown() (worst int) {
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
	return worst
}

// rampOfNone is a ramp of so few tokens that it is as good as none.
const rampOfNone = 64

// hostOfNone is a time of the host that is as good as none, and leastHost what stands for
// none: the constant is above 0.
const hostOfNone, leastHost = 10e-6, 1e-6

// drawOfNone is what starts and ends draw that is as good as nothing.
const drawOfNone = 0.05

// fewest counts the samples that each constant can be read off, and finds the free one
// that has the fewest, if they are too few. A constant can be read off a sample
// that it would be a good part of at the value that it began with, too: to come
// out small is to be known.
func (f *fit) fewest(start []float64) (worst int) {
	worst = -1
	for k := range f.keys {
		begun := slices.Clone(f.value)
		begun[k] = start[k]
		shown := make([]bool, len(f.samples))
		f.show(shown, k, f.bears(k), f.value)
		f.show(shown, k, f.bears(k), begun)
		f.n[k] = 0
		for _, ok := range shown {
			if ok {
				f.n[k]++
			}
		}
		if !f.held[k] && f.n[k] < least && (worst < 0 || f.n[k] < f.n[worst]) {
			worst = k
		}
	}
	return worst
}

// show marks the samples of whose time constant k accounts for a share at p.
func (f *fit) show(shown []bool, k int, share float64, p []float64) {
	slopes := make([]float64, len(f.keys))
	for i := range shown {
		t := f.time(p, &f.samples[i], slopes)
		shown[i] = shown[i] || slopes[k] > 0 && slopes[k] >= share*t
	}
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
	return cmp.Or(bearings[c], bearing)
}

func (f *fit) free() (at []int) {
	for i, held := range f.held {
		if !held {
			at = append(at, i)
		}
	}
	return at
}

// resamples is the number of fits of an interval; tests take fewer.
var resamples = 200

// The rules of the descent.
const (
	mostSteps   = 100   // most steps of a descent
	converged   = 1e-9  // relative decrease of the loss at which a descent ends
	mostDamping = 1e8   // damping at which a descent gives up
	weakest     = 1e-12 // added to the curvature, so that a constant without samples has one
	farthest    = 1.0   // most that a step changes a logarithm
)

// minimize fits the free constants to samples, in their logarithms, so that none
// becomes negative, by iteratively reweighted least squares (Holland and Welsch 1977). Each step is damped
// as by Levenberg and Marquardt until it lowers the loss. A constant on which no sample depends stays as it is.
func (f *fit) minimize(samples []sample, start []float64) (value []float64, sum float64) {
	free := f.free()
	value = slices.Clone(start)
	if len(free) == 0 || len(samples) == 0 {
		return value, 0
	}
	for _, at := range free {
		value[at] = max(value[at], 1e-12)
	}
	sum = f.loss(samples, value)
	damping := 1e-3
	for range mostSteps {
		before := sum
		curvature, gradient := f.normal(samples, value, free)
		for ; damping < mostDamping; damping *= 4 {
			trial := slices.Clone(value)
			for i, step := range newton(curvature, gradient, damping) {
				trial[free[i]] *= math.Exp(min(max(step, -farthest), farthest))
			}
			if l := f.loss(samples, trial); l < sum {
				value, sum = trial, l
				break
			}
		}
		if before-sum <= converged*before {
			break
		}
		damping = max(damping/10, 1e-9)
	}
	return value, sum
}

// off is the logarithm of how far the equation misses a sample.
func (e *equation) off(p []float64, s *sample, slopes []float64) (r, time float64) {
	time = e.time(p, s, slopes)
	return math.Log(time / s.time), time
}

// loss is √(r²+knee²)-knee in sum, r being the logarithm of how far a sample is missed.
func (e *equation) loss(samples []sample, p []float64) (sum float64) {
	for i := range samples {
		r, _ := e.off(p, &samples[i], nil)
		sum += math.Hypot(r, knee) - knee
	}
	return sum
}

// normal is the weighted normal matrix of the samples, and the gradient of their loss, by the logarithms of the free constants. A share
// of a peak that is larger makes a time shorter.
func (e *equation) normal(samples []sample, p []float64, free []int) (curvature *mat.SymDense, gradient *mat.VecDense) {
	curvature, gradient = mat.NewSymDense(len(free), nil), mat.NewVecDense(len(free), nil)
	slopes, row := make([]float64, len(p)), mat.NewVecDense(len(free), nil)
	for i := range samples {
		r, time := e.off(p, &samples[i], slopes)
		for a, k := range free {
			slope := slopes[k] / time
			if e.keys[k].Info().Quantity == roofline.Share {
				slope = -slope
			}
			row.SetVec(a, slope)
		}
		weight := 1 / math.Hypot(r, knee)
		curvature.SymRankOne(curvature, weight, row)
		gradient.AddScaledVec(gradient, weight*r, row)
	}
	return curvature, gradient
}

// newton is a damped step down the gradient; nil where the matrix has no inverse.
func newton(curvature *mat.SymDense, gradient *mat.VecDense, damping float64) []float64 {
	k := gradient.Len()
	damped := mat.NewSymDense(k, nil)
	damped.CopySym(curvature)
	for i := range k {
		damped.SetSym(i, i, curvature.At(i, i)*(1+damping)+weakest)
	}
	var c mat.Cholesky
	var step mat.VecDense
	if !c.Factorize(damped) || c.SolveVecTo(&step, gradient) != nil {
		return nil
	}
	step.ScaleVec(-1, &step)
	return step.RawVector().Data
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
	f.errors = f.errorsOf(f.value, f.samples)
	if len(f.samples) < folds*least {
		return
	}
	for fold := range folds {
		var kept, left []sample
		for i, s := range f.samples {
			if i%folds == fold {
				left = append(left, s)
			} else {
				kept = append(kept, s)
			}
		}
		value, _ := f.minimize(kept, f.value)
		for i, off := range f.errorsOf(value, left) {
			f.errors[fold+i*folds] = off
		}
	}
}

// errorsOf is by how much each sample's time is missed, as a share of it.
func (e *equation) errorsOf(p []float64, samples []sample) []float64 {
	out := make([]float64, len(samples))
	for i := range samples {
		out[i] = math.Abs(e.time(p, &samples[i], nil)/samples[i].time - 1)
	}
	return out
}

// why says what holds a constant, of samples that are called what.
func (f *fit) why(k int, what string) string {
	if f.n[k] >= least {
		return what + " alone do not settle it"
	}
	return fmt.Sprintf("%d of %d %s depend on it", f.n[k], len(f.samples), what)
}

// boundBy returns the errors, in order, of those samples of whose time a constant accounts for a share, and of all
// samples where there are none.
func (f *fit) boundBy(k int, share float64) (out []float64) {
	shown := make([]bool, len(f.samples))
	f.show(shown, k, share, f.value)
	for i, ok := range shown {
		if ok {
			out = append(out, f.errors[i])
		}
	}
	if len(out) == 0 {
		out = slices.Clone(f.errors)
	}
	slices.Sort(out)
	return out
}
