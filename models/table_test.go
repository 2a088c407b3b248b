package models_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"llmprof"
	"llmprof/internal/testkit"
	"llmprof/models"
)

// tiny is a config whose count is easily summed by hand: 100×8 for the
// embedding and as much for the head; a layer has 4×8×8 for attention, 3×8×16
// for the feed-forward and two norms of 8; and a last norm of 8.
const (
	tiny = `{"model_type":"llama","vocab_size":100,"hidden_size":8,"intermediate_size":16,"num_hidden_layers":2,` +
		`"num_attention_heads":2,"max_position_embeddings":64}`
	tinyParams = 2*100*8 + 2*(4*8*8+3*8*16+2*8) + 8
)

// tableOf is a table of one model with the given count.
func tableOf(count string) string {
	return `[{"name":"tiny","aliases":["org/Tiny"],"source":"by hand",` + count + `,"params_source":"by hand","config":` + tiny + `}]`
}

func TestTableHoldsCounts(t *testing.T) {
	tests := []struct {
		count string
		want  []string // what the error names; none for no error
	}{
		{fmt.Sprintf(`"params":%d,"params_exact":true`, tinyParams), nil},
		{fmt.Sprintf(`"params":%d,"params_exact":true`, tinyParams-7),
			[]string{"tiny", fmt.Sprint(tinyParams), fmt.Sprint(tinyParams - 7), "+7"}},
		{`"params":2900,"params_exact":false,"params_published":"0.0029M"`, nil},
		{`"params":3000,"params_exact":false,"params_published":"0.003M"`, nil},
		{`"params":2800,"params_exact":false,"params_published":"0.0028M"`, []string{"tiny", fmt.Sprint(tinyParams), "0.0028M", "rounding"}},
	}
	for _, test := range tests {
		table, err := models.Load([]byte(tableOf(test.count)))
		if err != nil {
			t.Errorf("%s: %v", test.count, err)
			continue
		}
		m, err := table.Model("tiny")
		_, errAll := table.All()
		if test.want == nil {
			if err != nil || errAll != nil || m.Params() != tinyParams {
				t.Errorf("%s: got %v and %v, want a model of %d parameters", test.count, err, errAll, tinyParams)
			}
			continue
		}
		for _, want := range test.want {
			if err == nil || errAll == nil || !strings.Contains(err.Error(), want) || !strings.Contains(errAll.Error(), want) {
				t.Errorf("%s: Model says %v, All says %v, want %q in both", test.count, err, errAll, want)
			}
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	entry := func(fields string) string { return `[{` + fields + `}]` }
	good := `"name":"a","source":"s","params":1,"params_exact":true,"params_source":"p","config":{}`
	tests := []struct{ data, want string }{
		{``, "byte 0"},
		{`[`, "EOF"},
		{`{}`, "cannot unmarshal"},
		{entry(good) + `x`, "after its end"},
		{entry(good + `,"alias":["b"]`), "alias"},
		{entry(`"source":"s"`), "no name"},
		{entry(`"name":"a"`), "no source"},
		{entry(`"name":"a","source":"s"`), "no config"},
		{entry(`"name":"a","source":"s","config":{}`), "no published count"},
		{entry(`"name":"a","source":"s","config":{},"params":5`), "no source of its count"},
		{entry(`"name":"a","source":"s","config":{},"params":5,"params_source":"p"`), "params_published"},
		{entry(`"name":"a","source":"s","config":{},"params":5,"params_source":"p","params_published":"7B"`), "says 7B"},
		{entry(`"name":"a","source":"s","config":{},"params":5,"params_source":"p","params_published":"7 apples"`), "7 apples"},
		{entry(`"name":"a","source":"s","config":{},"params":5,"params_source":"p","params_published":"-7B"`), "-7B"},
		{entry(`"name":"a","source":"s","config":{},"params":5,"params_source":"p","params_published":"99999999T"`), "99999999T"},
		{entry(good + `,"params_published":"7B"`), "both an exact count and a rounded one"},
		{entry(good + `,"aliases":["b","-"]`), "alias 2 is empty"},
		{`[{` + good + `},{` + strings.Replace(good, `"a"`, `"A_"`, 1) + `}]`, `"A_" is a name of "a" already`},
	}
	for _, test := range tests {
		_, err := models.Load([]byte(test.data))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got error %v, want %q in it", test.data, err, test.want)
		}
	}
}

func builtIn(t testing.TB) *models.Table {
	t.Helper()
	table, err := models.Load(llmprof.ModelsJSON)
	testkit.Must(t, err)
	return table
}

func TestNamesAreFolded(t *testing.T) {
	table := builtIn(t)
	for _, test := range []struct{ typed, want string }{
		{"llama2-70b", "llama2-70b"},
		{"Llama-2-70B", "llama2-70b"},
		{"llama2_70b", "llama2-70b"},
		{"meta-llama/Llama-2-70b-hf", "llama2-70b"},
		{"LLAMA-3.1-8B", "llama3.1-8b"},
		{"qwen3-30B-A3B", "qwen3-30b-a3b"},
		{"facebook_opt-1.3b", "opt-1.3b"},
		{"gpt-oss_120b", "gpt-oss-120b"},
		{"Llama-3.1-8B-Instruct", "llama3.1-8b"},
		{"llama 3.1 8b", "llama3.1-8b"},
		{"DeepSeek V3.1", "deepseek-v3"},
	} {
		if got, _ := table.Lookup(test.typed); got != test.want {
			t.Errorf("%s is %q, want %q", test.typed, got, test.want)
		}
	}
	if table.Has("llama318b") { // the dot is significant
		t.Error("llama318b is a name")
	}
}

func TestUnknownName(t *testing.T) {
	table := builtIn(t)
	for typed, want := range map[string]string{"t5": "decoders alone are read", "BERT-base-uncased": "it is an encoder",
		"whisper-large-v3": "decoders alone are read"} {
		if _, err := table.Model(typed); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", typed, err, want)
		}
	}
	for _, test := range []struct {
		typed string
		near  []string
	}{
		{"lama2-70b", []string{"llama2-70b"}},
		{"qwen3-7b", []string{"qwen3-8b"}},
		{"mixtrl-8x7b", []string{"mixtral-8x7b"}},
		{"meta-llama/Llama-2-71b-hf", []string{"llama2-70b"}},
		{"qwen3-235b", []string{"qwen3-235b-a22b"}},
		{"Llama2", []string{"llama2-7b", "llama2-13b", "llama2-70b"}},
		{"qwen3.7-27b", []string{"mean qwen3.6-27b, "}}, // the nearest release
		{"qwen3.7", []string{"mean qwen3.6-27b, qwen3.6-35b-a3b, "}},
		{"GLM_4.8-Flash", []string{"mean glm-4.7-flash, "}},
		{"kimi-k2.8", []string{"mean kimi-k2.5, "}}, // of its generation, though K3 is nearer
		{"deepseek-v5", []string{"mean deepseek-v4-"}},
		{"llama-5", []string{"mean llama4-"}},
		{"glm-6", []string{"mean glm-5.3, "}},
		{"qwen3.5-72b", []string{"mean qwen3.5-122b-a10b, qwen3.5-35b-a3b, "}}, // the release that was named, by size
		{"gemma-4-27b", []string{"mean gemma4-26b-a4b, gemma4-31b, "}},
		{"Llama3.1-71B", []string{"mean llama3.1-70b, "}},
		{"ling-2.5-flash", []string{"mean ling-2.6-flash, "}},
		{"ling-2.0-flash", []string{"mean ling-flash-2.0, "}}, // a family that goes on behind the word
		{"deepseek-5", []string{"mean deepseek-v4-"}},
		{"step-4", []string{"mean step-3.5-flash"}},
		{"qwen35-27b", []string{"mean qwen3.5-27b"}},        // a typing error, no release
		{"lama3", []string{"llama3-8b, ", "llama3.1-8b, "}}, // a misspelt beginning
		{"qwem", []string{"qwen"}},
		{"zzzzzzzzzzzz", nil},
		{"", nil},
		{strings.Repeat("llama", 1000), nil},
	} {
		_, err := table.Model(test.typed)
		if err == nil || !strings.Contains(err.Error(), "unknown model") || len(err.Error()) > 300 {
			t.Errorf("%.80q: got error %.400v", test.typed, err)
			continue
		}
		if asks := strings.Contains(err.Error(), "did you mean"); asks != (test.near != nil) {
			t.Errorf("%.80q: got error %v", test.typed, err)
		}
		for _, want := range test.near {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q: got error %v, want it to name %s", test.typed, err, want)
			}
		}
	}
}

// TestPeersNames checks that the table finds the names that llm_profiler, LLM-Viewer, llm-analysis,
// ELANA and LLM Energy Measure give to models.
func TestPeersNames(t *testing.T) {
	table := builtIn(t)
	for name := range strings.FieldsSeq(peersNames) {
		if !table.Has(name) {
			t.Errorf("the table has no model %s", name)
		}
	}
}

const peersNames = `
llama-7B llama-13B llama-30B llama-65B llama2-13B llama2-70B internlm-20B internlm2-20b-chat
Qwen3-8B Qwen3-32B Qwen3-30B-A3B Qwen3-235B-A22B
meta-llama/Llama-2-7b-hf meta-llama/Llama-2-13b-hf meta-llama/Llama-2-70b-hf
EleutherAI/gpt-j-6B THUDM/chatglm3-6b facebook/opt-125m facebook/opt-1.3b facebook/opt-2.7b
facebook/opt-6.7b facebook/opt-13b facebook/opt-30b facebook/opt-66b
EleutherAI_gpt-j-6b PygmalionAI_pygmalion-6b EleutherAI_gpt-neo-125m EleutherAI_gpt-neo-1.3B
EleutherAI_gpt-neo-2.7B distilgpt2 gpt2 gpt2-medium gpt2-large gpt2-xl bigcode_santacoder
bigscience_bloom-560m bigscience_bloomz-560m bigscience_bloom-7b1 bigscience_bloomz-7b1-mt bloom-175b
facebook_opt-125m facebook_opt-350m facebook_opt-1.3b facebook_opt-6.7b facebook_opt-13b
facebook_opt-66b facebook_opt-175b megatron-lm-175b megatron-lm-530b mt-nlg-530b
decapoda-research_llama-7b-hf decapoda-research_llama-13b-hf decapoda-research_llama-30b-hf
decapoda-research_llama-65b-hf lmsys_vicuna-7b-delta-v0 NousResearch_Llama-2-7b-hf
upstage_Llama-2-70b-instruct-v2
Llama-3.1-8B Llama-3.2-1B Qwen2.5-1.5B Qwen2.5-7B Nemotron-H-8B mamba2-2.7b gpt3`

func TestTableAnswers(t *testing.T) {
	table := builtIn(t)
	names := table.Names()
	if !slices.Contains(names, "llama2-70b") {
		t.Fatal("the table does not list llama2-70b")
	}
	aliases := table.Aliases("llama2-70b")
	if !slices.Contains(aliases, "meta-llama/Llama-2-70b-hf") {
		t.Errorf("llama2-70b has the aliases %v", aliases)
	}
	for _, name := range names { // no two hub ids may leave it open whose short name it is
		for _, alias := range table.Aliases(name) {
			_, short, _ := strings.Cut(alias, "/")
			if got, ok := table.Lookup(short); short != "" && (!ok || got != name) {
				t.Errorf("%s of %s is %q", short, name, got)
			}
		}
	}
	for _, name := range names { // a table that answers is not changed by who asked
		if got, ok := table.Lookup(name); !ok || got != name {
			t.Errorf("%s is found as %q", name, got)
		}
	}
}

// BenchmarkLoadOne is what the command does for one model.
func BenchmarkLoadOne(b *testing.B) {
	for b.Loop() {
		table, err := models.Load(llmprof.ModelsJSON)
		testkit.Must(b, err)
		if _, err := table.Model("llama2-70b"); err != nil {
			b.Fatal(err)
		}
	}
}

// FuzzLoad checks that no table makes Load or the building of its models panic,
// and that each model that is built has the count that its entry states.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(tableOf(fmt.Sprintf(`"params":%d,"params_exact":true`, tinyParams))))
	f.Add([]byte(tableOf(`"params":2900,"params_exact":false,"params_published":"0.0029M"`)))
	f.Add([]byte(`[{"name":"a","config":null}]`))
	f.Add([]byte(`[null]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		table, err := models.Load(data)
		if err != nil {
			return
		}
		var stated []struct {
			Name   string `json:"name"`
			Params int64  `json:"params"`
			Exact  bool   `json:"params_exact"`
		}
		testkit.Must(t, json.Unmarshal(data, &stated))
		for _, s := range stated {
			if m, err := table.Model(s.Name); err == nil && s.Exact && s.Params != m.Params() {
				t.Errorf("%s: built with %d parameters, published are %d", s.Name, m.Params(), s.Params)
			}
		}
		_, _ = table.Model("near")
	})
}

// What Config gives is what Model is built from.
func TestConfigReadsToTheSameModel(t *testing.T) {
	table, err := models.Load(llmprof.ModelsJSON)
	testkit.Must(t, err)
	config, err := table.Config("LLaMA3.1_8B")
	testkit.Must(t, err)
	m, err := models.Read("llama3.1-8b", config)
	testkit.Must(t, err)
	if m.Params() != 8030261248 {
		t.Errorf("%d parameters, want 8030261248", m.Params())
	}
	if _, err := table.Config("llama3.1-9b"); err == nil {
		t.Error("an unknown model has a config")
	}
}
