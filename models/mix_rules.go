package models

import "llmprof/models/gguf"

// pick is how llama-quantize keeps a matrix of a layer.
func (q *quantizer) pick(at place, l *Linear) (*Storage, error) {
	if at.part == latentPart {
		return q.latent(at.block.Attention.Latent), nil
	}
	return q.storage(q.typeOf(at, l), int64(l.In)), nil
}

// latent keeps the two halves of the expansion of a latent cache, of which that of the keys is
// turned over so that its rows have the length of a head.
func (q *quantizer) latent(l *Latent) *Storage {
	keys, values := q.storage(q.base, int64(l.NopeDim)), q.storage(q.base, int64(l.Rank))
	if keys == values {
		return keys
	}
	s := *values
	share := float64(l.NopeDim) * float64(l.Expand.Heads) / float64(l.Expand.Out)
	s.Bits = share*keys.Bits + (1-share)*values.Bits
	s.Name = keys.Name + "+" + values.Name
	if kept := q.kept[s.Name]; kept != nil {
		return kept
	}
	q.kept[s.Name] = &s
	return &s
}

// typeOf chooses the type by what the matrix does.
func (q *quantizer) typeOf(at place, l *Linear) *gguf.Type {
	switch {
	case at.part == routerPart, l.Out == 1, l.Name == "shared_expert_gate":
		return typeNamed("F32")
	case keptWhole(l.Name):
		return typeNamed("F16")
	case q.mix == "MXFP4_MOE":
		if at.part == expertPart {
			return q.base
		}
		return typeNamed("Q8_0")
	case at.block.Attention != nil && at.part == ownPart:
		return q.attention(l)
	case at.block.Scan != nil:
		return q.base
	case l.Name == "down_proj":
		q.downs++
		return q.down(at.layer)
	}
	if q.mix == "IQ3_XS" && (l.Name == "gate_proj" || l.Name == "up_proj") && at.layer >= q.layers/8 && at.layer < 7*q.layers/8 {
		return typeNamed("IQ3_XXS")
	}
	return q.base
}

// keptWhole reports which small matrices are not quantized (tensor_allows_quantization).
func keptWhole(name string) bool {
	switch name {
	case "altup_projections", "altup_router", "altup_unembed_projections", "laurel_left", "laurel_right", "per_layer_model_projection":
		return true
	}
	return false
}

// attention chooses the type of a matrix of attention.
func (q *quantizer) attention(l *Linear) *gguf.Type {
	if fusedAttention(q.model) && (l.Name == "q_proj" || l.Name == "k_proj" || l.Name == "v_proj") {
		if l.Name != "v_proj" { // the index of the layer's one matrix
			return q.valueType(q.value)
		}
		q.value++
		return q.valueType(q.value - 1)
	}
	switch l.Name {
	case "v_proj":
		q.value++
		return q.valueType(q.value - 1)
	case "k_proj":
		return q.keyType()
	case "q_proj":
		switch q.mix {
		case "IQ3_XS":
			return typeNamed("IQ3_XXS")
		case "IQ3_XXS":
			return typeNamed("IQ2_S")
		}
	case "o_proj":
		return q.outputType()
	}
	return q.base
}

// low reports whether the mix is one below 3 bits, which has separate rules.
func (q *quantizer) low() bool {
	switch q.mix {
	case "IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ2_M":
		return true
	}
	return false
}

// roomy reports whether it is one of the larger two mixes below 3 bits.
func (q *quantizer) roomy() bool { return q.mix == "IQ2_S" || q.mix == "IQ2_M" }

// more reports whether layer i of n is one of those that a middle-sized mix gives more bits: the first and
// the last eighth, and every third between them.
func more(i, n int) bool { return i < n/8 || i >= 7*n/8 || (i-n/8)%3 == 2 }

// valueType is the type of the i-th matrix that makes values.
func (q *quantizer) valueType(i int) *gguf.Type {
	if q.low() {
		switch {
		case q.grouped >= 4 || q.experts >= 4:
			return typeNamed("Q4_K")
		case q.roomy():
			return typeNamed("IQ3_S")
		}
		return typeNamed("Q2_K")
	}
	t := q.plainValueType(i)
	if q.large && (t.Name == "Q3_K" || t.Name == "Q4_K") {
		t = typeNamed("Q5_K")
	}
	if q.experts == 8 {
		return typeNamed("Q8_0")
	}
	return t
}

func (q *quantizer) plainValueType(i int) *gguf.Type {
	grouped := q.grouped >= 4
	switch q.mix {
	case "Q2_K":
		if grouped {
			return typeNamed("Q4_K")
		}
		return typeNamed("Q3_K")
	case "Q2_K_S", "IQ3_XS", "IQ3_S", "IQ3_XXS":
		if grouped {
			return typeNamed("Q4_K")
		}
	case "IQ3_M":
		return typeNamed("Q4_K")
	case "Q3_K_M":
		if i < 2 {
			return typeNamed("Q5_K")
		}
		return typeNamed("Q4_K")
	case "Q3_K_L":
		return typeNamed("Q5_K")
	case "IQ4_NL", "IQ4_XS":
		if grouped {
			return typeNamed("Q5_K")
		}
	case "Q4_K_M", "Q5_K_M":
		if more(i, q.values) {
			return typeNamed("Q6_K")
		}
	case "Q4_K_S":
		if i < 4 {
			return typeNamed("Q5_K")
		}
	}
	return q.base
}

func (q *quantizer) keyType() *gguf.Type {
	switch {
	case q.experts == 8 && q.low():
		return typeNamed("Q4_K")
	case q.experts == 8:
		return typeNamed("Q8_0")
	case q.mix == "IQ3_XS":
		return typeNamed("IQ3_XXS")
	case q.mix == "IQ3_XXS":
		return typeNamed("IQ2_S")
	}
	return q.base
}

// outputType is the type of the product out of attention.
func (q *quantizer) outputType() *gguf.Type {
	if q.experts == 8 {
		switch q.mix {
		case "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q5_K_S", "Q5_K_M", "Q6_K", "Q8_0", "Q3_K_L", "Q2_K_S", "TQ1_0", "TQ2_0", "Q1_0", "Q2_0":
			return q.base
		}
		return typeNamed("Q5_K")
	}
	falcon := q.model.Family == "falcon"
	switch q.mix {
	case "IQ1_S", "IQ1_M":
		return typeNamed("IQ2_XXS")
	case "IQ2_S", "IQ2_M":
		return typeNamed("IQ3_S")
	case "Q3_K_L":
		if falcon {
			return typeNamed("Q4_K")
		}
		return typeNamed("Q5_K")
	}
	if falcon {
		return q.base
	}
	switch q.mix {
	case "Q2_K":
		return typeNamed("Q3_K")
	case "IQ3_XXS":
		return typeNamed("IQ3_S")
	case "Q3_K_M", "IQ3_M":
		return typeNamed("Q4_K")
	}
	return q.base
}

// down is the type of the product down of a layer.
func (q *quantizer) down(layer int) *gguf.Type {
	falcon := q.model.Family == "falcon"
	early := layer < q.layers/8
	switch q.mix {
	case "IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ2_M":
		switch {
		case q.downs > q.layers/8: // here the matrices count, of which a layer may have two
			return q.base
		case q.roomy():
			return typeNamed("IQ3_S")
		}
		return typeNamed("Q2_K")
	case "Q2_K":
		return typeNamed("Q3_K")
	case "Q3_K_L":
		if falcon {
			return typeNamed("Q4_K")
		}
		return typeNamed("Q5_K")
	case "Q3_K_M":
		switch {
		case layer < q.layers/16:
			return typeNamed("Q5_K")
		case falcon && !more(layer, q.layers):
			return q.base
		}
		return typeNamed("Q4_K")
	case "Q2_K_S", "IQ3_M":
		if early || q.mix == "IQ3_M" && q.experts == 8 && more(layer, q.layers) {
			return typeNamed("Q4_K")
		}
	case "IQ4_NL", "IQ4_XS":
		if early && !q.imatrix {
			return typeNamed("Q5_K")
		}
	case "Q4_K_S":
		if early && !falcon {
			return typeNamed("Q5_K")
		}
	case "Q4_K_M", "Q5_K_M":
		return q.middle(layer, falcon)
	}
	return q.base
}

// middle is the product down of Q4_K_M and Q5_K_M.
func (q *quantizer) middle(layer int, falcon bool) *gguf.Type {
	if falcon && q.mix == "Q4_K_M" {
		switch {
		case layer < q.layers/16:
			return typeNamed("Q6_K")
		case more(layer, q.layers):
			return typeNamed("Q5_K")
		}
		return q.base
	}
	if more(layer, q.layers) {
		return typeNamed("Q6_K")
	}
	return q.base
}

// head is the type of the LM head, and of an embedding that is the head too.
func (q *quantizer) head(in int64) *gguf.Type {
	switch {
	case q.mix == "MXFP4_MOE", q.model.Family == "falcon", !q.base.Fits(in):
		return typeNamed("Q8_0")
	case q.low(), q.mix == "IQ3_XXS":
		return typeNamed("Q5_K")
	case q.base.Name == "Q8_0":
		return q.base
	}
	return typeNamed("Q6_K")
}

// embedding is the type of the table of tokens.
func (q *quantizer) embedding() *gguf.Type {
	if q.model.TiedHead {
		return q.head(int64(q.model.Embedding.Width))
	}
	switch q.mix {
	case "MXFP4_MOE":
		return typeNamed("Q8_0")
	case "IQ2_XXS", "IQ2_XS", "IQ1_S", "IQ1_M":
		return typeNamed("Q2_K")
	case "IQ2_S", "IQ2_M", "IQ3_XXS":
		return typeNamed("IQ3_S")
	case "TQ1_0", "TQ2_0", "Q2_0":
		return typeNamed("Q4_K")
	}
	return q.base
}
