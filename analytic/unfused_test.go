package analytic

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"llmprof/unit"
)

// What an engine that does not fuse moves is what torch dispatches when it runs
// the modelling code of transformers (testdata/unfused.py).
func TestUnfusedIsWhatTransformersDispatches(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "unfused.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Tokens float64
		Rows   []struct {
			Model, Dtype, Part string
			Kernels            float64
			Bytes              unit.Bytes
		}
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, r := range file.Rows {
		c := testCase(t, r.Model, "h200", 1, 1)
		c.Scheme = scheme(t, r.Dtype, c.Machine.GPU)
		l := &c.Model.Layers[0]
		st := Step{Par: &Parallelism{TP: 1}, Scheme: &c.Scheme, Dense: &c.Scheme, Plain: &c.Scheme, Batch: 1, New: file.Tokens}
		var kernels float64
		var moved unit.Bytes
		for i := range l.Blocks {
			for _, o := range st.before(nil, &l.Blocks[i]) {
				if partOf(&o) == r.Part {
					kernels += o.Eager
					moved += o.apart()
				}
			}
		}
		if r.Part == "kv_write" {
			moved *= 2 // besides what it takes from the stream, what it puts into the cache
		}
		if r.Part == "attention" || r.Part == "rotary" && l.Blocks[0].Attention.RotaryDim == 0 {
			continue // the scaling of OPT's queries and the copy of GPT-2's, which are of their attention
		}
		seen++
		if kernels != r.Kernels {
			t.Errorf("%s in %s: %v kernels of %s, transformers runs %v", r.Model, r.Dtype, kernels, r.Part, r.Kernels)
		}
		near(t, r.Model+" in "+r.Dtype+": bytes of "+r.Part, moved, r.Bytes, 3e-3) // means are one value a row
	}
	if seen < 20 {
		t.Errorf("%d parts of layers", seen)
	}
}

// partOf is what unfused.py calls the part of a layer that an operator is.
func partOf(o *Op) string {
	switch o.Name {
	case "activation", "kv_write":
		return o.Name
	case "rotary", "qk_norm", "qk_norm_rotary":
		return "rotary"
	}
	if o.Kind == Element {
		return "norm"
	}
	return ""
}
