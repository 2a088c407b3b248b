package native

import (
	"llmprof/measure/engine/native/cuda"
)

// buffers are what a batch needs besides weights. Rows are tokens: of the part
// of the prompts that goes through the model at once, or one a sequence.
type buffers struct {
	rows     int // most tokens at once
	capacity int // tokens of a sequence that the cache holds
	splits   int // parts of the context in decode attention

	tokens       cuda.Ptr // int32 [batch·promptLen]
	nextToken    cuda.Ptr // int32 [batch]
	positions    cuda.Ptr // int32 [batch], tokens in the cache
	x            cuda.Ptr // float32 [rows][hidden], the residual stream
	h            cuda.Ptr // 16 bits [rows][hidden], what enters a product
	qkv          cuda.Ptr // 16 bits [rows][qkvWidth]
	att          cuda.Ptr // 16 bits [rows][attWidth]
	gateUp       cuda.Ptr // 16 bits [rows][2·inner]
	act          cuda.Ptr // 16 bits [rows][inner], of each chosen expert
	lastH        cuda.Ptr // 16 bits [batch][hidden], the final norm of each prompt's last token
	qkvStep      cuda.Ptr // float32 [batch][qkvWidth]
	squares      cuda.Ptr // float32 [batch][hidden/16]
	parts        cuda.Ptr // float32 [batch][kvHeads][splits][group][headDim]
	peaks        cuda.Ptr // float32 [batch][kvHeads][splits][group][2]
	arrived      cuda.Ptr // uint32 [batch][kvHeads]
	splitSums    cuda.Ptr // float32 [tiles][parts][rows of a tile][sequences], of a product that is cut along its columns
	splitArrived cuda.Ptr // uint32 [tiles], likewise
	branch       cuda.Ptr // float32 [rows][hidden], a block's output where it is normed
	sampled      cuda.Ptr // uint32 [batch]
	best         cuda.Ptr // uint64 [batch]
	logits       cuda.Ptr // float32 [batch][tokens]

	shared // with other ranks

	frequencies    cuda.Ptr // float32 [headDim/2]
	kCache, vCache cuda.Ptr // 16 bits, a layer after the other [batch][kvHeads][the layer's capacity][headDim]

	// Of layers with a window that the context outgrows.
	localFrequencies cuda.Ptr // float32 [headDim/2], where their angles are others
	kPrompt, vPrompt cuda.Ptr // 16 bits [prompts at once][kvHeads][promptLen][headDim]
	kSaved, vSaved   cuda.Ptr // 16 bits, a layer after the other [batch][kvHeads][rows that decoding overwrites][headDim]
	layers           []layerCache

	moeBuffers

	dequantized cuda.Ptr // 16 bits [out][in] of the product that was widened last, where weights are quantized

	total int // bytes of all of them
	kv    int // bytes of the cache
	want  []request
}

type request struct {
	p     *cuda.Ptr
	what  string
	bytes int
}

// mostRows bounds the tokens of the prompts that go through at once, and with
// them the activations.
const maxRows = 16384

// measureBuffers decides sizes; nothing is allocated yet.
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
		b.measureMixture(s, step, sms)
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
		b.reserve(&b.splitSums, "the products' parts", sums)
		b.reserve(&b.splitArrived, "the products' counters", 4*counters)
	}
	if bytes := s.scratchOf(); bytes > 0 {
		b.reserve(&b.dequantized, "a product's weights in 16 bits", bytes)
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
	if s.sandwich {
		b.reserve(&b.branch, "a block's output", 4*step*s.hidden)
	}
	b.measureCache(s, o)
	return b
}

func (b *buffers) reserve(p *cuda.Ptr, what string, bytes int) {
	b.want = append(b.want, request{p, what, bytes})
	b.total += bytes
}

// allocate takes the memory; counters have to begin at zero, and so does the
// cache, of which attention loads but does not use what is not yet written.
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
