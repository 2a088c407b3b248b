package models

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"llmprof/internal/spelling"
)

// A decoder is the part of a config that describes a text decoder.
type decoder struct {
	config    map[string]any
	modelType string
	nested    bool // found inside a wrapper
	alone     bool // The class that the config names is the decoder's.
	notes     []string
}

// wrapped lists where multimodal configs keep their decoder.
func wrapped() []string {
	return []string{
		"text_config", "llm_config", "language_config", "text_model_config", "language_model_config",
		"thinker_config.text_config", "llm_cfg",
	}
}

// encoderParts lists the parts beside a decoder that are left out, and how notes call them.
func encoderParts() [][2]string {
	return [][2]string{
		{"vision_config", "vision tower"}, {"vision_cfg", "vision tower"}, {"visual", "vision tower"},
		{"vision_tower_config", "vision tower"}, {"vision_tower", "vision tower"}, {"mm_vision_tower", "vision tower"},
		{"img_processor", "vision tower"},
		{"audio_config", "audio tower"}, {"audio_processor", "audio tower"}, {"thinker_config", "audio and vision towers and talker"},
		{"embd_layer", "image embedding"},
	}
}

// encoderFields are the fields of encoders.
func encoderFields() (fields []string) {
	for _, t := range encoderParts() {
		fields = append(fields, t[0])
	}
	return fields
}

// uncountedEncoder ends the note on an encoder whose parameters are not known.
const uncountedEncoder = ") is not counted"

// findDecoder goes down to the text decoder of a multimodal config.
func findDecoder(object map[string]any) (decoder, error) {
	d := decoder{config: object}
	for _, t := range encoderParts() {
		if v := object[t[0]]; v != nil && v != false {
			d.notes = append(d.notes, "the "+t[1]+" ("+t[0]+uncountedEncoder)
		}
	}
	for _, path := range wrapped() {
		inner, ok := dig(object, path)
		config, isObject := inner.(map[string]any)
		if !ok || !isObject {
			continue
		}
		d.config, d.nested = inherit(config, object), true
		break
	}
	d.alone = d.nested && decoderAlone(object)
	modelType, ok := d.config["model_type"]
	if !ok {
		return d, d.name()
	}
	text, ok := modelType.(string)
	if !ok {
		return d, fmt.Errorf("model_type is %s; want a text such as \"llama\"", kindOf(modelType))
	}
	switch d.modelType = text; text {
	case "bailing_hybrid":
		d.modelType = lingHybrid(d.config)
	case "deepseek_ref": // the fields of DeepSeek's inference code, for which SGLang's FP8 conversions name their class
		if classes, _ := d.config["architectures"].([]any); slices.Contains(classes, any("DeepseekV4ForCausalLM")) {
			d.modelType = "deepseek_v4"
		}
	}
	return d, nil
}

// decoderAlone reports whether a multimodal config names a class that is of its decoder.
func decoderAlone(object map[string]any) bool {
	classes, _ := object["architectures"].([]any)
	if len(classes) == 0 {
		return false
	}
	class, _ := classes[0].(string)
	_, _, known := familyOfClass(class)
	return known
}

// inherit adds to a nested config what only the wrapper may state of it.
func inherit(inner, outer map[string]any) map[string]any {
	merged := make(map[string]any, len(inner)+4)
	for _, key := range []string{"tie_word_embeddings", "dtype", "torch_dtype", "quantization_config", "quantization", "backbone_hidden_size",
		"use_ordered_embeddings"} {
		if v, ok := outer[key]; ok {
			merged[key] = v
		}
	}
	maps.Copy(merged, inner)
	if version, _ := outer["transformers_version"].(string); version >= "5" && outer["tie_word_embeddings"] != nil {
		merged["tie_word_embeddings"] = outer["tie_word_embeddings"] // Since version 5 the whole decides.
	}
	if _, ok := merged["model_type"]; !ok {
		if v, ok := outer["model_type"]; ok {
			merged["model_type"] = v
		}
	}
	return merged
}

// name finds the family of a config without model_type: the state-spaces
// models have none, early ones only name their class.
func (d *decoder) name() error {
	if _, ok := d.config["ssm_cfg"]; ok {
		d.modelType = "mamba_ssm"
		return nil
	}
	if classes, ok := d.config["architectures"].([]any); ok && len(classes) > 0 {
		class, _ := classes[0].(string)
		if _, t, ok := familyOfClass(class); ok {
			d.modelType = t
			return nil
		}
		return fmt.Errorf("model_type is missing and the class %s is not known", quote(class))
	}
	if schema, ok := d.config["schema"].(string); ok && strings.HasPrefix(schema, "llmprof.") {
		return fmt.Errorf("it is an output of llmprof (%s) and no model: give a config.json, or the name of a model", quote(schema))
	}
	return fmt.Errorf("model_type is missing; want the family's name, such as \"llama\"")
}

// byClass finds the family of a config whose model_type is not known by the class that it names, unless that comes with
// the checkpoint.
func (d *decoder) byClass() (family, bool) {
	if d.config["auto_map"] != nil {
		return family{}, false
	}
	classes, _ := d.config["architectures"].([]any)
	for _, c := range classes {
		class, _ := c.(string)
		if f, name, ok := familyOfClass(class); ok {
			d.notes = append(d.notes, fmt.Sprintf("model_type %s is not known; its class %s is that of %s", quote(d.modelType), class, name))
			d.modelType = name
			return f, true
		}
	}
	return family{}, false
}

// familyOfClass finds the family that a class of transformers is named after, and the model_type.
func familyOfClass(class string) (f family, modelType string, ok bool) {
	plain := strings.NewReplacer("_", "", "-", "")
	for _, f := range families() {
		for _, t := range f.types {
			if strings.EqualFold(plain.Replace(t)+"ForCausalLM", plain.Replace(class)) {
				return f, t, true
			}
		}
	}
	return family{}, "", false
}

func findFamily(d *decoder) (family, error) {
	all := families()
	for _, f := range all {
		if slices.Contains(f.types, d.modelType) {
			return f, nil
		}
	}
	if why := fieldTable().Unread[d.modelType]; why != "" {
		return family{}, fmt.Errorf("model_type %s is not read: %s", quote(d.modelType), why)
	}
	if f, ok := d.byClass(); ok {
		return f, nil
	}
	err := fmt.Errorf("model_type %s %w", quote(d.modelType), errUnknownFamily)
	var types []string
	for _, f := range all {
		types = append(types, f.types...)
	}
	if near := spelling.Near(d.modelType, types); len(near) > 0 {
		err = fmt.Errorf("%w (near: %s)", err, strings.Join(near, ", "))
	}
	return family{}, fmt.Errorf("%w; its fields %s, which does not say what its norms, biases and layers are", err, describe(d.config))
}

// describe says what the fields of an unknown family look like.
func describe(config map[string]any) string {
	var missing []string
	for _, field := range []string{"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"} {
		if _, ok := config[field]; !ok {
			missing = append(missing, field)
		}
	}
	if len(missing) == 0 {
		return "have Llama's names"
	}
	return "lack " + strings.Join(missing, ", ") + " of Llama's names"
}
