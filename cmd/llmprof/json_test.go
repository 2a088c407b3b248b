package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"llmprof"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/hardware"
	"llmprof/internal/testkit"
	"llmprof/internal/testkit/schematest"
	"llmprof/models"
)

// schema is the schema of a document as the command shows it.
func schema(t *testing.T, name string) *schematest.Schema {
	t.Helper()
	got := try(t, "schema", name)
	if got.code != 0 {
		t.Fatal(got.stderr)
	}
	return schematest.Read(t, got.stdout)
}

func checkSchema(t *testing.T, s *schematest.Schema, text string) {
	t.Helper()
	if err := s.Check(text); err != nil {
		t.Errorf("%#v", err)
	}
}

// TestSchemaCommand holds that each schema says what each of its objects is, which fails where the sources lack the file of a type,
// and that its name stands in the help.
func TestSchemaCommand(t *testing.T) {
	forms, dir := view.Forms(), t.TempDir()
	if got := try(t, "schema", "--dir", dir); got.code != 0 {
		t.Error(got.stderr)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != len(forms) {
		t.Errorf("%d files of %d schemas: %v", len(files), len(forms), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(dir, file.Name()))
		testkit.Must(t, err)
		name := strings.TrimSuffix(file.Name(), ".json")
		var s struct {
			ID   string                                  `json:"$id"`
			Defs map[string]struct{ Description string } `json:"$defs"`
		}
		testkit.Must(t, json.Unmarshal(text, &s))
		if _, known := forms[s.ID]; !known || !strings.HasPrefix(s.ID, "llmprof."+name+"/v") || len(s.Defs) == 0 {
			t.Errorf("%s: the schema is of %q and has %d objects", name, s.ID, len(s.Defs))
		}
		for of, d := range s.Defs {
			if d.Description == "" {
				t.Errorf("%s: nothing says what %s is", name, of)
			}
		}
		if name == "estimate" {
			for _, named := range []string{name, s.ID} {
				if got := try(t, "schema", named); got.stdout != string(text) {
					t.Errorf("%s: the schema that is printed is not that of the file", named)
				}
			}
		}
	}
	if got := try(t, "schema", "estimat"); got.code != 2 || !strings.Contains(got.stderr, "want ablate, aggregate") {
		t.Errorf("exit %d: %s", got.code, got.stderr)
	}
}

// TestEstimateSchema validates estimates of every kind of model and split.
func TestEstimateSchema(t *testing.T) {
	s := schema(t, "estimate")
	for _, args := range []string{
		"--model llama2-70b --gpu a100 --tp 8 --batch 32",
		"--model llama2-70b --gpu a100",
		"--model qwen3-30b-a3b --gpu a100 --price 1.5",
		"--model deepseek-v3 --gpu h200 --tp 16 --ep 16",
		"--model nemotron-h-8b --gpu rtx-a6000",
		"--model mamba2-2.7b --gpu t4",
		"--model llama3.2-1b --gpu orin-nano --gen-len 1",
		"--model gpt-oss-20b --gpu h100 --chunk 100 --cached-prefix 10",
		"--model gpt2 --gpu v100 --batch 2 --pp 2 --micro-batches 2",
		"--model gemma3-1b --gpu mi300x --engine transformers --top 2",
		"--model llama3.1-8b --gpu h100 --weights w4a16-g128 --dp 2 --all-logits",
	} {
		t.Run(args, func(t *testing.T) {
			got := try(t, append([]string{"estimate", "--format", "json"}, strings.Fields(args)...)...)
			if got.stdout == "" { // what does not fit is an answer too
				t.Fatalf("exit %d: %s", got.code, got.stderr)
			}
			checkSchema(t, s, got.stdout)
		})
	}
}

// TestEveryEntry validates an estimate of every model, and on every GPU; of every fifteenth without LLMPROF_TEST_LONG=1.
func TestEveryEntry(t *testing.T) {
	s := schema(t, "estimate")
	one := func(model, gpu string) {
		got := try(t, "estimate", "--format", "json", "--model", model, "--gpu", gpu, "--prompt-len", "300", "--gen-len", "9")
		if got.stdout == "" { // what does not fit is an answer too
			t.Errorf("%s on %s: exit %d: %s", model, gpu, got.code, got.stderr)
			return
		}
		checkSchema(t, s, got.stdout)
	}
	all, err := models.Load(llmprof.ModelsJSON)
	testkit.Must(t, err)
	step := testkit.Cases(15, 1)
	for name := range slices.Chunk(all.Names(), step) {
		one(name[0], "h200")
	}
	gpus, err := hardware.Load(llmprof.HardwareTOML)
	testkit.Must(t, err)
	for name := range slices.Chunk(gpus.Names(), step) {
		one("llama3.2-1b", name[0])
	}
}

// expected reads the expected value of a time from an estimate's JSON.
func expected(t *testing.T, key string, args ...string) float64 {
	t.Helper()
	got := try(t, args...)
	if got.code != 0 {
		t.Fatalf("%v: exit %d: %s", args, got.code, got.stderr)
	}
	var all map[string]json.RawMessage
	var span struct{ Expected float64 }
	testkit.Must(t, json.Unmarshal([]byte(got.stdout), &all))
	testkit.Must(t, json.Unmarshal(all[key], &span))
	return span.Expected
}

// TestOpsAddUp checks that the operators' times and shares are those of the phase.
func TestOpsAddUp(t *testing.T) {
	got := try(t, "estimate", "--model", "deepseek-v3", "--gpu", "h200", "--tp", "8", "--format", "json")
	var e struct{ Prefill, Decode phaseFigures }
	testkit.Must(t, json.Unmarshal([]byte(got.stdout), &e))
	for name, p := range map[string]phaseFigures{"prefill": e.Prefill, "decode": e.Decode} {
		var time, share, floor float64
		for _, o := range p.Ops {
			time, share, floor = time+o.Expected, share+o.Share, floor+o.Floor
		}
		if !near(time, p.Expected) || !near(share, 1) {
			t.Errorf("%s: operators take %g s and %g of %g s", name, time, share, p.Expected)
		}
		if floor < p.Floor {
			t.Errorf("%s: the operators' floors are %g s, the phase's is %g s", name, floor, p.Floor)
		}
	}
}

type phaseFigures struct {
	Floor    float64 `json:"floor_s"`
	Expected float64 `json:"expected_s"`
	Ops      []struct {
		Floor    float64 `json:"floor_s"`
		Expected float64 `json:"expected_s"`
		Share    float64
	}
}

func near(a, b float64) bool { return a-b < 1e-6*b && b-a < 1e-6*b }

// TestCheckSchema validates the answer for good and bad files.
func TestCheckSchema(t *testing.T) {
	got := try(t, "models", "check", "--format", "json", "testdata/config/tiny.json", "testdata/config/truncated.json")
	if got.code != 1 {
		t.Errorf("exit %d, want 1: %s", got.code, got.stderr)
	}
	checkSchema(t, schema(t, "models-check"), got.stdout)
}

// TestServingSchemas holds the documents of servers under load to their schemas.
func TestServingSchemas(t *testing.T) {
	for _, x := range []struct{ schema, line string }{
		{"simulate", "simulate --model llama3.1-8b --gpu h200 --rate 2,8 --requests 50"},
		{"simulate", "simulate --model deepseek-v3 --gpu h200 --tp 8 --concurrency 4 --requests 20 --gen-len 1 --speculative-tokens 2 " +
			"--acceptance 0.8"},
		{"simulate", "simulate --model qwen3-30b-a3b --gpu h100 --dp 2 --routing least-loaded --prefill-replicas 1 --rate 3 " +
			"--requests 50 --scheduler sglang"},
		{"estimate", "estimate --model llama3.1-8b --gpu h200 --rate 5"},
		{"estimate", "estimate --model qwen3-32b --gpu mi355x --weights fp8 --kv fp8 --prompt-len 2048 --gen-len 512 --rate 3.90625"},
		{"estimate", "estimate --model llama3.1-8b --gpu h200 --concurrency 4"},
		{"validate-servers", "validate servers --gpu h200"},
		{"validate-trace", "validate --trace ../../experiments/h100-vllm/traces/llama3.1-8b-prompt-1024.json.gz"},
	} {
		got := try(t, append(strings.Fields(x.line), "--format", "json")...)
		if got.code != 0 {
			t.Errorf("%s: %s", x.line, got.stderr)
			continue
		}
		checkSchema(t, schema(t, x.schema), got.stdout)
	}
}

// The JSON of a load says how many tokens are drafted, by what, and how many of them are right.
func TestSpeculationInJSON(t *testing.T) {
	const own = "estimate --model deepseek-v3 --gpu h200 --tp 8 --rate 1"
	for args, want := range map[string]string{
		own: "null",
		own + " --speculative-tokens 1 --acceptance 0.8": `{"speculative_tokens":1,"acceptance":0.8,` +
			`"draft_model":"mtp"}`,
		own + " --speculative-tokens 2 --acceptance 0.5 --draft-model ngram": `{"speculative_tokens":2,"acceptance":0.5,` +
			`"draft_model":"ngram"}`,
		"estimate --model llama3.1-70b --gpu h100 --tp 4 --rate 1 --speculative-tokens 3 --acceptance 0.7 --draft-model " +
			"llama3.2-1b": `{"speculative_tokens":3,"acceptance":0.7,` +
			`"draft_model":"llama3.2-1b"}`,
		"simulate --model llama3.1-8b --gpu h200 --rate 2 --requests 20 --speculative-tokens 3 --acceptance 0.7": `{"speculative_tokens":3,` +
			`"acceptance":0.7,` +
			`"draft_model":"ngram"}`,
	} {
		command := strings.Fields(args)
		got := try(t, append(command, "--format", "json")...)
		checkSchema(t, schema(t, command[0]), got.stdout)
		var d struct {
			Speculation json.RawMessage `json:"speculation"`
			Load        struct {
				Speculation json.RawMessage `json:"speculation"`
			} `json:"load"`
		}
		testkit.Must(t, json.Unmarshal([]byte(got.stdout), &d))
		var flat bytes.Buffer
		testkit.Must(t, json.Compact(&flat, slices.Concat(d.Speculation, d.Load.Speculation)))
		if flat.String() != want {
			t.Errorf("%s: %s, want %s", args, &flat, want)
		}
	}
}
