package calibrate

import (
	"cmp"
	"math"

	"llmprof/analytic/operator"
	"llmprof/models"
	"llmprof/roofline"
	"llmprof/unit"
)

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
	switch p.Scheme {
	case roofline.Unquantized:
		return p.DType.Bytes(n)
	case roofline.WeightINT4:
		return stored[p.Scheme].Bytes(n) + unit.Bytes(groupScale*n)
	}
	return stored[p.Scheme].Bytes(n)
}

// results is the memory of n values that no product quantizes, and cache that of n values of a KV cache.
func (p *Point) results(n float64) unit.Bytes {
	if p.Scheme == roofline.Unquantized {
		return p.DType.Bytes(n)
	}
	return unit.BF16.Bytes(n)
}

func (p *Point) cache(n float64) unit.Bytes {
	if p.Scheme == roofline.Unquantized {
		return p.DType.Bytes(n)
	}
	return unit.FP8.Bytes(n)
}

// tableWork is the Work of kinds that tables have and no engine times here.
func (p *Point) tableWork() roofline.Work {
	s := &p.Shape
	b, t, c, q, kv, d := float64(s.Batch), float64(s.Tokens), float64(s.Context), float64(s.Heads), float64(s.KVHeads), float64(s.HeadDim)
	switch p.Kind {
	case LatentPrefill:
		return roofline.Work{FLOPs: unit.FLOPs(2 * q * expandedDims * b * t * (t + 1) / 2), KV: p.cache(b * t * compressed),
			Acts: p.results(2 * b * t * q * expandedDims)}
	case LatentDecode:
		return roofline.Work{FLOPs: unit.FLOPs(2 * q * (compressed + latentRank) * b * c), KV: p.cache(b * c * compressed),
			Acts: p.results(b * q * (compressed + latentRank))}
	case ScanPrefill, ChannelScan:
		scan := models.Scan{Kind: models.GatedDelta, Heads: s.Heads, HeadDim: s.HeadDim, StateDim: s.HeadDim, Groups: s.KVHeads}
		return roofline.Work{FLOPs: unit.FLOPs(b * t * operator.ChunkedFLOPs(&scan, p.chunk())), State: unit.FP32.Bytes(2 * b * q * d * d),
			Acts: p.results(2 * b * t * d * (q + kv))}
	case ScanStep:
		return roofline.Work{State: unit.FP32.Bytes(2 * b * q * d * d), Acts: p.results(2 * b * d * (q + kv))}
	case ConvPrefill, ConvStep:
		width := d * (q + 2*kv)
		return roofline.Work{Weights: p.results(width * convolved), State: p.results(2 * b * width * (convolved - 1)),
			Acts: p.results(2 * b * max(t, 1) * width)}
	case Mixture:
		pairs, hit, expert := p.spread()
		return roofline.Work{FLOPs: unit.FLOPs(2 * pairs * expert), Weights: p.weights(hit * expert)}
	}
	return roofline.Work{}
}

// The sizes of DeepSeek-V3's latent attention, which tables have alone.
const (
	latentRank   = 512              // values of a token's compressed vector
	compressed   = latentRank + 64  // values of a token in the cache: the vector and its rotated part
	expandedDims = (128 + 64) + 128 // values of a head's expanded key and value
)

// convolved is the length of the convolutions of gated delta nets.
const convolved = 4

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
