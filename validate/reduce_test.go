package validate

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"llmprof/internal/testkit"
	"llmprof/measure/result"
)

// readResult reads a result file of testdata.
func readResult(t *testing.T, file string) ([]byte, *result.Result) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r, err := result.Decode(file, data)
	if err != nil {
		t.Fatal(err)
	}
	return data, r
}

// TestReduceAgain checks that the embedded rows are what the result files reduce
// to.
func TestReduceAgain(t *testing.T) {
	var files []string
	for _, form := range []string{"h200/h200-*.json", "h200-native/h200-*.json", "h200-native/measure-*.json",
		"h100-native/energy/h100-*.json", "h100-native/tp4/h100-*.json"} {
		some, err := filepath.Glob("../experiments/" + form)
		if err != nil || len(some) == 0 {
			t.Fatal(form, some, err)
		}
		files = append(files, some...)
	}
	listed, err := Files()
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(listed) {
		t.Fatalf("%d result files, and %d are listed", len(files), len(listed))
	}
	all := embedded(t)
	for i, file := range files {
		if every := testkit.Cases(4, 1); i%every != 0 {
			continue
		}
		data, r := readResult(t, file)
		source, err := Origin(data)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Reduce(source, r)
		if err != nil {
			t.Fatal(err)
		}
		var want []Observation
		for _, o := range all {
			if o.Source == source && o.ID == filepath.Base(file) {
				want = append(want, o)
			}
		}
		figures := 6
		if r.Energy == nil {
			figures = 2 // TTFT and TPOT alone were asked for
		}
		if d := cmp.Diff(text(t, want), text(t, got)); d != "" || len(got) != figures {
			t.Errorf("%s: %d observations\n%s", file, len(got), d)
		}
		is := Describe(data, r)
		for _, f := range listed {
			if f.Name == is.Name {
				if d := cmp.Diff(f, is, rounded()); d != "" {
					t.Error(d)
				}
				is.Name = ""
			}
		}
		if is.Name != "" {
			t.Errorf("%s is not listed", is.Name)
		}
	}
}

// rounded compares numbers to the three digits that the list of files has.
func rounded() cmp.Option {
	return cmp.Comparer(func(a, b float64) bool { return a-b < 1e-3 && b-a < 1e-3 })
}

// text is observations as CSV.
func text(t testing.TB, all []Observation) string {
	t.Helper()
	var b bytes.Buffer
	if err := WriteCSV(&b, all); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestReduceOdd changes a result into what no static estimate is of, or what has
// no figures.
func TestReduceOdd(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*result.Result)
		n      int
		wrong  bool
	}{
		"as it is":         {func(*result.Result) {}, 6, false},
		"serving":          {func(r *result.Result) { r.Serving = &result.Serving{} }, 0, true},
		"pipeline":         {func(r *result.Result) { r.Parallelism.PP = 2 }, 0, true},
		"experts":          {func(r *result.Result) { r.Parallelism.EP = 2 }, 0, true},
		"no GPU":           {func(r *result.Result) { r.Machine.GPUs = nil }, 0, true},
		"unlike GPUs":      {func(r *result.Result) { r.Machine.GPUs = append(r.Machine.GPUs, result.GPU{Name: "other"}) }, 0, true},
		"no energy":        {func(r *result.Result) { r.Energy = nil }, 3, false},
		"nothing measured": {func(r *result.Result) { r.Energy, r.TTFT, r.TPOT, r.TTLT = nil, nil, nil, nil }, 0, false},
		"no interval":      {func(r *result.Result) { r.TTFT.MedianLow = nil }, 6, false},
		"GPU not listed":   {func(r *result.Result) { r.Machine.GPUs[0].Key = "" }, 6, false},
	} {
		_, r := readResult(t, "../experiments/h200/h200-c864eaf0535d-c0.p0.json")
		c.change(r)
		got, err := Reduce("mine", r)
		if len(got) != c.n || (err != nil) != c.wrong {
			t.Errorf("%s: %d observations, %v; want %d, error %v", name, len(got), err, c.n, c.wrong)
		}
		for i := range got {
			if err := got[i].Check(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestReduceConfig checks what is read of a result besides its figures.
func TestReduceConfig(t *testing.T) {
	_, r := readResult(t, "../experiments/h200/h200-73cfdef37d59-c0.p0.json")
	r.Workload.KV, r.Workload.Elana = "fp8", true
	got, err := Reduce("mine", r)
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		Model: "qwen2.5-7b", GPU: "h200-sxm-141gb", Engine: "transformers", Mode: "eager", TP: 1, Batch: 32, Prompt: 128, Gen: 32,
		Weights: "bf16", KV: "fp8", Load: Static, Logits: true, Params: 7615616512,
	}
	if d := cmp.Diff(want, got[0].Config); d != "" {
		t.Error(d)
	}
	if o := got[0]; o.ID != "h200-73cfdef37d59-c0.p0.json" || o.Low == nil || o.Device == nil || o.Samples == 0 || len(o.Marks) == 0 {
		t.Errorf("%+v", o)
	}
}
