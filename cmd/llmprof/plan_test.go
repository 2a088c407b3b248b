package main

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"llmprof/internal/testkit"
)

// planned is the part of a plan's JSON that tests look at.
type planned struct {
	Rows []struct {
		Model, GPU, Command string
		Count               int
		Expected            struct {
			TTFT float64  `json:"ttft_s"`
			TPOT *float64 `json:"tpot_s"`
			E2E  float64  `json:"e2e_s"`
		}
		TTFT    float64  `json:"ttft_s"`
		E2E     float64  `json:"e2e_s"`
		TokS    float64  `json:"tok_s"`
		PerHour *float64 `json:"usd_h"`
		JToken  float64  `json:"j_token"`
		Args    []string `json:"estimate_args"`
	}
	Rejected []struct{ Model, GPU, Reason string }
	Check    []string
}

// planJSON runs a plan and holds its JSON to the schema.
func planJSON(t *testing.T, wantCode int, args string) (p planned) {
	t.Helper()
	got := try(t, append([]string{"plan", "--format", "json"}, strings.Fields(args)...)...)
	if got.code != wantCode {
		t.Fatalf("plan %s: exit %d: %s", args, got.code, got.stderr)
	}
	checkSchema(t, schema(t, "plan"), got.stdout)
	testkit.Must(t, json.Unmarshal([]byte(got.stdout), &p))
	return p
}

// Every row of a plan of batches is what the estimate that it prints says.
func TestPlanRowsAreEstimates(t *testing.T) {
	for _, args := range []string{
		"llama3.1-8b --gpus h100,h200,l40s,mi300x --per-gpu 3 --by energy --tpot 30ms",
		"qwen3-30b-a3b --gpus h200,a100,b200 --per-gpu 2 --max-gpus 8 --in 512 --out 1",
		"deepseek-v3 --gpus h200,b200 --max-gpus 16 --per-gpu 4 --by latency --expected",
		"llama2-70b --gpus a100,h100 --per-gpu 4 --by throughput --budget 40 --in 512",
	}[:testkit.Cases(2, 4)] {
		p := planJSON(t, 0, args)
		if len(p.Rows) < 2 {
			t.Fatalf("%s: %d rows", args, len(p.Rows))
		}
		for _, r := range p.Rows {
			e := estimateOf(t, r.Args)
			for _, x := range []struct {
				what      string
				got, want float64
			}{
				{"TTFT", r.Expected.TTFT, e.TTFT.Expected}, {"E2E", r.Expected.E2E, e.TTLT.Expected}, {"GPUs", float64(r.Count), float64(e.GPU.Count)},
				{"J/token", r.JToken, e.Energy.PerRequest / float64(e.Workload.Gen)},
			} {
				if math.Abs(x.got-x.want) > 1e-9*x.want {
					t.Errorf("%s: %s: %s %v, by estimate %v", args, strings.Join(r.Args, " "), x.what, x.got, x.want)
				}
			}
			slow := e.TTFT.High
			if strings.Contains(args, "--expected") {
				slow = e.TTFT.Expected
			}
			if math.Abs(r.TTFT-slow) > 1e-9*slow {
				t.Errorf("%s: a TTFT of %v, by estimate %v", strings.Join(r.Args, " "), r.TTFT, slow)
			}
			if e.Cost != nil && math.Abs(*r.PerHour-e.Cost.PerHour) > 1e-9*e.Cost.PerHour {
				t.Errorf("%s: %v $/h, by estimate %v", strings.Join(r.Args, " "), *r.PerHour, e.Cost.PerHour)
			}
		}
	}
}

// estimated is the part of an estimate's JSON that tests look at.
type estimated struct {
	GPU      struct{ Count int }
	Workload struct {
		Gen int `json:"gen_len"`
	}
	TTFT, TTLT struct{ Expected, High float64 }
	Energy     struct {
		PerRequest float64 `json:"per_request"`
	} `json:"energy_j"`
	Cost *struct {
		PerHour float64 `json:"per_hour"`
	} `json:"cost_usd"`
}

func estimateOf(t *testing.T, args []string) (e estimated) {
	t.Helper()
	got := try(t, append([]string{"estimate", "--format", "json"}, args...)...)
	if got.code != 0 {
		t.Fatalf("estimate %s: exit %d: %s", strings.Join(args, " "), got.code, got.stderr)
	}
	var all map[string]json.RawMessage
	testkit.Must(t, json.Unmarshal([]byte(got.stdout), &all))
	for key, to := range map[string]any{"gpu": &e.GPU, "workload": &e.Workload, "ttft_s": &e.TTFT, "ttlt_s": &e.TTLT, "energy_j": &e.Energy,
		"cost_usd": &e.Cost} {
		testkit.Must(t, json.Unmarshal(all[key], to))
	}
	return e
}

// A row under a load is the steady state that the estimate it prints has.
func TestPlanRowsUnderLoad(t *testing.T) {
	testkit.Long(t, "plans under loads; TestPageRowsOpen and TestLoadedRows open rows too")
	form := schema(t, "estimate")
	for _, args := range []string{
		"llama3.1-8b --gpus h100,l40s --in 1024 --out 200 --ttft 1s --tpot 40ms --rate 8 --launch",
		"llama3.1-8b --gpus a100,h200 --in 2048 --out 200 --by latency --max-gpus 4 --rate 10 --per-gpu 0 --top 8",
		"deepseek-v3 --gpus h200 --rate 4 --tpot 25ms --acceptance 0.8 --speculative-tokens 1 --max-gpus 16 --per-gpu 0 --top 5",
		"llama3.1-8b --gpus h100 --concurrency 32 --per-gpu 2",
		"llama3.1-8b --gpus h100,l4 --concurrency 8 --out 1",
		"gpt-oss-120b --in 6000 --out 512 --by latency --tps 500 --gpus l40s --aggregated",
		"llama3.1-8b,qwen3-8b --in lognormal:800,0.9 --out 20..400 --ttft 2s --tpot 40ms --rate 12 --gpus l40s,h100 --per-gpu 0 --top 9",
		"llama3.1-8b --in trace:../../serving/replay/testdata/azure.csv --out 100 --concurrency 12 --gpus l4",
		"llama3.1-8b --in 100 --out 200 --tps 30000 --gpus l40s --max-num-seqs 512 --aggregated --per-gpu 0",
	}[:testkit.Cases(2, 9)] {
		p := planJSON(t, 0, args)
		if len(p.Rows) == 0 {
			t.Fatal("no rows")
		}
		for _, r := range p.Rows {
			got := try(t, append([]string{"estimate", "--format", "json"}, r.Args...)...)
			if got.code != 0 {
				t.Fatalf("%s: exit %d: %s", strings.Join(r.Args, " "), got.code, got.stderr)
			}
			var s struct {
				Load struct {
					TTFT float64  `json:"ttft_s"`
					TPOT *float64 `json:"tpot_s"`
					GPUs int
					Hour *float64 `json:"cost_usd_hour"`
					TokS float64  `json:"generated_tok_s"`
					Rate float64  `json:"requests_s"`
					J    float64  `json:"energy_j_request"`
					High *struct {
						TTFT float64 `json:"ttft_s"`
						E2E  float64 `json:"e2e_s"`
						TokS float64 `json:"generated_tok_s"`
					}
				}
			}
			checkSchema(t, form, got.stdout)
			testkit.Must(t, json.Unmarshal([]byte(got.stdout), &s))
			near := func(what string, is, want float64) {
				if math.Abs(is/want-1) > 1e-9 {
					t.Errorf("%s: %s %v, by estimate %v", strings.Join(r.Args, " "), what, is, want)
				}
			}
			near("TTFT", r.Expected.TTFT, s.Load.TTFT)
			switch {
			case r.Expected.TPOT != nil && s.Load.TPOT != nil:
				near("TPOT", *r.Expected.TPOT, *s.Load.TPOT)
			case r.Expected.TPOT != s.Load.TPOT:
				t.Errorf("%s: TPOT %v, by estimate %v: want null of both", strings.Join(r.Args, " "), r.Expected.TPOT, s.Load.TPOT)
			}
			near("GPUs", float64(r.Count), float64(s.Load.GPUs))
			near("$/h", *r.PerHour, *s.Load.Hour)
			near("J/token", r.JToken, s.Load.J*s.Load.Rate/s.Load.TokS)
			near("slow TTFT", r.TTFT, s.Load.High.TTFT)
			near("slow E2E", r.E2E, s.Load.High.E2E)
			near("slow tok/s", r.TokS, s.Load.High.TokS)
		}
	}
}

// Targets of 99th percentiles are held by simulation, and shown.
func TestPlanTails(t *testing.T) {
	testkit.Long(t, "a plan at percentiles; TestScript/plan has one")
	var got struct {
		Asked struct {
			TTFT float64  `json:"ttft_p99_s"`
			TPOT *float64 `json:"tpot_p99_s"`
		}
		Rows []struct {
			TPOT float64 `json:"tpot_s"`
			P99  struct {
				TTFT float64 `json:"ttft_s"`
			}
		}
	}
	const args = "plan llama3.1-8b --gpus h100,l40s --rate 12 --ttft p99=400ms --tpot 25ms"
	j := try(t, strings.Fields(args+" --format json")...)
	testkit.Must(t, json.Unmarshal([]byte(j.stdout), &got))
	if got.Asked.TTFT != 0.4 || got.Asked.TPOT != nil || len(got.Rows) == 0 {
		t.Errorf("asked for %+v, and %d rows", got.Asked, len(got.Rows))
	}
	for _, r := range got.Rows {
		if !(r.P99.TTFT > 0 && r.P99.TTFT <= 0.4 && r.TPOT <= 0.025) {
			t.Errorf("%+v", r)
		}
	}
	page := try(t, strings.Fields(args)...).stdout
	if !strings.Contains(page, "TTFT p99") || strings.Contains(page, "TPOT p99 ") {
		t.Errorf("the page has other columns:\n%s", page)
	}
}

// Models of a list are ranked in its order, those that do not qualify are named, and each row is of its model.
func TestPlanModels(t *testing.T) {
	p := planJSON(t, 0, "qwen3-32b,qwen3-14b,qwen3-8b --gpus rtx-4090,l40s --max-gpus 1 --tpot 28ms --by model")
	var got []string
	for _, r := range p.Rows {
		got = append(got, r.Model)
		if r.Args[1] != r.Model {
			t.Errorf("%s is estimated by %v", r.Model, r.Args)
		}
	}
	if strings.Join(got, " ") != "qwen3-14b qwen3-8b qwen3-8b" {
		t.Errorf("rows of %v", got)
	}
	if len(p.Rejected) != 3 || p.Rejected[1].Model != "qwen3-32b" {
		t.Errorf("rejected: %+v", p.Rejected)
	}
}

// Distributions need a load, and percentiles targets.
func TestPlanRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"--in 512..2048 --tpot 30ms":          "without a load",
		"--ttft p99=1s":                       "percentiles are of a load",
		"--rate 1 --p99":                      "give one",
		"--rate 1 --in 1.5":                   "want tokens",
		"--rate 1 --in trace:no-such-file":    "no-such-file",
		"--rate 1 --max-num-seqs 0":           "at most",
		"--max-num-seqs 64":                   "changes nothing without a load",
		"--rate 1 --ttft p99=500":             "want a unit",
		"--rate 1 --out lognormal:64,0.5 -q1": "unknown",
	} {
		got := try(t, strings.Fields("plan llama3.1-8b --gpus h100 "+args)...)
		if got.code != 2 || !strings.Contains(got.stderr, want) {
			t.Errorf("plan %s: exit %d, %q: want %q", args, got.code, got.stderr, want)
		}
	}
}

// The command that checks a plan is one of this program.
func TestPlanChecks(t *testing.T) {
	for _, args := range []string{"llama3.1-8b --gpus h100 --rate 8", "llama3.1-8b --gpus h100 --concurrency 16",
		"llama3.1-8b --gpus h100 --tps 500", "llama3.1-8b --gpus h100 --max-gpus 1"} {
		p := planJSON(t, 0, args)
		if len(p.Check) == 0 {
			t.Errorf("%s: nothing checks it", args)
		}
		for _, line := range p.Check {
			words := quotedFields(line)
			cmd, rest, err := (&app{}).root().Find(words[1:])
			if err != nil || words[0] != "llmprof" || cmd.Name() != "measure" {
				t.Errorf("%s: %v", line, err)
				continue
			}
			if err := cmd.ParseFlags(rest); err != nil || cmd.Flags().NArg() > 0 {
				t.Errorf("%s: %v, %v", line, err, cmd.Flags().Args())
			}
		}
	}
}

// Where nothing qualifies the plan says what came nearest, and fails.
func TestPlanNothing(t *testing.T) {
	p := planJSON(t, 1, "llama3.1-8b --gpus h100,l4 --tpot 1ms")
	if len(p.Rows) != 0 || len(p.Rejected) != 2 || !strings.Contains(p.Rejected[0].Reason, "TPOT") || p.Rejected[0].GPU != "h100-sxm-80gb" {
		t.Errorf("%+v", p)
	}
}
