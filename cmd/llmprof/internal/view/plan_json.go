package view

import (
	"math"
	"strings"

	"llmprof/cmd/llmprof/internal/settings"
	"llmprof/plan"
	"llmprof/serving"
	"llmprof/unit"
)

// PlanSchema names the form of a plan's JSON, which "llmprof schema plan" shows.
const PlanSchema = "llmprof.plan/v1"

// A PlanDocument is a plan for programs.
type PlanDocument struct {
	Schema   string             `json:"schema"`
	Model    string             `json:"model" jsonschema:"minLength=1"`             // the model, or several with commas between
	Models   []string           `json:"models" jsonschema:"minItems=1,minLength=1"` // in the order in which they are asked for
	Asked    planAskedJSON      `json:"asked"`
	Searched int                `json:"searched"` // estimates that were made
	Rows     []planRowJSON      `json:"rows"`     // in the order of their rank
	Rejected []planRejectJSON   `json:"rejected"` // GPUs of which no deployment qualifies, the nearest first
	Launch   []plan.Launch      `json:"launch"`   // how the first row is started; empty without --launch
	Check    []string           `json:"check"`    // command lines that measure the first row's server
	Warnings []string           `json:"warnings"`
	Coded    []*WarningDocument `json:"warnings_coded"` // the warnings as data, in the same order
}

// A planAskedJSON is what a plan was asked for.
type planAskedJSON struct {
	PromptLen   int           `json:"prompt_len" jsonschema:"minimum=1"`
	GenLen      int           `json:"gen_len" jsonschema:"minimum=1"`
	Prompt      string        `json:"prompt_lengths" jsonschema:"minLength=1"` // as --in gives them
	Gen         string        `json:"gen_lengths" jsonschema:"minLength=1"`    // as --out gives them
	TTFT        *unit.Seconds `json:"ttft_s" jsonschema:"exclusiveMinimum=0"`  // target of the mean; null for none
	TPOT        *unit.Seconds `json:"tpot_s" jsonschema:"exclusiveMinimum=0"`
	E2E         *unit.Seconds `json:"e2e_s" jsonschema:"exclusiveMinimum=0"`
	TTFTTail    *unit.Seconds `json:"ttft_p99_s" jsonschema:"exclusiveMinimum=0"` // target of the 99th percentile; null for none
	TPOTTail    *unit.Seconds `json:"tpot_p99_s" jsonschema:"exclusiveMinimum=0"`
	E2ETail     *unit.Seconds `json:"e2e_p99_s" jsonschema:"exclusiveMinimum=0"`
	Rate        *float64      `json:"requests_s" jsonschema:"exclusiveMinimum=0"` // load: requests a second
	Concurrency *int          `json:"concurrency" jsonschema:"minimum=1"`         // load: requests at a time
	Throughput  *float64      `json:"tok_s" jsonschema:"exclusiveMinimum=0"`      // load: generated tokens a second
	Budget      *float64      `json:"usd_h" jsonschema:"exclusiveMinimum=0"`
	MaxGPUs     *int          `json:"max_gpus" jsonschema:"minimum=1"`
	// probability that a drafted token is right; null where no speculation was tried
	Acceptance *float64 `json:"acceptance" jsonschema:"exclusiveMinimum=0"`
	By         string   `json:"by" jsonschema:"enum=cost,enum=energy,enum=latency,enum=throughput,enum=model"`
	// end of the 90 % interval at which targets hold and rows have their times, tok_s, tok_s_gpu, running and usd_mtok; j_token is expected
	At string `json:"at" jsonschema:"enum=high,enum=expected"`
}

// A planRowJSON is a deployment that qualifies.
type planRowJSON struct {
	Model string `json:"model" jsonschema:"minLength=1"`
	GPU   string `json:"gpu" jsonschema:"minLength=1"` // key of the GPU table
	Count int    `json:"count" jsonschema:"minimum=1"`
	TP    int    `json:"tp" jsonschema:"minimum=1"`
	PP    int    `json:"pp" jsonschema:"minimum=1"`
	DP    int    `json:"dp" jsonschema:"minimum=1"`
	EP    int    `json:"ep" jsonschema:"minimum=1"`
	// tensor parallelism within one expert; null where the model has no experts
	MoETP        *int   `json:"moe_tp" jsonschema:"minimum=1"`
	MicroBatches int    `json:"micro_batches" jsonschema:"minimum=1"`
	Engine       string `json:"engine" jsonschema:"minLength=1"`
	Weights      string `json:"weights" jsonschema:"minLength=1"`
	KV           string `json:"kv" jsonschema:"minLength=1"`
	// sequences of a replica at once: the batch, or under a load the scheduler's limit
	Batch int `json:"batch" jsonschema:"minimum=1"`
	// replicas besides those of dp that only prefill and hand the KV cache over
	Prefill int `json:"prefill_replicas"`
	// most tokens of a step; null for the scheduler's default
	Budget *int `json:"max_num_batched_tokens" jsonschema:"minimum=1"`
	// most sequences at once; null for the scheduler's default
	Limit    *int          `json:"max_num_seqs" jsonschema:"minimum=1"`
	Drafts   int           `json:"speculative_tokens"`                     // tokens drafted with each one
	TTFT     unit.Seconds  `json:"ttft_s" jsonschema:"exclusiveMinimum=0"` // mean; under a load with queueing
	TPOT     *unit.Seconds `json:"tpot_s" jsonschema:"exclusiveMinimum=0"` // null where one token is generated
	E2E      unit.Seconds  `json:"e2e_s" jsonschema:"exclusiveMinimum=0"`
	Expected planTimesJSON `json:"expected"` // the times that the command gives as expected
	// simulated where a target is one of a 99th percentile, else null
	P99 *planTimesJSON `json:"p99"`
	// generated tokens a second, all GPUs, at the end that asked.at names
	TokS    float64 `json:"tok_s" jsonschema:"exclusiveMinimum=0"`
	TokSGPU float64 `json:"tok_s_gpu" jsonschema:"exclusiveMinimum=0"`
	// sequences that decode at once, all replicas, under a load, at the end that asked.at names
	Running    *float64      `json:"running" jsonschema:"exclusiveMinimum=0"`
	PerHour    *unit.Dollars `json:"usd_h" jsonschema:"exclusiveMinimum=0"`    // all GPUs; null where no price is known
	PerMillion *unit.Dollars `json:"usd_mtok" jsonschema:"exclusiveMinimum=0"` // a million generated tokens
	JToken     unit.Joules   `json:"j_token" jsonschema:"exclusiveMinimum=0"`  // a generated token, its share of the prompt included
	// no other deployment that qualifies is better in price, TTFT and TPOT
	Pareto   bool     `json:"pareto"`
	Accuracy Accuracy `json:"accuracy"`
	// the command of llmprof that estimate_args are for; always estimate
	Command      string   `json:"command" jsonschema:"enum=estimate,enum=simulate"`
	EstimateArgs []string `json:"estimate_args" jsonschema:"minItems=4"`
}

// A planTimesJSON is times of a deployment.
type planTimesJSON struct {
	TTFT unit.Seconds  `json:"ttft_s" jsonschema:"exclusiveMinimum=0"`
	TPOT *unit.Seconds `json:"tpot_s" jsonschema:"exclusiveMinimum=0"`
	E2E  unit.Seconds  `json:"e2e_s" jsonschema:"exclusiveMinimum=0"`
}

// A planRejectJSON is a GPU of which no deployment qualifies.
type planRejectJSON struct {
	Model  string `json:"model" jsonschema:"minLength=1"`
	GPU    string `json:"gpu" jsonschema:"minLength=1"`
	Reason string `json:"reason" jsonschema:"minLength=1"`
}

// Document is the plan for programs.
func (p *Plan) Document() *PlanDocument {
	q := p.Request
	j := &PlanDocument{
		Schema: PlanSchema, Model: strings.Join(p.models(), ","), Models: p.models(), Searched: p.Result.Searched, Rows: []planRowJSON{},
		Rejected: []planRejectJSON{}, Launch: []plan.Launch{},
		Check: append([]string{}, p.Checks...),
		Asked: planAskedJSON{
			PromptLen: mean(&q.Prompt), GenLen: mean(&q.Gen), Prompt: q.Prompt.String(), Gen: q.Gen.String(), TTFT: unit.OrNull(q.Targets.TTFT),
			TPOT: unit.OrNull(q.Targets.TPOT), E2E: unit.OrNull(q.Targets.E2E),
			TTFTTail: unit.OrNull(q.Tails.TTFT), TPOTTail: unit.OrNull(q.Tails.TPOT), E2ETail: unit.OrNull(q.Tails.E2E),
			Rate: unit.OrNull(q.Load.Rate), Concurrency: unit.OrNull(q.Load.Concurrency), Throughput: unit.OrNull(q.Load.Throughput),
			Budget:  unit.OrNull(float64(q.Budget)),
			MaxGPUs: unit.OrNull(q.MaxGPUs), Acceptance: unit.OrNull(q.Acceptance), By: string(q.By), At: "high",
		},
	}
	if q.Expected {
		j.Asked.At = "expected"
	}
	warned := q.Warnings(len(p.Shown))
	j.Warnings, j.Coded = Texts(warned), coded(warned)
	for i := range p.Shown {
		j.Rows = append(j.Rows, p.row(&p.Shown[i], &p.Accuracy[i]))
	}
	for _, x := range p.Result.Rejected {
		j.Rejected = append(j.Rejected, planRejectJSON{x.Card.Model.Name, x.Card.GPU.Key, x.Miss.Reason})
	}
	for _, l := range p.Launch {
		l.Notes = append([]string{}, l.Notes...)
		j.Launch = append(j.Launch, l)
	}
	return j
}

// mean is the mean of lengths in whole tokens.
func mean(l *serving.Lengths) int { return int(math.Round(l.MeanLength())) }

func (p *Plan) row(r *plan.Row, a *Accuracy) planRowJSON {
	j := planRowJSON{
		Model: r.Card.Model.Name, GPU: r.Card.GPU.Key, Count: r.GPUs, TP: r.Split.TP, PP: r.Split.PP, DP: r.DP, EP: r.Split.EP,
		MoETP: expertTP(r.Card.Model, r.Split.Parallel()), MicroBatches: r.MicroBatches,
		Engine: r.Engine(), Weights: r.Scheme, KV: r.Formats.KV.String(), Batch: r.Batch, Prefill: r.Prefill, Budget: unit.OrNull(r.Budget),
		Limit: unit.OrNull(r.Limit), Drafts: r.Drafts, TTFT: r.TTFT, TPOT: unit.OrNull(r.TPOT), E2E: r.E2E,
		TokS: r.Throughput, TokSGPU: r.Throughput / float64(r.GPUs), PerHour: unit.OrNull(r.PerHour), PerMillion: unit.OrNull(r.PerMillion),
		JToken:   r.JToken,
		Expected: planTimesJSON{r.Estimate.TTFT.Expected, unit.OrNull(r.Estimate.TPOT.Expected), r.Estimate.E2E.Expected},
		Pareto:   r.Pareto, Running: unit.OrNull(r.Running), Command: "estimate", EstimateArgs: settings.Args(r.Same(p.Request)),
		Accuracy: *a,
	}
	if t := &r.Tail; t.TTFT > 0 {
		j.P99 = &planTimesJSON{t.TTFT, unit.OrNull(t.TPOT), t.E2E}
	}
	return j
}
