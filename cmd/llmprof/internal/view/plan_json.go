package view

import (
	"math"
	"strings"

	"llmprof/plan"
	"llmprof/serving"
	"llmprof/unit"
)

// PlanSchema names the form of a plan's JSON, which docs/schema/plan.v1.json describes.
const PlanSchema = "llmprof.plan/v1"

// A PlanDocument is a plan for programs.
type PlanDocument struct {
	Schema   string           `json:"schema"`
	Model    string           `json:"model"` // the model, or several with commas between
	Models   []string         `json:"models"`
	Asked    planAskedJSON    `json:"asked"`
	Searched int              `json:"searched"`
	Rows     []planRowJSON    `json:"rows"`
	Rejected []planRejectJSON `json:"rejected"`
	Launch   []plan.Launch    `json:"launch"`
	Check    []string         `json:"check"`
}

type planAskedJSON struct {
	PromptLen   int           `json:"prompt_len"`
	GenLen      int           `json:"gen_len"`
	Prompt      string        `json:"prompt_lengths"`
	Gen         string        `json:"gen_lengths"`
	TTFT        *unit.Seconds `json:"ttft_s"`
	TPOT        *unit.Seconds `json:"tpot_s"`
	E2E         *unit.Seconds `json:"e2e_s"`
	TTFTTail    *unit.Seconds `json:"ttft_p99_s"`
	TPOTTail    *unit.Seconds `json:"tpot_p99_s"`
	E2ETail     *unit.Seconds `json:"e2e_p99_s"`
	Rate        *float64      `json:"requests_s"`
	Concurrency *int          `json:"concurrency"`
	Throughput  *float64      `json:"tok_s"`
	Budget      *float64      `json:"usd_h"`
	MaxGPUs     *int          `json:"max_gpus"`
	Acceptance  *float64      `json:"acceptance"`
	By          string        `json:"by"`
	At          string        `json:"at"`
}

type planRowJSON struct {
	Model        string         `json:"model"`
	GPU          string         `json:"gpu"`
	Count        int            `json:"count"`
	TP           int            `json:"tp"`
	PP           int            `json:"pp"`
	DP           int            `json:"dp"`
	EP           int            `json:"ep"`
	MoETP        *int           `json:"moe_tp"`
	MicroBatches int            `json:"micro_batches"`
	Engine       string         `json:"engine"`
	Weights      string         `json:"weights"`
	KV           string         `json:"kv"`
	Batch        int            `json:"batch"`
	Prefill      int            `json:"prefill_replicas"`
	Budget       *int           `json:"max_num_batched_tokens"`
	Limit        *int           `json:"max_num_seqs"`
	Drafts       int            `json:"speculative_tokens"`
	TTFT         unit.Seconds   `json:"ttft_s"`
	TPOT         *unit.Seconds  `json:"tpot_s"`
	E2E          unit.Seconds   `json:"e2e_s"`
	Expected     planTimesJSON  `json:"expected"`
	P99          *planTimesJSON `json:"p99"`
	TokS         float64        `json:"tok_s"`
	TokSGPU      float64        `json:"tok_s_gpu"`
	Running      *float64       `json:"running"`
	PerHour      *unit.Dollars  `json:"usd_h"`
	PerMillion   *unit.Dollars  `json:"usd_mtok"`
	JToken       unit.Joules    `json:"j_token"`
	Pareto       bool           `json:"pareto"`
	Accuracy     Accuracy       `json:"accuracy"`
	Command      string         `json:"command"`
	EstimateArgs []string       `json:"estimate_args"`
}

type planTimesJSON struct {
	TTFT unit.Seconds  `json:"ttft_s"`
	TPOT *unit.Seconds `json:"tpot_s"`
	E2E  unit.Seconds  `json:"e2e_s"`
}

type planRejectJSON struct {
	Model  string `json:"model"`
	GPU    string `json:"gpu"`
	Reason string `json:"reason"`
}

// Document is the plan for programs.
func (p *Plan) Document() *PlanDocument {
	q := p.Request
	j := &PlanDocument{
		Schema: PlanSchema, Model: strings.Join(p.models(), ","), Models: p.models(), Searched: p.Result.Searched, Rows: []planRowJSON{},
		Rejected: []planRejectJSON{}, Launch: []plan.Launch{},
		Check: append([]string{}, p.Checks...),
		Asked: planAskedJSON{
			PromptLen: mean(&q.Prompt), GenLen: mean(&q.Gen), Prompt: q.Prompt.String(), Gen: q.Gen.String(), TTFT: OrNull(q.Targets.TTFT),
			TPOT: OrNull(q.Targets.TPOT), E2E: OrNull(q.Targets.E2E),
			TTFTTail: OrNull(q.Tails.TTFT), TPOTTail: OrNull(q.Tails.TPOT), E2ETail: OrNull(q.Tails.E2E),
			Rate: OrNull(q.Load.Rate), Concurrency: OrNull(q.Load.Concurrency), Throughput: OrNull(q.Load.Throughput),
			Budget:  OrNull(float64(q.Budget)),
			MaxGPUs: OrNull(q.MaxGPUs), Acceptance: OrNull(q.Acceptance), By: string(q.By), At: "high",
		},
	}
	if q.Expected {
		j.Asked.At = "expected"
	}
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
		Engine: r.Engine(), Weights: r.Scheme, KV: r.Formats.KV.String(), Batch: r.Batch, Prefill: r.Prefill, Budget: OrNull(r.Budget),
		Limit: OrNull(r.Limit), Drafts: r.Drafts, TTFT: r.TTFT, TPOT: OrNull(r.TPOT), E2E: r.E2E,
		TokS: r.Throughput, TokSGPU: r.Throughput / float64(r.GPUs), PerHour: OrNull(r.PerHour), PerMillion: OrNull(r.PerMillion),
		JToken:   r.JToken,
		Expected: planTimesJSON{r.Estimate.TTFT.Expected, OrNull(r.Estimate.TPOT.Expected), r.Estimate.E2E.Expected},
		Pareto:   r.Pareto, Running: OrNull(r.Running), Command: "estimate", EstimateArgs: r.Args(p.Request),
		Accuracy: *a,
	}
	if t := &r.Tail; t.TTFT > 0 {
		j.P99 = &planTimesJSON{t.TTFT, OrNull(t.TPOT), t.E2E}
	}
	return j
}
