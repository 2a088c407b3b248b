package native

import (
	"llmprof/measure/native/cuda"
)

// buffers are the memory of a batch besides the weights. A row is a token: one of the prompts that go
// through the model at once, or one a sequence.
type buffers struct {
	rows     int // the most tokens at once
	capacity int // The cache holds so many tokens of a sequence.
	splits   int // Decode attention cuts the context into so many parts.

	tokens       cuda.Ptr // int32 [batch·promptLen]
	nextToken    cuda.Ptr // int32 [batch]
	positions    cuda.Ptr // int32 [batch], how many tokens the cache has
	x            cuda.Ptr // float32 [rows][hidden], the residual stream
	h            cuda.Ptr // 16 bits [rows][hidden], the input of a GEMM
	qkv          cuda.Ptr // 16 bits [rows][qkvWidth]
	att          cuda.Ptr // 16 bits [rows][attWidth]
	gateUp       cuda.Ptr // 16 bits [rows][2·inner]
	act          cuda.Ptr // 16 bits [rows][inner], for each chosen expert of a MoE model
	lastH        cuda.Ptr // 16 bits [batch][hidden], the final norm of each prompt's last token
	qkvStep      cuda.Ptr // float32 [batch][qkvWidth]
	squares      cuda.Ptr // float32 [batch][hidden/16]
	parts        cuda.Ptr // float32 [batch][kvHeads][splits][group][headDim]
	peaks        cuda.Ptr // float32 [batch][kvHeads][splits][group][2]
	arrived      cuda.Ptr // uint32 [batch][kvHeads]
	splitSums    cuda.Ptr // float32 [tiles][parts][rows of a tile][sequences], sums of the parts of a GEMM with split-K
	splitArrived cuda.Ptr // uint32 [tiles], how many parts of a tile have arrived
	branch       cuda.Ptr // float32 [rows][hidden], a block's output before its norm
	sampled      cuda.Ptr // uint32 [batch]
	best         cuda.Ptr // uint64 [batch]
	logits       cuda.Ptr // float32 [batch][tokens]

	shared // buffers that are shared with other ranks

	frequencies    cuda.Ptr // float32 [headDim/2]
	kCache, vCache cuda.Ptr // 16 bits, for each layer [batch][kvHeads][the layer's capacity][headDim]

	// These buffers belong to sliding-window layers whose window is shorter than the context.
	localFrequencies cuda.Ptr // float32 [headDim/2], if their RoPE differs
	kPrompt, vPrompt cuda.Ptr // 16 bits [prompts at once][kvHeads][promptLen][headDim]
	kSaved, vSaved   cuda.Ptr // 16 bits, for each layer [batch][kvHeads][rows that decoding overwrites][headDim]
	layers           []layerCache

	moeBuffers

	dequantized cuda.Ptr // 16 bits [out][in], the weights that were dequantized last

	total int // bytes of all buffers
	kv    int // bytes of the cache
	want  []request
}

type request struct {
	p     *cuda.Ptr
	what  string
	bytes int
}

// maxRows bounds the tokens of the prompts that go through the model at once, and with them the
// activations.
const maxRows = 16384

// measureBuffers decides sizes and allocates nothing.
func measureBuffers(s *shape, o *Options, sms int) *buffers {
	b := &buffers{capacity: o.PromptLen + o.GenLen - 1}
	b.rows = o.PromptLen * min(max(maxRows/o.PromptLen, 1), o.Batch)
	if b.splits = o.splits; b.splits == 0 {
		b.splits = splits(s, o.Batch, b.capacity, sms)
		if o.wgmma != nil && s.ranks == 1 {
			b.splits = max(b.splits, splitsBesideWgmma(s, o.Batch, b.capacity, sms))
		}
	}
	step := max(b.rows, o.Batch)
	b.reserve(&b.tokens, "the prompts", 4*o.Batch*o.PromptLen)
	b.reserve(&b.nextToken, "the tokens", 4*o.Batch)
	b.reserve(&b.positions, "the positions", 4*o.Batch)
	b.reserve(&b.x, "the residual stream", 4*step*s.hidden)
	b.reserve(&b.h, "the normed stream", 2*step*s.hidden)
	b.reserve(&b.qkv, "queries, keys and values", 2*b.rows*s.qkvWidth())
	b.reserve(&b.att, "the attention's output", 2*step*s.attWidth())
	if s.experts > 0 {
		b.measureMoE(s, step, sms)
	} else {
		b.reserve(&b.gateUp, "the feed-forward", 2*step*2*s.inner)
		b.reserve(&b.act, "the activation", 2*step*s.inner)
	}
	b.reserve(&b.lastH, "the last tokens", 2*o.Batch*s.hidden)
	b.reserve(&b.qkvStep, "a step's queries, keys and values", 4*o.Batch*s.qkvWidth())
	b.reserve(&b.squares, "the norms' sums", 4*o.Batch*s.hidden/16)
	group := s.heads / s.kvHeads
	b.reserve(&b.parts, "the attention's parts", 4*o.Batch*b.splits*s.heads*s.headDim)
	b.reserve(&b.peaks, "the attention's peaks", 4*o.Batch*b.splits*s.kvHeads*group*2)
	b.reserve(&b.arrived, "the attention's counters", 4*o.Batch*s.kvHeads)
	if sums, counters := o.scratch(s); sums > 0 {
		b.reserve(&b.splitSums, "the GEMMs' parts", sums)
		b.reserve(&b.splitArrived, "the GEMMs' counters", 4*counters)
	}
	if bytes := s.scratchOf(); bytes > 0 {
		b.reserve(&b.dequantized, "a GEMM's weights in 16 bits", bytes)
	}
	b.reserve(&b.sampled, "the sampling's counters", 4*o.Batch)
	b.reserve(&b.best, "the best scores", 8*o.Batch)
	b.reserve(&b.logits, "the scores", 4*o.Batch*s.tokens)
	if s.ranks > 1 {
		b.reserveShared(s, o, step, sms)
	}
	b.reserve(&b.frequencies, "the rotation's frequencies", 4*s.headDim/2)
	if s.localRope.Theta != 0 {
		b.reserve(&b.localFrequencies, "the local rotation's frequencies", 4*s.headDim/2)
	}
	if s.outputNorm {
		b.reserve(&b.branch, "a block's output", 4*step*s.hidden)
	}
	b.measureCache(s, o)
	return b
}

func (b *buffers) reserve(p *cuda.Ptr, what string, bytes int) {
	b.want = append(b.want, request{p, what, bytes})
	b.total += bytes
}

// allocate allocates the buffers and fills them with zeros. Counters have to begin at zero, and so
// does the cache, because attention loads entries that are not yet written, without using them.
func (b *buffers) allocate(dev *cuda.Device) error {
	for _, r := range b.want {
		p, err := dev.Alloc(r.what, r.bytes)
		if err != nil {
			return err
		}
		*r.p = p
		if err := dev.Fill(p, 0, r.bytes); err != nil {
			return err
		}
	}
	return dev.Sync()
}
