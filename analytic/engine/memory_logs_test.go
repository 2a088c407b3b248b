package engine_test

import (
	"encoding/csv"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/casetest"
	"llmprof/analytic/engine"
	"llmprof/internal/testkit"
	"llmprof/models"
	"llmprof/unit"
)

const gib = 1 << 30

// loggedAs names the model of the table for a checkpoint that has another name, the scheme of its weights, and its towers where the table's
// entry has none.
var loggedAs = map[string]struct {
	model, scheme string
	towers        int64
	context       int // positions of the checkpoint, where they are more than those of the table's entry
}{
	"RedHatAI/Llama-3.3-70B-Instruct-fp8-dynamic":                 {"llama3.3-70b", "fp8", 0, 0},
	"redhatai/Llama-3.3-70B-Instruct-quantized.w8a8":              {"llama3.3-70b", "w8a8", 0, 0},
	"RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w8a8":          {"llama3.1-8b", "w8a8", 0, 0},
	"RedHatAI/Qwen2.5-7B-Instruct-quantized.w8a8":                 {"qwen2.5-7b", "w8a8", 0, 0},
	"ibm-granite/granite-3.3-8b-instruct":                         {"granite-3.1-8b", "", 0, 0},
	"moonshotai/Kimi-Dev-72B":                                     {"qwen2.5-72b", "", 0, 0},
	"mistralai/Mistral-Small-3.1-24B-Instruct-2503":               {"mistral-small-24b", "", 439e6, 131072}, // 24.01B by its hub page
	"RedHatAI/Mistral-Small-3.1-24B-Instruct-2503-quantized.w8a8": {"mistral-small-24b", "w8a8", 439e6, 131072},
	"moonshotai/Kimi-VL-A3B-Instruct":                             {"moonlight-16b-a3b", "", 448e6, 131072}, // 16.41B by its hub page
}

// A startLog is a row of a start-up log.
type startLog struct {
	model, quant, kv       string
	tp, pp, longest        int
	tokens, cache, weights float64
	activations, outside   float64
}

func startLogs(t *testing.T) (all []startLog) {
	f, err := os.Open("testdata/vllm_memory_h100.csv")
	testkit.Must(t, err)
	defer f.Close()
	r := csv.NewReader(f)
	r.Comment = '#'
	rows, err := r.ReadAll()
	testkit.Must(t, err)
	number := func(s string) float64 {
		n, err := strconv.ParseFloat(s, 64)
		if s != "" {
			testkit.Must(t, err)
		}
		return n
	}
	for _, x := range rows[1:] {
		all = append(all, startLog{x[0], x[3], x[4], int(number(x[1])), int(number(x[2])), int(number(x[5])), number(x[6]), number(x[7]),
			number(x[8]), number(x[9]), number(x[10])})
	}
	return all
}

// case is the server of a log.
func (l *startLog) server(t *testing.T) *analytic.Case {
	as := loggedAs[l.model]
	name := as.model
	if name == "" {
		name = l.model
	}
	c := casetest.Case(t, name, "h100", 1, l.tp)
	c.Machine = casetest.Machine(t, "h100", "vllm@0.19.0")
	c.Machine.Utilization = 0.95
	c.Parallel.PP = l.pp
	m := *c.Model
	if as.towers > 0 {
		m.Towers = as.towers
	}
	if as.context > 0 {
		m.Rotary = []models.Rotary{{Rows: as.context, Dim: m.Rotary[0].Dim}}
	}
	c.Model = &m
	if c.Scheme = models.StoredScheme(&m).For(c.Machine.GPU); as.scheme != "" {
		c.Scheme = casetest.Scheme(t, as.scheme, c.Machine.GPU)
	}
	switch {
	case l.quant == "fp8":
		c.Scheme = casetest.Scheme(t, "fp8", c.Machine.GPU)
	case l.weights > 29.5 && strings.Contains(l.model, "Llama-3.1-8B"): // twice those of other starts: --dtype float32
		c.Scheme = casetest.Scheme(t, "fp32", c.Machine.GPU)
		c.Scheme.KV = unit.FP32
	}
	if l.kv == "fp8" {
		c.Scheme.KV = unit.FP8
	}
	c.Workload = analytic.Workload{Batch: 1, PromptLen: 128, GenLen: 128, Longest: l.longest}
	if l.longest == 0 {
		c.Workload.Longest = m.MaxContext
	}
	return c
}

// TestVLLMAsLogged holds weights and tokens of KV cache to start-up logs of vLLM 0.19, on whose figures no constant of one model was
// fitted. -v prints the table.
func TestVLLMAsLogged(t *testing.T) {
	logs := startLogs(t)
	if len(logs) != 38 {
		t.Fatalf("%d logs", len(logs))
	}
	for i := range logs {
		l := &logs[i]
		m := predict(t, l.server(t)).Memory
		weights, tokens := float64(m.Weights)/gib/l.weights-1, m.Logged.Tokens/l.tokens-1
		t.Logf("%-60s tp %d pp %d: weights %6.2f of %6.2f GiB %+5.1f %%, activations %.2f of %.2f, outside %.2f of %.2f, tokens %8.0f of "+
			"%8.0f %+6.1f %%",
			l.model, l.tp, l.pp, float64(m.Weights)/gib, l.weights, 100*weights, float64(m.Activations)/gib, l.activations,
			float64(m.Reserve)/gib, l.outside, m.Logged.Tokens, l.tokens, 100*tokens)
		if math.Abs(weights) > 0.01 {
			t.Errorf("%s, TP %d: weights of %.2f GiB, logged were %.2f", l.model, l.tp, float64(m.Weights)/gib, l.weights)
		}
		if math.Abs(tokens) > 0.03 {
			t.Errorf("%s, TP %d: %.0f tokens, logged were %.0f", l.model, l.tp, m.Logged.Tokens, l.tokens)
		}
	}
}

// TestExpertsAsLogged holds the weights of gpt-oss-120b to what vLLM logged on an H100 by the kernels of OpenAI (0.14.1, vllm#33155).
func TestExpertsAsLogged(t *testing.T) {
	c := onEngine(t, "gpt-oss-120b", "vllm@0.14.1", analytic.Workload{Batch: 1, PromptLen: 128, GenLen: 128})
	c.Machine = casetest.Machine(t, "h100", "vllm@0.14.1")
	c.Scheme = models.StoredScheme(c.Model)
	near(t, "weights of gpt-oss-120b", float64(predict(t, c).Memory.Weights)/gib, 64.38, 0.003)
}

// TestCompressedAsLogged holds the requests of 1,048,576 tokens of DeepSeek-V4-Flash to what vLLM 0.25.0 logged on eight B200 (recipes#762,
// vllm#51454): 20.43 with TP 8, and 156.9 of eight replicas.
func TestCompressedAsLogged(t *testing.T) {
	for _, x := range []struct {
		par    analytic.Parallelism
		logged float64
	}{{analytic.Parallelism{TP: 8, EP: 8, GPUsPerNode: 8}, 20.43}, {analytic.Parallelism{DP: 8, EP: 8, GPUsPerNode: 8}, 156.9 / 8}} {
		c := casetest.Case(t, "deepseek-v4-flash", "b200", 1, 1)
		c.Machine = casetest.Machine(t, "b200", "vllm@0.25.0")
		c.Machine.Utilization = 0.95
		c.Scheme = models.StoredScheme(c.Model)
		c.Scheme.KV = unit.FP8
		c.Parallel = x.par
		c.Workload = analytic.Workload{Batch: 1, PromptLen: 1048448, GenLen: 128}
		near(t, "requests", predict(t, c).Memory.Logged.Requests, x.logged, 0.1)
	}
}

// TestStatesAsLogged holds the blocks of hybrids to those that vLLM's refusals of too many sequences name: Qwen3.6-27B (kaito#2319, whose
// machines have the H100 NVL of 94 GB), in FP8 at 0.95 (vllm recipes#551), and Nemotron-3-Super on two H100.
func TestStatesAsLogged(t *testing.T) {
	for _, x := range []struct {
		model, gpu, scheme string
		tp                 int
		share, blocks      float64
	}{
		{"qwen3.6-27b", "h100-nvl-94gb", "w16a16", 1, 0.92, 614}, {"qwen3.6-27b", "h100", "fp8", 1, 0.95, 856},
		{"nemotron-3-super-120b-a12b", "h100", "fp8", 2, 0.9, 524},
	} {
		c := casetest.Case(t, x.model, x.gpu, 1, x.tp)
		c.Machine = casetest.Machine(t, x.gpu, "vllm@0.25.1")
		c.Machine.Utilization, c.Scheme = x.share, casetest.Scheme(t, x.scheme, c.Machine.GPU)
		p, err := analytic.NewPredictor(c)
		testkit.Must(t, err)
		log, _ := p.Start(8192, 1024, 262144)
		near(t, x.model+" "+x.scheme+": blocks", log.Blocks, x.blocks, 0.04)
	}
}

// An estimate warns of the default with which vLLM stops at start-up, of a hybrid alone.
func TestStartsWarns(t *testing.T) {
	for model, want := range map[string]string{"qwen3.6-27b": "--max-num-seqs 3", "llama3.1-8b": ""} {
		c := casetest.Case(t, model, "h100", 1, 1)
		c.Machine = casetest.Machine(t, "h100", "vllm")
		m := predict(t, c).Memory
		if got := engine.Starts(c, &m); (want == "") != (got == nil) || got != nil && !strings.Contains(got.String(), want) {
			t.Errorf("%s: %v", model, got)
		}
	}
}

// TestSGLangPools holds the pools to SGLang 0.5.23's logs of an H200: of windows, and of states.
func TestSGLangPools(t *testing.T) {
	for _, x := range []struct {
		model   string
		weights float64 // GiB
		tokens  float64
		running float64 // requests, without a prefix cache
	}{{"gpt-oss-20b", 16.82, 2640935, 4096}, {"qwen3.5-9b", 16.74, 1877987, 1074}} {
		c := onEngine(t, x.model, "sglang@0.5.23", analytic.Workload{Batch: 1, PromptLen: 128, GenLen: 128})
		text := *c.Model
		text.Towers = 0 // The logged servers had the decoder alone.
		c.Model, c.Scheme = &text, models.StoredScheme(&text)
		m := predict(t, c).Memory
		near(t, x.model+": weights", float64(m.Weights)/gib, x.weights, 0.01)
		near(t, x.model+": tokens", m.Logged.Tokens, x.tokens, 0.01)
		running := m.Logged.Requests
		if m.Running > 0 {
			running = min(running, 5*float64(m.Running))
		}
		near(t, x.model+": requests", running, x.running, 0.01)
	}
}

// TestWindowCells holds the KV cache of llama.cpp's slots to llama-server's log (unsloth#5225, ollama#17037).
func TestWindowCells(t *testing.T) {
	for _, x := range []struct {
		model          string
		slots, context int
		mib            float64
	}{{"gemma3-270m", 1, 4096, 27}, {"gemma3-270m", 1, 8192, 39}, {"gemma3-270m", 4, 1024, 72}, {"gemma3-4b", 1, 131072, 2734}} {
		c := onEngine(t, x.model, "llama.cpp", analytic.Workload{Batch: x.slots, PromptLen: x.context - 8, GenLen: 8})
		near(t, x.model, float64(predict(t, c).Memory.KV)/(1<<20), x.mib, 1e-9)
	}
}
