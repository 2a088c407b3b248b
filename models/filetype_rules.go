package models

import (
	"slices"
	"strings"

	"llmprof/unit"
)

// pick is how llama-quantize keeps a matrix of a layer.
func (q *quantizer) pick(at place, l *Linear) (*Storage, error) {
	if at.part == expertPart && keepsMXFP4(l) {
		return q.storage("MXFP4", int64(l.In)), nil
	}
	if at.part == latentPart {
		return q.latent(at.block.Attention.Latent), nil
	}
	return q.storage(q.typeOf(at, l), int64(l.In)), nil
}

// keepsMXFP4 reports whether a matrix stays as its checkpoint has it: no file of llama.cpp has experts in MXFP4 in
// another format, since it does not quantize again what is quantized.
func keepsMXFP4(l *Linear) bool { return l.Stored != nil && l.Stored.Format == unit.MXFP4 }

// latent keeps the two halves of the expansion of a latent cache, of which that of the keys is
// turned over so that its rows have the length of a head.
func (q *quantizer) latent(l *Latent) *Storage {
	keys, values := q.storage("", int64(l.NopeDim)), q.storage("", int64(l.Rank))
	if keys == values {
		return keys
	}
	s := *values
	share := float64(l.NopeDim) * float64(l.Expand.Heads) / float64(l.Expand.Out)
	s.Bits = share*keys.Bits + (1-share)*values.Bits
	s.Name = keys.Name + "+" + values.Name
	if mixed := q.storages[s.Name]; mixed != nil {
		return mixed
	}
	q.storages[s.Name] = &s
	return &s
}

// The functions below choose a type by its name; "" is the type that most matrices of the file type have.

// A typeRule gives matrices a type in some file types.
type typeRule struct {
	fileTypes string // names of the file types, with blanks between
	holds     bool   // The rule applies to the matrix.
	to        string
}

func (q *quantizer) first(rules []typeRule) string {
	for _, r := range rules {
		if r.holds && q.is(r.fileTypes) {
			return r.to
		}
	}
	return ""
}

// is reports whether the file type is one of those named.
func (q *quantizer) is(mixes string) bool {
	return strings.Contains(mixes, q.mix) && slices.Contains(strings.Fields(mixes), q.mix)
}

// File types below 3 bits have separate rules, and the larger two of them further ones.
const (
	low   = "IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S IQ2_M"
	roomy = "IQ2_S IQ2_M"
)

// typeOf chooses by what the matrix does.
func (q *quantizer) typeOf(at place, l *Linear) string {
	switch {
	case at.part == routerPart, l.Out == 1, l.Name == "shared_expert_gate":
		return "F32"
	case keptWhole(l.Name):
		return "F16"
	case q.is("MXFP4_MOE"):
		return choose(at.part == expertPart, "", "Q8_0")
	case at.block.Attention != nil && at.part == ownPart:
		return q.attention(l)
	case at.block.Scan != nil:
		return ""
	case l.Name == "down_proj":
		q.downs++
		return q.down(at.layer)
	}
	middle := at.layer >= q.layers/8 && at.layer < 7*q.layers/8
	return q.first([]typeRule{{"IQ3_XS", middle && (l.Name == "gate_proj" || l.Name == "up_proj"), "IQ3_XXS"}})
}

// keptWhole reports which small matrices are not quantized (tensor_allows_quantization).
func keptWhole(name string) bool {
	return slices.Contains([]string{"altup_projections", "altup_router", "altup_unembed_projections", "laurel_left", "laurel_right",
		"per_layer_model_projection"}, name)
}

// attention chooses the type of a matrix of attention.
func (q *quantizer) attention(l *Linear) string {
	switch {
	case l.Name == "v_proj":
		q.value++
		return q.valueType(q.value - 1)
	case fusedAttention(q.model) && (l.Name == "q_proj" || l.Name == "k_proj"):
		return q.valueType(q.value) // the index of the layer's one matrix
	case l.Name == "k_proj" && q.experts == 8:
		return choose(q.is(low), "Q4_K", "Q8_0")
	case l.Name == "k_proj", l.Name == "q_proj":
		return q.first([]typeRule{{"IQ3_XS", true, "IQ3_XXS"}, {"IQ3_XXS", true, "IQ2_S"}})
	case l.Name == "o_proj":
		return q.outputType()
	}
	return ""
}

// more reports whether layer i of n is one of those that a middle-sized file type gives more bits: the first and
// the last eighth, and every third between them.
func more(i, n int) bool { return i < n/8 || i >= 7*n/8 || (i-n/8)%3 == 2 }

func (q *quantizer) valueType(i int) string {
	grouped := q.grouped >= 4
	if q.is(low) {
		return q.first([]typeRule{{low, grouped || q.experts >= 4, "Q4_K"}, {roomy, true, "IQ3_S"}, {low, true, "Q2_K"}})
	}
	t := q.first([]typeRule{
		{"Q2_K Q2_K_S IQ3_XS IQ3_S IQ3_XXS", grouped, "Q4_K"},
		{"Q2_K", true, "Q3_K"},
		{"IQ3_M", true, "Q4_K"},
		{"Q3_K_M", i < 2, "Q5_K"},
		{"Q3_K_M", true, "Q4_K"},
		{"Q3_K_L", true, "Q5_K"},
		{"IQ4_NL IQ4_XS", grouped, "Q5_K"},
		{"Q4_K_M Q5_K_M", more(i, q.values), "Q6_K"},
		{"Q4_K_S", i < 4, "Q5_K"},
	})
	switch name := q.named(t).Name; {
	case q.experts == 8:
		return "Q8_0"
	case q.large && (name == "Q3_K" || name == "Q4_K"):
		return "Q5_K"
	}
	return t
}

// falcon reports whether the model is a Falcon, for which llama-quantize has exceptions.
func (q *quantizer) falcon() bool { return q.model.Family == "falcon" }

// outputType is the type of the product out of attention.
func (q *quantizer) outputType() string {
	if q.experts == 8 {
		return choose(q.is("Q4_0 Q4_1 Q5_0 Q5_1 Q5_K_S Q5_K_M Q6_K Q8_0 Q3_K_L Q2_K_S TQ1_0 TQ2_0 Q1_0 Q2_0"), "", "Q5_K")
	}
	return q.first([]typeRule{
		{"IQ1_S IQ1_M", true, "IQ2_XXS"},
		{roomy, true, "IQ3_S"},
		{"Q3_K_L", q.falcon(), "Q4_K"},
		{"Q3_K_L", true, "Q5_K"},
		{"Q2_K", !q.falcon(), "Q3_K"},
		{"IQ3_XXS", !q.falcon(), "IQ3_S"},
		{"Q3_K_M IQ3_M", !q.falcon(), "Q4_K"},
	})
}

// down is the type of the product down of a layer.
func (q *quantizer) down(layer int) string {
	falcon, more := q.falcon(), more(layer, q.layers)
	first, early := layer < q.layers/16, layer < q.layers/8
	return q.first([]typeRule{
		{low, q.downs > q.layers/8, ""}, // here the matrices count, of which a layer may have two
		{roomy, true, "IQ3_S"},
		{low, true, "Q2_K"},
		{"Q2_K", true, "Q3_K"},
		{"Q3_K_L", falcon, "Q4_K"},
		{"Q3_K_L", true, "Q5_K"},
		{"Q3_K_M", first, "Q5_K"},
		{"Q3_K_M", !falcon || more, "Q4_K"},
		{"Q2_K_S IQ3_M", early, "Q4_K"},
		{"IQ3_M", q.experts == 8 && more, "Q4_K"},
		{"IQ4_NL IQ4_XS", early, "Q5_K"},
		{"Q4_K_S", early && !falcon, "Q5_K"},
		{"Q4_K_M", falcon && first, "Q6_K"},
		{"Q4_K_M", falcon && more, "Q5_K"},
		{"Q4_K_M", falcon, ""},
		{"Q4_K_M Q5_K_M", more, "Q6_K"},
	})
}

// head is the type of the LM head, and of an embedding that is the head too.
func (q *quantizer) head(in int64) string {
	switch {
	case q.is("MXFP4_MOE"), q.falcon(), !q.base.Fits(in):
		return "Q8_0"
	case q.is(low + " IQ3_XXS"):
		return "Q5_K"
	}
	return choose(q.base.Name == "Q8_0", "", "Q6_K")
}

// embedding is the type of the table of tokens.
func (q *quantizer) embedding() string {
	if q.model.TiedHead {
		return q.head(int64(q.model.Embedding.Width))
	}
	return q.first([]typeRule{
		{"MXFP4_MOE", true, "Q8_0"},
		{"IQ2_XXS IQ2_XS IQ1_S IQ1_M", true, "Q2_K"},
		{roomy + " IQ3_XXS", true, "IQ3_S"},
		{"TQ1_0 TQ2_0 Q2_0", true, "Q4_K"},
	})
}
