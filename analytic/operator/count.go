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
	Piece Piece
}

// Add adds n times u, and leaves the piece.
func (t *Sum) Add(u *Sum, n float64) {
	t.Work.Add(&u.Work, n)
	t.Model += u.Model.Times(n)
}

// AddOps adds the operators of a step after past tokens.
func (t *Sum) AddOps(ops []Op, past float64) {
	for i := range ops {
		t.AddOp(&ops[i], past)
	}
}

// AddOp adds an operator of a step after past tokens.
func (t *Sum) AddOp(o *Op, past float64) {
	t.Work.Add(&o.Work, o.Count)
	t.Model += o.Model.Times(o.Count)
	t.Piece.Mark(uint64(o.Variant))
	if o.Variant&turning != 0 {
		t.Piece.Mark(uint64(past)) // a run of such steps is not linear: no two share a piece
	}
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

func (s *Shard) count(all *Sum, r *Run, times float64) {
	last := r.Last()
	begin, end := s.sum(&r.First), s.sum(&last)
	if r.Steps <= 2 || begin.Piece == end.Piece {
		all.Add(&begin, times*float64(r.Steps)/2)
		all.Add(&end, times*float64(r.Steps)/2)
		return
	}
	left, right := r.Halves()
	s.count(all, &left, times)
	s.count(all, &right, times)
}

func (s *Shard) sum(st *Step) (t Sum) {
	t.AddOps(st.AppendOps(nil), st.Past)
	return t
}
