package plan

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"llmprof/analytic"
	"llmprof/internal/testkit"
	"llmprof/internal/testkit/casetest"
	"llmprof/models"
	"llmprof/serving"
	"llmprof/unit"
)

// A command of vLLM has no more sequences than the cache has blocks of states, with which it would stop at start-up.
func TestLaunchWithinStates(t *testing.T) {
	for _, x := range []struct {
		model, gpu, weights string
		most                int
	}{{"qwen3.6-27b", "h100", "", 400}, {"qwen3.6-27b", "h100", "fp8", 900}, {"llama3.1-8b", "h100", "", 1024}} {
		q := request(t, x.model, x.gpu)
		r := Row{Card: &q.Cards[0], Formats: Formats{Weights: x.weights, KV: unit.BF16}, Split: Split{1, 1, 1, 0}, DP: 1, Batch: 1024, GPUs: 1}
		l := Launches(&r, q, "org/model")[0]
		at := slices.Index(l.Args, "--max-num-seqs")
		if at < 0 {
			t.Fatalf("%s: %v", x.model, l)
		}
		n, err := strconv.Atoi(l.Args[at+1])
		if err != nil || n > x.most || n < x.most*3/4 {
			t.Errorf("%s %s: %s sequences, want up to %d", x.model, x.weights, l.Args[at+1], x.most)
		}
		t.Log(x.model, x.weights, l.Args[at+1])
	}
	// The weights leave no room for a request: no command is printed.
	q := request(t, "llama3.1-70b", "h100")
	r := Row{Card: &q.Cards[0], Formats: Formats{KV: unit.BF16}, Split: Split{1, 1, 1, 0}, DP: 1, Batch: 8, GPUs: 1}
	for _, l := range Launches(&r, q, "org/model") {
		if l.Engine == "vllm" || l.Engine == "kubernetes" {
			t.Errorf("%s: %s", l.Engine, l.Text)
		}
	}
}

// randomPlans are the best rows of plans that are drawn: of dense models, mixtures, hybrids, windows and latent attention, on large and
// small cards, with long and short requests.
func randomPlans(t *testing.T, n int, each func(*Request, *Row)) {
	t.Helper()
	names := []string{"llama3.1-8b", "qwen3-32b", "qwen3-30b-a3b", "gpt-oss-20b", "qwen3.5-9b", "qwen3.6-27b", "qwen3.6-35b-a3b", "gemma3-12b",
		"deepseek-v2-lite", "nemotron-3-nano-30b-a3b", "granite-4.0-h-tiny", "llama3.1-70b", "mistral-small-24b", "phi-4"}
	gpus := []string{"h100", "h200", "a100", "b200", "l40s", "rtx-4090", "l4", "mi300x"}
	random, found := rand.New(rand.NewPCG(64, 64)), 0
	pick := func(of []string) string { return of[random.IntN(len(of))] }
	for tries := 0; found < n && tries < 4*n; tries++ {
		q := request(t, pick(names), pick(gpus))
		q.Prompt, q.Gen = serving.Fixed(64<<random.IntN(9)), serving.Fixed(32<<random.IntN(5))
		q.MaxGPUs, q.Top, q.Batches = 1<<random.IntN(4), 1, []int{1, 8, 64, 256, 1024}
		q.Load.Throughput = float64(int(10) << random.IntN(6))
		r, err := Search(t.Context(), q)
		testkit.Must(t, err)
		if len(r.Rows) > 0 {
			found++
			each(q, &r.Rows[0])
		}
	}
	if found < n {
		t.Fatalf("%d of %d plans have a row", found, n)
	}
}

// settingsOf are the numbers of the flags of a command; 1 for those that it leaves out.
func settingsOf(t *testing.T, args []string) func(flag string) int {
	t.Helper()
	return func(flag string) int {
		at := slices.Index(args, flag)
		if at < 0 {
			return 1
		}
		n, err := strconv.Atoi(args[at+1])
		testkit.Must(t, err)
		return n
	}
}

// TestRandomPlansStart holds the commands that plans print to the engines' conditions at start-up, as the printed words say the settings,
// and has vLLM's own parser read them where there is one.
func TestRandomPlansStart(t *testing.T) {
	var words [][]string
	checked := map[string]int{}
	randomPlans(t, testkit.Cases(1, 40), func(q *Request, r *Row) {
		for _, l := range Launches(r, q, "org/model") {
			if l.Args == nil {
				continue
			}
			if l.Engine == "vllm" {
				words = append(words, l.Args[2:])
			}
			checked[l.Engine]++
			if why := stops(t, q, r, &l); why != "" {
				t.Errorf("%s, %s on %s, %d + %d tokens: %s\n%s", l.Engine, r.Card.Request.Model, r.Card.GPU.Key, q.Prompt.Longest(),
					q.Gen.Longest(), why, l.Text)
			}
		}
	})
	t.Log(checked)
	if vllm := os.Getenv("LLMPROF_VLLM"); vllm != "" {
		if got := parsed(t, vllm, words); strings.Count(got, `"org/model"`) != len(words) {
			t.Errorf("vLLM understands %s of %d commands", got, len(words))
		}
	}
}

// stops says why a printed command would not start, or would refuse the requests that are planned for.
func stops(t *testing.T, q *Request, r *Row, l *Launch) string {
	t.Helper()
	n, request := settingsOf(t, l.Args), q.Prompt.Longest()+q.Gen.Longest()
	one := *r
	one.DP, one.Prefill = r.Split.sharing(), 0
	asked := one.Request(q)
	d, err := library().Serve(t.Context(), &asked)
	testkit.Must(t, err)
	c := &d.Case
	c.Machine = casetest.Machine(t, r.Card.GPU.Key, l.Engine)
	flags := map[string][3]string{
		"vllm":         {"--max-model-len", "--max-num-seqs", "--max-num-batched-tokens"},
		"sglang":       {"--context-length", "--max-running-requests", "--chunked-prefill-size"},
		"tensorrt-llm": {"--max_seq_len", "--max_batch_size", "--max_num_tokens"},
		"llama.cpp":    {"--ctx-size", "--parallel", "--batch-size"},
	}[l.Engine]
	longest, sequences, budget := n(flags[0]), n(flags[1])/max(n("--dp-size"), 1), n(flags[2])
	if l.Engine != "sglang" {
		sequences = n(flags[1])
	}
	c.Settings.Sequences = sequences
	p, err := analytic.NewPredictor(c)
	testkit.Must(t, err)
	log, known := p.Start(budget, sequences, longest)
	hybrid := c.Model.Any(func(b *models.Block) bool { return b.Scan != nil })
	switch l.Engine {
	case "vllm":
		switch {
		case sequences > budget:
			return "more sequences than tokens of a step"
		case known && hybrid && float64(sequences) > log.Blocks:
			return "more sequences than blocks of states"
		case known && log.Requests < 1:
			return "no request of the longest length fits"
		}
	case "sglang":
		switch {
		case budget > 64 && budget%64 != 0:
			return "chunks cut pages"
		case known && log.Tokens > 0 && log.Tokens < float64(request):
			return "the pool holds no request"
		}
		if most, _ := p.MostSequences(budget); hybrid && most < 1 {
			return "no slot of states"
		}
	case "llama.cpp":
		slots := sequences
		longest /= slots
		w := analytic.Workload{Batch: (slots + one.DP - 1) / one.DP, PromptLen: longest - 1, GenLen: 1}
		if m := p.Memory(&w); slots > 256 || !m.Fits() {
			return "its slots do not fit"
		}
	default:
		if m := p.Memory(&analytic.Workload{Batch: 1, PromptLen: longest - 1, GenLen: 1, Budget: budget}); !m.Fits() {
			return "one request does not fit"
		}
	}
	if longest < request {
		return "its requests are shorter than those that are planned for"
	}
	for _, b := range c.Model.Blocks() {
		if a := b.Attention; a != nil && a.Heads%c.Parallel.TP != 0 {
			return "TP does not divide the heads"
		}
	}
	return ""
}
