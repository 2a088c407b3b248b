package models

import (
	"cmp"
	"slices"
	"strings"
)

// A Rotary is a table of the sines and cosines of rotary positions, which engines keep in memory in the format of the residual stream.
type Rotary struct{ Rows, Dim int }

// rotaries are the tables of a model, one for each number of rotated dimensions. Positions that are scaled have more rows
// (vllm/model_executor/layers/rotary_embedding: linear_scaling_rope.py, yarn_scaling_rope.py, phi3_long_rope_scaled_rope.py, mrope.py).
// Layers with a window have a table of their own where they have a base of their own, which is never scaled (gemma3.py, gemma4.py).
func (r *reader) rotaries(m *Model) (all []Rotary) {
	rows := r.scaledRows()
	local := strings.HasPrefix(r.types[0], "gemma3") || strings.HasPrefix(r.types[0], "gemma4")
	for _, b := range m.Blocks() {
		a := b.Attention
		if a == nil || a.RotaryDim == 0 || m.MaxContext == 0 {
			continue
		}
		t := Rotary{rows, a.RotaryDim}
		if local && a.Window > 0 {
			t.Rows = r.countOr("max_position_embeddings", 0)
		}
		if !slices.Contains(all, t) {
			all = append(all, t)
		}
	}
	return all
}

// scaledRows is the number of rows of a table with scaled positions.
func (r *reader) scaledRows() int {
	most := r.countOr("max_position_embeddings", 0)
	v, as, _ := r.look("rope_parameters")
	rope, _ := v.(map[string]any)
	scaled := func(rows int) int {
		if rope["factor"] == nil {
			return rows
		}
		return int(min(float64(rows)*r.fraction(rope["factor"], as+".factor"), maxSize))
	}
	original := most
	if n := rope["original_max_position_embeddings"]; n != nil {
		original = r.whole(n, as+".original_max_position_embeddings", 1, maxSize)
	}
	kind, _ := cmp.Or(rope["rope_type"], rope["type"]).(string)
	switch {
	case rope["mrope_section"] != nil:
		return 4 * most
	case kind == "linear", kind == "dynamic":
		return scaled(most)
	case kind == "longrope":
		return most + original
	case strings.HasSuffix(kind, "yarn"):
		return scaled(original)
	}
	return most
}

// countedEncoder ends the note on an encoder whose parameters are known.
const countedEncoder = ") counts in the memory of servers alone: the model is priced as text, without images and sound"

// countEncoders gives a model the parameters of its encoders, and says so in place of the note that they are left out.
func (m *Model) countEncoders(params int64) {
	if m.EncoderParams = params; params == 0 {
		return
	}
	for i, n := range m.Notes {
		if encoder, ok := strings.CutSuffix(n, uncountedEncoder); ok {
			m.Notes[i] = encoder + countedEncoder
		}
	}
}
