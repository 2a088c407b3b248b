package models

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"llmprof/models/gguf"
	"llmprof/unit"
)

// ReadGGUF reads the shape of a decoder from the header of a GGUF file, or from those of
// the parts of a split one, the first one first. Every tensor has to be accounted for.
func ReadGGUF(name string, headers ...*gguf.Header) (*Model, error) {
	h, err := gguf.Join(headers)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	config, err := ggufConfig(h)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	m, err := readModel(config, false, reads{table: true})
	if err == nil {
		err = newTensorTable(m, h).apply()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	m.Name = name
	m.Stored.Method, m.Stored.Plain, m.Stored.Vectors = "gguf", unit.BF16, unit.FP32
	m.Cache = unit.NoFormat
	if kind, ok := h.Values["general.file_type"].(int64); ok {
		if fileType := fileTypeName(kind); fileType != "" {
			m.Stored.Method = "gguf " + fileType
		}
	}
	return m, nil
}

// A tensorTable pairs the tensors of a file with the matrices of a model.
type tensorTable struct {
	model    *Model
	tensors  map[string]*gguf.Tensor
	left     map[string]int64 // values of a tensor that no matrix accounts for yet
	storages map[string]*Storage
	bytes    map[unit.Format]float64 // memory of the matrices, by the nearest format
}

func newTensorTable(m *Model, h *gguf.Header) *tensorTable {
	t := &tensorTable{model: m, tensors: make(map[string]*gguf.Tensor), left: make(map[string]int64),
		storages: make(map[string]*Storage), bytes: make(map[unit.Format]float64)}
	for i := range h.Tensors {
		t.tensors[h.Tensors[i].Name] = &h.Tensors[i]
		t.left[h.Tensors[i].Name] = h.Tensors[i].Elements()
	}
	return t
}

// apply sets how each matrix is kept.
func (t *tensorTable) apply() error {
	m := t.model
	err := m.store(func(at place, l *Linear) (*Storage, error) {
		return t.find(fmt.Sprintf("blk.%d.", at.layer), l, at.copies(), ggufNames(at, l))
	})
	if err != nil {
		return err
	}
	embedding := Linear{Name: "embedding", In: m.Embedding.Width, Out: m.Vocab}
	if m.Embedding.Stored, err = t.find("", &embedding, 1, [][]string{{"token_embd"}}); err != nil {
		return err
	}
	if !m.TiedHead {
		if m.Head.Stored, err = t.find("", &m.Head, 1, [][]string{{"output"}}); err != nil {
			return err
		}
	}
	for f, b := range t.bytes {
		if b > t.bytes[m.Stored.Weights] {
			m.Stored.Weights = f
		}
	}
	return t.rest()
}

// find looks for the tensor of a matrix by its names.
func (t *tensorTable) find(prefix string, l *Linear, copies int64, names [][]string) (*Storage, error) {
	size := int64(l.In) * int64(l.Out) * int64(max(l.Times, 1)) * copies
	for _, group := range names {
		var parts []*gguf.Tensor
		for _, name := range group {
			if tensor := t.tensors[prefix+name+".weight"]; tensor != nil {
				parts = append(parts, tensor)
			}
		}
		if len(parts) == len(group) {
			return t.take(parts, l, size)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no tensor of GGUF is known for %s", l.Name)
	}
	return nil, fmt.Errorf("the tensor %s%s.weight is missing, which the model's keys ask for", prefix, names[0][0])
}

// take accounts for size values in parts, all of them if there are several.
func (t *tensorTable) take(parts []*gguf.Tensor, l *Linear, size int64) (*Storage, error) {
	var elements, bytes int64
	for _, p := range parts {
		elements += p.Elements()
		bytes += p.Bytes()
	}
	first := parts[0]
	if len(parts) > 1 {
		if elements != size {
			return nil, fmt.Errorf("the tensors from %s on have %d values; the model's keys make %d of %s", first.Name, elements, size, l.Name)
		}
		for _, p := range parts {
			t.left[p.Name] = 0
		}
		return t.several(parts, float64(bytes)*8/float64(elements)), nil
	}
	if t.left[first.Name] < size || first.Dims[0] != int64(l.In) {
		return nil, fmt.Errorf("the tensor %s is %v; the model's keys make %d by %d of %s", first.Name, first.Dims, l.In, size/int64(l.In),
			l.Name)
	}
	t.left[first.Name] -= size
	return t.several(parts, first.Type.Bits()), nil
}

// several is the storage of a matrix in tensors of one type or more.
func (t *tensorTable) several(parts []*gguf.Tensor, bits float64) *Storage {
	var names []string
	for _, p := range parts {
		if !slices.Contains(names, p.Type.Name) {
			names = append(names, p.Type.Name)
		}
		t.bytes[p.Type.Format] += float64(p.Bytes())
	}
	name := strings.Join(names, "+")
	if t.storages[name] == nil {
		s := ggmlStorage(parts[0].Type)
		s.Name, s.Bits = name, bits
		t.storages[name] = s
	}
	return t.storages[name]
}

// rest accounts for what is no matrix. Draft layers and the factors of rotary positions are no part
// of the shape.
func (t *tensorTable) rest() error {
	var bytes int64
	for _, name := range slices.Sorted(maps.Keys(t.tensors)) {
		tensor, left := t.tensors[name], t.left[name]
		vector := slices.Max(tensor.Dims) == tensor.Elements() || strings.HasSuffix(name, ".bias") || strings.Contains(name, ".ssm_conv1d_")
		switch {
		case t.draft(name) || strings.HasPrefix(name, "rope_"):
			continue
		case left == 0:
		case !vector && left == tensor.Elements():
			return fmt.Errorf("the tensor %s (%s, %v) belongs to nothing that is understood of the architecture", name, tensor.Type.Name,
				tensor.Dims)
		case !vector:
			return fmt.Errorf("the tensor %s has %d values more than the model's keys make of it", name, left)
		}
		bytes += tensor.Bytes()
	}
	t.model.Stored.Bytes = bytes
	return nil
}

// draft reports whether a tensor is of a layer behind the last one.
func (t *tensorTable) draft(name string) bool {
	var layer int
	_, err := fmt.Sscanf(name, "blk.%d.", &layer)
	return err == nil && layer >= t.model.NumLayers()
}

// These tables name the tensors of a GGUF file that may hold a matrix. "|" separates alternatives, and "+" separates
// tensors that each hold a part of the matrix; a tensor that is named for several matrices holds all of them. The names
// are those of MODEL_TENSORS of gguf-py (MIT licence), without the layer's number and ".weight".
var (
	attentionTensors = map[string]string{
		"q_proj": "attn_q|attn_qkv", "k_proj": "attn_k|attn_qkv", "v_proj": "attn_v|attn_qkv", "o_proj": "attn_output", "g_proj": "attn_gate",
		"gate_proj": "attn_gate|attn_q", // Qwen3.5 has queries and gates in one matrix
		"q_a_proj":  "attn_q_a", "q_b_proj": "attn_q_b", "kv_a_proj": "attn_kv_a_mqa",
		"indexer.wq_b": "indexer.attn_q_b", "indexer.wk": "indexer.attn_k", "indexer.weights_proj": "indexer.proj",
	}
	scanTensors = map[string]string{
		"in_proj": "ssm_in", "x_proj": "ssm_x", "dt_proj": "ssm_dt", "out_proj": "ssm_out",
		"qkv_proj": "attn_q+attn_k+attn_v|attn_qkv", "f_proj": "ssm_f_a", "g_proj": "ssm_g_a", "b_proj": "ssm_beta", "o_proj": "attn_output",
	}
	feedForwardTensors = map[string]string{"gate_proj": "ffn_gate|ffn_gate_up|ffn_up", "up_proj": "ffn_up|ffn_gate_up",
		"down_proj": "ffn_down"}
	expertTensors = map[string]string{
		"gate_proj": "ffn_gate_exps|ffn_gate_up_exps|ffn_up_exps", "up_proj": "ffn_up_exps|ffn_gate_up_exps", "down_proj": "ffn_down_exps",
	}
	sharedTensors = map[string]string{
		"gate_proj": "ffn_gate_shexp|ffn_gate_up_shexp|ffn_up_shexp", "up_proj": "ffn_up_shexp|ffn_gate_up_shexp", "down_proj": "ffn_down_shexp",
		"shared_expert_gate": "ffn_gate_inp_shexp",
	}
)

// ggufNames lists the alternatives of a matrix, each with the tensors that hold its parts.
func ggufNames(at place, l *Linear) (names [][]string) {
	text := feedForwardTensors[l.Name]
	switch {
	case at.part == latentPart:
		text = "attn_kv_b|attn_k_b+attn_v_b"
	case at.part == routerPart:
		text = "ffn_gate_inp"
	case at.part == expertPart:
		text = expertTensors[l.Name]
	case at.part == sharedPart:
		text = sharedTensors[l.Name]
	case at.block.Attention != nil:
		text = attentionTensors[l.Name]
	case at.block.Scan != nil:
		text = scanTensors[l.Name]
	}
	if text == "" {
		return nil
	}
	for alternative := range strings.SplitSeq(text, "|") {
		names = append(names, strings.Split(alternative, "+"))
	}
	return names
}
