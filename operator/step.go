package operator

import (
	"strings"

	"llmprof/models"
	"llmprof/roofline"
	"llmprof/unit"
)

// A Step is one forward pass of one replica: each of Batch sequences gains New
// tokens after the Past ones it has. Nothing else distinguishes prefill from decode.
type Step struct {
	Shard
	Batch  float64
	New    float64
	Past   float64
	Logits float64 // positions of a sequence that the LM head runs on
	Cache  float64 // longest context of the sequences: positions of a cache of fixed length

	Drafted bool    // New tokens were drafted, and are verified as a decode step does one
	Groups  []Group // of a mixed step, whose New, Past and Logits are means; nil where all sequences are alike
}

// Decode reports whether the step adds one token, or drafted ones, to sequences that have some.
func (s *Step) Decode() bool { return s.splitsKeys() && s.Past > 0 }

// splitsKeys reports whether attention splits the keys over the GPU (FlashDecoding), for
// there are too few queries to fill it.
func (s *Step) splitsKeys() bool { return s.New == 1 || s.Drafted }

// Tokens is how many rows every projection has.
func (s *Step) Tokens() float64 { return s.Batch * s.New }

// A Part of a step is a run of operators that one stage of a pipeline does together:
// what comes before the layers, the layers of one kind, or what comes after them.
type Part uint8

// The parts.
const (
	PartFirst Part = iota // embedding
	PartLayers
	PartLast // final norm, LM head, sampling
)

// AppendOps appends the operators of the step to dst, in the order in which the
// model runs them.
func (s *Step) AppendOps(dst []Op) []Op {
	dst = s.AppendFirst(dst)
	for i := range s.Model.Layers {
		dst = s.AppendLayer(dst, &s.Model.Layers[i])
	}
	return s.AppendLast(s.AppendHops(dst))
}

// AppendLayer appends the operators of the layers of one kind.
func (s *Step) AppendLayer(dst []Op, l *models.Layer) []Op {
	first := len(dst)
	for j := range l.Blocks {
		b, begin := &l.Blocks[j], len(dst)
		dst = s.before(dst, b)
		dst = s.core(dst, b)
		dst = s.after(dst, b, joined(l, j))
		for k := begin; k < len(dst); k++ {
			dst[k].Block = b
		}
	}
	for k := first; k < len(dst); k++ {
		dst[k].Layer, dst[k].Count = l.Name, float64(l.Count)
	}
	return dst
}

// joined reports whether the next block adds to the same sum as block j.
func joined(l *models.Layer, j int) bool { return j+1 < len(l.Blocks) && l.Blocks[j+1].Parallel }

// before appends norms, the products into the block, and what is done to their
// outputs token by token.
func (s *Step) before(dst []Op, b *models.Block) []Op {
	dst = s.norms(dst, b, b.Norms, inputNorm)
	dst = s.linears(dst, Product, s.Dense, b.In, s.Tokens(), s.Par.TP)
	dst = s.norms(dst, b, b.Norms, innerNorm)
	switch {
	case b.Attention != nil:
		dst = s.rotary(dst, b)
	case b.Activation.Width > 0:
		return s.activation(dst, NonLinear, &b.Activation, s.Tokens(), s.Par.TP)
	}
	if b.Experts != nil {
		return s.router(dst, b.Experts)
	}
	return dst
}

// core appends what does not grow with the tokens alone: attention, whose work
// depends on the context; scans, whose state moves once a step; experts, of
// which more tokens touch more.
func (s *Step) core(dst []Op, b *models.Block) []Op {
	dst = s.mix(dst, b)
	if b.Experts != nil {
		dst = s.routed(dst, b.Experts)
	}
	return dst
}

// after appends the products out of the block, the sum over the ranks, and the norm
// of that sum.
func (s *Step) after(dst []Op, b *models.Block, joined bool) []Op {
	dst = s.linears(dst, Product, s.Dense, b.Out, s.Tokens(), s.Par.TP)
	if e := b.Experts; e != nil && e.Shared != nil {
		dst = s.shared(dst, e.Shared)
	}
	if s.Par.TP > 1 && !joined {
		dst = s.sum(dst, b)
	}
	return s.norms(dst, b, b.Norms, outputNorm)
}

// sum appends the sum of a block's output over the ranks.
func (s *Step) sum(dst []Op, b *models.Block) []Op {
	hidden := s.Bytes(s.Tokens() * float64(s.Model.Hidden))
	if e := b.Experts; e != nil && s.Par.EP > 1 && e.Shared == nil && b.Attention == nil {
		return s.allGather(dst, "all_gather", hidden) // the combined tokens go back to every rank
	}
	return s.allReduce(dst, "all_reduce", hidden)
}

// outputNorm reports whether a norm is one of the block's output, as Gemma 2 and
// OLMo 2 have them.
func outputNorm(b *models.Block, n *models.Norm) bool {
	if b.Attention != nil {
		return n.Name == "post_attention_layernorm"
	}
	return n.Name == "post_feedforward_layernorm"
}

// innerNorm reports whether a norm is one of queries, keys or the vectors that these
// are expanded from, as OLMo 2 and DeepSeek have them.
func innerNorm(_ *models.Block, n *models.Norm) bool {
	return strings.HasPrefix(n.Name, "q_") || strings.HasPrefix(n.Name, "k_") || strings.HasPrefix(n.Name, "kv_")
}

// inputNorm reports whether a norm is one of the block's input.
func inputNorm(b *models.Block, n *models.Norm) bool { return !outputNorm(b, n) && !innerNorm(b, n) }

// linears appends one GEMM for each run of matrices that read the same input,
// as engines fuse q, k and v, or gate and up.
//
//	FLOPs = 2·rows·in·out, bytes = in·out·w + rows·(in + out)·a
func (s *Step) linears(dst []Op, t Type, f *models.Scheme, ls []models.Linear, rows float64, tp int) []Op {
	for i := 0; i < len(ls); {
		j := i + 1
		for j < len(ls) && ls[j].In == ls[i].In && ls[j].Split == ls[i].Split && f.ActOf(&ls[j]) == f.ActOf(&ls[i]) {
			j++
		}
		dst = append(dst, s.gemm(t, f, ls[i:j], rows, tp))
		i = j
	}
	return dst
}

// gemm is the fused product of rows rows with all of ls, on the share of them
// that one of tp ranks has.
func (s *Step) gemm(t Type, f *models.Scheme, ls []models.Linear, rows float64, tp int) Op {
	var local, whole, out float64
	var weights unit.Bytes
	in, act := float64(ls[0].In), f.ActOf(&ls[0])
	if ls[0].Split == models.Rows {
		in /= float64(max(ls[0].Parts(tp), 1))
	}
	for i := range ls {
		values, outputs := ls[i].Share(tp)
		all, _ := ls[i].Share(1)
		local, whole, out = local+values, whole+all, out+outputs
		weights += f.ShareBytes(s.Model, &ls[i], tp)
	}
	stream := f.Stream()
	return Op{
		Name: fusedName(ls), Type: t, Format: act, Scheme: productScheme(f), Model: unit.FLOPs(2 * rows * whole),
		Shape: roofline.Shape{M: rows, N: out, K: in, Matrices: float64(len(ls))},
		Work: roofline.Work{
			FLOPs:   unit.FLOPs(2 * rows * local),
			Weights: weights,
			Acts:    act.Bytes(rows*in) + stream.Bytes(rows*out),
		},
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

// norms appends those norms of the residual stream that are wanted (nil wants all), each with the
// residual sum fused to it: two tensors read and two written.
func (s *Step) norms(dst []Op, b *models.Block, norms []models.Norm, wanted func(*models.Block, *models.Norm) bool) []Op {
	t := s.Tokens()
	if s.Par.SP {
		t /= float64(s.Par.TP)
	}
	for i := range norms {
		n := &norms[i]
		if n.PerHead || wanted != nil && !wanted(b, n) {
			continue
		}
		w := float64(n.Width)
		dst = append(dst, Op{
			Name: n.Name, Type: Norm, Norms: norms[i : i+1], Shape: roofline.Shape{M: t, N: w},
			Work: roofline.Work{Vector: unit.FLOPs(5 * t * w), Acts: s.Bytes(4 * t * w), Weights: s.Bytes(float64(n.Params))},
		})
	}
	return dst
}

// AppendFirst appends the gather of the rows of the embedding that the tokens name:
// a read of those rows, not of the table.
func (s *Step) AppendFirst(dst []Op) []Op {
	m, t, w := s.Model, s.Tokens(), float64(s.Model.Embedding.Width)
	rows := w
	if m.Embedding.Positions > 0 {
		rows += float64(m.Hidden)
	}
	first := len(dst)
	dst = append(dst, Op{Name: "embedding", Type: Embedding, Work: roofline.Work{Weights: s.Bytes(t * rows), Acts: s.Bytes(t * w)}})
	if len(m.Embedding.Project) > 0 {
		dst = s.linears(dst, Product, s.Plain, m.Embedding.Project[:1], t, 1)
	}
	dst = s.norms(dst, nil, m.Embedding.Norms, nil)
	if s.Par.TP > 1 {
		dst = s.allReduce(dst, "embedding_all_reduce", s.Bytes(t*w))
	}
	return once(dst, first)
}

// AppendLast appends what comes after the layers: the final norm, and the LM head on
// Logits positions of each sequence with the choice of the next token. Ranks hold a
// part of the vocabulary each.
func (s *Step) AppendLast(dst []Op) []Op {
	first := len(dst)
	dst = s.norms(dst, nil, s.Model.FinalNorms, nil)
	if s.Logits > 0 {
		dst = s.head(dst)
	}
	return once(dst, first)
}

// head appends the LM head and sampling.
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
	act := s.Plain.ActOf(matrix)
	dst = append(dst, Op{
		Name: "lm_head", Type: Head, Format: act, Model: unit.FLOPs(2 * rows * n),
		Shape: roofline.Shape{M: rows, N: v / tp, K: float64(m.Head.In), Matrices: 1},
		Work: roofline.Work{
			FLOPs: unit.FLOPs(2 * rows * n / tp), Weights: s.Plain.MatrixBytes(matrix, n/tp, v/tp), Acts: stream.Bytes(rows * (float64(m.Head.In) + v/tp)),
		},
	})
	if s.Par.TP > 1 {
		dst = s.allGather(dst, "logits_all_gather", stream.Bytes(rows*v))
	}
	return append(dst, Op{
		Name: "sampling", Type: Sampling, Work: roofline.Work{Vector: unit.FLOPs(5 * rows * v), Acts: stream.Bytes(rows * v)},
	})
}

// once marks the operators from first on as those that the model has one of.
func once(dst []Op, first int) []Op {
	for i := first; i < len(dst); i++ {
		dst[i].Count = 1
	}
	return dst
}
