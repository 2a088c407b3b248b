package calibrate

import (
	"cmp"
	"math"

	"llmprof/models"
	"llmprof/operator"
	"llmprof/roofline"
	"llmprof/unit"
)

// stored is the format of weights, and sixteen that of what is not quantized.
var stored = [roofline.NumSchemes]unit.Format{
	roofline.Unquantized: unit.BF16, roofline.FP8: unit.FP8, roofline.FP8Block: unit.FP8, roofline.INT8: unit.INT8,
	roofline.WeightFP8: unit.FP8, roofline.WeightINT8: unit.INT8, roofline.WeightINT4: unit.INT4,
	roofline.WeightMXFP4: unit.MXFP4, roofline.MXFP4: unit.MXFP4, roofline.NVFP4: unit.NVFP4,
}

// groupScale is the bytes of a 16-bit scale for each 128 weights of INT4.
const groupScale = 2.0 / 128

// weights is the memory of n weights in the point's scheme.
func (p *Point) weights(n float64) unit.Bytes {
	b := stored[p.Scheme].Bytes(n)
	if p.Scheme == roofline.WeightINT4 {
		b += unit.Bytes(groupScale * n)
	}
	return b
}

// imported is the work of points that tables have in more formats than are timed here, as
// package analytic counts it: inputs in the format of the product, results in 16 bits.
func (p *Point) imported() (w roofline.Work) {
	s := &p.Shape
	f := func(n int) float64 { return float64(n) }
	sixteen := unit.BF16.Bytes
	cache := sixteen
	if p.Scheme != roofline.Unquantized {
		cache = unit.FP8.Bytes
	}
	switch p.Kind {
	case GEMM:
		m, n, k := f(s.M), f(s.N), f(s.K)
		w = roofline.Work{FLOPs: unit.FLOPs(2 * m * n * k), Weights: p.weights(n * k), Acts: p.DType.Bytes(m*k) + sixteen(m*n)}
	case AttentionPrefill:
		t, q, kv, d, b := f(s.Tokens), f(s.Heads), f(s.KVHeads), f(s.HeadDim), f(max(s.Batch, 1))
		w = roofline.Work{FLOPs: unit.FLOPs(4 * q * d * b * t * (t + 1) / 2), KV: cache(2 * b * t * d * kv), Acts: sixteen(2 * b * t * d * q)}
	case AttentionDecode:
		b, c, q, kv, d := f(s.Batch), f(s.Context), f(s.Heads), f(s.KVHeads), f(s.HeadDim)
		w = roofline.Work{FLOPs: unit.FLOPs(4 * q * d * c * b), KV: cache(2 * kv * d * c * b), Acts: sixteen(2 * q * d * b)}
	case LatentPrefill:
		b, t, q := f(s.Batch), f(s.Tokens), f(s.Heads)
		w = roofline.Work{FLOPs: unit.FLOPs(2 * q * expandedDims * b * t * (t + 1) / 2), KV: cache(b * t * compressed), Acts: sixteen(2 * b * t * q * expandedDims)}
	case LatentDecode:
		b, c, q := f(s.Batch), f(s.Context), f(s.Heads)
		w = roofline.Work{FLOPs: unit.FLOPs(2 * q * (compressed + latentRank) * b * c), KV: cache(b * c * compressed), Acts: sixteen(b * q * (compressed + latentRank))}
	case ScanPrefill:
		b, t, v, k, d := f(s.Batch), f(s.Tokens), f(s.Heads), f(s.KVHeads), f(s.HeadDim)
		scan := models.Scan{Kind: models.GatedDelta, Heads: s.Heads, HeadDim: s.HeadDim, StateDim: s.HeadDim, Groups: s.KVHeads}
		w = roofline.Work{FLOPs: unit.FLOPs(b * t * operator.ChunkedFLOPs(&scan, p.chunk())), State: unit.FP32.Bytes(2 * b * v * d * d), Acts: sixteen(2 * b * t * d * (v + k))}
	case Mixture:
		pairs, hit, expert := p.spread()
		w = roofline.Work{FLOPs: unit.FLOPs(2 * pairs * expert), Weights: p.weights(hit * expert)}
	}
	return w
}

// The sizes of DeepSeek-V3's latent attention, which tables have alone.
const (
	latentRank   = 512              // values of a token's compressed vector
	compressed   = latentRank + 64  // values of a token in the cache: the vector and its rotated part
	expandedDims = (128 + 64) + 128 // values of a head's expanded key and value
)

// scanLaunches is the kernels of a scan in chunks.
const scanLaunches = 4

// chunk is the tokens of a chunk of the gated delta rule.
func (p *Point) chunk() float64 { return float64(min(64, p.Shape.Tokens)) }

// spread is the pairs of a token and an expert of one rank, the experts that they go to,
// which are as many as can be, and the weights of one.
func (p *Point) spread() (pairs, hit, expert float64) {
	s := &p.Shape
	matrices, ranks := cmp.Or(s.Matrices, 3), float64(max(s.EP, 1))
	all := float64(s.Tokens) * float64(s.TopK)
	return all / ranks, min(float64(s.Experts), all) / ranks, float64(matrices) * float64(s.Hidden) * float64(s.Width)
}

// grouped completes the kernel of all products of a layer's experts: two launches of a
// grouped GEMM.
func (p *Point) grouped(k *roofline.Kernel) {
	s := &p.Shape
	pairs, hit, _ := p.spread()
	k.Class, k.Launches = roofline.GroupedGEMM, 2
	k.Shape = roofline.Shape{M: pairs, Experts: float64(s.Experts), TopK: float64(s.TopK), Tokens: float64(s.Tokens), Pairs: pairs, Hit: hit}
	k.Shape.Ranks = float64(max(s.EP, 1))
	k.Shape.K, k.Shape.N, k.Shape.Matrices = float64(s.Hidden), float64(s.Width), 1
	if s.Matrices != 2 {
		k.Shape.N, k.Shape.Matrices = 2*k.Shape.N, 2
	}
	k.Permuted = unit.BF16.Bytes(float64(s.Tokens) * float64(s.TopK) * float64(s.Hidden))
}

// tiled gives a grouped GEMM whose tiles are known their number, where all experts have as many tokens.
func (p *Point) tiled(k *roofline.Kernel) {
	if k.Class == roofline.GroupedGEMM && k.Tile.Rows > 0 {
		k.Shape.Tiles = k.Shape.Hit * math.Ceil(k.Shape.Pairs/k.Shape.Hit/k.Tile.Rows)
	}
}

func (p *Point) tiles() float64 {
	s := &p.Shape
	queries, kv := 1.0, float64(s.KVHeads)
	switch p.Kind {
	case AttentionPrefill:
		queries = float64(s.Tokens)
	case LatentPrefill: // every head has keys and values of its own
		queries, kv = float64(s.Tokens), float64(s.Heads)
	case LatentDecode:
		kv = 1
	}
	return float64(max(s.Batch, 1)) * kv * max(1, queries*float64(s.Heads)/kv/roofline.TileQueries)
}
