package models

import "strings"

// scan builds a recurrent mixer of which the tensors tell the kind: Mamba, Mamba-2, a gated delta net or a short convolution.
func (x *inferred) scan(i int) (b Block, ok bool) {
	decay, conv, kernel := x.decays(i), 0, 0
	for name, shape := range x.tensors[i] {
		if strings.HasSuffix(name, "conv1d.weight") || strings.HasSuffix(name, "conv.conv.weight") {
			if len(shape) == 3 && shape[1] == 1 {
				conv, kernel = int(min(shape[0], maxSide)), int(min(shape[2], maxSide))
			}
		}
	}
	anywhere := in("mamba", "mixer", "linear_attn", "conv", "ssm", "delta")
	switch {
	case conv == 0:
		return b, false
	case len(decay) == 0:
		return x.shortConv(i, anywhere, conv, kernel)
	}
	out, found := x.matrix(i, anywhere, "out_proj", "o_proj")
	if !found {
		x.fail("the recurrence of layer %d cannot be told by its tensors: nothing leads out of it", i)
		return b, true
	}
	out.Split = Rows
	b = Block{Out: []Linear{out}}
	s := &Scan{Heads: int(decay[0]), Conv: conv, Kernel: kernel, Groups: 1}
	b.Scan = s
	switch {
	case len(decay) == 2:
		x.mamba(i, &b, int(decay[1]))
	case x.has("linear_key_head_dim"):
		x.delta(i, &b)
	case x.has("mamba_d_state") || x.has("ssm_state_size") || x.has("state_size"):
		x.mamba2(i, &b)
	default:
		x.fail("the recurrence of layer %d cannot be told: the config states neither linear_key_head_dim nor a size of states", i)
	}
	return b, true
}

// decays is the shape of the learned decays, nil for none.
func (x *inferred) decays(i int) []int64 {
	for name, shape := range x.tensors[i] {
		if strings.HasSuffix(name, "A_log") && len(shape) > 0 && shape[0] <= maxSide {
			return shape
		}
	}
	return nil
}

func (x *inferred) shortConv(i int, owner func(string) bool, conv, kernel int) (b Block, ok bool) {
	into, found := x.matrix(i, owner, "in_proj")
	out, foundOut := x.matrix(i, owner, "out_proj")
	if !found || !foundOut || into.Out != 3*conv {
		return b, false
	}
	out.Split = Rows
	return Block{
		Name: "short conv", In: []Linear{into}, Out: []Linear{out}, Extra: 0,
		Scan: &Scan{Kind: ShortConv, Heads: 1, Conv: conv, Kernel: kernel, Groups: 1},
	}, true
}

func (x *inferred) mamba(i int, b *Block, state int) {
	owner, s := in("mamba", "mixer", "ssm"), b.Scan
	b.Name, s.Kind, s.Heads, s.HeadDim, s.StateDim = "mamba", Mamba1, 1, s.Heads, state
	for _, name := range []string{"in_proj", "x_proj", "dt_proj"} {
		l, found := x.matrix(i, owner, name)
		if !found {
			x.fail("the recurrence of layer %d cannot be told by its tensors: it has no %s", i, name)
			return
		}
		if name == "x_proj" {
			l.Split = Rows
		}
		b.In = append(b.In, l)
	}
	delete(x.left, b.Name+".A_log")
	for name, shape := range x.tensors[i] {
		if strings.HasSuffix(name, "A_log") && x.left[name] {
			delete(x.left, name)
			b.Extra += elements(shape)
		}
	}
}

func (x *inferred) mamba2(i int, b *Block) {
	s := b.Scan
	b.Name, s.Kind = "mamba2", Mamba2
	for _, name := range []string{"mamba_d_state", "ssm_state_size", "state_size"} {
		if x.has(name) {
			s.StateDim = x.size(name)
			break
		}
	}
	inner := b.Out[0].In
	s.HeadDim = x.divide(inner, s.Heads, "the width of the recurrence", "its heads")
	s.Groups = max(x.divide(s.Conv-inner, max(2*s.StateDim, 1), "the channels of states", "twice the size of states"), 1)
	s.Chunk = x.countOr("mamba_chunk_size", x.countOr("chunk_size", 0))
	into, found := x.matrix(i, in("mamba", "mixer", "ssm"), "in_proj")
	if !found || into.Out != inner+s.Conv+s.Heads {
		x.fail("the recurrence of layer %d cannot be told by its tensors: it has no in_proj of %d outputs", i, inner+s.Conv+s.Heads)
	}
	into.Heads, b.Out[0].Heads, b.In = s.Heads, s.Heads, []Linear{into}
	if n := x.vector(i, "mamba.norm.weight") + x.vector(i, "mixer.norm.weight"); n > 0 {
		b.Norms = append(b.Norms, scaleOnly.norm("norm", n, 1))
	}
}

// delta builds a gated delta net, whose projections are in one matrix or in several.
func (x *inferred) delta(i int, b *Block) {
	s, owner := b.Scan, in("linear_attn", "delta")
	b.Name, s.Kind, s.StateDim = "linear attention", GatedDelta, x.size("linear_key_head_dim")
	values := b.Out[0].In
	s.HeadDim = x.divide(values, s.Heads, "the values of linear attention", "its heads")
	keys := (s.Conv - values) / 2
	s.Groups = max(x.divide(keys, s.StateDim, "the keys of linear attention", "linear_key_head_dim"), 1)
	total := 0
	for _, name := range []string{"in_proj_qkvz", "in_proj_qkv", "in_proj_z", "in_proj_ba", "in_proj_b", "in_proj_a", "in_proj"} {
		if l, found := x.matrix(i, owner, name); found {
			total += l.Out
		}
	}
	if total != 2*keys+2*values+2*s.Heads {
		x.fail("the linear attention of layer %d cannot be told by its tensors: %d outputs are no queries, keys, values and gates", i, total)
		return
	}
	b.In = []Linear{
		{Name: "in_proj_qkvz", In: x.hidden, Out: 2*keys + 2*values, Heads: s.Groups},
		{Name: "in_proj_ba", In: x.hidden, Out: 2 * s.Heads, Heads: s.Groups},
	}
	b.Out[0].Heads = s.Groups
	b.Norms = append(b.Norms, scaleOnly.norm("norm", x.vector(i, "linear_attn.norm.weight"), s.Heads))
}
