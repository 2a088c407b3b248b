package validate

import (
	"fmt"
	"slices"

	"llmprof/analytic"
	"llmprof/analytic/breakdown"
	"llmprof/measure/result"
	"llmprof/roofline"
	"llmprof/unit"
)

// ResultOperators is the operators of one result.
type ResultOperators struct {
	File   string // name of the result file
	Phases []OperatorPhase
}

// OperatorPhase is the operators of one step as they were timed, beside those of
// the estimate.
type OperatorPhase struct {
	Decode  bool // a decode step rather than a prefill
	Config  Config
	Context int           // tokens of a sequence in the cache before the step
	Rows    []OperatorRow // rows in the order of the step
	Sum     OperatorRow   // sum of the rows; its observed time is the sum of medians
	Step    OperatorRow   // the whole, as the step runs
	Untimed []string      // operators of the estimate that none of the rows is, as "host"
	Why     error         // there is no estimate; nil if there is

	Throttled unit.Seconds // time that the power limit adds to the predicted step where such steps follow each other
}

// An OperatorRow is one operator of all layers: what it took and what was
// predicted. Where one kernel does several operators of the estimate, the
// prediction is of all of them.
type OperatorRow struct {
	Name     string
	Includes []string
	Layers   int
	Kernels  int
	Observed float64 // median, in seconds, by the device's events

	Predicted *OperatorPrediction // nil if the estimate has no such operator
}

// An OperatorPrediction is what the estimate says of an operator.
type OperatorPrediction struct {
	analytic.Span // the interval is that of a whole phase
	FLOPs         unit.FLOPs
	Bytes         unit.Bytes // between memory and the chip; of what is included, activations stay on the chip
	Bound         roofline.Bound
}

// Error is predicted over observed, less 1.
func (r *OperatorRow) Error() float64 { return float64(r.Predicted.Expected)/r.Observed - 1 }

// OverFloor is observed over the floor, 0 if the floor is none.
func (r *OperatorRow) OverFloor() float64 {
	if r.Predicted.Floor <= 0 {
		return 0
	}
	return r.Observed / float64(r.Predicted.Floor)
}

// Bandwidth is the bytes that have to move over the observed time.
func (r *OperatorRow) Bandwidth() unit.BytesPerSec {
	return unit.BytesPerSec(float64(r.Predicted.Bytes) / r.Observed)
}

// Rate is the FLOPs of matrix products over the observed time.
func (r *OperatorRow) Rate() unit.FLOPsPerSec {
	return unit.FLOPsPerSec(float64(r.Predicted.FLOPs) / r.Observed)
}

// Operators sets the operators of a result beside the estimate's, a phase each.
// A result without any gives none. Where no estimate can be made, the phases say
// why, and their rows have no prediction.
func (s *Scorer) Operators(r *result.Result) []OperatorPhase {
	if r.Operators == nil {
		return nil
	}
	var all []OperatorPhase
	for _, p := range []struct {
		decode bool
		*result.OperatorPhase
	}{{false, r.Operators.Prefill}, {true, r.Operators.Decode}} {
		if p.OperatorPhase != nil {
			all = append(all, s.operatorPhase(r, p.OperatorPhase, p.decode))
		}
	}
	return all
}

func (s *Scorer) operatorPhase(r *result.Result, p *result.OperatorPhase, decode bool) OperatorPhase {
	out := OperatorPhase{Decode: decode, Context: p.Context}
	for _, o := range p.Ops {
		out.Rows = append(out.Rows, OperatorRow{
			Name: o.Name, Includes: o.Includes, Layers: o.Layers, Kernels: o.Kernels, Observed: o.Time.Median,
		})
		out.Sum.Kernels += o.Kernels
	}
	out.Whole(p.Sum, p.Step.Median)
	config, err := reduceConfig(r)
	if err == nil {
		out.Config = s.Canonical(config)
		err = out.Predict(s)
	}
	out.Why = err
	return out
}

// Whole sets the sum of the rows and the step as it runs, in seconds.
func (p *OperatorPhase) Whole(sum, step float64) {
	p.Sum.Name, p.Sum.Observed = "sum of operators", sum
	p.Step = OperatorRow{Name: "step", Kernels: p.Sum.Kernels, Observed: step}
	if !p.Decode {
		p.Step.Name = "prefill"
	}
}

// report is the estimate of the very step that was timed.
func (p *OperatorPhase) report(s *Scorer) (*analytic.Case, *breakdown.Report, error) {
	at := p.Config
	at.Gen = 2
	if p.Decode { // the one step of a request whose prompt is what the cache held
		at.Prompt = p.Context
	}
	c, err := s.caseOf(&at)
	if err != nil {
		return nil, nil, err
	}
	report, err := breakdown.Explain(c)
	if err != nil {
		return nil, nil, &mismatch{Impossible, err}
	}
	return c, &report, nil
}

// Predict adds the estimate's figures.
func (p *OperatorPhase) Predict(s *Scorer) error {
	c, report, err := p.report(s)
	if err != nil {
		return err
	}
	lines, phase, whole := report.PrefillOps, &report.Prefill, &report.TTFT
	if p.Decode {
		lines, phase, whole = report.DecodeOps, &report.Decode, &report.TPOT
	}
	wide := float64(whole.High/whole.Expected) - 1
	var used []string
	sum := &OperatorPrediction{}
	for i := range p.Rows {
		row := &p.Rows[i]
		row.Predicted = predicted(c.Machine, lines, row, wide)
		if row.Predicted == nil {
			continue
		}
		used = append(append(used, row.Name), row.Includes...)
		sum.add(row.Predicted)
	}
	for i := range lines {
		if name := lines[i].Name; !slices.Contains(used, name) && !slices.Contains(p.Untimed, name) {
			p.Untimed = append(p.Untimed, name)
		}
	}
	if len(used) == 0 {
		return nil
	}
	p.Sum.Predicted, p.Throttled = sum, phase.Throttled
	step := *sum
	step.Floor = phase.Floor
	step.Low, step.Bound = max(sum.Low, phase.Floor), phase.Bound
	p.Step.Predicted = &step
	return nil
}

// predicted is the estimate of a row: of all layers' lines of its name, and of
// those that it includes. It is nil if there is no line of its name.
func predicted(m *analytic.Machine, lines []breakdown.Operator, row *OperatorRow, wide float64) *OperatorPrediction {
	var own, others []*breakdown.Operator
	for i := range lines {
		switch l := &lines[i]; {
		case l.Name == row.Name:
			own = append(own, l)
		case slices.Contains(row.Includes, l.Name):
			others = append(others, l)
		}
	}
	if len(own) == 0 {
		return nil
	}
	out := &OperatorPrediction{}
	var times roofline.Times
	for _, l := range append(slices.Clone(own), others...) {
		out.FLOPs += l.FLOPs
		out.Bytes += l.Compulsory()
		out.Expected += l.Expected
		for r, t := range map[roofline.Resource]unit.Seconds{
			roofline.Matrix: l.Compute, roofline.Memory: l.Memory, roofline.Network: l.Network, roofline.Fixed: l.Fixed,
		} {
			times[r] += t
		}
	}
	out.Floor, out.Bound = fusedFloor(m.Peaks(), own, others), times.Bound()
	out.Expected = max(out.Expected, out.Floor)
	out.Low, out.High = max(out.Expected.Times(1-wide), out.Floor), out.Expected.Times(1+wide)
	for _, l := range own {
		out.Bytes += l.Acts
	}
	return out
}

// fusedFloor is the floor of operators that one kernel does, which lets the resources overlap.
func fusedFloor(p *roofline.Peaks, groups ...[]*breakdown.Operator) unit.Seconds {
	var all roofline.Floor
	for _, l := range slices.Concat(groups...) {
		one := p.FloorOf(&l.Work, l.Format)
		if one.Link, one.Node = 0, 0; l.Wire+l.NodeWire > 0 {
			one.Link = l.Floor
		}
		all.Add(&one, 1)
	}
	return all.Time()
}

// add adds the figures of another operator, which runs after it.
func (p *OperatorPrediction) add(o *OperatorPrediction) {
	p.Floor += o.Floor
	p.Expected += o.Expected
	p.Low += o.Low
	p.High += o.High
	p.FLOPs += o.FLOPs
	p.Bytes += o.Bytes
}

// Off is the sum of the operators over the step, less 1.
func (p *OperatorPhase) Off() float64 { return p.Sum.Observed/p.Step.Observed - 1 }

// Impossible are the operators that were observed to be faster than their floor:
// the measurement or the floor is wrong.
func (p *OperatorPhase) Impossible() (names []string) {
	for i := range p.Rows {
		if r := &p.Rows[i]; r.Predicted != nil && r.Observed < float64(r.Predicted.Floor) {
			names = append(names, fmt.Sprintf("%s: %v, floor %v", r.Name, unit.Seconds(r.Observed), r.Predicted.Floor))
		}
	}
	return names
}

// Lines are the operators of the estimate of a phase's step.
func (s *Scorer) Lines(p *OperatorPhase) ([]breakdown.Operator, error) {
	_, report, err := p.report(s)
	if err != nil {
		return nil, err
	}
	if p.Decode {
		return report.DecodeOps, nil
	}
	return report.PrefillOps, nil
}
