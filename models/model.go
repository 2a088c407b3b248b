// Package models describes decoder language models: shapes, never how they run.
//
// A Model is a short list of layer kinds, each with its repeat count; a layer
// is a list of blocks (attention, scan, feed-forward, experts); a block is its
// weight matrices and the one thing it does besides multiplying by them. No
// family has code of its own below the reader of config.json: whatever the
// architecture, everything that follows (parameters, FLOPs, cache, traffic) is
// a sum over blocks.
//
// What may change: models, families and formats are added, and fields of Model with them; Load, Table and Resolver stay.
package models

import (
	"iter"
	"slices"
	"strings"

	"llmprof/unit"
)

// A Model is the shape of one decoder.
type Model struct {
	Name          string // name that the user or the table gives
	Family        string // Hugging Face model_type
	Source        string // origin of the shape: URL, file or repo id
	Vocab         int    // rows of the embedding
	Hidden        int    // width of the residual stream
	MaxContext    int    // tokens the model was made for; 0 if its positions set no limit
	Embedding     Embedding
	Layers        []Layer
	Order         []int // the kind of every layer from the first to the last, as an index in Layers
	FinalNorms    []Norm
	Head          Linear // projection to the vocabulary; its weights are the embedding's if TiedHead
	TiedHead      bool
	Drafts        int         // draft (MTP) layers, which are no part of Layers
	Stored        Stored      // the formats that the published checkpoint is stored in
	Cache         unit.Format // format that engines of its checkpoint keep its KV cache in; NoFormat for that of the residual stream
	Rotary        []Rotary    // tables of rotary positions
	EncoderParams int64       // parameters of vision and audio encoders and their projectors, which the shape leaves out; 0 where not known
	Quantized     []string    // repositories of the hub with quantized weights of a built-in model
	Notes         []string    // parts that the shape leaves out: a vision encoder, a draft (MTP) layer

	media map[string]media // how its images and its audio become tokens, by "image" and "audio"
}

// An Embedding turns token ids into the residual stream.
type Embedding struct {
	Width     int      // width of a row; differs from Hidden in OPT-350m and ALBERT-like models
	Positions int      // rows of a learned position table, 0 for none
	Project   []Linear // projections from Width to Hidden and, before the head, back
	Norms     []Norm   // BLOOM has one after the embedding
	Extra     int64    // parameters of further tables that are gathered from, a row a token
	Hashed    int64    // parameters of Extra that a checkpoint keeps in FP8, with a scale of a byte for each 32
	Stored    *Storage // how the checkpoint keeps the table of tokens; nil as for a Linear
}

// A Layer is one kind of layer and how often the model has it.
type Layer struct {
	Name   string // "attention + mlp", "mamba2", "sliding attention + moe"
	Count  int
	Blocks []Block
	Idle   bool // No step of text runs it, though its weights are in memory.
}

// A Block reads the residual stream and adds to it: norms, the products into
// it, what it does with them, the product out of it. Exactly one of Attention,
// Scan, Experts and Activation.Width says what it does. Experts come with their
// own matrices; together with Attention they are its query and output
// projections, of which each token takes a few (JetMoE).
type Block struct {
	Name       string // "attention", "mamba2", "mlp", "moe"
	Norms      []Norm
	In         []Linear // projections of the residual stream, or of a low rank of it
	Attention  *Attention
	Scan       *Scan
	Experts    *Experts
	Activation Activation
	Out        []Linear // back to the residual stream
	Extra      int64    // parameters of no account for time: sinks, scales, routers' biases
	Reused     bool     // the weights are those of an earlier block (Zamba), and are held once
	Parallel   bool     // reads the same stream as the block before it and adds to the same sum (GPT-J, Falcon)
	Joined     bool     // a parallel block that engines sum over the ranks with the one before it (Falcon, Cohere): one all-reduce serves both
}

// A Linear is the weight matrix Out×In, with a bias of Out if Bias.
type Linear struct {
	Name    string // "q_proj", "gate_proj"
	In, Out int
	Bias    bool
	Split   Split
	Heads   int // the most ways that tensor parallelism can cut it without copies; 0 for the split dimension itself
	Times   int // how many of this shape there are; 0 and 1 are one

	Stored *Storage // how the checkpoint keeps it; nil for the format of what is not quantized
}

// Params counts the weights and the biases.
func (l Linear) Params() int64 {
	n := int64(l.In) * int64(l.Out)
	if l.Bias {
		n += int64(l.Out)
	}
	return n * int64(max(l.Times, 1))
}

// Share is the values of the matrix, and its outputs, that one of tp ranks has.
func (l *Linear) Share(tp int) (values, outputs float64) {
	cut, times := float64(max(l.Parts(tp), 1)), float64(max(l.Times, 1))
	values, outputs = float64(l.In)*float64(l.Out)*times/cut, float64(l.Out)*times
	if l.Split == Columns {
		outputs /= cut
	}
	return values, outputs
}

// Parts is into how many different parts tp ranks cut l, or 0 if they cannot.
// With fewer heads than ranks each head is held by several of them, as KV heads
// are.
func (l *Linear) Parts(tp int) int {
	if l.Split == Replicated || tp == 1 {
		return 1
	}
	n := l.Heads
	if n == 0 {
		if n = l.Out; l.Split == Rows {
			n = l.In
		}
	}
	switch {
	case n%tp == 0:
		return tp
	case l.Split == Columns && l.Heads > 0 && tp%l.Heads == 0:
		return l.Heads
	}
	return 0
}

// Split says how tensor parallelism cuts a Linear (Shoeybi et al. 2019,
// Megatron-LM): by its outputs, by its inputs, or not at all.
type Split uint8

// The ways to cut a Linear.
const (
	Columns    Split = iota // each GPU computes some outputs
	Rows                    // each GPU holds some inputs; the outputs are summed by an all-reduce
	Replicated              // each GPU holds and computes all of it
)

// A Norm is one normalization of Width values, Heads times for each token.
type Norm struct {
	Name   string
	Width  int
	Heads  int   // 0 and 1 are one
	Params int64 // 0 where it has no weights (OLMo)

	PerHead bool // The norm is of each head (there may be one) and not of the whole stream.
}

// Attention is what happens between the projections of a softmax attention.
type Attention struct {
	Heads, KVHeads int
	KeyDim         int  // width of one head's query and key
	ValueDim       int  // width of one head's value
	Window         int  // positions it looks back on, itself included; 0 for all
	Chunked        bool // Window is a chunk: it looks back to the chunk's begin (Llama 4)
	RotaryDim      int  // dimensions of a head that are rotated; 0 for none
	ALiBi          bool
	Softcap        bool
	Latent         *Latent  // multi-head latent attention
	Indexer        *Indexer // sparse attention that picks the keys it reads
	SameKV         bool     // keys are the values too: one of both is held and read
	Borrows        bool     // the entries beyond the window are an earlier layer's
	Compress       int      // tokens that one further entry of the cache stands for, beyond the window (DeepSeek-V4); 0 for none
	Shared         bool     // reads the cache of an earlier layer, has none of its own
	FP8Entry       int      // bytes of an entry of its cache in FP8, where scales and 16-bit values are among it; 0 for one byte a value
}

// A Latent is the compressed cache of multi-head latent attention (DeepSeek-V2,
// arXiv:2405.04434): one vector of Rank and one rotated key of RopeDim a token,
// shared by all heads. Expand (kv_b_proj: Rank to Heads×(NopeDim+ValueDim)) is
// what makes keys and values of it, or is absorbed into query and output.
type Latent struct {
	Rank, RopeDim, NopeDim int
	Expand                 Linear
}

// An Indexer scores all keys with a few light heads and keeps TopK of them for
// the attention proper (DeepSeek-V3.2), of compressed entries where there are
// some. Its matrices are the block's own. One without heads stands for an earlier
// layer's choice, used again (GLM-5).
type Indexer struct {
	Heads, Dim, TopK int
	Packed           bool // keys are kept in FP8 with a float32 for each 128 values, whatever the format of the cache
}

// A Scan is a recurrent mixer: its state does not grow with the context.
type Scan struct {
	Kind     ScanKind
	Heads    int // 1 for Mamba-1
	HeadDim  int // values of a head that are carried: the channels of Mamba-1
	StateDim int // states of each of them: d_state, or the key dimension of a linear attention
	Groups   int // groups of Mamba-2's B and C; key heads of linear attention
	Conv     int // channels of the causal convolution before it, 0 for none
	Kernel   int // length of the convolution
	Chunk    int // tokens that the training-form kernel handles at a time; 0 if not stated

	ChannelDecay bool // The states of the gated delta rule decay channel by channel, as Kimi's do.
	// StateFormat is what the state is kept in where the config says so.
	StateFormat unit.Format
}

// StateElements is the number of values of the recurrent state of one sequence.
func (s Scan) StateElements() int64 { return int64(s.Heads) * int64(s.HeadDim) * int64(s.StateDim) }

// DeltaPerHead reports whether it is a gated delta net with one decay a head, as the kernels that operator tables have.
func (s Scan) DeltaPerHead() bool { return s.Kind == GatedDelta && !s.ChannelDecay }

// Width is the number of values that the recurrence puts out for a token.
func (s Scan) Width() float64 { return float64(s.Heads) * float64(s.HeadDim) }

// ConvElements is the number of inputs that the convolution of one sequence needs for its next token. With newest it
// counts the place of that token too.
func (s Scan) ConvElements(newest bool) int64 {
	if newest {
		return int64(s.Conv) * int64(s.Kernel)
	}
	return int64(s.Conv) * max(int64(s.Kernel)-1, 0)
}

// ScanKind says which recurrence a Scan computes.
type ScanKind uint8

// The recurrences.
const (
	Mamba1     ScanKind = iota // selective scan, a decay for each channel and state (arXiv:2312.00752)
	Mamba2                     // state-space duality, a decay for each head (arXiv:2405.21060)
	GatedDelta                 // gated delta rule (arXiv:2412.06464)
	Linear1                    // plain linear attention with decay (RetNet, Lightning Attention, RWKV)
	ShortConv                  // a gated causal convolution and no other state (LFM2)
	LinearRNN                  // diagonal gated recurrence, one state a channel (RG-LRU, arXiv:2402.19427)
)

var scanNames = [...]string{"mamba", "mamba2", "gated-delta", "linear-attention", "short-conv", "linear-rnn"}

// String is the field's name of the recurrence.
func (k ScanKind) String() string { return scanNames[k] }

// Experts are the feed-forwards of a MoE layer, of which each token takes TopK.
type Experts struct {
	Count, TopK int
	Idle        int      // further experts that the router may choose and that do nothing (LongCat-Flash)
	Groups      int      // groups of experts that follow each other; 0 where a token takes its experts among all
	TopGroups   int      // groups among which a token takes them
	Router      []Linear // projections of the residual stream to Count scores
	In, Out     []Linear // matrices of one expert
	Activation  Activation
	Shared      *Shared // taken by every token
}

// Busy is how many experts that do something a token takes on average.
func (e *Experts) Busy() float64 {
	return float64(e.TopK) * float64(e.Count) / float64(e.Count+e.Idle)
}

// Shared is the feed-forward of a MoE layer that every token takes.
type Shared struct {
	In, Out    []Linear
	Activation Activation
}

// An Activation is the non-linearity of a feed-forward of Width hidden values,
// of which a gated one computes two and multiplies them.
type Activation struct {
	Width   int
	Gated   bool
	Spelled bool // gelu_new, which transformers writes out in eight kernels; every other function is one
}

// Inputs is how many values the activation function reads for each that it writes: with a gate two.
func (a *Activation) Inputs() float64 {
	if a.Gated {
		return 2
	}
	return 1
}

// Stored says how a published checkpoint is stored.
type Stored struct {
	Method  string      // quantization_config.quant_method, "" for none
	Weights unit.Format // format of the quantized matrices; of all if none is quantized
	Act     unit.Format // format of the activations of most products; NoFormat for 16 bits
	Experts bool        // only the experts' matrices are quantized (gpt-oss)
	Group   int         // weights that share a scale, 0 for a whole row or tensor
	Plain   unit.Format // format of weights that are not quantized
	Vectors unit.Format // format of norms and biases; NoFormat if it is Plain
	Bytes   int64       // size of the checkpoint's tensors; 0 where their table was not read
	KV      unit.Format // format of the KV cache that the checkpoint was calibrated for; NoFormat if it names none
	unknown bool        // The config names a quantization that is not understood, and the tensors say what it takes.
}

// WithoutEncoders is the model of which only the decoder is loaded.
func (m *Model) WithoutEncoders() *Model {
	text := m.WithMedia()
	text.EncoderParams, text.media = 0, nil
	return text
}

// QuantizedAs is a repository with weights of the model in a format, "" where none is known.
func (m *Model) QuantizedAs(f unit.Format) string {
	for _, name := range m.Quantized {
		if strings.HasSuffix(strings.ToLower(name), "-"+f.String()) {
			return name
		}
	}
	return ""
}

// Priced are the notes that the model is priced as text, and the others.
func (m *Model) Priced() (asText, others []string) {
	for _, n := range m.Notes {
		if strings.HasSuffix(n, countedEncoder) {
			asText = append(asText, n)
		} else {
			others = append(others, n)
		}
	}
	return asText, others
}

// WithMedia is the model without the notes that it is priced as text.
func (m *Model) WithMedia() *Model {
	seen := *m
	_, seen.Notes = m.Priced()
	return &seen
}

// Blocks yields the blocks of all kinds of layers, each with its kind.
func (m *Model) Blocks() iter.Seq2[*Layer, *Block] {
	return func(yield func(*Layer, *Block) bool) {
		for i := range m.Layers {
			l := &m.Layers[i]
			for j := range l.Blocks {
				if !yield(l, &l.Blocks[j]) {
					return
				}
			}
		}
	}
}

// Any reports whether something holds for any block.
func (m *Model) Any(holds func(b *Block) bool) bool {
	for _, b := range m.Blocks() {
		if holds(b) {
			return true
		}
	}
	return false
}

// HasExperts reports whether any layer routes its tokens.
func (m *Model) HasExperts() bool { return m.Any(func(b *Block) bool { return b.Experts != nil }) }

// DraftModule is the model's draft (MTP) module as a model of its own: a layer like the last one with attention, the
// projection of the hidden state and the embedding side by side (eh_proj), and the embedding and the
// head of the model, which it shares. It is nil where the model has none.
func (m *Model) DraftModule() *Model {
	if m.Drafts == 0 {
		return nil
	}
	for _, kind := range slices.Backward(m.Order) {
		l := m.Layers[kind]
		if !slices.ContainsFunc(l.Blocks, func(b Block) bool { return b.Attention != nil }) {
			continue
		}
		l.Name, l.Count, l.Blocks = "draft: "+l.Name, 1, slices.Clone(l.Blocks)
		b := &l.Blocks[0]
		b.In = append(slices.Clone(b.In), Linear{Name: "eh_proj", In: 2 * m.Hidden, Out: m.Hidden, Split: Replicated})
		d := *m
		d.Name, d.Layers, d.Order, d.Drafts, d.Notes = m.Name+" (draft)", []Layer{l}, []int{0}, 0, nil
		return &d
	}
	return nil
}
