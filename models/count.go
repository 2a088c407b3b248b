package models

import (
	"math"
	"slices"
	"strings"

	"llmprof/unit"
)

// each calls f for every matrix of the block, with how many copies of it are
// in memory and how many a token takes part in, on average.
func (b Block) each(f func(l Linear, copies int, active float64)) {
	_ = b.visit(func(p part, l *Linear) error {
		if p == expertPart {
			f(*l, b.Experts.Count, b.Experts.Busy())
		} else {
			f(*l, 1, 1)
		}
		return nil
	})
}

// Params counts the parameters that the block holds: none if it uses those of
// an earlier one.
func (b Block) Params() int64 {
	n, _ := b.params()
	return n
}

// params counts the parameters in memory and those that a token takes part in.
func (b Block) params() (total, active int64) {
	if b.Reused {
		return 0, 0
	}
	b.each(func(l Linear, copies int, taken float64) {
		total += l.Params() * int64(copies)
		active += int64(math.Round(float64(l.Params()) * taken))
	})
	small := b.Extra + normParams(b.Norms)
	return total + small, active + small
}

func normParams(norms []Norm) int64 {
	var n int64
	for _, norm := range norms {
		n += norm.Params
	}
	return n
}

// Params counts the parameters of the model, those of a tied head once.
func (m *Model) Params() int64 {
	total, _ := m.params()
	return total
}

// ParamsWithEncoders counts the parameters with those of encoders of vision and audio, and reports whether these are known.
func (m *Model) ParamsWithEncoders() (n int64, known bool) {
	uncounted := slices.ContainsFunc(m.Notes, func(note string) bool { return strings.HasSuffix(note, uncountedEncoder) })
	return m.Params() + m.EncoderParams, !uncounted
}

// ActiveParams counts the parameters that one token takes part in: of the
// experts those it is sent to on average and the shared ones, of everything else all,
// embedding and head included, as model cards count it. Weights that several
// layers share count once.
func (m *Model) ActiveParams() int64 {
	_, active := m.params()
	return active
}

func (m *Model) params() (total, active int64) {
	rest := m.EmbeddingParams() + normParams(m.FinalNorms)
	switch {
	case !m.TiedHead:
		rest += m.Head.Params()
	case m.Head.Bias:
		rest += int64(m.Head.Out)
	}
	total, active = rest, rest
	for l, b := range m.Blocks() {
		t, a := b.params()
		total += t * int64(l.Count)
		if !l.Idle {
			active += a * int64(l.Count)
		}
	}
	return total, active
}

// EmbeddingParams counts the tables in which tokens and positions are looked up, with their
// projections and norms, without the LM head.
func (m *Model) EmbeddingParams() int64 {
	e := m.Embedding
	n := int64(m.Vocab)*int64(e.Width) + int64(e.Positions)*int64(m.Hidden) + e.Extra + normParams(e.Norms)
	for _, l := range e.Project {
		n += l.Params()
	}
	return n
}

// HashedBytes is the memory of the tables that are kept in FP8.
func (e *Embedding) HashedBytes() unit.Bytes { return unit.Bytes(float64(e.Hashed) * 33 / 32) }

// NumLayers counts the layers.
func (m *Model) NumLayers() int {
	n := 0
	for _, l := range m.Layers {
		n += l.Count
	}
	return n
}

// EntryBytes is the memory of one entry of a cache in format f: a token's key and value in
// one head, or its latent vector and rotated key, which all heads share.
func (a *Attention) EntryBytes(f unit.Format) unit.Bytes {
	switch {
	case f == unit.FP8 && a.FP8Entry > 0:
		return unit.Bytes(a.FP8Entry)
	case a.Latent != nil:
		return cached(f, a.Latent.Rank+a.Latent.RopeDim)
	}
	return cached(f, a.EntryDim())
}

// cached is the memory of n values in a cache. Integers have a scale of 16 bits for each 32 of them, as llama.cpp's q8_0 and
// q4_0 have.
func cached(f unit.Format, n int) unit.Bytes {
	b := f.Bytes(float64(n))
	if f == unit.INT8 || f == unit.INT4 {
		b += unit.FP16.Bytes(float64(n) / 32)
	}
	return b
}

// KeyBytes is the memory of a key of the indexer beside a cache in format f, 0 without an indexer.
func (x *Indexer) KeyBytes(f unit.Format) unit.Bytes {
	switch {
	case x == nil:
		return 0
	case x.Packed:
		return unit.Bytes(float64(x.Dim) + 4*math.Ceil(float64(x.Dim)/128))
	}
	return cached(f, x.Dim)
}

// CachedBytes is the memory that heads KV heads of an attention, or its latent vector, take of a token in a cache in
// format f: each, that of the token itself while it is in sight, and far, its share of the entry that stands for
// Compress tokens. The indexer's keys are of the entries that it chooses from.
func (a *Attention) CachedBytes(f unit.Format, heads float64) (each, far unit.Bytes) {
	if a.Latent != nil {
		heads = 1
	}
	each = a.EntryBytes(f).Times(heads)
	if a.Borrows {
		return each, 0
	}
	if a.Compress > 0 {
		return each, (each + a.Indexer.KeyBytes(f)).Times(1 / float64(a.Compress))
	}
	return each + a.Indexer.KeyBytes(f), 0
}

// EntryDim is the values that one head keeps of a position: its key and its value,
// or the one that is both.
func (a *Attention) EntryDim() int {
	if a.SameKV {
		return a.KeyDim
	}
	return a.KeyDim + a.ValueDim
}

// KVBytesPerToken is what one more token adds to the cache of one sequence
// while no window is full: the sum over all layers that keep a cache.
func (m *Model) KVBytesPerToken(f unit.Format) unit.Bytes {
	return m.CacheBytes(1, f)
}

// CacheBytes is the cache of one sequence of context tokens; a layer with a
// window keeps no more tokens than the window holds.
func (m *Model) CacheBytes(context int, f unit.Format) (total unit.Bytes) {
	for l, b := range m.Blocks() {
		a := b.Attention
		if a == nil || a.Shared {
			continue
		}
		kept := context
		if a.Window > 0 {
			kept = min(kept, a.Window)
		}
		each, far := a.CachedBytes(f, float64(a.KVHeads))
		total += (each.Times(float64(kept)) + far.Times(float64(context))).Times(float64(l.Count))
	}
	return total
}

// StateBytes is the state of one sequence that does not grow, as transformers keeps it: recurrent states
// and the inputs of convolutions, the newest included. A state whose format the config
// states is counted in that one, all others in f.
func (m *Model) StateBytes(f unit.Format) unit.Bytes {
	var total unit.Bytes
	for l, b := range m.Blocks() {
		if b.Scan == nil {
			continue
		}
		state := f
		if b.Scan.StateFormat != unit.NoFormat {
			state = b.Scan.StateFormat
		}
		bytes := state.Bytes(float64(b.Scan.StateElements())) + f.Bytes(float64(b.Scan.ConvElements(true)))
		total += bytes.Times(float64(l.Count))
	}
	return total
}

// FLOPCount says how FLOPs were counted and how far the count is to be trusted.
type FLOPCount struct {
	Method     string `json:"method"`
	Confidence string `json:"confidence" jsonschema:"enum=high,enum=medium,enum=low"` // "high", "medium" or "low"
	Reason     string `json:"reason"`                                                 // for the confidence
}

// FLOPCount says how far a count of the model's FLOPs can be trusted.
func (m *Model) FLOPCount() FLOPCount {
	f := FLOPCount{
		Method: "analytic: 2·m·n·k of every matrix product, the causal half of attention, experts taken; element-wise operations counted " +
			"apart",
		Confidence: "high", Reason: "every product is a matrix of the model's own shape",
	}
	for _, b := range m.Blocks() {
		switch {
		case b.Scan != nil:
			f.Confidence, f.Reason = "medium", "scans: their FLOPs depend on the kernel's chunk length and algorithm"
			return f
		case b.Experts != nil && b.Experts.Idle > 0:
			f.Confidence, f.Reason = "medium", "experts that do nothing are taken as chosen at random"
		case b.Attention != nil && b.Attention.Indexer != nil:
			f.Confidence, f.Reason = "medium", "sparse attention: the indexer's kernels differ between engines"
		}
	}
	return f
}
