package calibrate

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"llmprof/analytic"
	"llmprof/hardware"
	"llmprof/measure/stats"
	"llmprof/models"
	"llmprof/roofline"
	"llmprof/unit"
)

// A ServedPoint is a time that the client of a server saw.
type ServedPoint struct {
	First   bool    // TTFT of a request alone; else the time of a decode step
	Batch   int     // sequences that run at a time
	Context int     // tokens of the prompt, or the mean context of the step
	Seconds float64 // the median
	Samples int
	HeldOut bool // nothing is fitted to it
}

// String names the point.
func (p *ServedPoint) String() string {
	if p.First {
		return fmt.Sprintf("TTFT of a prompt of %d", p.Context)
	}
	return fmt.Sprintf("TPOT of %d at a context of %d", p.Batch, p.Context)
}

// Served is points of one server, and what it runs.
type Served struct {
	Points   []ServedPoint
	Engine   analytic.Engine
	Model    *models.Model
	Scheme   models.Scheme
	Parallel analytic.Parallelism

	Base    *hardware.CalibrationFile // that it goes on from; nil for the defaults of the GPU's generation
	Name    string
	Kernels string // "vllm 0.25.1 by its server"
	Version string // of llmprof
	Tools   map[string]string
	Notes   []string
	Made    time.Time
}

// servedKeys are the constants that a server's times can determine. The points decide which of them they do.
var servedKeys = []roofline.Constant{
	roofline.HostStep, roofline.HostAsync, roofline.HostSequence, roofline.HostRequest, roofline.HostLaunch, roofline.HostDispatch,
	roofline.GEMMMemory, roofline.GEMMCompute, roofline.AttentionMemory, roofline.AttentionCompute,
	roofline.GEMMFixed,
	roofline.MoEPrefillMemory, roofline.MoEPrefillCompute, roofline.MoEDecodeMemory,
}

// leastServed is how many points of the server a fit needs.
const leastServed = 2 * least

// FitServed fits the constants of an engine and its GPU to what a server's client saw. The
// points that are held out take no part in it.
func FitServed(s *Served, g *hardware.GPU) (*hardware.CalibrationFile, error) {
	v, err := s.evaluator(g)
	if err != nil {
		return nil, err
	}
	if err := v.possible(); err != nil {
		return nil, err
	}
	var samples []sample
	for i := range s.Points {
		if p := &s.Points[i]; !p.HeldOut {
			samples = append(samples, sample{time: p.Seconds, point: p})
		}
	}
	if len(samples) < leastServed {
		return nil, fmt.Errorf("%d points of the server were measured: a fit needs %d", len(samples), leastServed)
	}
	keys, err := v.keys()
	if err != nil {
		return nil, err
	}
	start := make([]float64, len(keys))
	for i, k := range keys {
		start[i] = v.base.Constants[k]
	}
	e := equation{keys: keys, parts: v.parts(keys), fast: v.fast(keys), resamples: fewResamples, basins: slowHosts(keys)}
	f, refused := solvePossible(e, samples, start)
	return s.file(g, v, f, refused)
}

// solvePossible holds constants at their start that come out as none that there can be, one after the other. Prompts whose
// time differs from one to the next, as those that wait for the host, may ask for any share of the peak.
func solvePossible(e equation, samples []sample, start []float64) (f *fit, refused map[roofline.Constant]float64) {
	refused = map[roofline.Constant]float64{}
	for {
		f = solve(e, samples, start, slices.Collect(maps.Keys(refused))...)
		i := f.impossible()
		if i < 0 {
			return f, refused
		}
		refused[f.keys[i]] = f.value[i]
	}
}

// hostScales are how many times slower than at the start the host is where a fit begins again. A step takes the
// longer of host and kernels, so that a fit that begins with the kernels ahead of the host may end there.
var hostScales = []float64{4, 16}

// slowHosts are starts with slower hosts.
func slowHosts(keys []roofline.Constant) func(start []float64) [][]float64 {
	return func(start []float64) (all [][]float64) {
		for _, scale := range hostScales {
			slow := slices.Clone(start)
			for i, k := range keys {
				if k.Info().Engine {
					slow[i] *= scale
				}
			}
			all = append(all, slow)
		}
		return all
	}
}

// impossible is the first constant that comes out as none that there can be; -1 for none.
func (f *fit) impossible() int {
	for i, k := range f.keys {
		if !f.held[i] && !k.Valid(f.value[i]) {
			return i
		}
	}
	return -1
}

// An evaluator predicts points with constants that change.
type evaluator struct {
	s    *Served
	gpu  *hardware.GPU
	base hardware.Calibration

	last   *analytic.Predictor // of the constants lastAt: a fit evaluates all points at one vector of constants, and then at the next
	lastAt roofline.Constants
}

func (s *Served) evaluator(g *hardware.GPU) (*evaluator, error) {
	base, err := analytic.Constants(g, s.Engine, s.Base)
	return &evaluator{s: s, gpu: g, base: base}, err
}

// predictor is of the server with constants.
func (v *evaluator) predictor(c roofline.Constants) (*analytic.Predictor, error) {
	if v.last != nil && v.lastAt == c {
		return v.last, nil
	}
	cal := v.base
	cal.Constants = c
	m, err := analytic.NewMachine(v.gpu, cal, v.s.Engine)
	if err != nil {
		return nil, err
	}
	p, err := analytic.NewPredictor(&analytic.Case{
		Model: v.s.Model, Machine: m, Scheme: v.s.Scheme, Parallel: v.s.Parallel, Workload: analytic.Workload{Batch: 1, PromptLen: 1, GenLen: 1},
	})
	if err != nil {
		return nil, err
	}
	v.last, v.lastAt = p, c
	return p, nil
}

// time is what a point takes by constants.
func (v *evaluator) time(c roofline.Constants, p *ServedPoint) (unit.Seconds, error) {
	of, err := v.predictor(c)
	if err != nil {
		return 0, err
	}
	return p.time(of)
}

// time is what the point takes by a predictor.
func (p *ServedPoint) time(of *analytic.Predictor) (unit.Seconds, error) {
	if !p.First {
		return of.StepTime(float64(p.Batch), 1, float64(p.Context), 1), nil
	}
	e, err := of.Predict(&analytic.Workload{Batch: 1, PromptLen: p.Context, GenLen: 1})
	return e.TTFT.Expected, err
}

// mostBelowFloor is the share of points that may be faster than the floor because their client was
// late: tokens that came while it did not run are seen at once. A larger share is another server than was named.
const mostBelowFloor = 0.1

// possible leaves out the few points that are faster than the GPU at its best could be, and refuses many.
func (v *evaluator) possible() error {
	of, err := v.predictor(v.base.Constants)
	if err != nil {
		return err
	}
	var kept []ServedPoint
	var below []string
	for _, p := range v.s.Points {
		floor, err := p.floor(of)
		if err != nil {
			return err
		}
		if float64(floor) <= p.Seconds {
			kept = append(kept, p)
			continue
		}
		below = append(below, fmt.Sprintf("%v took %v, and %s at its best takes %v", &p, unit.Seconds(p.Seconds), v.gpu.Name, floor))
	}
	if float64(len(below)) > mostBelowFloor*float64(len(v.s.Points)) {
		return fmt.Errorf("%s: is the GPU, the number of GPUs, the model or the format of the weights another?", below[0])
	}
	for _, why := range below {
		v.s.Notes = append(v.s.Notes, why+": it is left out")
	}
	v.s.Points = kept
	return nil
}

// floor is the time of the point on the GPU at its best.
func (p *ServedPoint) floor(of *analytic.Predictor) (unit.Seconds, error) {
	e, err := of.Predict(&analytic.Workload{Batch: p.Batch, PromptLen: p.Context, GenLen: 2})
	if p.First {
		return e.TTFT.Floor, err
	}
	return e.TPOT.Floor, err
}

// keys are those of servedKeys that the time of a point depends on, and those of the scheme's own products.
func (v *evaluator) keys() (keys []roofline.Constant, err error) {
	told, err := v.separatesCalls()
	if err != nil {
		return nil, err
	}
	priced, err := v.priced()
	if err != nil {
		return nil, err
	}
	for _, k := range roofline.All() {
		wanted := k
		if k.OfScheme() && k.Relative() {
			wanted = k.Info().Base
		}
		switch {
		case !slices.Contains(servedKeys, wanted), v.base.Constants[k] == 0, k == roofline.HostDispatch && !told:
		case k.Info().Engine || priced[k]:
			keys = append(keys, k)
		}
	}
	return keys, nil
}

// priced are the constants that a kernel of a point depends on.
func (v *evaluator) priced() (map[roofline.Constant]bool, error) {
	of, err := v.predictor(v.base.Constants)
	if err != nil {
		return nil, err
	}
	peaks, err := v.gpu.Peaks()
	if err != nil {
		return nil, err
	}
	m := roofline.NewMachine(peaks, &v.base.Constants)
	all := map[roofline.Constant]bool{}
	var parts []roofline.Part
	for i := range v.s.Points {
		p := &v.s.Points[i]
		s := of.Step(float64(p.Batch), 1, float64(p.Context), 1)
		if p.First {
			s = of.Step(1, float64(p.Context), 0, 1)
		}
		of.Walk(&s, func(l *analytic.Lowering, _ []roofline.Cost) {
			for i := range l.Kernels {
				_, parts = m.Parts(&l.Kernels[i].Kernel, parts[:0])
				for _, x := range parts {
					all[x.By], all[x.And] = true, true
				}
			}
		})
	}
	return all, nil
}

// slowHost is by how much slower than the base's the host may be of a prompt that the kernels are known to
// bind.
const slowHost = 3

// separatesCalls reports whether the points separate the time of Python's calls from that of launches and that of a request's way. Prompts
// that wait for the host take one time up to 512 tokens and one above, which settles two of the three; long ones,
// whose kernels take longer than a slow host, settle the third.
func (v *evaluator) separatesCalls() (bool, error) {
	if v.base.Constants[roofline.HostDispatch] == 0 {
		return false, nil
	}
	slow, n := v.base.Constants, 0
	slow[roofline.HostLaunch] *= slowHost
	slow[roofline.HostDispatch] *= slowHost
	for i := range v.s.Points {
		p := &v.s.Points[i]
		if !p.First || p.HeldOut {
			continue
		}
		t, err := v.time(v.base.Constants, p)
		if err != nil {
			return false, err
		}
		slower, err := v.time(slow, p)
		if err != nil {
			return false, err
		}
		if float64(slower) < (1+tenth)*float64(t) {
			n++
		}
	}
	return n >= least, nil
}

// with are the constants with some set. Products at the power limit are slower than short
// ones by as much as before, and a call of Python takes as many launches as before where it is none of them.
func (v *evaluator) with(keys []roofline.Constant, p []float64) roofline.Constants {
	c := v.base.Constants
	for i, k := range keys {
		c[k] = p[i]
		if k.Relative() {
			c[k] = min(p[i], 1)
		}
	}
	c[roofline.GEMMSustained] = v.sustained(c[roofline.GEMMCompute])
	if !slices.Contains(keys, roofline.HostDispatch) {
		c[roofline.HostDispatch] = v.calls(c[roofline.HostLaunch])
	}
	return c
}

// calls is the time of a call of Python where a launch takes another.
func (v *evaluator) calls(launch float64) float64 {
	b := &v.base.Constants
	if b[roofline.HostLaunch] == 0 {
		return b[roofline.HostDispatch]
	}
	return b[roofline.HostDispatch] * launch / b[roofline.HostLaunch]
}

// sustained is the share of the peak at the power limit where short products reach another.
func (v *evaluator) sustained(compute float64) float64 {
	b := &v.base.Constants
	return b[roofline.GEMMSustained] * compute / b[roofline.GEMMCompute]
}

// fast is the time of a sample.
func (v *evaluator) fast(keys []roofline.Constant) func(p []float64, s *sample) float64 {
	var last []float64
	var of *analytic.Predictor
	var err error
	return func(p []float64, s *sample) float64 {
		if !slices.Equal(last, p) { // all samples are evaluated at one point, and then at the next
			last = append(last[:0], p...)
			of, err = v.predictor(v.with(keys, p))
		}
		if err != nil { // constants that cannot be, which a fit tries
			return 1e6
		}
		t, failed := s.point.time(of)
		if failed != nil {
			return 1e6
		}
		return float64(t)
	}
}

// nudge is by how much a constant is moved to see what it accounts for.
const nudge = 0.02

// parts also gives what each constant accounts for: the time by which the sample is longer
// where the constant is worse, over how much worse it is.
func (v *evaluator) parts(keys []roofline.Constant) func(p []float64, s *sample, parts []float64) float64 {
	fast := v.fast(keys)
	return func(p []float64, s *sample, parts []float64) float64 {
		t := fast(p, s)
		moved := slices.Clone(p)
		for i, k := range keys {
			moved[i] = p[i] * (1 + nudge)
			if k.Relative() {
				moved[i] = min(p[i], 1) / (1 + nudge)
			}
			if parts[i] = (fast(moved, s) - t) / nudge; s.point.First && k == roofline.HostAsync {
				parts[i] = 0 // the way of a request is no shorter: the two cannot be distinguished
			}
			moved[i] = p[i]
		}
		return t
	}
}

// file puts the constants into a calibration. Refused are the values of those that came out as none that there can be.
func (s *Served) file(g *hardware.GPU, v *evaluator, f *fit, refused map[roofline.Constant]float64) (*hardware.CalibrationFile, error) {
	file, err := s.begun(g)
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("%d points of the server", len(f.samples))
	for i, k := range f.keys {
		key := k.String()
		if f.held[i] {
			why := fmt.Sprintf("%d of %s depend on it", f.n[i], what)
			if f.n[i] >= least {
				why = what + " do not settle it"
			}
			if x, ok := refused[k]; ok {
				why = fmt.Sprintf("%s ask for %.4g, which cannot be (want %s)", what, x, k.Info().Quantity.Want())
			}
			file.Notes = append(file.Notes, fmt.Sprintf("%s stays at %s: %s", key, valueText(k, v.base.Constants[k]), why))
			if x, ok := file.Values[key]; ok && x.N == 0 {
				file.Values[key] = hardware.Value{Value: v.base.Constants[k], From: "default of " + s.Engine.Profile().Engine()}
			}
			continue
		}
		file.Values[key] = hardware.Value{Value: f.value[i], Uncertainty: f.half[i], N: f.n[i], From: what}
		delete(file.HeldOut, key)
		if errs := f.heldOut(i); k.Relative() && len(errs) > 0 {
			file.HeldOut[key] = hardware.Residual{N: len(errs), Median: stats.Percentile(errs, 50), P90: stats.Percentile(errs, 90)}
		}
		if dispatch := roofline.HostDispatch; k == roofline.HostLaunch && !slices.Contains(f.keys, dispatch) && v.base.Constants[dispatch] > 0 {
			file.Values[dispatch.String()] = hardware.Value{Value: v.calls(f.value[i]), From: "default: in proportion to host.launch"}
		}
		if k == roofline.GEMMCompute {
			file.Values["gemm.sustained"] = hardware.Value{Value: v.sustained(f.value[i]), From: "default: in proportion to gemm.compute"}
			delete(file.HeldOut, "gemm.sustained")
		}
	}
	s.completeSchemes(file, &v.base.Constants)
	return file, nil
}

// completeSchemes adds the constants of a number format of which others were fitted: a calibration file has all of a format or none.
func (s *Served) completeSchemes(file *hardware.CalibrationFile, base *roofline.Constants) {
	begun := map[string]bool{}
	for key := range file.Values {
		section, _, _ := strings.Cut(key, ".")
		begun[section] = true
	}
	for _, k := range roofline.All() {
		key := k.String()
		section, _, _ := strings.Cut(key, ".")
		if _, has := file.Values[key]; k.OfScheme() && begun[section] && !has {
			file.Values[key] = hardware.Value{Value: base[k], From: "default of " + s.Engine.Profile().Engine()}
		}
	}
}

// valueText is a constant as a file has it.
func valueText(k roofline.Constant, v float64) string {
	if k.Info().Quantity.Timed() {
		return unit.Seconds(v).String()
	}
	return fmt.Sprintf("%.4g", v)
}

// begun is the file that the fit goes on from.
func (s *Served) begun(g *hardware.GPU) (*hardware.CalibrationFile, error) {
	if g.Key == "" {
		return nil, errors.New("the GPU has no key in the table")
	}
	file, err := hardware.NewCalibration(g, s.Scheme.Stream())
	if err != nil {
		return nil, err
	}
	if b := s.Base; b != nil {
		file.Values, file.HeldOut, file.DType, file.Device = maps.Clone(b.Values), maps.Clone(b.HeldOut), b.DType, b.Device
		for key, x := range file.Values {
			x.From = strings.TrimSpace(x.From + " (" + b.Name + ")")
			file.Values[key] = x
		}
		file.Tables, file.Operators = b.Tables, b.Operators
		file.TP = slices.Clone(b.TP)
		file.Notes = append(file.Notes, fmt.Sprintf("constants that the server's points do not determine are of the calibration %s: %s", b.Name, b.Kernels))
	}
	if tp := max(s.Parallel.TP, 1); !slices.Contains(file.TP, tp) {
		file.TP = slices.Sorted(slices.Values(append(file.TP, tp)))
	}
	if file.Device.Name == "" {
		file.Device.Name = g.Name
	}
	file.Name, file.Engine, file.Kernels, file.Made, file.Version = s.Name, s.Engine.Profile().Name, s.Kernels, s.Made, s.Version
	maps.Copy(file.Tools, s.Tools)
	file.Notes = append(file.Notes, s.Notes...)
	return file, nil
}

// A ServedError is how far predictions of points are off.
type ServedError struct {
	Point         *ServedPoint
	Before, After float64 // prediction over time less 1, without the calibration and with it
}

// Score predicts every point by what was known before, and by a calibration.
func (s *Served) Score(g *hardware.GPU, f *hardware.CalibrationFile) ([]ServedError, error) {
	v, err := s.evaluator(g)
	if err != nil {
		return nil, err
	}
	after, err := analytic.Constants(g, s.Engine, f)
	if err != nil {
		return nil, err
	}
	var all []ServedError
	for i := range s.Points {
		p := &s.Points[i]
		was, err := v.time(v.base.Constants, p)
		if err != nil {
			return nil, err
		}
		is, err := v.time(after.Constants, p)
		if err != nil {
			return nil, err
		}
		all = append(all, ServedError{Point: p, Before: float64(was)/p.Seconds - 1, After: float64(is)/p.Seconds - 1})
	}
	return all, nil
}

// A ServedPlan bounds the points that are drawn.
type ServedPlan struct {
	Seed         uint64
	MostTokens   int // of a prompt with its answer
	MostBatch    int
	MostTogether int // tokens of all prompts that run at a time
	Answer       int // tokens generated for a decode step's time
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
		prompt := between(shortest, longest, u) // where the host shows
		if i%2 == 1 {
			prompt = between(max(longest/8, shortest), longest, u) // where arithmetic does
		}
		batch := between(1, max(p.MostBatch, 1), w)
		room := min(longest, max(p.MostTogether/batch, shortest))
		points = append(points,
			ServedPoint{First: true, Batch: 1, Context: prompt, HeldOut: held},
			ServedPoint{Batch: batch, Context: between(shortest, room, frac(u+0.5)), HeldOut: held})
	}
	return points
}
