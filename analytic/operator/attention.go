package operator

import (
	"math"

	"llmprof/models"
	"llmprof/roofline"
	"llmprof/unit"
)

// attention appends the attention of a block. It is FlashAttention (arXiv:2205.14135),
// whose scores do not leave the chip.
func (s *Step) attention(dst []Op, b *models.Block) []Op {
	a := b.Attention
	heads := float64(a.Heads) / float64(s.Par.TP)
	if a.Indexer != nil {
		dst = s.indexer(dst, a)
	}
	if a.Latent != nil {
		return s.latent(dst, a, heads)
	}
	dst, o := add(dst, attentionName(a), Attend)
	s.attend(o, heads, float64(a.KeyDim), float64(a.ValueDim), s.Batch*s.pairs(a))
	o.Model = o.Work.FLOPs.Times(float64(s.Par.TP))
	o.Shape.Tiles = s.tiles(heads, s.LocalKV(a))
	o.Work.KV = a.EntryBytes(s.Scheme.KV).Times(s.Batch * s.Keys(a) * s.LocalKV(a))
	o.Work.Acts = s.Bytes(s.Tokens() * heads * float64(a.KeyDim+a.ValueDim))
	return dst
}

// attend is the arithmetic of heads heads over pairs pairs of query and key:
// 2·d_k for the score, 2·d_v for the mixing, about 5 for the softmax.
func (s *Step) attend(o *Op, heads, keyDim, valueDim, pairs float64) {
	o.Format, o.Scheme, o.Decode = s.Scheme.Stream(), cacheScheme(s.Scheme), s.splitsKeys()
	o.Shape.M, o.Shape.K = s.Tokens(), heads*(keyDim+valueDim)
	o.Work.FLOPs, o.Work.Vector = unit.FLOPs(2*heads*(keyDim+valueDim)*pairs), unit.FLOPs(5*heads*pairs)
}

// tiles is the number of tiles of queries that attention has on one rank: the query heads that
// share a KV head are rows of one tile, which has up to roofline.TileQueries rows.
func (s *Step) tiles(heads, kv float64) float64 {
	return s.Batch * kv * max(1, s.New*heads/kv/roofline.TileQueries)
}

func attentionName(a *models.Attention) string {
	switch {
	case a.Indexer != nil:
		return "sparse_attention"
	case a.Compress > 0:
		return "compressed_attention"
	case a.Chunked && a.Window > 0:
		return "chunked_attention"
	case a.Window > 0:
		return "sliding_attention"
	}
	return "attention"
}

// rotary appends the norms of queries and keys, their rotary embedding, and the write to the KV
// cache.
func (s *Step) rotary(dst []Op, b *models.Block) []Op {
	a, tp := b.Attention, float64(s.Par.TP)
	var width, params float64
	name := "rotary"
	for i := range b.Norms {
		if n := &b.Norms[i]; n.PerHead {
			name = "qk_norm"
			w := float64(n.Width) * float64(n.Heads) / tp
			width += w
			params += float64(n.Params)
		}
	}
	if a.RotaryDim > 0 {
		if width > 0 {
			name = "qk_norm_rotary"
		}
		width += s.Rotated(a)
	}
	t := s.Tokens()
	if width > 0 {
		var o *Op
		dst, o = add(dst, name, Rotary)
		o.Norms = b.Norms
		o.Work.Vector, o.Work.Acts, o.Work.Weights = unit.FLOPs(4*t*width), s.Bytes(2*t*width), s.Bytes(params)
	}
	if a.Shared {
		return dst
	}
	dst, o := add(dst, "kv_write", CacheWrite)
	o.Work.KV, o.Work.Acts = s.CachedBytes(a, s.Scheme.KV).Times(t), s.CachedBytes(a, s.Scheme.Stream()).Times(t)
	return dst
}

// Rotated is the number of values of a token that rotary embedding changes on one rank.
func (s *Step) Rotated(a *models.Attention) float64 {
	return (float64(a.Heads)/float64(s.Par.TP) + s.LocalKV(a)) * float64(a.RotaryDim)
}

// pairs is the number of (query, key) pairs of one sequence.
func (s *Step) pairs(a *models.Attention) float64 {
	m := maskOf(a)
	return m.pairs(s.New, s.Past)
}

// Keys is the number of keys of one sequence that the step reads, each once for all
// queries.
func (s *Step) Keys(a *models.Attention) float64 {
	m := maskOf(a)
	return m.keys(s.New, s.Past)
}

// latent appends multi-head latent attention (DeepSeek-V2, arXiv:2405.04434).
// The cache has one vector of r+rope values a token, and every rank has the whole
// cache. Prefill expands keys and values from it for every token in sight;
// decode absorbs W_UK and W_UV into the query and the output, so that the heads
// attend to the vectors themselves, as in vLLM and SGLang. So do the queries of a prompt that is longer than
// the indexer's choice, for each has keys of its own (FlashMLA's flash_mla_sparse_fwd).
func (s *Step) latent(dst []Op, a *models.Attention, heads float64) []Op {
	l := a.Latent
	t := s.Tokens()
	rank, row := float64(l.Rank), float64(l.Rank+l.RopeDim)
	pairs, upRows := s.Batch*s.pairs(a), t
	expanded := heads * float64(l.NopeDim+a.ValueDim)
	keyDim, valueDim, kvHeads := row, rank, 1.0
	moved, upMoved := t*heads*(row+rank), t*(2*heads*rank+expanded)
	chosen := a.Indexer != nil && s.Past+s.New > float64(a.Indexer.TopK)
	if !s.splitsKeys() && !chosen {
		keyDim, valueDim, kvHeads = float64(a.KeyDim), float64(a.ValueDim), heads
		upRows = s.Batch * (s.Past + s.New)
		moved, upMoved = (t+upRows)*heads*(keyDim+valueDim), upRows*(rank+expanded)
	}
	tp := float64(s.Par.TP)
	up := 2 * rank * expanded // FLOPs of one token, by W_UK and W_UV
	dst, o := add(dst, "kv_b_proj", Expand)
	o.Decode, o.Format, o.Model = s.splitsKeys(), s.Dense.ActOf(&l.Expand), unit.FLOPs(up*upRows*tp)
	o.Shape = roofline.Shape{M: upRows, N: expanded, K: rank, Matrices: 1}
	o.Work.FLOPs, o.Work.Weights = unit.FLOPs(up*upRows), s.Dense.MatrixBytes(&l.Expand, rank*expanded, expanded)
	o.Work.Acts = s.Bytes(upMoved)
	dst, o = add(dst, "latent_attention", Attend)
	s.attend(o, heads, keyDim, valueDim, pairs)
	o.Shape.Tiles = s.tiles(heads, kvHeads)
	o.Model = o.Work.FLOPs.Times(tp)
	o.Work.KV = a.EntryBytes(s.Scheme.KV).Times(s.Batch * s.Keys(a))
	o.Work.Acts = s.Bytes(moved)
	return dst
}

// indexer appends the light scores that choose the keys of sparse attention (DeepSeek-V3.2): it
// scores every key in sight, from a separate cache.
func (s *Step) indexer(dst []Op, a *models.Attention) []Op {
	x := a.Indexer
	if x.Heads == 0 {
		return dst // the choice of an earlier layer serves
	}
	each := float64(max(a.Compress, 1)) // tokens that a key stands for
	pairs := s.Batch * windowPairs(s.New, s.Past, math.Inf(1)) / each
	width := float64(x.Heads * x.Dim)
	dst, o := add(dst, "indexer", Index)
	if o.Format = s.Dense.Act; x.Packed {
		o.Format = unit.FP8
	}
	o.Decode, o.Model, o.Shape.M, o.Shape.K = s.splitsKeys(), unit.FLOPs(2*width*pairs), s.Tokens(), width
	o.Work.FLOPs, o.Work.Vector = o.Model, unit.FLOPs(3*float64(x.Heads)*pairs)
	o.Work.KV, o.Work.Acts = x.KeyBytes(s.Scheme.KV).Times(s.Batch*(s.Past+s.New)/each), s.Bytes(s.Tokens()*width)
	return dst
}

// A mask says which keys a query attends to under the causal mask. Pairs and keys, and so FLOPs and bytes of attention in prefill and
// decode, follow from it, and so do the contexts at which they stop to grow as they did.
type mask struct {
	window  float64 // most keys nearest to the query: a sliding window, or a chunk; +Inf without either
	chunked bool    // The query sees the chunk that it lies in, back to the chunk's begin (Llama 4).
	chosen  float64 // most keys, or entries further away, that an indexer chooses for each query; +Inf without an indexer
	stride  float64 // tokens that an entry beyond the window stands for (DeepSeek-V4); 0 without such entries
}

// maskOf is the mask of an attention.
func maskOf(a *models.Attention) mask {
	m := mask{window: math.Inf(1), chosen: math.Inf(1), chunked: a.Chunked, stride: float64(a.Compress)}
	if a.Window > 0 {
		m.window = float64(a.Window)
	}
	if a.Indexer != nil {
		m.chosen = float64(a.Indexer.TopK)
		if m.stride == 0 {
			m.window, m.chunked = m.chosen, false
		}
	}
	return m
}

// pairs is the number of pairs of a query and a key of one sequence that gains fresh tokens after past ones.
func (m *mask) pairs(fresh, past float64) float64 {
	switch {
	case m.stride > 0:
		return windowPairs(fresh, past, m.window) + windowPairs(fresh, past, m.chosen*m.stride)/m.stride
	case m.chunked && !math.IsInf(m.window, 1):
		return chunkPairs(past+fresh, m.window) - chunkPairs(past, m.window)
	}
	return windowPairs(fresh, past, m.window)
}

// keys is the number of keys of one sequence that the step reads, each once for all queries.
func (m *mask) keys(fresh, past float64) float64 {
	all := past + fresh
	inWindow := min(all, m.window-1+fresh)
	switch {
	case m.stride > 0:
		return inWindow + min(all/m.stride, m.chosen*fresh)
	case !math.IsInf(m.chosen, 1):
		return min(all, m.chosen*fresh)
	case m.chunked && !math.IsInf(m.window, 1):
		return min(fresh+math.Mod(past, m.window), all)
	}
	return inWindow
}

// bends are the contexts up to end at which pairs and keys of steps of fresh tokens stop to grow as they did.
func (m *mask) bends(fresh, end float64) (at []float64) {
	switch {
	case m.chunked:
		for n := 1.0; n*m.window < end && n <= mostBends; n++ {
			at = append(at, n*m.window)
		}
		return at
	case m.stride > 0:
		return []float64{m.window, m.chosen * m.stride, m.chosen*m.stride*fresh - fresh}
	}
	return []float64{m.window, m.chosen*fresh - fresh}
}

// windowPairs is the sum over i = 1..n of min(p+i, w).
func windowPairs(n, p, w float64) float64 {
	growing := min(max(w-p, 0), n) // queries whose window is not full yet
	full := 0.0
	if growing < n {
		full = (n - growing) * w
	}
	return growing*p + growing*(growing+1)/2 + full
}

// chunkPairs is the sum over positions j = 0..n-1 of (j mod w) + 1.
func chunkPairs(n, w float64) float64 {
	full := math.Floor(n / w)
	rest := n - full*w
	return full*w*(w+1)/2 + rest*(rest+1)/2
}
