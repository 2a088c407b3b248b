package operator

import "llmprof/models"

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
	if len(groups) > 1 {
		st.Groups = groups
	}
	return st
}

// Decodes reports whether the sequences of a group decode.
func (g *Group) Decodes() bool { return g.New == g.Logits }
