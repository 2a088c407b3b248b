package operator

import (
	"llmprof/unit"
)

// AppendFirst appends the encoders of a prompt, and the embedding: a gather that reads the rows of the tokens, not the
// whole table.
func (s *Step) AppendFirst(dst []Op) []Op {
	m, t, w := s.Model, s.Tokens(), float64(s.Model.Embedding.Width)
	rows := w
	if m.Embedding.Positions > 0 {
		rows += float64(m.Hidden)
	}
	dst = s.encode(dst)
	first := len(dst)
	dst, o := add(dst, "embedding", Embedding)
	o.Work.Weights, o.Work.Acts = s.Bytes(t*rows), s.Bytes(t*w)
	if len(m.Embedding.Project) > 0 {
		dst = s.linears(dst, Product, s.Plain, m.Embedding.Project[:1], t, 1)
	}
	dst = s.norms(dst, nil, m.Embedding.Norms, nil)
	if s.Par.TP > 1 {
		dst = s.allReduce(dst, "embedding_all_reduce", s.Bytes(t*w))
	}
	return once(dst, first)
}

// AppendLast appends the operators after the layers: the final norm, the LM head on Logits
// positions of each sequence, and sampling. Each rank has a part of the vocabulary.
func (s *Step) AppendLast(dst []Op) []Op {
	first := len(dst)
	dst = s.norms(dst, nil, s.Model.FinalNorms, nil)
	if s.Logits > 0 {
		dst = s.head(dst)
	}
	return once(dst, first)
}

func (s *Step) head(dst []Op) []Op {
	m, rows := s.Model, s.Batch*s.Logits
	v, tp := float64(m.Head.Out), float64(s.Par.TP)
	stream := s.Scheme.Stream()
	if len(m.Embedding.Project) > 1 {
		dst = s.linears(dst, Product, s.Plain, m.Embedding.Project[1:], rows, 1)
	}
	n := float64(m.Head.In) * v
	matrix := &m.Head
	if m.TiedHead {
		table := m.Table()
		matrix = &table
	}
	dst, o := add(dst, "lm_head", Head)
	o.Format, o.Model = s.Plain.ActOf(matrix), unit.FLOPs(2*rows*n)
	o.Shape.M, o.Shape.N, o.Shape.K, o.Shape.Matrices = rows, v/tp, float64(m.Head.In), 1
	o.Work.FLOPs, o.Work.Weights = unit.FLOPs(2*rows*n/tp), s.Plain.MatrixBytes(matrix, n/tp, v/tp)
	o.Work.Acts = stream.Bytes(rows * (float64(m.Head.In) + v/tp))
	o.Host = s.Offload != nil && s.Offload.Head
	if s.Par.TP > 1 {
		dst = s.allGather(dst, "logits_all_gather", stream.Bytes(rows*v))
	}
	dst, o = add(dst, "sampling", Sampling)
	o.Work.Vector, o.Work.Acts = unit.FLOPs(5*rows*v), stream.Bytes(rows*v)
	return dst
}

// once sets the count of the operators from first on to 1.
func once(dst []Op, first int) []Op {
	for i := first; i < len(dst); i++ {
		dst[i].Count = 1
	}
	return dst
}
