package operator

import "llmprof/models"

// A Step is one forward pass of one replica: each of Batch sequences has Past tokens and
// gains New ones. Nothing else distinguishes prefill from decode.
// Through its Rank a step has the Model, its split Par, and the formats
// Scheme, Dense and Plain.
type Step struct {
	Rank
	Batch  float64
	New    float64
	Past   float64
	Logits float64 // positions of a sequence that the LM head runs on
	Cache  float64 // longest context of the sequences, which is the length of a cache of fixed length

	EPTokens float64 // tokens of all replicas that share the experts; 0 if each replica has as many as this one

	Encoded float64 // requests that the encoders run for

	Prompt  bool    // the tokens are of prompts, even where each sequence adds one
	Drafted bool    // speculative decoding: the New tokens are drafted ones, which a decode step verifies
	Groups  []Group // groups of sequences, whose means New, Past and Logits are then; nil if all sequences are alike
}

// Decode reports whether the step adds one token, or drafted tokens, to sequences with a context.
func (s *Step) Decode() bool { return s.splitsKeys() && s.Past > 0 }

// splitsKeys reports whether attention splits the keys over the GPU (FlashDecoding), because
// there are too few queries to fill it. A prompt of one token, and a chunk of one, have the kernels of longer ones.
func (s *Step) splitsKeys() bool { return s.New == 1 && s.Past > 0 && !s.Prompt || s.Drafted }

// Tokens is the number of rows that every projection has.
func (s *Step) Tokens() float64 { return s.Batch * s.New }

// A Part of a step is the operators before the layers, those of the layers of one kind, or those
// after the layers. One stage of a pipeline does a layer whole.
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
	if l.Idle {
		return dst
	}
	for j := range l.Blocks {
		b, begin := &l.Blocks[j], len(dst)
		dst = s.before(dst, b)
		dst = s.core(dst, b)
		dst = s.after(dst, b, joined(l, j))
		for k := begin; k < len(dst); k++ {
			dst[k].place(l, j)
		}
		s.setHosted(dst[begin:], l)
	}
	return dst
}

// place says that the operator belongs to block j of a kind of layer.
func (o *Op) place(l *models.Layer, j int) {
	o.Layer, o.Count, o.Block, o.At = l.Name, float64(l.Count), &l.Blocks[j], uint8(j)
}

// joined reports whether the next block is summed over the ranks together with block j.
func joined(l *models.Layer, j int) bool { return j+1 < len(l.Blocks) && l.Blocks[j+1].Joined }

// before appends the norms, the GEMMs into the block, and the element-wise operators on
// their outputs.
func (s *Step) before(dst []Op, b *models.Block) []Op {
	dst = s.norms(dst, b, b.Norms, inputNorm)
	dst = s.linears(dst, Product, s.Dense, b.In, s.Tokens(), s.Par.TP)
	dst = s.varianceSum(s.norms(dst, b, b.Norms, innerNorm), b)
	switch {
	case b.Attention != nil:
		dst = s.rotary(dst, b)
	case b.Activation.Width > 0:
		return s.activation(dst, NonLinear, &b.Activation, s.Tokens(), s.Par.TP)
	}
	if b.Experts != nil {
		return s.router(dst, b.Experts)
	}
	return s.partialSums(dst, b)
}

// partialSums appends the sums over the ranks of products into the block whose inputs are split, as Mamba's x_proj is
// (vllm/model_executor/layers/mamba/mamba_mixer.py).
func (s *Step) partialSums(dst []Op, b *models.Block) []Op {
	for i := range b.In {
		if l := &b.In[i]; l.Split == models.Rows && s.Par.TP > 1 {
			dst = s.allReduce(dst, l.Name+"_all_reduce", s.Bytes(s.Tokens()*float64(l.Out)))
		}
	}
	return dst
}

// core appends the operators whose work does not follow from the number of tokens alone: attention
// depends on the context, the state of scans moves once a step, and more tokens are sent to
// more distinct experts.
func (s *Step) core(dst []Op, b *models.Block) []Op {
	dst = s.mix(dst, b)
	if b.Experts != nil {
		dst = s.routed(dst, b.Experts)
	}
	return dst
}

// after appends the GEMMs out of the block, the sum over the ranks, and the norm of the
// sum.
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

// sum appends the collective that sums a block's output over the ranks.
func (s *Step) sum(dst []Op, b *models.Block) []Op {
	hidden := s.Bytes(s.Tokens() * float64(s.Model.Hidden))
	if e := b.Experts; e != nil && s.Par.ExpertReplicas() > 1 && !s.Par.GathersTokens() && e.Shared == nil && b.Attention == nil {
		return s.allGather(dst, "all_gather", hidden) // the combined tokens go back to every rank
	}
	return s.allReduce(dst, "all_reduce", hidden)
}

// A Group is the sequences of a step that gain the same number of tokens: the decoding
// sequences, or chunks of prompts. A step of continuous batching has several groups.
type Group struct {
	Batch   float64 // sequences
	New     float64 // tokens that each sequence gains
	Past    float64 // mean number of tokens that they have
	Logits  float64 // positions of a sequence that the LM head runs on
	Drafted bool    // New tokens were drafted, and are verified together
}

// mix appends the operators that mix the tokens of a sequence: attention, or a scan. For GEMMs,
// norms and experts the tokens of all groups are rows of one matrix; here each group has its own
// context. Groups that take the same kernels share operators, for a kernel takes sequences of
// various lengths.
func (s *Step) mix(dst []Op, b *models.Block) []Op {
	if len(s.Groups) == 0 {
		return s.mixOne(dst, b)
	}
	previous := len(dst)
	for i := range s.Groups {
		one, first := *s, len(dst)
		g := &s.Groups[i]
		one.Groups, one.Batch, one.New, one.Past, one.Drafted = nil, g.Batch, g.New, g.Past, g.Drafted
		dst = one.mixOne(dst, b)
		if joined := join(dst[previous:first], dst[first:]); joined {
			dst = dst[:first]
			continue
		}
		previous = first
	}
	return dst
}

// mixOne appends the operators that mix the tokens of one group.
func (s *Step) mixOne(dst []Op, b *models.Block) []Op {
	switch {
	case b.Attention != nil:
		return s.attention(dst, b)
	case b.Scan != nil:
		return s.scan(dst, b.Scan)
	}
	return dst
}

// join adds operators to those of an earlier group if the same kernels do them.
func join(earlier, ops []Op) bool {
	if len(earlier) != len(ops) {
		return false
	}
	for i := range ops {
		if earlier[i].Name != ops[i].Name || earlier[i].Type != ops[i].Type || earlier[i].Decode != ops[i].Decode {
			return false
		}
	}
	for i := range ops {
		e, o := &earlier[i], &ops[i]
		weights := o.Work.Weights // read once for all groups
		e.Work.Add(&o.Work, 1)
		e.Work.Weights -= weights
		e.Model += o.Model
		e.Shape.M += o.Shape.M
		if o.Type == ChunkedScan { // sequences run side by side, and the chunks of a sequence one after the other
			e.Shape.Tiles = max(e.Shape.Tiles, o.Shape.Tiles)
		} else {
			e.Shape.Tiles += o.Shape.Tiles
		}
	}
	return true
}

// Mixed is a step of several groups.
func (r *Rank) Mixed(groups []Group) Step {
	st := r.Step(0, 0, 0, 0)
	var tokens, past, logits float64
	st.Drafted = true
	for i := range groups {
		g := &groups[i]
		st.Batch += g.Batch
		tokens += g.Batch * g.New
		past += g.Batch * g.Past
		logits += g.Batch * g.Logits
		st.Drafted = st.Drafted && g.Drafted
	}
	st.New, st.Past, st.Logits = tokens/st.Batch, past/st.Batch, logits/st.Batch
	st.Encoded = encoded(r.Encoders, groups)
	if len(groups) > 1 {
		st.Groups = groups
	}
	return st
}

// Decodes reports whether the sequences of a group decode.
func (g *Group) Decodes() bool { return g.New == g.Logits }
