package calibrate

import (
	"cmp"

	"llmprof/analytic/engine"
	"llmprof/analytic/operator"
	"llmprof/hardware"
	"llmprof/models"
	"llmprof/roofline"
	"llmprof/unit"
)

// A kind is what the points of a Kind are.
type kind struct {
	sizes string         // sizes of a shape that it cannot do without
	class roofline.Class // class of its kernel
	count func(p *Point, k *roofline.Kernel)
	drawn Kind // kind that times the same, where this one is run for the power that it draws
}

// The sizes of kinds that several share.
const (
	ofPrefill = "tokens heads kv_heads head_dim"
	ofScan    = "batch tokens heads kv_heads head_dim"
	ofStep    = "batch heads kv_heads head_dim"
	ofExperts = "tokens experts top_k hidden width"
	ofDense   = "batch hidden width heads kv_heads head_dim n" // n is the vocabulary
)

// kinds are what is known of each Kind. Its count fills in the work and the shape of the kernel, as package analytic counts them; kinds
// without it do no work whose time a law gives.
var kinds = map[Kind]kind{
	GEMM:      {sizes: "m n k", class: roofline.GEMM, count: product},
	Sustained: {sizes: "m n k", class: roofline.GEMM, count: product},
	QKVDecode: {sizes: ofDense, class: roofline.WGMMAGEMM, count: dense(func(s *Shape) (n, k int) {
		return (s.Heads + 2*s.KVHeads) * s.HeadDim, s.Hidden
	})},
	ODecode: {sizes: ofDense, class: roofline.WGMMAGEMM, count: dense(func(s *Shape) (n, k int) {
		return s.Hidden, s.Heads * s.HeadDim
	})},
	DenseUpDecode:   {sizes: ofDense, class: roofline.WGMMAGEMM, count: dense(func(s *Shape) (n, k int) { return 2 * s.Width, s.Hidden })},
	DenseDownDecode: {sizes: ofDense, class: roofline.WGMMAGEMM, count: dense(func(s *Shape) (n, k int) { return s.Hidden, s.Width })},
	HeadDecode:      {sizes: ofDense, class: roofline.WGMMAGEMM, count: dense(func(s *Shape) (n, k int) { return s.N, s.Hidden })},

	AttentionPrefill: {sizes: ofPrefill, class: roofline.AttentionPrefill, count: attentionPrefill},
	AttentionDecode:  {sizes: "batch context heads kv_heads head_dim", class: roofline.AttentionDecode, count: attentionDecode},
	LatentPrefill:    {sizes: "batch tokens heads", class: roofline.LatentPrefill, count: latentPrefill},
	LatentDecode:     {sizes: "batch context heads", class: roofline.LatentDecode, count: latentDecode},

	ScanPrefill: {sizes: ofScan, class: roofline.ChunkedScan, count: chunkedScan},
	ChannelScan: {sizes: ofScan, class: roofline.ChannelScan, count: chunkedScan},
	ScanStep:    {sizes: ofStep, class: roofline.ScanStep, count: scanStep},
	ConvPrefill: {sizes: "tokens " + ofStep, class: roofline.Convolution, count: convolution},
	ConvStep:    {sizes: ofStep, class: roofline.ConvolutionStep, count: convolution},

	Mixture:       {sizes: ofExperts, class: roofline.GroupedGEMM, count: grouped},
	MixtureDecode: {sizes: "batch experts top_k hidden width", class: roofline.MoEDecode, count: moeDecode},
	TopKPrefill:   {sizes: ofExperts, class: roofline.MoERouting, count: routing},
	GateUpPrefill: {sizes: ofExperts, class: roofline.MoEPrefill, count: func(p *Point, k *roofline.Kernel) { moePrefill(p, k, 2) }},
	DownPrefill:   {sizes: ofExperts, class: roofline.MoEPrefill, count: func(p *Point, k *roofline.Kernel) { moePrefill(p, k, 1) }},

	RMSNorm: {sizes: "tokens width", class: roofline.Elementwise, count: func(p *Point, k *roofline.Kernel) {
		k.Work.Acts = p.DType.Bytes(2*float64(p.Shape.Tokens)*float64(p.Shape.Width) + float64(p.Shape.Width))
	}},
	Activation: {sizes: "tokens width", class: roofline.Elementwise, count: func(p *Point, k *roofline.Kernel) {
		k.Work.Acts = p.DType.Bytes(3 * float64(p.Shape.Tokens) * float64(p.Shape.Width))
	}},
	Read: {sizes: "bytes", class: roofline.Elementwise, count: func(p *Point, k *roofline.Kernel) {
		k.Work.Acts = unit.Bytes(p.Shape.Bytes)
	}},
	Copy: {sizes: "bytes", class: roofline.Elementwise, count: func(p *Point, k *roofline.Kernel) {
		k.Work.Acts = 2 * unit.Bytes(p.Shape.Bytes)
	}},

	AllReduce: {sizes: "bytes", class: roofline.AllReduce, count: allReduce},
	OneShot: {sizes: "bytes", class: roofline.OneShotAllReduce, count: func(p *Point, k *roofline.Kernel) {
		allReduce(p, k)
		k.Exchange(engine.OneShotBytes)
	}},

	LaunchPrefill: {sizes: "tokens hidden width heads kv_heads head_dim n", class: roofline.Elementwise},
	GraphNode:     {sizes: "launches", class: roofline.Elementwise},
	SmallKernel:   {sizes: "launches", class: roofline.Elementwise},
	EagerLaunch:   {sizes: "launches", class: roofline.Elementwise},
	EagerStep:     {sizes: "launches", class: roofline.Elementwise},
	HostStep:      {class: roofline.Elementwise},

	GEMMPower: {drawn: GEMM}, GateUpPower: {drawn: DenseUpDecode}, MoEPower: {drawn: MixtureDecode}, AttentionPower: {drawn: AttentionDecode},
	ReadPower: {drawn: Read}, AllReducePower: {drawn: AllReduce}, Idle: {drawn: Idle, class: roofline.Elementwise},
}

// kernel is the kernel that the point times on a GPU, of an engine that multiplies up to
// so many rows by skinny GEMM.
func (p *Point) kernel(g *hardware.GPU, skinny int) roofline.Kernel {
	kind := kinds[p.Kind.times()]
	k := roofline.Kernel{Class: kind.class, Format: p.DType, Scheme: p.Scheme, Launches: 1, Count: 1}
	if kind.count != nil {
		kind.count(p, &k)
	}
	switch {
	case k.Class == roofline.GEMM && p.Shape.M <= skinny:
		k.Class = roofline.SkinnyGEMM
	case k.Class == roofline.MoEPrefill:
		engine.MoEPrefillMoves(&k, g, p.Kind == GateUpPrefill)
	}
	return k
}

// Work is what one call of the point has to do.
func (p *Point) Work() roofline.Work {
	k := p.kernel(&hardware.GPU{}, 0)
	return k.Work
}

// stored is the format of quantized weights.
var stored = [roofline.NumSchemes]unit.Format{
	roofline.FP8: unit.FP8, roofline.FP8Block: unit.FP8, roofline.INT8: unit.INT8,
	roofline.WeightFP8: unit.FP8, roofline.WeightINT8: unit.INT8, roofline.WeightINT4: unit.INT4,
	roofline.WeightMXFP4: unit.MXFP4, roofline.MXFP4: unit.MXFP4, roofline.NVFP4: unit.NVFP4,
}

// groupScale is the bytes of a 16-bit scale for each 128 weights of INT4.
const groupScale = 2.0 / 128

// weights is the memory of n weights in the point's scheme.
func (p *Point) weights(n float64) unit.Bytes {
	bytes := p.as(stored[p.Scheme], n)
	if p.Scheme == roofline.WeightINT4 {
		bytes += unit.Bytes(groupScale * n)
	}
	return bytes
}

// results is the memory of n values that no product quantizes, and cache that of n values of a KV cache.
func (p *Point) results(n float64) unit.Bytes { return p.as(unit.BF16, n) }
func (p *Point) cache(n float64) unit.Bytes   { return p.as(unit.FP8, n) }

// as gives the memory of n values in a format where the point's scheme quantizes, else in the point's own.
func (p *Point) as(quantized unit.Format, n float64) unit.Bytes {
	if p.Scheme == roofline.Unquantized {
		return p.DType.Bytes(n)
	}
	return quantized.Bytes(n)
}

// multiply counts a product: 2·m·n·k FLOPs; weights, input and output once.
func (p *Point) multiply(w *roofline.Work, m, n, k float64) {
	w.FLOPs, w.Weights, w.Acts = unit.FLOPs(2*m*n*k), p.weights(n*k), p.DType.Bytes(m*k)+p.results(m*n)
}

func product(p *Point, k *roofline.Kernel) {
	s := &k.Shape
	s.M, s.N, s.K = float64(p.Shape.M), float64(p.Shape.N), float64(p.Shape.K)
	p.multiply(&k.Work, s.M, s.N, s.K)
	if p.Scheme.Quantizes() {
		k.Quantized = s.M
	}
}

// dense counts a product of a dense layer's decode step, whose outputs and inputs follow from the layer's sizes.
func dense(outputs func(s *Shape) (n, k int)) func(*Point, *roofline.Kernel) {
	return func(p *Point, k *roofline.Kernel) {
		out, in := outputs(&p.Shape)
		p.multiply(&k.Work, float64(p.Shape.Batch), float64(out), float64(in))
	}
}

// attentionPrefill counts 4·heads·d FLOPs a pair under the causal mask; q, k, v and output once.
func attentionPrefill(p *Point, k *roofline.Kernel) {
	s := &p.Shape
	b, t, q, kv, d := float64(max(s.Batch, 1)), float64(s.Tokens), float64(s.Heads), float64(s.KVHeads), float64(s.HeadDim)
	k.Work = roofline.Work{FLOPs: unit.FLOPs(4 * q * d * b * t * (t + 1) / 2), KV: p.cache(2 * b * t * d * kv),
		Acts: p.results(2 * b * t * d * q)}
	k.Shape = roofline.Shape{M: b * t, K: 2 * q * d, Tiles: tiles(b, t, q, kv)}
}

// attentionDecode counts 4·heads·d FLOPs a key; the keys and values of the context once for each KV head.
func attentionDecode(p *Point, k *roofline.Kernel) {
	s := &p.Shape
	b, c, q, kv, d := float64(s.Batch), float64(s.Context), float64(s.Heads), float64(s.KVHeads), float64(s.HeadDim)
	k.Work = roofline.Work{FLOPs: unit.FLOPs(4 * q * d * c * b), KV: p.cache(2 * kv * d * c * b), Acts: p.results(2 * q * d * b)}
	k.Shape.Tiles = tiles(b, 1, q, kv)
}

// tiles is the number of tiles of queries of so many sequences.
func tiles(batch, queries, heads, kv float64) float64 {
	return batch * kv * max(1, queries*heads/kv/roofline.TileQueries)
}

// The sizes of DeepSeek-V3's latent attention, which tables have alone.
const (
	latentRank   = 512              // values of a token's compressed vector
	compressed   = latentRank + 64  // values of a token in the cache: the vector and its rotated part
	expandedDims = (128 + 64) + 128 // values of a head's expanded key and value
)

// latentPrefill counts attention whose heads have keys and values of their own.
func latentPrefill(p *Point, k *roofline.Kernel) {
	b, t, q := float64(p.Shape.Batch), float64(p.Shape.Tokens), float64(p.Shape.Heads)
	k.Work = roofline.Work{FLOPs: unit.FLOPs(2 * q * expandedDims * b * t * (t + 1) / 2), KV: p.cache(b * t * compressed),
		Acts: p.results(2 * b * t * q * expandedDims)}
	k.Shape = roofline.Shape{M: b * t, K: q * expandedDims, Tiles: tiles(b, t, q, q)}
}

func latentDecode(p *Point, k *roofline.Kernel) {
	b, c, q := float64(p.Shape.Batch), float64(p.Shape.Context), float64(p.Shape.Heads)
	k.Work = roofline.Work{FLOPs: unit.FLOPs(2 * q * (compressed + latentRank) * b * c), KV: p.cache(b * c * compressed),
		Acts: p.results(b * q * (compressed + latentRank))}
	k.Shape.Tiles = tiles(b, 1, q, 1)
}

// A scan in chunks has so many kernels, and a chunk at most so many tokens.
const (
	scanLaunches = 4
	chunkTokens  = 64
)

// chunkedScan counts the gated delta rule over prompts: a state is read and written once.
func chunkedScan(p *Point, k *roofline.Kernel) {
	s := &p.Shape
	b, t, q, kv, d := float64(s.Batch), float64(s.Tokens), float64(s.Heads), float64(s.KVHeads), float64(s.HeadDim)
	scan := models.Scan{Kind: models.GatedDelta, Heads: s.Heads, HeadDim: s.HeadDim, StateDim: s.HeadDim, Groups: s.KVHeads}
	chunk := min(chunkTokens, t)
	k.Work = roofline.Work{FLOPs: unit.FLOPs(b * t * operator.ChunkedFLOPs(&scan, chunk)), State: unit.FP32.Bytes(2 * b * q * d * d),
		Acts: p.results(2 * b * t * d * (q + kv))}
	k.Launches, k.Shape.Tiles = scanLaunches, t/chunk
}

func scanStep(p *Point, k *roofline.Kernel) {
	s := &p.Shape
	b, q, kv, d := float64(s.Batch), float64(s.Heads), float64(s.KVHeads), float64(s.HeadDim)
	k.Work = roofline.Work{State: unit.FP32.Bytes(2 * b * q * d * d), Acts: p.results(2 * b * d * (q + kv))}
}

// convolved is the length of the convolutions of gated delta nets.
const convolved = 4

// convolution counts the convolution of prompts, or of one token of each sequence where the point has no tokens.
func convolution(p *Point, k *roofline.Kernel) {
	s := &p.Shape
	b, t := float64(s.Batch), float64(max(s.Tokens, 1))
	width := float64(s.HeadDim) * (float64(s.Heads) + 2*float64(s.KVHeads))
	k.Work = roofline.Work{Weights: p.results(width * convolved), State: p.results(2 * b * width * (convolved - 1)),
		Acts: p.results(2 * b * t * width)}
}

// mixture is the shape of a layer's experts for some tokens, of which each takes TopK at random.
func (p *Point) mixture(tokens int) roofline.Shape {
	s := &p.Shape
	e, top, t := float64(s.Experts), float64(s.TopK), float64(tokens)
	return roofline.Shape{
		Experts: e, TopK: top, Tokens: t, Pairs: t * top, Hit: operator.DistinctExperts(e, top, t), M: t * top, K: float64(s.Hidden),
		N: float64(s.Hidden),
	}
}

// moeDecode counts a mixture in a decode step: the router's E·h weights and 3·h·w of each expert, of those that the tokens are expected to
// choose, read once, and 2 FLOPs a weight for each pair of a token and an expert. Gate and up are two thirds of an expert.
func moeDecode(p *Point, k *roofline.Kernel) {
	k.Shape = p.mixture(p.Shape.Batch)
	s, width := &k.Shape, float64(p.Shape.Width)
	router, expert := s.Experts*s.K, 3*s.K*width
	k.Work = roofline.Work{FLOPs: unit.FLOPs(2 * s.Tokens * (router + s.TopK*expert)), Weights: p.DType.Bytes(router + s.Hit*expert)}
	third := p.DType.Bytes(s.Hit * s.K * width)
	for i, weights := range []unit.Bytes{2 * third, third} {
		engine.MoEDecodeReads(k, &operator.Op{Shape: k.Shape, Work: roofline.Work{Weights: weights}}, i == 0)
	}
}

// routing counts the choice of a prompt's experts: the scores of all tokens.
func routing(p *Point, k *roofline.Kernel) {
	k.Shape = p.mixture(p.Shape.Tokens)
	k.Work.Acts = p.DType.Bytes(k.Shape.Tokens * k.Shape.Experts)
}

// moePrefill counts a product of a prompt's experts with so many matrices: 2 FLOPs for each weight of the TopK experts of a token; the
// weights of those that are expected to be chosen, once.
func moePrefill(p *Point, k *roofline.Kernel, matrices float64) {
	k.Shape = p.mixture(p.Shape.Tokens)
	expert := matrices * (float64(p.Shape.Hidden) * float64(p.Shape.Width))
	k.Work = roofline.Work{FLOPs: unit.FLOPs(2 * k.Shape.Tokens * k.Shape.TopK * expert), Weights: p.DType.Bytes(k.Shape.Hit * expert)}
}

// grouped counts all products of a layer's experts, of one rank: two launches of a grouped GEMM. The pairs go to as many experts as can be.
func grouped(p *Point, k *roofline.Kernel) {
	s := &p.Shape
	matrices, ranks := float64(cmp.Or(s.Matrices, 3)), float64(max(s.EP, 1))
	all := float64(s.Tokens) * float64(s.TopK)
	pairs, hit, expert := all/ranks, min(float64(s.Experts), all)/ranks, matrices*float64(s.Hidden)*float64(s.Width)
	k.Work = roofline.Work{FLOPs: unit.FLOPs(2 * pairs * expert), Weights: p.weights(hit * expert)}
	k.Launches, k.Permuted = 2, unit.BF16.Bytes(all*float64(s.Hidden))
	k.Shape = roofline.Shape{
		M: pairs, N: float64(s.Width), K: float64(s.Hidden), Matrices: 1, Experts: float64(s.Experts), TopK: float64(s.TopK),
		Tokens: float64(s.Tokens), Pairs: pairs, Hit: hit, Ranks: ranks,
	}
	if s.Matrices != 2 {
		k.Shape.N, k.Shape.Matrices = 2*k.Shape.N, 2
	}
}

// allReduce counts 2(n-1)/n of the message on the wire (Patarasuk and Yuan 2009).
func allReduce(p *Point, k *roofline.Kernel) {
	n := float64(p.Ranks)
	k.Shape.Ranks, k.Work.Wire = n, unit.Bytes(2*(n-1)/n*float64(p.Shape.Bytes))
}
