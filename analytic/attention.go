package analytic

import (
	"math"

	"llmprof/models"
	"llmprof/unit"
)

// attention appends the attention of a block. FlashAttention (arXiv:2205.14135)
// is assumed: no score leaves the chip.
func (s *Step) attention(dst []Op, b *models.Block) []Op {
	a := b.Attention
	heads := float64(a.Heads) / float64(s.Par.TP)
	if a.Indexer != nil {
		dst = s.indexer(dst, a)
	}
	if a.Latent != nil {
		return s.latent(dst, a, heads)
	}
	o := s.attend(attentionName(a), heads, float64(a.KeyDim), float64(a.ValueDim), s.Batch*s.pairs(a))
	o.Model = o.FLOPs.Times(float64(s.Par.TP))
	o.Variant = s.variant(a)
	o.KV = s.Scheme.KV.Bytes(s.Batch * s.keys(a) * s.localKV(a) * float64(a.KeyDim+a.ValueDim))
	o.Acts = s.acts(s.tokens() * heads * float64(a.KeyDim+a.ValueDim))
	if s.New == 1 {
		o.Repeated, o.Joined = s.repeated(a, heads), o.KV.Times(2)
	}
	return append(dst, o)
}

// repeated is what moves where the keys and values of each KV head are copied for
// the r query heads that share it: all of them are read, r copies are written,
// and attention reads those. A head of its own for each query needs no copy.
//
//	bytes = (1 + 2r) · B · positions · heads_kv · (d_k + d_v) · a
func (s *Step) repeated(a *models.Attention, heads float64) unit.Bytes {
	positions := s.keys(a)
	if s.Cache > 0 {
		positions = s.Cache
		if a.Window > 0 {
			positions = min(s.Cache, float64(a.Window))
		}
	}
	moves := 1.0
	if r := heads / s.localKV(a); r > 1 {
		moves += 2 * r
	}
	return s.Scheme.KV.Bytes(moves * s.Batch * positions * s.localKV(a) * float64(a.KeyDim+a.ValueDim))
}

// attend is the arithmetic of heads heads over pairs pairs of query and key:
// 2·d_k for the score, 2·d_v for the mixing, about 5 for the soft-max.
func (s *Step) attend(name string, heads, keyDim, valueDim, pairs float64) Op {
	return Op{
		Name: name, Kind: Attention, Format: s.Scheme.stream(),
		FLOPs:  unit.FLOPs(2 * heads * (keyDim + valueDim) * pairs),
		Vector: unit.FLOPs(5 * heads * pairs),
		PerKey: s.perKey(heads * (keyDim + valueDim)), Kernels: 1, Eager: 1,
	}
}

// perKey is the arithmetic of one more key for each query of a prefill, whose
// heads are width wide in all. Decoding has no ramp: its kernels split the keys.
func (s *Step) perKey(width float64) unit.FLOPs {
	if s.New == 1 {
		return 0
	}
	return unit.FLOPs(2 * s.tokens() * width)
}

// variant tells the linear pieces of pairs and keys apart: the window is still
// filling, or full, or fills within the step, or which chunk the step ends in.
func (s *Step) variant(a *models.Attention) uint32 {
	w := float64(a.Window)
	if a.Indexer != nil {
		w = float64(a.Indexer.TopK)
	}
	switch {
	case w == 0:
		return 0
	case a.Chunked && a.Indexer == nil:
		return uint32(int64((s.Past+s.New-1)/w)) ^ uint32(int64(s.Past/w))<<16
	case s.Past+s.New <= w:
		return 1
	case s.Past >= w:
		return 2
	}
	return mixed
}

// mixed marks a step within which a formula changes: a run of such steps is not
// linear even though they agree on it.
const mixed = 1 << 31

func attentionName(a *models.Attention) string {
	switch {
	case a.Indexer != nil:
		return "sparse_attention"
	case a.Chunked && a.Window > 0:
		return "chunked_attention"
	case a.Window > 0:
		return "sliding_attention"
	}
	return "attention"
}

// localKV is the KV heads that one rank holds: with more ranks than heads each
// head is held by several.
func (s *Step) localKV(a *models.Attention) float64 {
	return max(float64(a.KVHeads)/float64(s.Par.TP), 1)
}

// rotary appends the norms of queries and keys, their rotation, and the write to
// the cache, which fusing engines do in the rotation's kernel.
func (s *Step) rotary(dst []Op, b *models.Block) []Op {
	a, tp := b.Attention, float64(s.Par.TP)
	within := inAttention
	if a.Latent != nil || a.Indexer != nil { // other kernels lie between
		within = alone
	}
	var width, params, eager float64
	var moved unit.Bytes // of a token, unfused
	name := "rotary"
	for i := range b.Norms {
		if n := &b.Norms[i]; n.PerHead {
			name = "qk_norm"
			w := float64(n.Width) * float64(n.Heads) / tp
			launches, each := s.unfusedNorm(n)
			width += w
			params += float64(n.Params)
			eager += launches
			moved += each.Times(w)
		}
	}
	if a.RotaryDim > 0 {
		if width > 0 {
			name = "qk_norm_rotary"
		}
		rotated := (float64(a.Heads)/tp + s.localKV(a)) * float64(a.RotaryDim)
		width += rotated
		eager += unfusedRotaryLaunches
		moved += s.acts(unfusedRotary * rotated)
	}
	t, kernels := s.tokens(), 1.0
	if width > 0 {
		dst = append(dst, Op{
			Name: name, Kind: Element, Vector: unit.FLOPs(4 * t * width),
			Acts: s.acts(2 * t * width), Weights: s.acts(params), Kernels: 1, Eager: eager, Unfused: moved.Times(t), Ride: within,
		})
		kernels = 0
	}
	if a.Shared {
		return dst
	}
	values := t * s.cachedValues(a)
	return append(dst, Op{
		Name: "kv_write", Kind: Element, KV: s.Scheme.KV.Bytes(values), Acts: s.acts(values), Kernels: kernels, Eager: 2, Ride: within,
	})
}

// pairs is the number of (query, key) pairs of one sequence under the causal
// mask, the window and the indexer's choice.
func (s *Step) pairs(a *models.Attention) float64 {
	switch {
	case a.Indexer != nil:
		return windowPairs(s.New, s.Past, float64(a.Indexer.TopK))
	case a.Window > 0 && a.Chunked:
		return chunkPairs(s.Past+s.New, float64(a.Window)) - chunkPairs(s.Past, float64(a.Window))
	case a.Window > 0:
		return windowPairs(s.New, s.Past, float64(a.Window))
	}
	return s.New*s.Past + s.New*(s.New+1)/2
}

// windowPairs is the sum over i = 1..n of min(p+i, w).
func windowPairs(n, p, w float64) float64 {
	growing := min(max(w-p, 0), n) // queries whose window is not full yet
	return growing*p + growing*(growing+1)/2 + (n-growing)*w
}

// chunkPairs is the sum over positions j = 0..n-1 of (j mod w) + 1.
func chunkPairs(n, w float64) float64 {
	full := math.Floor(n / w)
	rest := n - full*w
	return full*w*(w+1)/2 + rest*(rest+1)/2
}

// keys is how many keys of one sequence the step has to read: each once, for
// all its queries.
func (s *Step) keys(a *models.Attention) float64 {
	all := s.Past + s.New
	switch {
	case a.Indexer != nil:
		return min(all, float64(a.Indexer.TopK)*s.New)
	case a.Window > 0 && a.Chunked:
		return min(s.New+math.Mod(s.Past, float64(a.Window)), all)
	case a.Window > 0:
		return min(all, float64(a.Window)-1+s.New)
	}
	return all
}

// latent appends multi-head latent attention (DeepSeek-V2, arXiv:2405.04434).
// The cache holds one vector of r+rope values a token, and every rank holds all
// of it. Prefill expands keys and values from it for every token in sight;
// decode absorbs W_UK and W_UV into the query and the output, so that the heads
// attend to the vectors themselves. vLLM and SGLang do the same.
func (s *Step) latent(dst []Op, a *models.Attention, heads float64) []Op {
	l := a.Latent
	t := s.tokens()
	rank, row := float64(l.Rank), float64(l.Rank+l.RopeDim)
	pairs, upRows := s.Batch*s.pairs(a), t
	up := 2 * rank * heads * float64(l.NopeDim+a.ValueDim) // of one token, W_UK and W_UV
	op := s.attend("latent_attention", heads, row, rank, pairs)
	if s.New > 1 {
		op = s.attend("latent_attention", heads, float64(a.KeyDim), float64(a.ValueDim), pairs)
		upRows = s.Batch * (s.Past + s.New)
	}
	tp := float64(s.Par.TP)
	weights := rank * heads * float64(l.NopeDim+a.ValueDim)
	dst = append(dst, Op{
		Name: "kv_b_proj", Kind: GEMM, Format: s.Dense.Act,
		FLOPs: unit.FLOPs(up * upRows), Model: unit.FLOPs(up * upRows * tp),
		Weights: s.Dense.weightBytes(weights, heads*float64(l.NopeDim+a.ValueDim)),
		Acts:    s.acts(upRows * (rank + heads*float64(l.NopeDim+a.ValueDim))),
		Kernels: 1, Eager: 2,
	})
	op.Variant = s.variant(a)
	op.Model = op.FLOPs.Times(tp)
	op.KV = s.Scheme.KV.Bytes(s.Batch * s.keys(a) * row)
	op.Acts = s.acts(t * heads * float64(a.KeyDim+a.ValueDim))
	return append(dst, op)
}

// indexer appends the light scores that choose which keys attention reads
// (DeepSeek-V3.2): every key in sight, with a cache of its own.
func (s *Step) indexer(dst []Op, a *models.Attention) []Op {
	x := a.Indexer
	if x.Heads == 0 {
		return dst // an earlier layer chose
	}
	pairs := s.Batch * (s.New*s.Past + s.New*(s.New+1)/2)
	flops := unit.FLOPs(2 * float64(x.Heads*x.Dim) * pairs)
	return append(dst, Op{
		Name: "indexer", Kind: Attention, Format: s.Dense.Act, FLOPs: flops, Model: flops,
		Vector: unit.FLOPs(3 * float64(x.Heads) * pairs),
		KV:     s.Scheme.KV.Bytes(s.Batch * (s.Past + s.New) * float64(x.Dim)),
		Acts:   s.acts(s.tokens() * float64(x.Heads*x.Dim)), PerKey: s.perKey(float64(x.Heads * x.Dim)), Kernels: 2, Eager: 6,
	})
}
