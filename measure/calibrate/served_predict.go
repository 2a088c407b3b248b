package calibrate

import (
	"fmt"
	"slices"

	"llmprof/analytic"
	"llmprof/hardware"
	"llmprof/roofline"
	"llmprof/unit"
)

// An evaluator predicts points with constants that change.
type evaluator struct {
	s    *Served
	gpu  *hardware.GPU
	base hardware.Calibration

	// Predictor of the constants lastAt: a fit evaluates all points at one vector of constants, and then at the next.
	last   *analytic.Predictor
	lastAt roofline.Constants
}

func (s *Served) evaluator(g *hardware.GPU) (*evaluator, error) {
	base, err := analytic.Constants(g, s.Engine, s.Base)
	return &evaluator{s: s, gpu: g, base: base}, err
}

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

// time is what is predicted of a point with constants, and the derivatives of that if slopes are not nil.
func (v *evaluator) time(c roofline.Constants, p *ServedPoint, slopes *roofline.Slopes) (unit.Seconds, error) {
	of, err := v.predictor(c)
	switch {
	case err != nil:
		return 0, err
	case p.First:
		return of.FirstToken(&analytic.Workload{Batch: 1, PromptLen: p.Context, GenLen: 1}, slopes)
	case slopes == nil:
		return of.StepTime(float64(p.Batch), 1, float64(p.Context), 1), nil
	}
	return of.StepSlopes(slopes, float64(p.Batch), 1, float64(p.Context), 1), nil
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
		v.s.Server.Notes = append(v.s.Server.Notes, why+": it is left out")
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
	for _, p := range v.s.Points {
		s := of.Step(float64(p.Batch), 1, float64(p.Context), 1)
		if p.First {
			s = of.Step(1, float64(p.Context), 0, 1)
		}
		of.Walk(&s, func(l *analytic.Lowering, _ []roofline.Cost) {
			for i := range l.Kernels {
				for _, c := range m.Depends(&l.Kernels[i].Kernel) {
					all[c] = true
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
		t, err := v.time(v.base.Constants, p, nil)
		if err != nil {
			return false, err
		}
		slower, err := v.time(slow, p, nil)
		if err != nil {
			return false, err
		}
		if float64(slower) < (1+tenth)*float64(t) {
			n++
		}
	}
	return n >= least, nil
}

// A tie makes a constant follow another in proportion, where no fit has it: products at the power limit are slower than short ones by as
// much as before, and a call of Python takes as many launches as before.
type tie struct{ constant, to roofline.Constant }

// tied lists the ties of constants that are none of keys to those that are.
func tied(keys []roofline.Constant) []tie {
	all := []tie{{roofline.GEMMSustained, roofline.GEMMCompute}, {roofline.HostDispatch, roofline.HostLaunch}}
	return slices.DeleteFunc(all, func(t tie) bool { return slices.Contains(keys, t.constant) || !slices.Contains(keys, t.to) })
}

// in is the constant where the one that it follows has another value than in base.
func (t *tie) in(base *roofline.Constants, value float64) float64 {
	if base[t.to] == 0 {
		return base[t.constant]
	}
	return base[t.constant] * value / base[t.to]
}

// with are the constants with some set.
func (v *evaluator) with(keys []roofline.Constant, p []float64) roofline.Constants {
	c := v.base.Constants
	for i, k := range keys {
		c[k] = p[i]
		if k.Relative() {
			c[k] = min(p[i], 1)
		}
	}
	for _, t := range tied(keys) {
		c[t.constant] = t.in(&v.base.Constants, c[t.to])
	}
	return c
}

// equation is the time of a sample, whose fit begins at start. A fit tries constants that cannot be too: with these it takes for ever. Of
// what depends on constants that are tied to others, these account.
func (v *evaluator) equation(keys []roofline.Constant, start []float64) equation {
	ties := tied(keys)
	time := func(p []float64, s *sample, slopes []float64) float64 {
		clear(slopes)
		var all *roofline.Slopes
		if slopes != nil {
			all = &roofline.Slopes{}
		}
		t, err := v.time(v.with(keys, p), s.point, all)
		switch {
		case err != nil:
			return 1e6
		case slopes == nil:
			return float64(t)
		}
		for i, k := range keys {
			// The way of a request is no shorter by HostAsync: the two cannot be distinguished.
			if way := k == roofline.HostAsync && s.point.First; !way && (!k.Relative() || p[i] <= 1) {
				slopes[i] = float64(all.By[k])
			}
		}
		for _, tie := range ties {
			if i := slices.Index(keys, tie.to); slopes[i] > 0 {
				slopes[i] += float64(all.By[tie.constant])
			}
		}
		return float64(t)
	}
	return equation{keys: keys, time: time, resamples: fewResamples, basins: slowHosts(keys, start)}
}
