package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"llmprof/internal/testkit"
	"llmprof/internal/testkit/pythontest"
	"llmprof/measure/experiment"
	"llmprof/measure/result"
)

// oneThread makes every Python run on one thread. With a tiny model the threads of a Python mostly wait
// for each other, which costs a busy machine six times the work.
var oneThread = sync.OnceValue(func() error { return os.Setenv("OMP_NUM_THREADS", "1") })

// python finds a Python with torch and transformers, and runs it on one thread.
func python(t *testing.T) string {
	t.Helper()
	testkit.Must(t, oneThread())
	return pythontest.Find(t)
}

// A dense model, a mixture and a Mamba2 are measured for real, on the processor.
func TestMeasure(t *testing.T) {
	py := python(t)
	for _, name := range []string{"llama", "qwen3moe", "mamba2"} {
		t.Run(name, func(t *testing.T) {
			config, err := filepath.Abs("../../measure/internal/transformers/testdata/" + name + ".json")
			testkit.Must(t, err)
			dir := t.TempDir()
			text, err := os.ReadFile(config)
			testkit.Must(t, err)
			testkit.Must(t, os.WriteFile(filepath.Join(dir, "config.json"), text, 0o644))
			results := filepath.Join(dir, "new", "results")
			var out, errs bytes.Buffer
			code := run([]string{"measure", "--model", dir, "--python", py, "--random-weights", "--device", "cpu", "--dtype", "fp32", "--eager",
				"--prompt-len", "12", "--gen-len", "4", "--warmup", "2", "--repeats", "3", "--ttft", "--tpot", "--ttlt", "--size",
				"--results", results, "--format", "json"}, nil, &out, &errs, os.Getenv)
			if code != 0 {
				t.Fatalf("exit %d: %s", code, errs.String())
			}
			checkSchema(t, schema(t, "measure"), out.String())
			var r result.Result
			testkit.Must(t, json.Unmarshal(out.Bytes(), &r))
			if r.TTFT.N < 3 || r.TPOT.N < 3 || r.StepTime.N < 9 || r.TTFT.Warmups != 2 || r.Sizes.Params == nil {
				t.Errorf("TTFT %+v, TPOT %+v, sizes %+v", r.TTFT, r.TPOT, r.Sizes)
			}
			if a := r.Sizes.Analytic; a == nil || math.Abs(float64(*r.Sizes.Params)/a.Params-1) > 1e-9 {
				t.Errorf("the engine holds %v bytes of parameters, the theory %+v", *r.Sizes.Params, a)
			}
			if kv := *r.Sizes.KV; name != "mamba2" && math.Abs(float64(kv)/r.Sizes.Analytic.KV-1) > 1e-9 {
				t.Errorf("the cache has %d bytes, in theory %v", kv, r.Sizes.Analytic.KV)
			}
			if got := try(t, "results", "list", "--results", results); got.code != 0 || !strings.Contains(got.stdout, r.ID) {
				t.Errorf("the result is not listed: %s%s", got.stdout, got.stderr)
			}
			page := try(t, "results", "show", r.ID, "--raw", "--results", results)
			for _, want := range []string{"TTFT", "Memory", "Closure", "random weights"} {
				if !strings.Contains(page.stdout, want) {
					t.Errorf("no %q in the page: %s%s", want, page.stdout, page.stderr)
				}
			}
		})
	}
}

// Replicas run side by side and leave a result each. Prompts of a file are read by the model, and what it answers
// is kept: with the same weights, the same of each replica.
func TestMeasureReplicas(t *testing.T) {
	py := python(t)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"config.json": tinyLlama, "prompts.jsonl": "{\"prompt_token_ids\": [1, 2, 3, 4, 5, 6]}\n{\"prompt_token_ids\": [9, 8, 7, 6, 5, 4]}\n",
	} {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	var out, errs bytes.Buffer
	code := run([]string{"measure", "--model", dir, "--python", py, "--random-weights", "--device", "cpu", "--dtype", "fp32", "--eager",
		"--prompt-len", "6", "--gen-len", "3", "--batch", "2", "--replicas", "2", "--warmup", "1", "--repeats", "2", "--ttft", "--ttlt",
		"--save-outputs",
		"--prompts", filepath.Join(dir, "prompts.jsonl"), "--results", dir, "--format", "json"}, nil, &out, &errs, os.Getenv)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	all, broken := result.ReadFolder(dir)
	if len(all) != 2 || all[0].ID != all[1].ID || all[1].Process != 1 || all[1].Processes != 2 {
		t.Fatalf("%d results, broken %v", len(all), broken)
	}
	if o := all[0].Outputs; len(o) != 2 || len(o[0]) != 3 {
		t.Errorf("outputs %v, want 3 tokens of 2 sequences", o)
	}
	if diff := cmp.Diff(all[0].Outputs, all[1].Outputs); diff != "" {
		t.Errorf("the same prompts and weights gave other tokens (-one +other):\n%s", diff)
	}
}

// TestErrorsNameFlags: what is wrong with a flag of measure is said of the flag, whatever its key in files is called.
func TestErrorsNameFlags(t *testing.T) {
	cmd := (&app{}).measure()
	for _, key := range experiment.Settings() {
		if flag := flagOf(key); flag != "" && cmd.Flags().Lookup(flag) == nil {
			t.Errorf("%s: there is no flag --%s", key, flag)
		}
	}
	server := "measure m --engine openai --base-url http://127.0.0.1:1/v1 "
	for args, want := range map[string]string{
		server + "--rate 1 --concurrency 2": "--rate: a closed loop of 2 requests has no rate: give concurrency or --rate",
		server + "--rate -1":                "--rate",
		server + "--trace x --rate 1":       "--trace: it has its own arrivals: leave out concurrency and --rate",
		server + "--dtype fp16": "--dtype: \"fp16\": a server that is asked over HTTP chose it already; give " +
			"--served-weights",
		server + "--quantize int8":                               "--quantize: ",
		server + "--timeout 1e9":                                 "--timeout: ",
		server + "--max-failures 2":                              "--max-failures",
		"measure m --engine openai":                              "--base-url: where is the server",
		"measure m --engine native --weights d --random-weights": "--weights: \"d\" and random weights",
		"measure m --carbon-intensity -5":                        "--carbon-intensity: ",
		"measure m --engine native --device cpu":                 "--device: \"cpu\": the native engine needs a GPU; --engine transformers runs",
		"measure m --speed 2":                                    "--speed: ",
		"measure m --quantize nope":                              "--quantize: \"nope\"; known are int8",
	} {
		got := try(t, strings.Fields(args)...)
		if line, _, _ := strings.Cut(got.stderr, "\n"); got.code != 2 || !strings.HasPrefix(line, "llmprof: "+want) {
			t.Errorf("%s: exit %d, %s, want %q", args, got.code, line, want)
		}
	}
}

// TestUnknownNames: a name on the command line that stands for nothing is a mistake in the command line, a file that is missing is none.
func TestUnknownNames(t *testing.T) {
	const m = "llama3.1-8b "
	t.Chdir(t.TempDir())
	testkit.Must(t, os.WriteFile("e.toml", []byte("model = \"nope\"\n"), 0o644))
	for args, want := range map[string]int{
		"estimate nope h100": 2, "estimate " + m + "nope": 2, "estimate " + m + "h100 --engine nope": 2,
		"estimate " + m + "h100 --weights nope": 2,
		"estimate " + m + "h100 --kv nope":      2, "estimate " + m + "h100 --tp 3": 2, "plan nope": 2, "plan " + m + "--gpus nope --ttft 1s": 2,
		"compare " + m + "h100 nope": 2,
		"sweep nope h100":            2, "sweep " + m + "nope": 2, "simulate " + m + "nope --rate 1": 2, "report nope h100 -o r.html": 2,
		"graph " + m + "--gpu nope -o x.svg": 2,
		"plot roofline nope h100 -o x.svg":   2, "measure nope": 2, "validate --gpu nope": 2, "calibrate --import . --gpu nope --engine vllm": 2,
		"models show nope": 2, "gpus show nope": 2, "results table --layout nope": 2, "completion nope": 2,
		"estimate ./nope h100": 1, "estimate " + m + "h100 --calibration nope": 1, "estimate " + m + "h100 --hardware nope": 1,
		"models check nope": 1,
		"gpus check nope":   1, "config validate nope.toml": 1, "config validate e.toml": 1, "run nope.toml": 1, "validate nope.csv": 1,
		"results show nope": 1, "results list nope": 1,
	} {
		if got := try(t, strings.Fields(args)...); got.code != want {
			t.Errorf("%s: exit %d, want %d: %s", args, got.code, want, got.stderr)
		}
	}
}

// A measure that is given as false is left out alone, and none is asked for by that.
func TestMeasuresLeftOut(t *testing.T) {
	for args, want := range map[string]string{
		"": "ttft tpot ttlt size energy", "--energy=false": "ttft tpot ttlt size", "--ttft=false --size=false": "tpot ttlt energy",
		"--energy": "energy", "--ttft --energy=false": "ttft", "--gen-len=1": "ttft ttlt size energy",
	} {
		f := pflag.NewFlagSet("measure", pflag.ContinueOnError)
		tr := &measureRun{point: experiment.Default(), given: f.Changed}
		tr.figureFlags(f)
		tr.workloadFlags(f)
		tr.point.Model, tr.point.Engine = "llama3.1-8b", experiment.Transformers
		testkit.Must(t, f.Parse(strings.Fields(args)))
		testkit.Must(t, tr.resolve())
		var got []string
		for _, x := range []struct {
			name string
			on   bool
		}{{"ttft", tr.point.TTFT}, {"tpot", tr.point.TPOT}, {"ttlt", tr.point.TTLT}, {"size", tr.point.Size}, {"energy", tr.point.Energy}} {
			if x.on {
				got = append(got, x.name)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q measures %v, want %s", args, got, want)
		}
	}
}
