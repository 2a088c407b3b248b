package analytic

import (
	"llmprof/models"
	"llmprof/unit"
)

// AppendOps appends the operators of the step to dst, in the order in which the
// model runs them.
func (s *Step) AppendOps(dst []Op, m *models.Model) []Op {
	dst = s.embedding(dst, m)
	for i := range m.Layers {
		l := &m.Layers[i]
		first := len(dst)
		for j := range l.Blocks {
			b, block := &l.Blocks[j], len(dst)
			dst = s.before(dst, b)
			dst = s.core(dst, m, b)
			dst = s.after(dst, m, b, joined(l, j))
			s.inMixture(dst[block:], l, j)
		}
		inLayer(dst[first:], l)
	}
	dst = s.hops(dst, m)
	dst = s.finalNorm(dst, m)
	return s.head(dst, m)
}

// inLayer marks operators as those of a kind of layer.
func inLayer(ops []Op, l *models.Layer) {
	for k := range ops {
		ops[k].Layer, ops[k].Layers = l.Name, float64(l.Count)
	}
}

// joined reports whether the next block adds to the same sum as block j.
func joined(l *models.Layer, j int) bool { return j+1 < len(l.Blocks) && l.Blocks[j+1].Parallel }

// before appends norms, the products into the block, and what is done to their
// outputs token by token.
func (s *Step) before(dst []Op, b *models.Block) []Op {
	first := len(dst)
	dst = s.streamNorms(dst, b.Norms)
	if len(dst) > first {
		dst[first].Ride = s.ahead(b)
	}
	dst = s.linears(dst, s.Dense, b.In, s.tokens(), s.Par.TP)
	switch {
	case b.Attention != nil:
		dst = s.rotary(dst, b)
	case b.Activation.Width > 0:
		return s.activation(dst, &b.Activation, s.tokens(), s.Par.TP, behindProduct)
	}
	if b.Experts != nil {
		return s.router(dst, b.Experts)
	}
	return dst
}

// core appends what does not grow with the tokens alone: attention, whose work
// depends on the context; scans, whose state moves once a step; experts, of
// which more tokens touch more.
func (s *Step) core(dst []Op, m *models.Model, b *models.Block) []Op {
	switch {
	case b.Attention != nil:
		dst = s.attention(dst, b)
	case b.Scan != nil:
		return s.scan(dst, b.Scan)
	}
	if b.Experts != nil {
		dst = s.routed(dst, m, b.Experts)
	}
	return dst
}

// after appends the products out of the block and the sum over the ranks.
func (s *Step) after(dst []Op, m *models.Model, b *models.Block, joined bool) []Op {
	dst = s.linears(dst, s.Dense, b.Out, s.tokens(), s.Par.TP)
	e := b.Experts
	if e != nil && e.Shared != nil {
		dst = s.shared(dst, e.Shared)
	}
	if s.Par.TP == 1 || joined {
		return dst
	}
	hidden := s.acts(s.tokens() * float64(m.Hidden))
	if e != nil && s.Par.EP > 1 && e.Shared == nil && b.Attention == nil {
		return s.allGather(dst, "all_gather", hidden) // the combined tokens go back to every rank
	}
	dst = s.allReduce(dst, "all_reduce", hidden)
	if e == nil && !s.Par.SP {
		dst[len(dst)-1].Ride = sumInProduct
	}
	return dst
}

// linears appends one GEMM for each run of matrices that read the same input,
// as engines fuse q, k and v, or gate and up.
//
//	FLOPs = 2·rows·in·out, bytes = in·out·w + rows·(in + out)·a
func (s *Step) linears(dst []Op, f *Scheme, ls []models.Linear, rows float64, tp int) []Op {
	for i := 0; i < len(ls); {
		j := i + 1
		for j < len(ls) && ls[j].In == ls[i].In && ls[j].Split == ls[i].Split {
			j++
		}
		dst = append(dst, s.gemm(f, ls[i:j], rows, tp))
		i = j
	}
	return dst
}

// gemm is the fused product of rows rows with all of ls, on the share of them
// that one of tp ranks has.
func (s *Step) gemm(f *Scheme, ls []models.Linear, rows float64, tp int) Op {
	var local, whole, out, bias float64
	in := float64(ls[0].In)
	for i := range ls {
		l := &ls[i]
		times := float64(max(l.Times, 1))
		n := float64(l.In) * float64(l.Out) * times
		cut := float64(max(parts(l, tp), 1))
		whole += n
		local += n / cut
		outputs := float64(l.Out) * times
		if l.Split == models.Columns {
			outputs /= cut
		}
		out += outputs
		if l.Bias {
			bias += outputs
		}
		if i == 0 && l.Split == models.Rows {
			in /= cut
		}
	}
	stream := f.stream()
	return Op{
		Name: fusedName(ls), Kind: GEMM, Format: f.Act,
		FLOPs: unit.FLOPs(2 * rows * local), Model: unit.FLOPs(2 * rows * whole),
		Weights: f.weightBytes(local, out) + stream.Bytes(bias),
		Acts:    f.Act.Bytes(rows*in) + stream.Bytes(rows*out),
		Unfused: f.Act.Bytes(rows*in*float64(len(ls))) + stream.Bytes(rows*out), // each reads the input for itself
		Kernels: 1, Eager: float64(len(ls)), Ride: ownProduct, Rows: rows,
	}
}

// fusedName names a fused product as engines do.
func fusedName(ls []models.Linear) string {
	first, last := ls[0].Name, ls[len(ls)-1].Name
	switch {
	case len(ls) == 1:
		return first
	case first == "q_proj":
		return "qkv_proj"
	case first == "gate_proj" && last == "up_proj":
		return "gate_up_proj"
	case first == "q_a_proj":
		return "qkv_a_proj"
	}
	return first
}

// streamNorms appends the norms of the residual stream, each with the residual
// sum fused to it: two tensors read and two written.
func (s *Step) streamNorms(dst []Op, norms []models.Norm) []Op {
	t := s.tokens()
	if s.Par.SP {
		t /= float64(s.Par.TP)
	}
	for i := range norms {
		n := &norms[i]
		if n.PerHead {
			continue
		}
		w := float64(n.Width)
		launches, moved := s.unfusedNorm(n)
		dst = append(dst, Op{
			Name: n.Name, Kind: Element,
			Vector: unit.FLOPs(5 * t * w), Acts: s.acts(4 * t * w), Weights: s.acts(float64(n.Params)),
			Kernels: 1, Eager: launches + 1, Unfused: moved.Times(t*w) + s.acts(3*t*w), // the residual sum: two read, one written
		})
	}
	return dst
}

// embedding appends the gather of the rows that the tokens name: a read of those
// rows, not of the table.
func (s *Step) embedding(dst []Op, m *models.Model) []Op {
	t, w := s.tokens(), float64(m.Embedding.Width)
	rows := w
	if m.Embedding.Positions > 0 {
		rows += float64(m.Hidden)
	}
	dst = append(dst, Op{
		Name: "embedding", Layers: 1, Kind: Element,
		Weights: s.acts(t * rows), Acts: s.acts(t * w), Kernels: 1, Eager: 1,
	})
	first := len(dst)
	if len(m.Embedding.Project) > 0 {
		dst = s.linears(dst, s.Plain, m.Embedding.Project[:1], t, 1)
	}
	dst = s.streamNorms(dst, m.Embedding.Norms)
	if s.Par.TP > 1 {
		dst = s.allReduce(dst, "embedding_all_reduce", s.acts(t*w))
	}
	return once(dst, first)
}

// finalNorm appends the norm after the last layer.
func (s *Step) finalNorm(dst []Op, m *models.Model) []Op {
	first := len(dst)
	dst = once(s.streamNorms(dst, m.FinalNorms), first)
	if n := len(dst); n > first && !s.Par.SP && len(m.Embedding.Project) < 2 { // OPT projects ahead of the head
		dst[n-1].Ride = aheadOfHead
	}
	return dst
}

// head appends the LM head on Logits positions of each sequence and the choice
// of the next token among its scores. Ranks hold a part of the vocabulary each.
func (s *Step) head(dst []Op, m *models.Model) []Op {
	rows := s.Batch * s.Logits
	if rows == 0 {
		return dst
	}
	first := len(dst)
	v, tp := float64(m.Head.Out), float64(s.Par.TP)
	stream := s.Scheme.stream()
	if len(m.Embedding.Project) > 1 {
		dst = s.linears(dst, s.Plain, m.Embedding.Project[1:], rows, 1)
	}
	n := float64(m.Head.In) * v
	dst = append(dst, Op{
		Name: "lm_head", Kind: GEMM, Format: stream,
		FLOPs: unit.FLOPs(2 * rows * n / tp), Model: unit.FLOPs(2 * rows * n),
		Weights: stream.Bytes(n / tp), Acts: stream.Bytes(rows * (float64(m.Head.In) + v/tp)),
		Kernels: 1, Eager: 1, Ride: ownHead, Rows: rows,
	})
	if s.Par.TP > 1 {
		dst = s.allGather(dst, "logits_all_gather", stream.Bytes(rows*v))
	}
	dst = append(dst, Op{
		Name: "sampling", Kind: Element, Vector: unit.FLOPs(5 * rows * v),
		Acts: stream.Bytes(rows * v), Kernels: 1, Eager: 4,
	})
	return once(dst, first)
}

// once marks the operators from first on as those that the model has one of.
func once(dst []Op, first int) []Op {
	for i := first; i < len(dst); i++ {
		dst[i].Layers = 1
	}
	return dst
}
