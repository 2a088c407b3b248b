package validate

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestEmbedded holds how many observations of each source come with the program,
// and that each can be compared but for those that are named here.
func TestEmbedded(t *testing.T) {
	all := embedded(t)
	count := map[string]int{}
	gpus := map[string]bool{}
	for i := range all {
		count[all[i].Source]++
		gpus[all[i].GPU] = true
	}
	want := map[string]int{"aiconfigurator": 766, "aiconfigurator-moe": 887, "argonne": 231, "edge-llm": 48, "elana": 66, "h100-llamacpp": 186,
		"h100-sglang": 68, "llamacpp-prs": 18, "h100-vllm": 330, "h100-vllm-tp2": 19, "h100-vllm-ep": 23, "h100-vllm-energy": 11,
		"h100-vllm-again": 189, "h100-vllm-processes": 88, "h200-vllm-processes": 208, "h200-sglang": 39, "h200-vllm": 394, "h200-vllm-again": 84,
		"inferencex": 358, "h200-llamacpp": 7, "h200-llamacpp-host": 18, "h200-llamacpp-again": 54, "unified": 35, "home-forums": 20,
		"llamacpp-benches": 40, "llmfit": 151, "h200-vllm-0.33": 101, "h200-sglang-0.5.23": 98, "h100-vllm-fp8": 96, "h200-vllm-fp8": 96,
		"h200": 258, "native": 280, "neusight": 18, "tensorrt-llm": 48}
	if d := cmp.Diff(want, count); d != "" {
		t.Error(d)
	}
	if len(gpus) < 8 {
		t.Errorf("%d GPUs, want at least 8: %v", len(gpus), gpus)
	}
	s := scorer(t).Score(all)
	if len(s.Rows)+len(s.Skipped) != len(all) {
		t.Errorf("%d rows and %d skipped of %d observations", len(s.Rows), len(s.Skipped), len(all))
	}
	if len(s.Rows) < 300 {
		t.Errorf("%d rows, want at least 300", len(s.Rows))
	}
	for _, k := range s.Skipped {
		if k.Reason != DoesNotFit {
			t.Errorf("%s: %s: %s", k.Observation.name(), k.Reason, k.Detail)
		}
	}
}

// TestEmbeddedFiles holds that each of this project's observations has the
// conditions of its file, and each file observations.
func TestEmbeddedFiles(t *testing.T) {
	files, err := Files()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, f := range files {
		if _, twice := seen[f.Name]; twice {
			t.Errorf("%s is listed twice", f.Name)
		}
		seen[f.Name] = 0
		unmetered := strings.HasPrefix(f.Name, "measure-") // times alone were asked for
		if f.Started.Before(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) || f.Version == "" || f.GPU == "" || f.PowerW == nil ||
			f.Prefill == nil && !unmetered {
			t.Errorf("%s lacks conditions: %+v", f.Name, f)
		}
	}
	for _, o := range embedded(t) {
		if o.Source != "h200" && o.Source != "native" {
			continue
		}
		if _, ok := seen[o.ID]; !ok {
			t.Errorf("%s is of no listed file", o.ID)
		}
		seen[o.ID]++
	}
	for name, n := range seen {
		if n == 0 {
			t.Errorf("%s has no observations", name)
		}
	}
}

// TestFits holds that each claim of a fit is of some observation, and that none
// of those that a user brings is taken for fitted.
func TestFits(t *testing.T) {
	used := map[string]int{}
	for _, o := range embedded(t) {
		used[fitted(&o)]++
		o.Source = "results/mine.json"
		if c := fitted(&o); c != "" {
			t.Fatalf("%s: taken for fitted by %s", o.name(), c)
		}
	}
	for _, f := range fits() {
		if used[f.constant] == 0 {
			t.Errorf("%s: no observation that it was fitted on is embedded", f.constant)
		}
	}
	if used[""] < 300 {
		t.Errorf("%d observations that nothing was fitted on, want at least 300", used[""])
	}
}

// TestAtHome holds the medians of llama.cpp's observations that nothing was fitted on to what a user at home may rely on: 15 % of the
// time per token, 25 % of that of prompts, by what lies in host memory.
func TestAtHome(t *testing.T) {
	most := map[Metric]float64{TPOT: 0.15, TTFT: 0.25}
	held := map[string]bool{}
	of := []Observation{}
	for _, o := range embedded(t) {
		if o.Engine == "llama.cpp" && most[o.Metric] > 0 {
			of = append(of, o)
		}
	}
	scored := scorer(t).Score(of)
	for _, s := range Summarize(scored.Rows, ByHost, ByFFN) {
		if s.Fitted || s.N < 3 {
			continue
		}
		held[*s.InHost+" "+*s.FFN] = true
		if s.MedianAPE > most[s.Metric] {
			t.Errorf("%s, %s in host memory of models with feed-forward layers %s: median error %.1f %% of %d, want up to %.0f %%", s.Metric,
				*s.InHost, *s.FFN, 100*s.MedianAPE, s.N, 100*most[s.Metric])
		}
	}
	for _, want := range []string{"experts experts", "layers dense", "nothing experts", "nothing dense"} {
		if !held[want] {
			t.Errorf("nothing is scored of %s", want)
		}
	}
}
