package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"llmprof/analytic"
	"llmprof/analytic/operator"
	"llmprof/deployment"
	"llmprof/hardware"
	"llmprof/models"
	"llmprof/serving"
	"llmprof/unit"
)

// A Request is what a deployment is wanted for. What is 0 is not asked for.
type Request struct {
	Prompt, Gen serving.Lengths // tokens of a request; fixed where no load is given
	MediaTokens int             // tokens of a prompt that are of images and audio
	Media       deployment.Media
	Targets     Targets // limits of means
	Tails       Targets // limits of 99th percentiles, which Confirm simulates
	Load        Load
	Budget      unit.DollarsPerHour
	MaxGPUs     int // most GPUs of a deployment; DefaultGPUs where it is 0
	By          Objective
	Expected    bool // hold targets to the expected times, not to the slow end of their intervals

	Cards   []Card
	Batches []int   // DefaultBatches where there are none
	Splits  []Split // DefaultSplits of each model where there are none

	// Top and PerGPU are the arguments of Shown for the rows that are wanted: GPUs of which none is among them, and whose rows change
	// nothing about these, are not searched to the end. With a Top of 0 all rows are wanted.
	Top, PerGPU int

	// Progress, if not nil, is told how many of the cards are done, by one goroutine at a time.
	Progress func(done, of int)

	ctx    context.Context // ends the steady states of a search
	events map[*Card]*int  // that loads of clients may still be simulated for on each card

	Limits []int // most sequences at once that are tried under a load beside the scheduler's; DefaultLimits under a rate where it is nil

	// Under a rate of requests:
	Budgets    []int   // most tokens of a step that are tried beside the scheduler's; DefaultBudgets where it is nil
	Drafts     []int   // tokens to draft that are tried beside none
	Acceptance float64 // probability that a drafted token is right if those before it are
	Together   bool    // every replica prefills and decodes: no disaggregated deployments
}

// DefaultGPUs is the most GPUs of a deployment where nothing else is asked for.
const DefaultGPUs = 64

// Targets are the longest times that are allowed.
type Targets struct{ TTFT, TPOT, E2E unit.Seconds }

// A Load is what comes at the deployment. At most one of its figures is given.
type Load struct {
	Rate        float64 // requests a second
	Concurrency int     // requests at a time
	Throughput  float64 // generated tokens a second
}

// Given reports whether there is any load.
func (l *Load) Given() bool { return *l != Load{} }

// An Objective is what deployments are ranked by.
type Objective string

// The objectives.
const (
	Cost    Objective = "cost"    // dollars an hour where a load is given, else dollars a token
	Energy  Objective = "energy"  // joules a token
	Latency Objective = "latency" // the time of a request
	// Tokens a second: of all GPUs where their number or a budget is bounded and no load is given, else of each.
	Throughput Objective = "throughput"
	ByModel    Objective = "model" // the order in which the models are named, and cost among deployments of one
)

// Objectives lists the objectives.
func Objectives() []string {
	return []string{string(Cost), string(Energy), string(Latency), string(Throughput), string(ByModel)}
}

// ParseObjective finds an objective by name.
func ParseObjective(s string) (Objective, error) {
	for _, o := range Objectives() {
		if strings.EqualFold(o, s) {
			return Objective(o), nil
		}
	}
	return "", fmt.Errorf("objective %.40q: want one of %s", s, strings.Join(Objectives(), ", "))
}

// A Card is a GPU that may be taken, with a model and an engine that run on it.
type Card struct {
	Model   *models.Model
	Name    string // name that finds the model
	Place   int    // place of the model among those that are asked for
	GPU     *hardware.GPU
	Price   unit.DollarsPerHour // price of one GPU; 0 where it is not known
	Machine *analytic.Machine
	Formats []Formats // formats that are allowed on it

	Encoders []operator.Encoder // towers that run for each request; nil where requests are text
}

// Formats are how weights and cache are kept.
type Formats struct {
	Weights string // name of the scheme, "" for the checkpoint's
	KV      unit.Format
}

// A Split is how one replica is spread over GPUs. EP and MoETP may span several replicas; a MoETP of 0 is what EP leaves of TP.
type Split struct{ TP, PP, EP, MoETP int }

// Parallel is the split of one replica.
func (s *Split) Parallel() analytic.Parallelism {
	return analytic.Parallelism{TP: s.TP, PP: s.PP, EP: s.EP, MoETP: s.MoETP}
}

// sharing is how many replicas share one set of experts.
func (s *Split) sharing() int {
	p := s.Parallel()
	return p.ExpertReplicas()
}

// finite refuses figures that are negative or no number.
func (r *Request) finite() error {
	for _, f := range []struct {
		name  string
		value float64
	}{
		{"TTFT", float64(r.Targets.TTFT)}, {"TPOT", float64(r.Targets.TPOT)}, {"time of a request", float64(r.Targets.E2E)},
		{"rate", r.Load.Rate},
		{"concurrency", float64(r.Load.Concurrency)}, {"throughput", r.Load.Throughput}, {"budget", float64(r.Budget)},
		{"number of GPUs", float64(r.MaxGPUs)},
	} {
		if !(f.value >= 0 && f.value <= math.MaxFloat64) {
			return fmt.Errorf("a %s of %g: want a number above 0", f.name, f.value)
		}
	}
	switch rate := r.rate(); {
	case r.Load.Concurrency != 0:
		return serving.CheckClients(r.Load.Concurrency)
	case rate != 0 || r.Load.Throughput != 0:
		return serving.CheckRate(rate)
	}
	return nil
}

// check returns what is wrong with the request, if anything is.
func (r *Request) check() error {
	given := 0
	for _, is := range []bool{r.Load.Rate != 0, r.Load.Concurrency != 0, r.Load.Throughput != 0} {
		if is {
			given++
		}
	}
	switch {
	case len(r.Cards) == 0:
		return fmt.Errorf("no GPU is given")
	case slices.ContainsFunc(r.Cards, func(c Card) bool { return c.Model == nil }):
		return fmt.Errorf("no model is given")
	case given == 0 && !r.fixed():
		return fmt.Errorf("prompts of %v and answers of %v tokens: without a load all sequences of a batch have one length", &r.Prompt, &r.Gen)
	case given > 1:
		return fmt.Errorf("the load is given more than once: want a rate, a concurrency or a throughput")
	case len(r.Drafts) > 0 && !(r.Acceptance > 0 && r.Acceptance <= 1):
		return fmt.Errorf("an acceptance of %g: want a probability above 0 and at most 1", r.Acceptance)
	case len(r.Drafts) > 0 && (slices.Min(r.Drafts) < 1 || slices.Max(r.Drafts) > 64):
		return fmt.Errorf("%d tokens to draft: want from 1 to 64", r.Drafts)
	case len(r.Limits) > 0 && (slices.Min(r.Limits) < 1 || slices.Max(r.Limits) > 1<<20):
		return fmt.Errorf("at most %d sequences: want from 1 to %d", r.Limits, 1<<20)
	case len(r.Budgets) > 0 && (slices.Min(r.Budgets) < 1 || slices.Max(r.Budgets) > 1<<20):
		return fmt.Errorf("steps of at most %d tokens: want from 1 to %d", r.Budgets, 1<<20)
	}
	if err := cmp.Or(r.Prompt.Check(), r.Gen.Check(), r.finite()); err != nil {
		return err
	}
	for i := range r.Cards {
		if r.tooLong(r.Cards[i].Model) == "" {
			return nil
		}
	}
	return errors.New(r.tooLong(r.Cards[0].Model))
}

// tooLong says that requests have longer contexts than a model was made for.
func (r *Request) tooLong(m *models.Model) string {
	prompt, gen := r.tokens()
	if m.MaxContext == 0 || prompt+gen <= m.MaxContext {
		return ""
	}
	return fmt.Sprintf("a context of %d tokens is over the %d that %s was made for", prompt+gen, m.MaxContext, m.Name)
}

// fixed reports whether all requests have the same lengths.
func (r *Request) fixed() bool { return r.Prompt.Kind == "fixed" && r.Gen.Kind == "fixed" }

// tokens are the mean lengths of a request, in whole tokens.
func (r *Request) tokens() (prompt, gen int) {
	return int(math.Round(r.Prompt.MeanLength())), int(math.Round(r.Gen.MeanLength()))
}

// cheapest reports whether the price ranks deployments of a model.
func (r *Request) cheapest() bool { return r.By == Cost || r.By == ByModel }

// DefaultBatches are the batch limits that are tried: those at which engines have CUDA
// graphs, and a few beyond.
func DefaultBatches() []int {
	return []int{1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512}
}

// DefaultBudgets are the most tokens of a step that are tried: shorter steps lengthen a decode
// less, longer ones prefill faster.
func DefaultBudgets() []int { return []int{512, 1024, 2048, 4096, 8192, 16384} }

// DefaultLimits are the most sequences at once that are tried: fewer make steps shorter, more answer more requests.
func DefaultLimits() []int { return []int{16, 32, 64, 128, 256, 512, 1024} }

// DefaultSplits are the splits that are tried of a model on up to most GPUs.
func DefaultSplits(m *models.Model, most int) (all []Split) {
	experts := m.HasExperts()
	for tp := 1; tp <= min(most, 16); tp *= 2 {
		for pp := 1; pp <= 8 && tp*pp <= min(most, 32); pp *= 2 {
			if pp > 1 && tp < 4 && tp*pp > 4 {
				continue // a longer pipeline of narrow stages than anyone runs
			}
			all = append(all, Split{tp, pp, 1, 0})
			if !experts {
				continue
			}
			for ranks := tp; ranks <= 8*tp && ranks*pp <= most; ranks *= 2 {
				if ranks > 1 {
					all = append(all, Split{tp, pp, ranks, 0})
				}
				if ranks > tp {
					all = append(all, Split{tp, pp, 1, ranks})
				}
			}
		}
	}
	return all
}

// Warnings are what has to be known before so many rows are trusted.
func (r *Request) Warnings(rows int) (all []unit.Warning) {
	if rows > 0 && r.By != Latency && r.Targets == (Targets{}) {
		all = append(all, unit.Warn("no_target", "No target for TTFT, TPOT or the time of a request was given: rows are ranked by %s alone, "+
			"and the first ones may be slow. Give {ttft}, {tpot} or {e2e}.", r.By))
	}
	place := -1
	for i := range r.Cards {
		c := &r.Cards[i]
		if c.Place != place && c.Model.Towers > 0 && r.MediaTokens == 0 && rows > 0 {
			all = append(all, unit.Warn("text", "%s is priced as text: {images} and {audio} add what its towers see and hear.", c.Model.Name))
		}
		place = max(place, c.Place)
	}
	return all
}

// Checkpoint is where the weights are: beside the file of a config, or in the repository of the hub that the shape is from.
func (c *Card) Checkpoint() string {
	if strings.ContainsAny(c.Name, `/\`) {
		return strings.TrimSuffix(strings.TrimSuffix(c.Name, "config.json"), "/")
	}
	if rest, ok := strings.CutPrefix(c.Model.Source, "https://huggingface.co/"); ok {
		if parts := strings.SplitN(rest, "/", 3); len(parts) == 3 {
			return parts[0] + "/" + parts[1]
		}
	}
	return c.Model.Name
}
