package operator

import (
	"fmt"

	"llmprof/models"
	"llmprof/roofline"
	"llmprof/unit"
)

// A Sum is what operators come to on one rank of each stage.
type Sum struct {
	Work  roofline.Work // work of the rank
	Model unit.FLOPs    // FLOPs of matrix products that the model needs, over all ranks
}

// Add adds n times u.
func (t *Sum) Add(u *Sum, n float64) {
	t.Work.Add(&u.Work, n)
	t.Model += u.Model.Times(n)
}

// AddOp adds an operator.
func (t *Sum) AddOp(o *Op) {
	t.Work.Add(&o.Work, o.Count)
	t.Model += o.Model.Times(o.Count)
}

// Counts is the work and the memory of a workload, whatever the hardware and the engine.
type Counts struct {
	Prefill Sum    // work of the prompts of one replica
	Decode  Sum    // work of all tokens after the first
	Memory  Memory // memory of one GPU, without the reserves of CUDA, engine and system
}

// Count counts a workload of a model with a split p and a quantization s.
func Count(m *models.Model, p Parallelism, s models.Scheme, w *Workload) (n Counts, err error) {
	if err := Check(m, p, s, nil); err != nil {
		return n, err
	}
	r := NewRank(m, p, s, nil)
	if err := w.Check(r.Par.MicroBatches); err != nil {
		return n, err
	}
	micro := float64(r.Par.MicroBatches)
	for _, run := range r.Prefill(w, 0) {
		if run.Steps > 0 {
			n.Prefill.addRun(&run, micro*run.Times)
		}
	}
	if w.GenLen > 1 {
		n.Decode.addRun(&Run{First: r.FirstDecode(w), Steps: w.GenLen - 1}, micro)
	}
	f := NewFootprint(&r, 0)
	n.Memory = f.Memory(w, 0, Room{})
	return n, nil
}

// Check returns why a model cannot have a split, a quantization or a popularity of its experts.
func Check(m *models.Model, p Parallelism, s models.Scheme, e *Popularity) error {
	if m == nil {
		return fmt.Errorf("no model is given")
	}
	if err := s.Check(); err != nil {
		return err
	}
	if err := p.Check(); err != nil {
		return err
	}
	if e != nil {
		if err := e.Check(m); err != nil {
			return err
		}
	}
	whole := p.Whole()
	return whole.CheckModel(m)
}

// addRun adds the steps of a run, so many times. Between two bends all of its figures are linear in the context, so that those of its steps
// are their number times the mean of the first and the last.
func (t *Sum) addRun(r *Run, times float64) {
	for _, piece := range r.Straight(r.First.Bends(r)) {
		for _, n := range [...]int{0, piece.Steps - 1} {
			var one Sum
			step := piece.At(float64(n))
			for _, o := range step.AppendOps(nil) {
				one.AddOp(&o)
			}
			t.Add(&one, times*float64(piece.Steps)/2)
		}
	}
}
