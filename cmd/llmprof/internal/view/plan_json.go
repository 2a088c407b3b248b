package view

import (
	"math"
	"strings"

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
	Models   []string           `json:"models" jsonschema:"minItems=1,minLength=1"` // the models in the order in which they are asked for
	Asked    planAskedJSON      `json:"asked"`
	Searched int                `json:"searched"` // estimates that were made
	Rows     []planRowJSON      `json:"rows"`     // the rows in the order of their rank
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
	Prompt      string        `json:"prompt_lengths" jsonschema:"minLength=1"` // the lengths as --in gives them
	Gen         string        `json:"gen_lengths" jsonschema:"minLength=1"`    // the lengths as --out gives them
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
	// share of the prompts' tokens that the prefix cache has; null for none
	HitRate *float64 `json:"prefix_hit_rate" jsonschema:"exclusiveMinimum=0"`
	// times of the load that is planned for; null for the load itself
	Headroom *float64     `json:"headroom" jsonschema:"exclusiveMinimum=0"`
	Targets  []planTarget `json:"targets"` // longest times that are asked for, of means and percentiles
	By       string       `json:"by" jsonschema:"enum=cost,enum=energy,enum=latency,enum=throughput,enum=model"`
	// end of the 90 % interval at which targets hold and rows have their times, tok_s, tok_s_gpu, running and usd_mtok; j_token is expected
	At string `json:"at" jsonschema:"enum=high,enum=expected"`
}

// A planTarget is a longest time that is asked for.
type planTarget struct {
	Metric     string       `json:"metric" jsonschema:"enum=ttft,enum=tpot,enum=itl,enum=e2e"`
	Percentile *float64     `json:"percentile" jsonschema:"exclusiveMinimum=0"` // null for the mean
	Most       unit.Seconds `json:"most_s" jsonschema:"exclusiveMinimum=0"`
}

// A planSimulated is what a simulation of the load says of a row, or of a later row its sample path, at the end that asked.at names.
type planSimulated struct {
	Requests int              `json:"requests" jsonschema:"minimum=1"`
	TTFT     planDistribution `json:"ttft_s"`
	TPOT     planDistribution `json:"tpot_s"`
	ITL      planDistribution `json:"itl_s"`
	E2E      planDistribution `json:"e2e_s"`
}

// A planDistribution is the mean and percentiles of a time.
type planDistribution struct {
	Mean   unit.Seconds `json:"mean"`
	P50    unit.Seconds `json:"p50"`
	P90    unit.Seconds `json:"p90"`
	P95    unit.Seconds `json:"p95"`
	P99    unit.Seconds `json:"p99"`
	Spread float64      `json:"p99_spread"` // share by which another seed moves p99, with 90 % probability
}

// A planLoadJSON is the steady state of a row at a multiple of the load.
type planLoadJSON struct {
	Times float64       `json:"times" jsonschema:"exclusiveMinimum=0"`
	TTFT  *unit.Seconds `json:"ttft_s" jsonschema:"exclusiveMinimum=0"`
	TPOT  *unit.Seconds `json:"tpot_s" jsonschema:"exclusiveMinimum=0"`
	E2E   *unit.Seconds `json:"e2e_s" jsonschema:"exclusiveMinimum=0"`
	Why   string        `json:"reason"` // why there is no steady state; empty where there is one
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
	// 99th percentiles, simulated under a load; null without one
	P99 *planTimesJSON `json:"p99"`
	// generated tokens a second, all GPUs, at the end that asked.at names
	TokS    float64 `json:"tok_s" jsonschema:"exclusiveMinimum=0"`
	TokSGPU float64 `json:"tok_s_gpu" jsonschema:"exclusiveMinimum=0"`
	// sequences that decode at once, all replicas, under a load, at the end that asked.at names
	Running    *float64      `json:"running" jsonschema:"exclusiveMinimum=0"`
	PerHour    *unit.Dollars `json:"usd_h" jsonschema:"exclusiveMinimum=0"`     // all GPUs; null where no price is known
	PerMonth   *unit.Dollars `json:"usd_month" jsonschema:"exclusiveMinimum=0"` // 730 hours
	PerMillion *unit.Dollars `json:"usd_mtok" jsonschema:"exclusiveMinimum=0"`  // a million generated tokens
	// one of these GPUs; of nodes that are rented as a whole, its share
	PerGPU *float64 `json:"usd_gpu_h" jsonschema:"exclusiveMinimum=0"`
	// who offers that price, and when; empty where no price is known
	PriceSource string         `json:"price_source"`
	Simulated   *planSimulated `json:"simulated"` // null without a load, and of rows after the third without percentiles
	Loads       []planLoadJSON `json:"loads"`     // steady states at multiples of the load
	// most requests a second that it answers, at the end that asked.at names; null without a load
	Capacity *float64 `json:"capacity_requests_s" jsonschema:"exclusiveMinimum=0"`
	// how many times longer everything may take until the first row misses what was asked for, up to 2; null in other rows
	Slack  *float64    `json:"slack" jsonschema:"exclusiveMinimum=0"`
	JToken unit.Joules `json:"j_token" jsonschema:"exclusiveMinimum=0"` // a generated token, its share of the prompt included
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
	Priced bool   `json:"priced"` // false where it was not searched for want of a price
}

// Document is the plan for programs.
func (p *Plan) Document() *PlanDocument {
	q := p.Request
	j := &PlanDocument{
		Schema: PlanSchema, Model: strings.Join(p.models(), ","), Models: p.models(), Searched: p.Result.Searched, Rows: []planRowJSON{},
		Rejected: []planRejectJSON{}, Launch: []plan.Launch{},
		Check: append([]string{}, p.Checks...),
		Asked: planAskedJSON{
			PromptLen: mean(&q.Prompt), GenLen: mean(&q.Gen), Prompt: q.Prompt.String(), Gen: q.Gen.String(),
			TTFT: unit.OrNull(q.Target(plan.TTFT, 0)),
			TPOT: unit.OrNull(q.Target(plan.TPOT, 0)), E2E: unit.OrNull(q.Target(plan.E2E, 0)),
			TTFTTail: unit.OrNull(q.Target(plan.TTFT, 0.99)), TPOTTail: unit.OrNull(q.Target(plan.TPOT, 0.99)),
			E2ETail: unit.OrNull(q.Target(plan.E2E, 0.99)), HitRate: unit.OrNull(q.HitRate), Headroom: unit.OrNull(q.Headroom),
			Targets: []planTarget{},
			Rate:    unit.OrNull(q.Load.Rate), Concurrency: unit.OrNull(q.Load.Concurrency), Throughput: unit.OrNull(q.Load.Throughput),
			Budget:  unit.OrNull(float64(q.Budget)),
			MaxGPUs: unit.OrNull(q.MaxGPUs), Acceptance: unit.OrNull(q.Acceptance), By: string(q.By), At: "high",
		},
	}
	for _, t := range q.Targets {
		j.Asked.Targets = append(j.Asked.Targets, planTarget{strings.ToLower(t.Of.String()), unit.OrNull(math.Round(100 * t.At)), t.Most})
	}
	if q.Expected {
		j.Asked.At = "expected"
	}
	warned := p.warnings()
	j.Warnings, j.Coded = Texts(warned), coded(warned)
	for i := range p.Shown {
		j.Rows = append(j.Rows, p.row(&p.Shown[i]))
	}
	for _, x := range p.Result.Rejected {
		j.Rejected = append(j.Rejected, planRejectJSON{x.Card.Model.Name, x.Card.GPU.Key, x.Miss.Reason, !x.Unpriced})
	}
	for _, l := range p.Launch {
		l.Notes = append([]string{}, l.Notes...)
		j.Launch = append(j.Launch, l)
	}
	return j
}

// mean is the mean of lengths in whole tokens.
func mean(l *serving.Lengths) int { return int(math.Round(l.MeanLength())) }

func (p *Plan) row(r *plan.Row) planRowJSON {
	j := planRowJSON{
		Model: r.Card.Model.Name, GPU: r.Card.GPU.Key, Count: r.GPUs, TP: r.Split.TP, PP: r.Split.PP, DP: r.DP, EP: r.Split.EP,
		MoETP: expertTP(r.Card.Model, r.Split.Parallel()), MicroBatches: r.MicroBatches,
		Engine: r.Engine(), Weights: r.Scheme, KV: r.Formats.KV.String(), Batch: r.Batch, Prefill: r.Prefill, Budget: unit.OrNull(r.Budget),
		Limit: unit.OrNull(r.Limit), Drafts: r.Drafts, TTFT: r.TTFT, TPOT: unit.OrNull(r.TPOT), E2E: r.E2E,
		TokS: r.Throughput, TokSGPU: r.Throughput / float64(r.GPUs), PerHour: unit.OrNull(r.PerHour), PerMillion: unit.OrNull(r.PerMillion),
		JToken:   r.JToken,
		Expected: planTimesJSON{r.Estimate.TTFT.Expected, unit.OrNull(r.Estimate.TPOT.Expected), r.Estimate.E2E.Expected},
		Pareto:   r.Pareto, Running: unit.OrNull(r.Running), Command: "estimate", EstimateArgs: p.args(r),
		Accuracy: p.accuracy(r),
	}
	j.PerMonth, j.PerGPU = unit.OrNull(r.PerMonth()), unit.OrNull(float64(r.Card.Price(r.GPUs)))
	j.Capacity, j.Slack = unit.OrNull(r.Capacity), unit.OrNull(r.Slack)
	if o := r.Card.Offer(r.GPUs); o != nil {
		j.PriceSource = o.Source
	}
	j.Loads = []planLoadJSON{}
	for _, l := range r.Loads {
		j.Loads = append(j.Loads, planLoadJSON{l.Times, unit.OrNull(l.TTFT), unit.OrNull(l.TPOT), unit.OrNull(l.E2E), l.Why})
	}
	if s := r.Simulated; s != nil {
		of := func(f plan.Figure) planDistribution {
			return planDistribution{s.Mean[f], s.At[f][0], s.At[f][1], s.At[f][2], s.At[f][3], s.Spread[f][3]}
		}
		j.Simulated = &planSimulated{s.Requests, of(plan.TTFT), of(plan.TPOT), of(plan.ITL), of(plan.E2E)}
		j.P99 = &planTimesJSON{s.At[plan.TTFT][3], unit.OrNull(s.At[plan.TPOT][3]), s.At[plan.E2E][3]}
	}
	return j
}
