package models

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A Checkpoint is the files that describe a model.
type Checkpoint struct {
	Config  []byte // config.json
	Quant   []byte // hf_quant_config.json, which NVIDIA's checkpoints have beside it; may be nil
	Lenient bool   // note what is not understood and leave it out of account, instead of an error

	Tensors Tensors // tensors of its safetensors files; nil where their headers were not read
}

// Read reads the shape of a decoder from the config.json that Hugging Face
// transformers, or the model's own code on the hub, would build it from. What
// it does not know for certain is an error that names the field.
func Read(name string, config []byte) (*Model, error) {
	return Checkpoint{Config: config}.Read(name)
}

// Read reads the shape of the model and how its weights are stored.
func (c Checkpoint) Read(name string) (*Model, error) {
	object, err := parseConfig(c.Config)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := c.addQuantization(object); err != nil {
		return nil, fmt.Errorf("%s: hf_quant_config.json: %w", name, err)
	}
	m, err := readModel(object, c.Lenient, reads{measured: c.Tensors != nil})
	if c.Tensors != nil && errors.Is(err, errUnknownFamily) {
		if m, err = c.infer(object); err != nil {
			err = fmt.Errorf("its model_type is not known, and its tensors do not tell its shape: %w", err)
		}
	}
	if err == nil && c.Tensors != nil {
		err = m.weigh(c.Tensors, c.Lenient)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	m.Name = name
	return m, nil
}

// addQuantization puts what hf_quant_config.json says where config.json would say it. Both have the
// same names but for the object around them; config.json has precedence.
func (c Checkpoint) addQuantization(object map[string]any) error {
	if len(c.Quant) == 0 {
		return nil
	}
	file, err := parseConfig(c.Quant)
	if err != nil {
		return err
	}
	q, ok := file["quantization"].(map[string]any)
	if !ok {
		q = file
	}
	if _, ok := q["quant_algo"]; !ok {
		return errors.New("quantization.quant_algo is missing; want the algorithm, such as \"FP8\"")
	}
	if q["quant_algo"] == nil {
		return nil // nothing of the checkpoint is quantized
	}
	for _, path := range append([]string{""}, wrapped()...) {
		place := object
		if path != "" {
			inner, _ := dig(object, path)
			place, _ = inner.(map[string]any)
		}
		if stated, ok := place["quantization_config"].(map[string]any); ok {
			for k, v := range q {
				if _, has := stated[k]; !has {
					stated[k] = v
				}
			}
			return nil
		}
	}
	q["quant_method"] = "modelopt"
	object["quantization_config"] = q
	return nil
}

// reads says what of a checkpoint is read beside its config.
type reads struct {
	table    bool // A table of tensors reports whether all of the config was read.
	measured bool // Tensors say what the weights take, whatever their formats.
}

// readModel reads the shape that a config describes.
func readModel(object map[string]any, lenient bool, beside reads) (*Model, error) {
	d, err := findDecoder(object)
	if err != nil {
		return nil, err
	}
	f, err := findFamily(&d)
	if err != nil {
		return nil, err
	}
	r, err := newReader(f, d)
	if err != nil {
		return nil, err
	}
	r.lenient, r.beside = lenient, beside
	m := r.model()
	if r.err != nil {
		return nil, fmt.Errorf("%s: %w", d.modelType, r.failure())
	}
	if err := check(m); err != nil {
		return nil, fmt.Errorf("%s: %w", d.modelType, err)
	}
	m.Notes = append(append(d.notes, m.Notes...), r.left...)
	if !d.alone {
		m.readEncoders(object)
	}
	return m, nil
}

// A reader builds the blocks of one model from its fields.
type reader struct {
	fields
	family
	modelType string
	hidden    int
	layers    int
	uses      int // how often shared blocks were used so far, while layers are planned
	notes     []string
	lists     map[string][]string // lists that were read before, by name
	numbers   map[string][]int
	own       map[string]map[string]any // entries of per_layer_config
	ownOf     map[int]string            // which of them a layer has
}

func newReader(f family, d decoder) (*reader, error) {
	r := &reader{family: f, modelType: d.modelType}
	r.config = d.config
	if r.norms.mixer == nil && r.norms.ffn == nil {
		r.norms = preNorm(r.norms.shape)
	}
	r.fields.names = make(map[string][]string)
	for common, own := range commonNames() {
		r.fields.names[common] = strings.Split(own, "|")
	}
	for common, own := range f.names {
		r.fields.names[common] = strings.Split(own, "|")
	}
	assume, err := assumed(f, d)
	if err != nil {
		return nil, err
	}
	r.fields.assume = assume
	if r.tune != nil {
		r.tune(r)
	}
	return r, nil
}

// assumed is what the family takes for fields that the config leaves out.
func assumed(f family, d decoder) (map[string]any, error) {
	all, err := parseConfig([]byte(cmp.Or(f.assume, "{}")))
	if err != nil {
		return nil, fmt.Errorf("defaults of %s: %w", d.modelType, err)
	}
	class, err := classDefaults(d)
	if err != nil {
		return nil, fmt.Errorf("defaults of %s: %w", d.modelType, err)
	}
	maps.Copy(all, class)
	return all, nil
}

// commonNames has the spellings that many families share, by the common name.
func commonNames() map[string]string {
	return map[string]string{
		"hidden_size":             "hidden_size|n_embd|d_model",
		"num_hidden_layers":       "num_hidden_layers|n_layer|n_layers|num_layers",
		"num_attention_heads":     "num_attention_heads|n_head|n_heads",
		"num_key_value_heads":     "num_key_value_heads|num_kv_heads",
		"max_position_embeddings": "max_position_embeddings|n_positions|n_ctx|max_seq_len|seq_length|max_sequence_length",
		"num_experts":             "num_local_experts|num_experts|n_routed_experts",
		"n_shared_experts":        "n_shared_experts|num_shared_experts",
		"num_experts_per_tok":     "num_experts_per_tok|moe_topk|moe_k",
		"dtype":                   "dtype|torch_dtype",
		"expert_dtype":            "expert_dtype|quantization_config.expert_dtype",
		"rope_parameters":         "rope_parameters|rope_scaling",
	}
}

// note says once what the shape takes for granted.
func (r *reader) note(text string) {
	if !slices.Contains(r.notes, text) {
		r.notes = append(r.notes, text)
	}
}

func (r *reader) on(t toggle) bool {
	switch {
	case t == no:
		return false
	case t == yes:
		return true
	case t[0] == '!':
		return !r.flag(string(t[1:]))
	}
	return r.flag(string(t))
}

// asNumber is the JSON number n, for lists made up by plans.
func asNumber(n int) json.Number { return json.Number(fmt.Sprint(n)) }
