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
	shard := NewShard(m, p, s, nil)
	if err := w.Check(shard.Par.MicroBatches); err != nil {
		return n, err
	}
	return shard.Count(w), nil
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

// Count counts a workload.
func (s *Shard) Count(w *Workload) (n Counts) {
	micro := float64(s.Par.MicroBatches)
	for _, r := range s.Prefill(w, 0) {
		if r.Steps > 0 {
			s.count(&n.Prefill, &r, micro*r.Times)
		}
	}
	if w.GenLen > 1 {
		s.count(&n.Decode, &Run{First: s.FirstDecode(w), Steps: w.GenLen - 1}, micro)
	}
	f := NewFootprint(&s.Rank, 0)
	n.Memory = f.Memory(w, 0, Room{})
	return n
}

// count adds the steps of a run. Between two bends all of its figures are linear in the context, so that those of its steps are
// their number times the mean of the first and the last.
func (s *Shard) count(all *Sum, r *Run, times float64) {
	for _, piece := range r.Straight(s.Bends(r)) {
		n := times * float64(piece.Steps) / 2
		s.sum(all, piece.At(0), n)
		s.sum(all, piece.At(float64(piece.Steps-1)), n)
	}
}

// sum adds a step so many times.
func (s *Shard) sum(all *Sum, st Step, times float64) {
	var t Sum
	for _, o := range st.AppendOps(nil) {
		t.AddOp(&o)
	}
	all.Add(&t, times)
}
