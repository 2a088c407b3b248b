package roofline

import (
	"math"

	"llmprof/unit"
)

// A Class is a kind of kernel. The kernels of a class have one law.
type Class uint8

// The classes.
const (
	GEMM             Class = iota // a product with weights by a library: cuBLASLt, CUTLASS
	SkinnyGEMM                    // a GEMM of few rows that streams its weights through CUDA cores or mma
	WGMMAGEMM                     // a GEMM of 17 to 64 rows by wgmma, its weights streamed by TMA
	VectorGEMM                    // a GEMM in FP32 on the vector units
	UnpackGEMM                    // a GEMM of llama.cpp, which unpacks quantized weights and multiplies them in 8-bit integers
	GroupedGEMM                   // GEMMs of a layer's experts in one kernel, each with the rows of its tokens
	AttentionPrefill              // FlashAttention over the prompt
	AttentionDecode               // FlashAttention with the keys split (FlashDecoding)
	AttentionMMA                  // FlashAttention over the prompt by mma, slower than wgmma on Hopper
	LatentPrefill                 // latent attention over the prompt, whose keys and values are expanded for every head
	LatentDecode                  // latent attention whose heads all read the compressed vectors
	Index                         // scores of keys that sparse attention to latent vectors chooses by, and the choice
	IndexEntries                  // scores and choice of compressed entries (DeepSeek-V4)
	IndexBlocks                   // scores and choice of blocks of keys (MiniMax-M3)
	SparseAttention               // attention to the latent vectors that were chosen
	SparseEntries                 // attention to compressed entries and the keys nearby (DeepSeek-V4)
	SparseBlocks                  // attention to the blocks of keys that were chosen (MiniMax-M3)
	ChunkedScan                   // the gated delta rule over the prompt, in chunks
	ChannelScan                   // the gated delta rule in chunks, with states that decay channel by channel, as Kimi's do
	StateScan                     // the recurrence of a state-space model or of linear attention with decay over the prompt, in chunks
	ScanStep                      // the gated delta rule of one token of each sequence
	Convolution                   // the causal convolution ahead of a recurrence, over the prompt
	ConvolutionStep               // the causal convolution of one token of each sequence
	AttentionCopied               // attention that reads keys and values copied for every query head
	Elementwise                   // norms, activations, rotary embedding, cache writes, gathers, scans
	SmallElementwise              // an element-wise kernel of an engine that does not fuse, in a stream of many
	MoEDecode                     // router, top-k and the experts of a decode step
	MoERouting                    // top-k of a prompt's tokens, and the sort of the token-expert pairs by expert
	MoEPrefill                    // a grouped GEMM of a prompt's experts, with the permutation of its rows
	AllReduce                     // a collective over NVLink or its like, by NCCL
	OneShotAllReduce              // a small all-reduce over peer memory
	FusedAllReduce                // an all-reduce that the GEMMs ahead of it do themselves
	PCIeCollective                // a collective between GPUs that no link joins
	HostCopy                      // a copy between the GPU and the host
	HostProduct                   // a product, or another operator, that the threads of the host compute
	WeightCopy                    // weights that are copied from pinned memory of the host for the kernel after it
	PageableCopy                  // weights that are copied from memory of the host that is not pinned
	HostCrossing                  // the step passes from the GPU to the host, or back
	NumClasses
)

// Shape is how large a kernel's problem is. A figure that a class does not use is 0.
type Shape struct {
	M float64 // rows of a product; queries of attention
	N float64 // outputs of a product
	K float64 // inputs of a product; of attention the width of all heads, keys and values together

	Matrices float64 // number of weight matrices that read the same input, as q, k and v do

	Experts float64 // experts of a layer
	TopK    float64 // experts that a token is sent to
	Hit     float64 // expected number of distinct experts of this rank that tokens are sent to
	Pairs   float64 // token-expert pairs of this rank
	Tokens  float64 // tokens of all ranks that share the experts

	// Attention: groups of up to TileQueries queries of one sequence and KV head on this rank; scan: chunks of a sequence; grouped GEMM of
	// known tiles: Σ ⌈tokens of an expert / rows of a tile⌉.
	Tiles float64
	Ranks float64 // GPUs that take part in a collective, or that share the experts of a grouped GEMM
}

// A Kernel is one launch of an engine: the work of one operator, or of several fused
// operators.
type Kernel struct {
	Class  Class
	Format unit.Format // number format of the matrix products; NoFormat without any
	Scheme Scheme      // how operands are quantized
	Shape  Shape
	Work   Work

	Reread     unit.Bytes // weights read from memory again, by further tiles
	Reload     unit.Bytes // weights read again, mostly from the L2 cache
	Permuted   unit.Bytes // inputs of token-expert pairs that are gathered before a grouped GEMM
	Unpermuted unit.Bytes // results of token-expert pairs that are summed after a grouped GEMM

	Tile Tile // tile of a GEMM, zero where it is not known; a grouped GEMM has the rows alone

	Quantized float64    // rows of inputs that a separate kernel quantizes
	Once      unit.Bytes // bytes that a rank sends for the largest message of one exchange, of an all-reduce over peer memory
	Sliced    float64    // 1 for an all-reduce over peer memory in two exchanges, where each rank sums a slice; else 0

	Launches float64 // kernel starts, each with the class's fixed time
	Count    float64 // occurrences in a step
}

// A Tile is the part of a GEMM's results that a cluster of thread blocks computes at a time.
type Tile struct {
	Rows, Columns float64 // 0 where a library chooses
	Blocks        float64 // thread blocks of the cluster, each on an SM
	Unpacks       bool    // each tile of a grouped GEMM reads and unpacks the weights of its expert for itself
}

// waste is what the tiles of a GEMM take besides its rows: the rows beyond the last one, and the rows that
// SMs without a tile could do while the last tiles run.
func (t *Tile) waste(s *Shape, sms float64) (empty, idle float64) {
	if t.Rows == 0 || sms == 0 {
		return 0, 0
	}
	rows := t.Rows * math.Ceil(s.M/t.Rows)
	blocks := rows / t.Rows * t.Blocks * math.Ceil(s.N/t.Columns)
	waves := math.Ceil(blocks / sms)
	return rows - s.M, rows * (waves*sms/blocks - 1)
}

// unpackedAgain is the weights that further tiles of an expert read and unpack for themselves.
func (k *Kernel) unpackedAgain() unit.Bytes {
	if !k.Tile.Unpacks || k.Shape.Hit <= 0 {
		return 0
	}
	return k.Work.Weights.Times(max(0, k.Shape.Tiles/k.Shape.Hit-1))
}

// padding is how many rows of the tiles of a grouped GEMM have no token, for each row that has one.
func (k *Kernel) padding() float64 {
	if k.Tile.Rows == 0 || k.Shape.Tiles == 0 {
		return 0
	}
	return max(0, k.Shape.Tiles*k.Tile.Rows/k.Shape.Pairs-1)
}
