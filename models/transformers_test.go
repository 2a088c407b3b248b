package models

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"llmprof/internal/testkit"
)

// A built model is one that transformers 5.24 built at its defaults (testdata/build.py).
type built struct {
	ModelType string `json:"model_type"`
	Class     string
	Params    int64
	Config    json.RawMessage
	Causal    bool                 // a causal decoder; the others are of images and text
	Tensors   [][2]json.RawMessage // names and shapes, of some
}

func readBuilt(t testing.TB) (all []built) {
	t.Helper()
	for line := range bytes.Lines(testkit.Unzipped(t, "testdata/transformers.jsonl.gz")) {
		var b built
		testkit.Must(t, json.Unmarshal(bytes.ReplaceAll(line, []byte("Infinity"), []byte("1e9")), &b)) // which Python writes
		all = append(all, b)
	}
	return all
}

// Every causal decoder that transformers builds at its defaults has its parameters, encoders included, or is refused with the
// reason; so do the models of images and text of which the encoders are known.
func TestTransformers(t *testing.T) {
	var list strings.Builder
	exact, decoders := 0, 0
	for _, b := range readBuilt(t) {
		m, err := Read(b.ModelType, b.Config)
		if b.Causal {
			decoders++
		}
		if err != nil {
			reason, _, _ := strings.Cut(err.Error(), "; its fields")
			fmt.Fprintf(&list, "%s %s: %s\n", b.ModelType, b.Class, strings.TrimPrefix(reason, b.ModelType+": "))
			continue
		}
		got := m.Params() + m.EncoderParams + allotted(m)
		if got == b.Params {
			if b.Causal {
				exact++
			}
			fmt.Fprintf(&list, "%s %s: %d\n", b.ModelType, b.Class, got)
			continue
		}
		if b.Causal || m.EncoderParams > 0 {
			t.Errorf("%s %s: %d parameters, want %d (off by %d)", b.ModelType, b.Class, got, b.Params, got-b.Params)
		}
		fmt.Fprintf(&list, "%s %s: %d without its towers, of %d\n", b.ModelType, b.Class, got, b.Params)
	}
	if decoders < 181 || exact < 135 {
		t.Errorf("%d of %d decoders are exact", exact, decoders)
	}
	t.Logf("%d of %d decoders are exact", exact, decoders)
	testkit.Golden(t, "testdata/transformers.golden", list.String())
}

// A model_type that is not known is read by the class that it names, and says so; one whose class comes with the checkpoint is not.
func TestUnknownTypeOfKnownClass(t *testing.T) {
	config := strings.Replace(llama, "{", `{"architectures":["LlamaForCausalLM"],`, 1)
	config = strings.Replace(config, `"llama"`, `"tomorrow"`, 1)
	m, err := Read("x", []byte(config))
	testkit.Must(t, err)
	known, err := Read("x", []byte(llama))
	testkit.Must(t, err)
	if m.Params() != known.Params() || m.Family != "llama" || len(m.Notes) != 1 || !strings.Contains(m.Notes[0], `model_type "tomorrow"`) {
		t.Errorf("%d parameters of family %s, notes %q", m.Params(), m.Family, m.Notes)
	}
	remote := strings.Replace(config, "{", `{"auto_map":{"AutoModelForCausalLM":"modeling.LlamaForCausalLM"},`, 1)
	if _, err := Read("x", []byte(remote)); err == nil || !strings.Contains(err.Error(), `model_type "tomorrow" is not known`) {
		t.Errorf("with code of its own: %v", err)
	}
}

// Layers that run several times hold their weights once, and have a cache for each time.
func TestLoops(t *testing.T) {
	for _, b := range readBuilt(t) {
		if b.ModelType != "dory" {
			continue
		}
		once, err := Read("x", bytes.Replace(b.Config, []byte(`"n_recurrent_loops": 2`), []byte(`"n_recurrent_loops": 1`), 1))
		testkit.Must(t, err)
		twice, err := Read("x", b.Config)
		testkit.Must(t, err)
		if once.Params() != twice.Params() || once.NumLayers() != 36 || twice.NumLayers() != 56 || len(twice.Order) != 56 {
			t.Errorf("%d and %d parameters in %d and %d layers", once.Params(), twice.Params(), once.NumLayers(), twice.NumLayers())
		}
		if a, b := once.KVBytesPerToken(1), twice.KVBytesPerToken(1); b.Times(36) != a.Times(56) {
			t.Errorf("%v and %v a token", a, b)
		}
	}
}
