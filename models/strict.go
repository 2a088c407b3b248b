package models

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// refuseUnread refuses fields that were not asked for while the model was built and are not known to
// be harmless: they may change shapes or cost.
func (r *reader) refuseUnread(m *Model) {
	if r.beside.table {
		return
	}
	known := fieldTable()
	var unread []string
	for _, field := range slices.Sorted(maps.Keys(r.config)) {
		v := r.config[field]
		if r.lookedUp[field] || isEmpty(v) || known.ignored[field] || slices.Contains(known.Redundant[field], r.types[0]) || r.repeats(field) {
			continue
		}
		unread = append(unread, short(field)+" ("+kindOf(v)+")")
	}
	var ofExperts []string
	for _, field := range unread {
		if aboutExperts(field) {
			ofExperts = append(ofExperts, field)
		}
	}
	if len(ofExperts) > 0 && !m.HasExperts() && r.err == nil {
		r.unsupported("no layer has experts, though the config has fields of them: %s; check which of its layers are to have some, and the "+
			"model_type; --lenient leaves them out of account", strings.Join(ofExperts, ", "))
		unread = slices.DeleteFunc(unread, aboutExperts)
	}
	const most = 8
	if n := len(unread) - most; n > 0 {
		unread = append(unread[:most], fmt.Sprintf("%d more", n))
	}
	if len(unread) > 0 {
		r.unsupported("fields that may change shapes or cost are not understood for this model_type: %s; --lenient leaves them out of account",
			strings.Join(unread, ", "))
	}
}

// aboutExperts reports whether a field is about experts.
func aboutExperts(field string) bool {
	return slices.ContainsFunc([]string{"expert", "moe", "first_k_dense", "n_group", "topk_group", "router"}, func(word string) bool {
		return strings.Contains(field, word)
	})
}

// repeats reports whether a field states again what another one does.
func (r *reader) repeats(field string) bool {
	same := map[string]string{
		"experts_per_token": "num_experts_per_tok", "sliding_window_size": "sliding_window",
		"swa_head_dim": "head_dim", "swa_num_attention_heads": "num_attention_heads", "swa_v_head_dim": "v_head_dim",
	}
	other, known := same[field]
	_, number := r.config[field].(json.Number)
	return known && number && r.config[field] == r.config[other]
}

// isEmpty reports whether a value says that there is nothing: null, false, zero, an empty text, list or object.
func isEmpty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	case json.Number:
		f, err := v.Float64()
		return err == nil && f == 0
	}
	return false
}

// knownActivation refuses a non-linearity whose cost and shape are not known.
func (r *reader) knownActivation() {
	for _, field := range []string{"hidden_act", "hidden_activation", "activation_function", "mlp_hidden_act"} {
		v := r.config[field]
		if v == nil {
			continue
		}
		text, ok := v.(string)
		if !ok {
			r.fail("%s is %s; want the name of a function such as \"silu\"", field, kindOf(v))
			continue
		}
		switch strings.ToLower(text) {
		case "silu", "swish", "swiglu", "gelu", "gelu_new", "gelu_fast", "gelu_python", "gelu_pytorch_tanh", "gelu_accurate", "gelu_10",
			"quick_gelu", "geglu",
			"gegelu", "relu", "relu2", "relu6", "relu_squared", "squared_relu", "sqrelu", "leaky_relu", "xielu", "tanh", "sigmoid", "mish",
			"laplace", "linear", "softplus", "situ", "swigluoai":
		default:
			r.unsupported("%s is %s, a function that is not known", field, quote(text))
		}
	}
}

// knownWindow refuses a window that is no number of positions.
func (r *reader) knownWindow() {
	switch v := r.config["sliding_window"].(type) {
	case nil, json.Number, []any:
	case bool:
		if v {
			r.fail("sliding_window is true; want a number of positions, or null")
		}
	default:
		r.fail("sliding_window is %s; want a number of positions, or null", kindOf(v))
	}
}

// A fieldKnowledge is what is known of fields and model types beside what families read.
type fieldKnowledge struct {
	// Ignored fields say neither how large a matrix is nor what is computed with it: names, tokens, training, scales, bases of
	// rotary positions, which experts are chosen, text generation.
	Ignored []string
	// Redundant fields are sizes and switches that some families read and that the code of these families leaves aside, or that
	// say in another way what was read.
	Redundant map[string][]string
	// Unread says of model types that exist which of their parts is not understood.
	Unread map[string]string
	// Classes are what the configuration classes of transformers assume of the fields that are read here.
	Classes map[string]json.RawMessage
	// Encoders and Projectors are formulas of the parameters of encoders, by their own model types, and of what projects them to
	// the decoder, by the model types of the whole.
	Encoders, Projectors map[string]string
	// Media are the rules by which processors make tokens of images ("image") and of recordings ("audio"), by the model types of
	// the whole.
	Media map[string]map[string]mediaRule

	ignored map[string]bool // Ignored fields, encoders, which notes name, and wrappers
}

//go:embed fields.json
var fieldsJSON []byte

var fieldTable = sync.OnceValue(func() *fieldKnowledge {
	t := &fieldKnowledge{ignored: make(map[string]bool)}
	if err := json.Unmarshal(fieldsJSON, t); err != nil {
		panic(err) // a file of this package
	}
	for _, field := range slices.Concat(t.Ignored, encoderFields(), wrapped()) {
		t.ignored[field] = true
	}
	return t
})
