package models

import "llmprof/unit"

// mamba1Scan builds the selective scan of Mamba (arXiv:2312.00752, figure 3).
func mamba1Scan(r *reader, _ kind) []Block {
	inner := r.mambaInner()
	state, kernel := r.size("mamba_d_state"), r.size("mamba_d_conv")
	rank := r.timeStepRank()
	bias := r.flag("mamba_proj_bias")
	b := Block{
		Name: "mamba",
		In: []Linear{
			{Name: "in_proj", In: r.hidden, Out: 2 * inner, Bias: bias},
			{Name: "x_proj", In: inner, Out: rank + 2*state, Split: Rows},
			{Name: "dt_proj", In: rank, Out: inner, Bias: true},
		},
		Scan: &Scan{Kind: Mamba1, Heads: 1, HeadDim: inner, StateDim: state, Groups: 1, Conv: inner, Kernel: kernel},
		Out:  []Linear{{Name: "out_proj", In: inner, Out: r.hidden, Bias: bias, Split: Rows}},
	}
	b.Extra = r.convParams(inner, kernel, "mamba_conv_bias") + int64(inner)*int64(state) + int64(inner)
	return []Block{b}
}

// mambaInner reads the width of a Mamba mixer, a multiple of the stream's.
func (r *reader) mambaInner() int {
	if r.has("mamba_d_ssm") {
		return r.size("mamba_d_ssm")
	}
	return r.size("mamba_expand") * r.hidden
}

// timeStepRank reads the rank of Mamba's time step, "auto" being hidden/16 rounded up.
func (r *reader) timeStepRank() int {
	if v, _, _ := r.look("mamba_dt_rank"); v == nil || v == "auto" {
		return (r.hidden + 15) / 16
	}
	return r.size("mamba_dt_rank")
}

// convParams counts the weights of a causal convolution of each channel by itself.
func (r *reader) convParams(channels, kernel int, bias toggle) int64 {
	n := int64(channels) * int64(kernel)
	if r.on(bias) {
		n += int64(channels)
	}
	return n
}

// mamba2Scan builds the scan of Mamba-2 (arXiv:2405.21060, figure 6) with a
// gated norm before its output.
func mamba2Scan(r *reader, _ kind) []Block {
	b := r.mamba2()
	s := b.Scan
	b.Norms = append(b.Norms, scaleOnly.norm("norm", s.Heads*s.HeadDim, 1))
	return []Block{b}
}

func (r *reader) mamba2() Block {
	heads := r.size("mamba_n_heads")
	var dim int
	if v, _, _ := r.look("mamba_d_head"); v == nil || v == "auto" {
		dim = r.divide(r.mambaInner(), heads, "mamba_d_ssm", "mamba_n_heads")
	} else {
		dim = r.size("mamba_d_head")
	}
	inner := heads * dim
	s := Scan{
		Kind: Mamba2, Heads: heads, HeadDim: dim, StateDim: r.size("mamba_d_state"), Groups: r.size("mamba_n_groups"),
		Kernel: r.size("mamba_d_conv"), Chunk: r.countOr("mamba_chunk_size", 0),
	}
	r.divide(heads, s.Groups, "mamba_n_heads", "mamba_n_groups")
	s.Conv = inner + 2*s.Groups*s.StateDim
	s.StateFormat = r.stateFormat("mamba_ssm_cache_dtype")
	bias := r.flag("mamba_proj_bias")
	return Block{
		Name:  "mamba2",
		In:    []Linear{{Name: "in_proj", In: r.hidden, Out: inner + s.Conv + heads, Bias: bias, Heads: heads}},
		Scan:  &s,
		Out:   []Linear{{Name: "out_proj", In: inner, Out: r.hidden, Bias: bias, Split: Rows, Heads: heads}},
		Extra: r.convParams(s.Conv, s.Kernel, "mamba_conv_bias") + 3*int64(heads),
	}
}

// stateFormat reads the format of recurrent states, NoFormat for that of the model.
func (r *reader) stateFormat(field string) unit.Format {
	if r.text(field) == "float32" {
		return unit.FP32
	}
	return unit.NoFormat
}

// gatedDelta builds the gated delta rule (arXiv:2412.06464) as Qwen3-Next has it.
func gatedDelta(r *reader, _ kind) []Block {
	s := Scan{
		Kind: GatedDelta, Heads: r.size("linear_num_value_heads"), HeadDim: r.size("linear_value_head_dim"),
		StateDim: r.size("linear_key_head_dim"), Groups: r.size("linear_num_key_heads"), Kernel: r.size("linear_conv_kernel_dim"),
	}
	s.StateFormat = r.stateFormat("mamba_ssm_dtype")
	r.divide(s.Heads, s.Groups, "linear_num_value_heads", "linear_num_key_heads")
	keys, values := s.Groups*s.StateDim, s.Heads*s.HeadDim
	s.Conv = 2*keys + values
	return []Block{{
		Name:  "linear attention",
		Norms: []Norm{scaleOnly.norm("norm", s.HeadDim, s.Heads)},
		In: []Linear{
			{Name: "in_proj_qkvz", In: r.hidden, Out: 2*keys + 2*values, Heads: s.Groups},
			{Name: "in_proj_ba", In: r.hidden, Out: 2 * s.Heads, Heads: s.Groups},
		},
		Scan:  &s,
		Out:   []Linear{{Name: "out_proj", In: values, Out: r.hidden, Split: Rows, Heads: s.Groups}},
		Extra: int64(s.Conv)*int64(s.Kernel) + 2*int64(s.Heads),
	}}
}

func shortConv(r *reader, _ kind) []Block {
	bias := r.flag("conv_bias")
	kernel := r.size("conv_L_cache")
	return []Block{{
		Name:  "short conv",
		In:    []Linear{{Name: "in_proj", In: r.hidden, Out: 3 * r.hidden, Bias: bias}},
		Scan:  &Scan{Kind: ShortConv, Heads: 1, Conv: r.hidden, Kernel: kernel, Groups: 1},
		Out:   []Linear{{Name: "out_proj", In: r.hidden, Out: r.hidden, Bias: bias, Split: Rows}},
		Extra: r.convParams(r.hidden, kernel, "conv_bias"),
	}}
}

// lightning builds the linear attention with decay of MiniMax-01
// (arXiv:2501.08313, section 2.2).
func lightning(r *reader, k kind) []Block {
	a := r.heads(k)
	inner := a.Heads * a.KeyDim
	return []Block{{
		Name:  "linear attention",
		Norms: []Norm{scaleOnly.norm("norm", inner, 1)},
		In: []Linear{
			{Name: "qkv_proj", In: r.hidden, Out: 3 * inner, Heads: a.Heads},
			{Name: "output_gate", In: r.hidden, Out: inner, Heads: a.Heads},
		},
		Scan: &Scan{Kind: Linear1, Heads: a.Heads, HeadDim: a.KeyDim, StateDim: a.KeyDim, Groups: a.Heads, Chunk: r.countOr("block_size", 0)},
		Out:  []Linear{{Name: "out_proj", In: inner, Out: r.hidden, Split: Rows, Heads: a.Heads}},
	}}
}

// recurrent builds the gated linear recurrence of Griffin (arXiv:2402.19427,
// section 2.4), whose two gates are block-diagonal matrices.
func recurrent(r *reader, _ kind) []Block {
	width := r.sizeOr("lru_width", r.hidden)
	heads := r.size("num_attention_heads")
	side := r.divide(width, heads, "lru_width", "num_attention_heads")
	kernel := r.size("conv1d_width")
	return []Block{{
		Name: "linear rnn",
		In: []Linear{
			{Name: "linear_x", In: r.hidden, Out: width, Bias: true, Heads: heads},
			{Name: "linear_y", In: r.hidden, Out: width, Bias: true, Heads: heads},
			{Name: "gates", In: side, Out: side, Bias: true, Times: 2 * heads, Heads: heads},
		},
		Scan:  &Scan{Kind: LinearRNN, Heads: 1, HeadDim: width, StateDim: 1, Groups: 1, Conv: width, Kernel: kernel},
		Out:   []Linear{{Name: "linear_out", In: width, Out: r.hidden, Bias: true, Split: Rows, Heads: heads}},
		Extra: int64(width)*int64(kernel) + 2*int64(width),
	}}
}
