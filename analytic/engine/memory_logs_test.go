package engine_test

import (
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/analytic/operator"
	"llmprof/internal/testkit"
	"llmprof/internal/testkit/casetest"
	"llmprof/models"
	"llmprof/unit"
)

const gib = 1 << 30

// loggedAs names the model of the table for a checkpoint that has another name, the scheme of its weights, and its encoders where the
// table's entry has none.
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
		m.EncoderParams = as.towers
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

// TestNewestAsLogged holds vLLM 0.33 to its starts on one and two H200 (experiments/h200-pair/memory.txt), of decoders without encoders and
// without prefix caching.
func TestNewestAsLogged(t *testing.T) {
	for _, x := range []struct {
		model    string
		tp       int
		longest  int
		eager    bool
		weights  float64 // GiB
		tokens   float64
		requests float64
	}{
		{"qwen3.5-9b", 1, 262144, false, 16.71, 3519545, 13.43}, {"qwen3.6-35b-a3b", 1, 262144, false, 64.61, 3076030, 11.73},
		{"nemotron-3-nano-30b-a3b", 1, 262144, false, 58.92, 11207664, 42.75}, {"gemma3-12b", 1, 131072, true, 22.62, 1014954, 7.74},
		{"deepseek-v2-lite", 1, 163840, true, 29.32, 3369392, 20.57}, {"llama3.1-70b", 2, 131072, false, 65.74, 391936, 2.99},
		{"qwen3-30b-a3b", 2, 40960, false, 28.46, 2123664, 51.85}, {"qwen3.6-27b", 2, 262144, false, 25.15, 3231041, 12.33},
	} {
		c := onEngine(t, x.model, "vllm@0.33.0", analytic.Workload{Batch: 1, PromptLen: 128, GenLen: 128, Longest: x.longest})
		c.Machine, c.Parallel.TP = casetest.Machine(t, "h200", "vllm@0.33.0"), x.tp
		var err error
		c.Machine.Engine, err = engine.WithGraphs(c.Machine.Engine, engine.Graphs{Eager: x.eager})
		testkit.Must(t, err)
		text := *c.Model
		text.EncoderParams = 0
		c.Model, c.Settings.NoPrefixCache = &text, true
		m := predict(t, c).Memory
		t.Logf("%-24s weights %.2f of %.2f GiB, %.0f of %.0f tokens (%+.1f %%), %.2f of %.2f requests", x.model, float64(m.Weights)/gib,
			x.weights, m.Logged.Tokens, x.tokens, 100*(m.Logged.Tokens/x.tokens-1), m.Logged.Requests, x.requests)
		near(t, x.model+": weights", float64(m.Weights)/gib, x.weights, 0.01)
		near(t, x.model+": tokens", m.Logged.Tokens, x.tokens, 0.01)
		near(t, x.model+": requests", m.Logged.Requests, x.requests, 0.01)
	}
}

// Prefixes of hybrids are cached by default since 0.28, or where it is asked for. A request is then logged with two states at worst, and
// with three where prompts write states within a step: those of Mamba 2 since 0.32, and those of gated delta nets by FlashInfer since 0.33.
func TestStatesOfPrefixes(t *testing.T) {
	requests := func(release, gpu string, s operator.Settings) float64 {
		c := onEngine(t, "qwen3.5-9b", release, analytic.Workload{Batch: 1, PromptLen: 128, GenLen: 128, Longest: 2112})
		c.Machine, c.Settings = casetest.Machine(t, gpu, release), s
		return predict(t, c).Memory.Logged.Requests
	}
	for _, x := range []struct {
		release, gpu string
		asked        bool
		states       float64 // how many states each of three groups of layers keeps of a request, beside four blocks of 528 tokens
	}{
		{"vllm@0.25.1", "h200", false, 1}, {"vllm@0.25.1", "h200", true, 2}, {"vllm@0.27.1", "h200", false, 1}, {"vllm@0.28.0", "h200", false, 2},
		{"vllm@0.33.0", "h200", false, 3}, {"vllm@0.33.0", "a100", false, 2},
	} {
		without := requests(x.release, x.gpu, operator.Settings{NoPrefixCache: true})
		with := requests(x.release, x.gpu, operator.Settings{PrefixCache: x.asked})
		near(t, fmt.Sprintf("requests of %s on %s, asked for prefixes: %t", x.release, x.gpu, x.asked), with, without*(4+3)/(4+3*x.states), 1e-9)
	}
}

// TestDraftsAsLogged holds blocks and requests to what vLLM logged of qwen3.6-27b in INT4 on two RTX 3090 that draft three tokens by the
// model's own layer and cache prefixes (club-3090#142): 426 blocks of 1600 tokens in 11.05 GiB, and 2.3799 requests of 262,144 tokens.
// Convolutions keep the inputs of drafts, so that a block has 1600 tokens in place of 1568, and groups have a layer more.
func TestDraftsAsLogged(t *testing.T) {
	c := casetest.Case(t, "qwen3.6-27b", "rtx-3090", 1, 2)
	c.Machine = casetest.Machine(t, "rtx-3090", "vllm@0.21.0")
	c.Machine.Utilization, c.Scheme = 0.92, casetest.Scheme(t, "awq", c.Machine.GPU)
	c.Scheme.KV = unit.FP8
	c.Settings = operator.Settings{Sequences: 2, PrefixCache: true, Drafts: 3, OwnDrafts: true}
	c.Workload = analytic.Workload{Batch: 1, PromptLen: 128, GenLen: 128, Longest: 262144, Budget: 8192}
	l := predict(t, c).Memory.Logged
	near(t, "requests of each block", l.Requests/l.Blocks, 2.3799/426, 1e-4)
}

// TestExpertsAsLogged holds the weights of gpt-oss-120b to what vLLM logged on an H100 by the kernels of OpenAI (0.14.1, vllm#33155), and
// on A100 by Marlin, one of them and four; and those of DeepSeek-V4-Flash to eight H100 (vllm#41027).
func TestExpertsAsLogged(t *testing.T) {
	for _, x := range []struct {
		model, gpu, release string
		tp                  int
		weights             float64
	}{
		{"gpt-oss-120b", "h100", "vllm@0.14.1", 1, 64.38}, {"gpt-oss-120b", "a100", "vllm@0.10.1", 1, 65.90},
		{"gpt-oss-120b", "a100", "vllm@0.10.1", 4, 17.222}, {"deepseek-v4-flash", "h100", "vllm@0.20.0", 8, 20.06},
	} {
		c := casetest.Case(t, x.model, x.gpu, 1, x.tp)
		c.Machine = casetest.Machine(t, x.gpu, x.release)
		c.Scheme = models.StoredScheme(c.Model)
		near(t, "weights of "+x.model+" on "+x.gpu, float64(predict(t, c).Memory.Weights)/gib, x.weights, 0.003)
	}
}

// TestSlotsBoundRequests holds how many requests of hybrids SGLang runs by its slots of states where it takes 0.8 of the memory: five slots
// each of 0.9 parts in 1.9 of what is left beside the weights, by hand 41, 56, 76 and 126.
func TestSlotsBoundRequests(t *testing.T) {
	for _, x := range []struct {
		model, gpu, scheme string
		requests           float64
	}{
		{"qwen3.6-27b", "h200", "w16a16", 41}, {"qwen3.6-27b", "h200", "fp8", 56}, {"qwen3.6-35b-a3b", "h200", "w16a16", 76},
		{"qwen3.6-35b-a3b", "h200", "fp8", 126},
	} {
		c := onEngine(t, x.model, "sglang", analytic.Workload{Batch: 1, PromptLen: 8192, GenLen: 1024})
		c.Machine = casetest.Machine(t, x.gpu, "sglang")
		c.Machine.Utilization, c.Scheme = 0.8, casetest.Scheme(t, x.scheme, c.Machine.GPU)
		near(t, x.model+" "+x.scheme, float64(predict(t, c).Memory.Running), x.requests, 0.07)
	}
}

// TestInt4AsLogged holds the weights of DeepSeek-R1 in AWQ over 16 ranks to what vLLM logged on RTX 3090 by Marlin (vllm#14447): values and
// scales take other places there, and no more memory, beside the copies of the up-projection of latent attention. Those of a mixture in
// 16 bits over four ranks are vllm#17327's.
func TestInt4AsLogged(t *testing.T) {
	for _, x := range []struct {
		model, gpu, release, scheme string
		tp                          int
		weights                     float64
	}{{"deepseek-r1", "rtx-3090", "vllm@0.8.0", "awq", 16, 21.21}, {"qwen3-30b-a3b", "h100", "vllm@0.8.5", "w16a16", 4, 14.2474}} {
		c := casetest.Case(t, x.model, x.gpu, 1, x.tp)
		c.Parallel.GPUsPerNode = x.tp
		c.Machine = casetest.Machine(t, x.gpu, x.release)
		c.Scheme = casetest.Scheme(t, x.scheme, c.Machine.GPU)
		near(t, x.model+": weights", float64(predict(t, c).Memory.Weights)/gib, x.weights, 0.002)
	}
}

// TestHybridAsLogged holds vLLM 0.19 to its start with Qwen3.5-27B on an H20 of 141 GB, steps of 16384 tokens and 16 sequences
// (vllm#40691).
func TestHybridAsLogged(t *testing.T) {
	c := casetest.Case(t, "qwen3.5-27b", "h20-141gb", 1, 1)
	c.Machine = casetest.Machine(t, "h20-141gb", "vllm@0.19.0")
	c.Workload = analytic.Workload{Batch: 1, PromptLen: 128, GenLen: 128, Longest: 32768, Budget: 16384}
	c.Settings.Sequences = 16
	log := predict(t, c).Memory.Logged
	near(t, "tokens", log.Tokens, 290864, 0.03)
	near(t, "requests", log.Requests, 33.04, 0.03)
}

// Draft layers are loaded where they draft, without tables of their own: DeepSeek-V3's has the weights of a layer of 256 experts and of its
// projection of two inputs.
func TestDraftLayersLoaded(t *testing.T) {
	weights := func(drafts int, own bool) float64 {
		c := onEngine(t, "deepseek-v3", "vllm", analytic.Workload{Batch: 1, PromptLen: 128, GenLen: 128})
		c.Scheme = models.StoredScheme(c.Model)
		c.Settings.Drafts, c.Settings.OwnDrafts = drafts, own
		return float64(predict(t, c).Memory.Weights)
	}
	const hidden, width, heads = 7168, 2048, 128
	const attention = hidden*1536 + 1536*heads*192 + hidden*(512+64) + 512*heads*256 + heads*128*hidden
	layer := 257.0*3*hidden*width + attention // in FP8, with scales of blocks of 128; the router and the projection in 16 bits
	layer = layer*(1+4.0/(128*128)) + 2*(256*hidden+2*hidden*hidden)
	near(t, "a draft layer", weights(1, true)-weights(0, false), layer, 0.005)
	near(t, "drafts by n-grams", weights(1, false), weights(0, false), 0)
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

// An estimate warns of what stops vLLM at start-up, by default or as it was told: more sequences than blocks of states, and a request of
// the longest length that the cache does not hold. What it says to give starts.
func TestStartsWarns(t *testing.T) {
	for _, x := range []struct {
		model, gpu         string
		sequences, longest int
		want               string
	}{
		{"qwen3.6-27b", "h100", 0, 8192, "give max_num_seqs 3"}, {"qwen3.6-27b", "h100", 64, 8192, ""}, {"llama3.1-8b", "h100", 0, 0, ""},
		{"llama3.1-8b", "rtx-3090", 0, 0, "is 131072: give max_model_len 49888"}, {"llama3.1-8b", "rtx-3090", 0, 65536, "is 65536: give"},
		{"llama3.1-8b", "rtx-3090", 0, 8192, ""}, {"gemma3-27b", "h100", 0, 0, ""}, {"gemma3-27b", "a100", 0, 1 << 20, "give max_model_len "},
	} {
		c := casetest.Case(t, x.model, x.gpu, 1, 1)
		c.Machine = casetest.Machine(t, x.gpu, "vllm")
		c.Workload = analytic.Workload{Batch: 1, PromptLen: 128, GenLen: 16, Longest: x.longest}
		c.Settings.Sequences = x.sequences
		m := predict(t, c).Memory
		all := engine.Starts(c, &m)
		if len(all) > 1 || (x.want == "") != (len(all) == 0) || x.want != "" && !strings.Contains(all[0].String(), x.want) {
			t.Errorf("%s on %s, %d sequences of %d: %v, want %q", x.model, x.gpu, x.sequences, x.longest, all, x.want)
			continue
		}
		for _, w := range all {
			fields := strings.Fields(w.String())
			n, err := strconv.Atoi(fields[len(fields)-1])
			testkit.Must(t, err)
			if strings.Contains(w.String(), "states") {
				c.Settings.Sequences = n
			} else {
				c.Workload.Longest = n
			}
			if m := predict(t, c).Memory; len(engine.Starts(c, &m)) > 0 {
				t.Errorf("%s on %s does not start as it was told: %v", x.model, x.gpu, engine.Starts(c, &m))
			}
		}
	}
}

// TestSGLangPools holds the pools to SGLang 0.5.23's logs of an H200: of windows, and of states.
func TestSGLangPools(t *testing.T) {
	for _, x := range []struct {
		model   string
		tp      int
		weights float64 // GiB
		tokens  float64
		running float64 // requests, without a prefix cache
	}{{"gpt-oss-20b", 1, 16.82, 2640935, 4096}, {"qwen3.5-9b", 1, 16.74, 1877987, 1074}, {"llama3.1-70b", 2, 65.77, 385984, 2048}} {
		c := onEngine(t, x.model, "sglang@0.5.23", analytic.Workload{Batch: 1, PromptLen: 128, GenLen: 128})
		c.Parallel.TP, c.Workload.Longest, c.Settings.NoPrefixCache = x.tp, c.Model.MaxContext, true
		text := *c.Model
		text.EncoderParams = 0 // The logged servers had the decoder alone.
		c.Model, c.Scheme = &text, models.StoredScheme(&text)
		m := predict(t, c).Memory
		near(t, x.model+": weights", float64(m.Weights)/gib, x.weights, 0.01)
		near(t, x.model+": tokens", m.Logged.Tokens, x.tokens, 0.01)
		near(t, x.model+": requests", m.Logged.Requests, x.running, 0.01)
		c.Settings.Sequences = 64 // --max-running-requests
		near(t, x.model+": requests of a limit", predict(t, c).Memory.Logged.Requests, 64, 0)
	}
}

// TestWindowCells holds the KV cache of llama.cpp's slots to llama-server's log (unsloth#5225, ollama#17037).
func TestWindowCells(t *testing.T) {
	for _, x := range []struct {
		model          string
		slots, context int
		mib            float64
	}{{"gemma3-270m", 1, 4096, 27}, {"gemma3-270m", 1, 8192, 39}, {"gemma3-270m", 4, 1024, 72}, {"gemma3-4b", 1, 131072, 2734},
		{"gemma4-31b", 1, 8192, 1840}} {
		c := onEngine(t, x.model, "llama.cpp", analytic.Workload{Batch: x.slots, PromptLen: x.context - 8, GenLen: 8})
		near(t, x.model, float64(predict(t, c).Memory.KV)/(1<<20), x.mib, 1e-9)
	}
}
