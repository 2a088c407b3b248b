package models

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// encoderNames are the names that the formulas of encoders have for fields, and the fields' own.
var encoderNames = map[string]string{
	"h": "hidden_size|vt_hidden_size", "i": "intermediate_size|vt_intermediate_size", "c": "num_channels|in_channels",
	"n": "num_hidden_layers|depth|vt_num_hidden_layers",
	"p": "patch_size", "s": "image_size", "a": "num_attention_heads|num_heads", "o": "out_hidden_size|output_dim", "m": "spatial_merge_size",
	"tp": "temporal_patch_size", "d": "d_model", "f": "encoder_ffn_dim", "mel": "num_mel_bins",
	"vh": "vision_config.hidden_size|vision_config.vt_hidden_size", "ah": "audio_config.hidden_size", "vm": "vision_config.spatial_merge_size",
}

// readEncoders counts the parameters of the encoders of a multimodal config, and of what projects them to the hidden size of the decoder,
// by the formulas of the table, and keeps how images and audio become tokens. It leaves the encoders uncounted where one of them has no
// formula.
func (m *Model) readEncoders(object map[string]any) {
	wrapper := wrapperOf(object)
	projector, known := fieldTable().Projectors[wrapper]
	if !known {
		return
	}
	whole := withDefaults(object, wrapper)
	whole["t"] = asNumber(m.Hidden)
	var params int64
	for _, field := range encoderFields() {
		v := object[field]
		if v == nil || v == false {
			continue
		}
		encoder, _ := v.(map[string]any)
		kind, text, known := encoderKind(encoder, wrapper)
		if !known {
			return
		}
		filled := withDefaults(encoder, kind)
		whole[field] = filled
		n, err := evaluate(text, filled)
		if err != nil {
			return
		}
		params += n
	}
	if n, err := evaluate(projector, whole); err == nil {
		m.countEncoders(params + n)
		m.media = mediaOf(wrapper, whole)
	}
}

// wrapperOf is the model_type of the whole. A config of a decoder with its encoders beside it, as those of the table are, has that of the
// decoder, or that of the whole in its encoder.
func wrapperOf(object map[string]any) string {
	stated, _ := object["model_type"].(string)
	tower, _ := object["vision_config"].(map[string]any)
	if len(tower) == 0 {
		return stated
	}
	beside, _ := tower["model_type"].(string)
	for _, name := range []string{stated, strings.TrimSuffix(stated, "_text"), beside} {
		if _, known := fieldTable().Projectors[name]; known {
			return name
		}
	}
	return ""
}

// encoderKind finds the formula of an encoder by its model_type, or by that of the whole, which older configs have in its place or
// alone.
func encoderKind(encoder map[string]any, wrapper string) (kind, text string, known bool) {
	stated, _ := encoder["model_type"].(string)
	kinds := []string{wrapper + "_vision", stated, stated + "_vision"}
	if strings.HasPrefix(stated, wrapper) {
		kinds[0], kinds[1] = kinds[1], kinds[0]
	}
	for _, kind = range kinds {
		if text, known = fieldTable().Encoders[kind]; known && kind != "" {
			return kind, text, true
		}
	}
	return "", "", false
}

// withDefaults adds to a config what its class assumes.
func withDefaults(config map[string]any, modelType string) map[string]any {
	all := make(map[string]any, len(config))
	if class, err := parseConfig(fieldTable().Classes[modelType]); err == nil {
		all = class
	}
	for k, v := range config {
		all[k] = v
	}
	return all
}

// A formula is a sum of products of whole numbers and fields. A field that is a list counts as its first entry and, with a #
// behind its name, as its length; true counts as 1.
type formula struct {
	text   string
	fields map[string]any
	err    error
}

// evaluate is the value of a formula, which no field can make larger than a model.
func evaluate(text string, fields map[string]any) (int64, error) {
	f := formula{text: text, fields: fields}
	v := f.sum()
	switch {
	case f.err != nil:
		return 0, f.err
	case f.text != "":
		return 0, fmt.Errorf("the formula has %q left", short(f.text))
	case !(v >= 0 && v <= maxParams):
		return 0, fmt.Errorf("the formula makes %g", v)
	}
	return int64(v), nil
}

func (f *formula) next(characters string) byte {
	f.text = strings.TrimLeft(f.text, " ")
	if f.text == "" || !strings.ContainsRune(characters, rune(f.text[0])) {
		return 0
	}
	c := f.text[0]
	f.text = f.text[1:]
	return c
}

func (f *formula) sum() float64 {
	v := f.product()
	for op := f.next("+-"); op != 0; op = f.next("+-") {
		if w := f.product(); op == '+' {
			v += w
		} else {
			v -= w
		}
	}
	return v
}

func (f *formula) product() float64 {
	v := f.value()
	for op := f.next("*/"); op != 0; op = f.next("*/") {
		switch w := f.value(); {
		case op == '*':
			v *= w
		case w == 0:
			f.err = errors.New("the formula divides by 0")
		default:
			v = float64(int64(v / w))
		}
	}
	return v
}

func (f *formula) value() float64 {
	if f.next("(") != 0 {
		v := f.sum()
		if f.next(")") == 0 && f.err == nil {
			f.err = errors.New("the formula lacks a parenthesis")
		}
		return v
	}
	n := strings.IndexAny(f.text, " +-*/()")
	if n < 0 {
		n = len(f.text)
	}
	word := f.text[:n]
	f.text = f.text[n:]
	if v, err := strconv.Atoi(word); err == nil {
		return float64(v)
	}
	name, length := strings.CutSuffix(word, "#")
	for path := range strings.SplitSeq(name, "|") {
		if own, ok := encoderNames[path]; ok {
			path = own
		}
		for as := range strings.SplitSeq(path, "|") {
			if v, ok := dig(f.fields, as); ok && v != nil {
				return f.number(v, length)
			}
		}
	}
	if !length && f.err == nil {
		f.err = fmt.Errorf("%s is missing", quote(name))
	}
	return 0
}

// number is what a field counts as.
func (f *formula) number(v any, length bool) float64 {
	switch v := v.(type) {
	case []any:
		if length || len(v) == 0 {
			return float64(len(v))
		}
		return f.number(v[0], false)
	case bool:
		if v {
			return 1
		}
		return 0
	case json.Number:
		if n, err := v.Float64(); err == nil && n >= 0 && n <= maxSize {
			return n
		}
	}
	if f.err == nil {
		f.err = fmt.Errorf("%s is no size", kindOf(v))
	}
	return 0
}
