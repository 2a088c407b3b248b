package operator

import (
	"cmp"
	"llmprof/models"
	"llmprof/unit"
)

// scan appends a recurrent mixer: the causal convolution before it, and the recurrence, whose
// state is read and written once a step and does not grow. Each rank has a part of the heads.
func (s *Step) scan(dst []Op, c *models.Scan) []Op {
	tp, t := float64(s.Par.TP), s.Tokens()
	stream := s.Scheme.Stream()
	if conv := float64(c.Conv) / tp; conv > 0 {
		var o *Op
		dst, o = add(dst, "causal_conv", Conv)
		o.Work.Vector, o.Work.Acts = unit.FLOPs(2*t*conv*float64(c.Kernel)), stream.Bytes(2*t*conv)
		o.Work.Weights, o.Work.State = stream.Bytes(conv*float64(c.Kernel)), s.Remembered(c).Times(2*s.Batch)
	}
	elements := float64(c.StateElements()) / tp
	if elements == 0 {
		return dst
	}
	width := c.Width() / tp
	gates := 2 * float64(c.Groups) * float64(c.StateDim)
	dst, o := add(dst, scans[c.Kind].name, Scan)
	o.Format = stream
	o.Work.State, o.Work.Acts = s.StateFormat(c).Bytes(2*s.Batch*elements), stream.Bytes(t*(2*width+gates))
	if chunk := s.chunkLen(c); chunk > 0 {
		o.Type, o.Work.FLOPs, o.Shape.Tiles = ChunkedScan, unit.FLOPs(t*ChunkedFLOPs(c, chunk)/tp), s.New/chunk
		o.Model = o.Work.FLOPs.Times(tp)
	} else {
		o.Work.Vector = unit.FLOPs(t * elements * scans[c.Kind].flops)
	}
	return dst
}

// scans has the names of the recurrences, and the FLOPs of a token for each state value
// where a recurrence runs token by token: decay, update, read-out.
var scans = [...]struct {
	name  string
	flops float64
}{
	models.Mamba1:     {"selective_scan", 7},   // exp(Δ·A), Δ·B·x, multiply-add, C·h
	models.Mamba2:     {"ssd_scan", 5},         // decay, x·B, sum, C·h
	models.GatedDelta: {"gated_delta_scan", 7}, // decay, kᵀS, the rank-one update, qᵀS
	models.Linear1:    {"linear_attention_scan", 5},
	models.ShortConv:  {"linear_attention_scan", 0},
	models.LinearRNN:  {"linear_rnn_scan", 6},
}

// chunkLen is the number of tokens of a chunk of the parallel form. It is 0 where the recurrence
// runs token by token: in decode, and where there is no parallel form on matrix units.
func (s *Step) chunkLen(c *models.Scan) float64 {
	if s.New == 1 && s.Past > 0 || (c.Kind != models.Mamba2 && c.Kind != models.GatedDelta && c.Kind != models.Linear1) {
		return 0
	}
	return min(float64(cmp.Or(c.Chunk, 64)), s.New) // 64 is the default of flash-linear-attention
}

// ChunkedFLOPs is the matrix FLOPs of a token in the parallel form (state-space duality,
// arXiv:2405.21060, section 6): within a chunk of Q tokens the scores C·Bᵀ and
// their product with the values, causal half of both; the chunk's state, and its
// read-out. The gated delta rule also solves a triangular system
// (arXiv:2412.06464).
func ChunkedFLOPs(c *models.Scan, q float64) float64 {
	heads, p, n := float64(c.Heads), float64(c.HeadDim), float64(c.StateDim)
	groups := max(float64(c.Groups), 1)
	perToken := q*(groups*n+heads*p) + 4*heads*p*n
	if c.Kind == models.GatedDelta {
		perToken += q*heads*(n+p) + q*q*heads/3
	}
	return perToken
}
