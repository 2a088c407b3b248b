package transformers_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"github.com/google/go-cmp/cmp"

	"llmprof/analytic/operator"
	"llmprof/internal/testkit"
	"llmprof/internal/testkit/pythontest"
	"llmprof/measure/worker"
)

// script runs a script of testdata beside the worker's modules and reads the
// JSON that it prints.
func script(t *testing.T, into any, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(pythontest.Find(t), append([]string{"testdata/" + name}, args...)...)
	cmd.Env = append(os.Environ(), "PYTHONPATH=.", "PYTHONDONTWRITEBYTECODE=1", "HF_HUB_OFFLINE=1", "OMP_NUM_THREADS=1")
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if into == nil {
		return
	}
	if err := json.Unmarshal(out, into); err != nil {
		t.Fatalf("%s printed %q: %v", name, out, err)
	}
}

func inJSON(t *testing.T, l worker.Load) string {
	t.Helper()
	text, err := json.Marshal(l)
	testkit.Must(t, err)
	return string(text)
}

// A request, a prefill and decode steps choose what transformers' own generate
// chooses, with a cache that grows and with a static one, and again each time.
func TestTokensAreThoseOfGenerate(t *testing.T) {
	var loads []worker.Load
	var texts []string
	for _, name := range []string{"llama", "qwen3moe", "mamba2", "qwen3next", "bamba", "gemma3"} {
		loads = append(loads, tinyLoad(t, name))
		texts = append(texts, inJSON(t, tinyLoad(t, name)))
	}
	var tokens [][][]int
	script(t, &tokens, "generate.py", texts...)
	w := common(t)
	for i, l := range loads {
		for _, static := range []bool{false, true} {
			l.StaticCache = static
			load(t, w, l)
			for what, got := range everyWay(t, w, tokens[i][:1:1]) {
				if diff := cmp.Diff(tokens[i], got); diff != "" {
					t.Errorf("%s, static cache %v: %s differs from generate (-want +got):\n%s", l.Model, static, what, diff)
				}
			}
		}
	}
}

// everyWay gives the tokens by each phase, some of them after others. Decoding
// does not say the first.
func everyWay(t *testing.T, w *worker.Worker, first [][]int) map[string][][]int {
	t.Helper()
	decode := repeat(t, w, worker.Decode, 3)
	request := repeat(t, w, worker.Request, 2)
	prefill := repeat(t, w, worker.Prefill, 2)
	again := repeat(t, w, worker.Decode, 1)
	return map[string][][]int{
		"a request":                     ids(request[0]),
		"a second request":              ids(request[1]),
		"a prefill and decoding":        append(ids(prefill[1]), ids(decode[0])...),
		"a third decoding":              append(first, ids(decode[2])...),
		"decoding after other requests": append(first, ids(again[0])...),
	}
}

func TestLogitsOfTheLastPosition(t *testing.T) {
	last := tinyLoad(t, "llama")
	all := last
	all.AllLogits = true
	var positions [][]int
	script(t, &positions, "logits.py", inJSON(t, last), inJSON(t, all))
	if diff := cmp.Diff([][]int{{1, 1}, {all.PromptLen, 1}}, positions); diff != "" {
		t.Errorf("the LM head of a prefill and a step ran on (-want +got):\n%s", diff)
	}
}

// A random prompt hits as many experts of a random mixture as a uniform choice does, as
// estimates take it. As transformers initialises it, it hits few.
func TestRandomMixturesSpread(t *testing.T) {
	l := tinyLoad(t, "qwen3moe")
	var config map[string]any
	testkit.Must(t, json.Unmarshal(l.Config, &config))
	config["hidden_size"], config["num_hidden_layers"], config["num_experts"] = 256, 12, 64
	var err error
	if l.Config, err = json.Marshal(config); err != nil {
		t.Fatal(err)
	}
	l.Batch, l.PromptLen = 1, 60
	var hit [][2]int
	script(t, &hit, "routes.py", inJSON(t, l))
	want := operator.DistinctExperts(64, 2, 60)
	t.Logf("60 tokens hit %d of 64 experts, %d as initialised; uniformly chosen %.1f", hit[0][0], hit[0][1], want)
	if float64(hit[0][0]) < 0.88*want || float64(hit[0][1]) > 0.7*want {
		t.Error("the embedding does not spread the choice")
	}
}
