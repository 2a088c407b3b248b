package plan

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"llmprof/analytic"
	"llmprof/deployment"
	"llmprof/hardware"
	"llmprof/models"
	"llmprof/serving"
	"llmprof/unit"
)

// A Request is what a deployment is wanted for. What is 0 is not asked for.
type Request struct {
	From *deployment.Library // finds what the requests of cards name

	Prompt, Gen serving.Lengths // tokens of a request; fixed where no load is given
	MediaTokens int             // tokens of a prompt that are of images and audio
	Targets     []Target
	Load        Load
	Headroom    float64 // the load that is planned for over the one that comes; 1 where it is 0
	Budget      unit.DollarsPerHour
	MaxGPUs     int // most GPUs of a deployment; DefaultGPUs where it is 0
	By          Objective
	Expected    bool // hold targets to the expected times, not to the slow end of their intervals
	Trusting    bool // a card on which nothing was observed ranks as one on which something was

	Cards   []Card
	Named   bool    // the cards were named, so that each is a row or a rejection that is told
	Batches []int   // DefaultBatches where there are none
	Splits  []Split // DefaultSplits of each model where there are none

	// Top and PerGPU are the arguments of Shown for the rows that are wanted. With a Top of 0 all rows are.
	Top, PerGPU int

	// Progress, if not nil, is told how many of the cards are done, by one goroutine at a time.
	Progress func(done, of int)

	// Under a rate of requests:
	Limits     []int   // most sequences at once that are tried beside the scheduler's; DefaultLimits where it is nil
	Budgets    []int   // most tokens of a step that are tried beside the scheduler's; DefaultBudgets where it is nil
	Drafts     []int   // tokens to draft that are tried beside none
	Acceptance float64 // probability that a drafted token is right if those before it are
	HitRate    float64 // share of the prompts' tokens that the prefix cache has
	Together   bool    // every replica prefills and decodes: no disaggregated deployments
}

// DefaultGPUs is the most GPUs of a deployment where nothing else is asked for.
const DefaultGPUs = 64

// A Target is the longest time that is allowed.
type Target struct {
	Of   Figure
	At   float64 // share of the requests that it holds for, one of serving.Percentiles; 0 for the mean
	Most unit.Seconds
}

// A Figure is what a target is of.
type Figure int

// The figures.
const (
	TTFT Figure = iota
	TPOT
	ITL
	E2E
	figures
)

// String is the name of the figure in capitals.
func (f Figure) String() string { return [...]string{"TTFT", "TPOT", "ITL", "E2E"}[f] }

// String names the target, as "TTFT p95".
func (t *Target) String() string {
	if t.At == 0 {
		return t.Of.String()
	}
	return fmt.Sprintf("%v p%.0f", t.Of, 100*t.At)
}

// tailed reports whether some target is of a percentile.
func (q *Request) tailed() bool {
	return slices.ContainsFunc(q.Targets, func(t Target) bool { return t.At > 0 })
}

// Target is the longest time of a figure that is allowed, at a percentile or as a mean; 0 for any.
func (q *Request) Target(of Figure, at float64) unit.Seconds {
	for _, t := range q.Targets {
		if t.Of == of && t.At == at {
			return t.Most
		}
	}
	return 0
}

// A Load is what comes at the deployment. At most one of its figures is given.
type Load struct {
	Rate        float64 // requests a second
	Concurrency int     // requests at a time
	Throughput  float64 // generated tokens a second
}

// IsSet reports whether there is any load.
func (l *Load) IsSet() bool { return *l != Load{} }

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
	deployment.Request // what all deployments on it have in common
	Model              *models.Model
	Place              int // place of the model among those that are asked for
	GPU                *hardware.GPU
	Offers             []Offer           // what it is rented for; none where no price is known
	Machine            *analytic.Machine // nil where there is none, for which Wrong is the reason
	Wrong              error
	Formats            []Formats      // formats that are allowed on it
	Observed           map[string]int // observations of the engine on the GPU that nothing was fitted on, by the scheme of the weights
}

// A kind is what cards of several engines have in common.
type kind struct {
	gpu   *hardware.GPU
	model *models.Model
}

func (c *Card) kind() kind { return kind{c.GPU, c.Model} }

// Price is what one of so many GPUs costs; 0 where no price is known. Nodes are rented as a whole.
func (c *Card) Price(gpus int) unit.DollarsPerHour {
	if o := c.Offer(gpus); o != nil {
		return unit.DollarsPerHour(float64(o.For(gpus)) / float64(gpus))
	}
	return 0
}

// Offer is the one by which so many GPUs cost least; nil where no price is known.
func (c *Card) Offer(gpus int) (best *Offer) {
	for i := range c.Offers {
		if o := &c.Offers[i]; best == nil || o.For(gpus) < best.For(gpus) {
			best = o
		}
	}
	return best
}

// hour is what so many GPUs cost.
func (c *Card) hour(gpus int) unit.Dollars {
	return unit.Dollars(float64(c.Price(gpus)) * float64(gpus))
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

// gpus is how many GPUs one replica takes, or those that share their experts.
func (s *Split) gpus() int { return s.TP * s.PP * s.sharing() }

// finite refuses figures that are negative or no number.
func (q *Request) finite() error {
	all := []struct {
		name  string
		value float64
	}{
		{"rate", q.Load.Rate}, {"concurrency", float64(q.Load.Concurrency)}, {"throughput", q.Load.Throughput},
		{"budget", float64(q.Budget)}, {"number of GPUs", float64(q.MaxGPUs)}, {"headroom", q.Headroom},
	}
	for i := range q.Targets {
		all = append(all, struct {
			name  string
			value float64
		}{q.Targets[i].String(), float64(q.Targets[i].Most)})
	}
	for _, f := range all {
		if !(f.value >= 0 && f.value <= math.MaxFloat64) {
			return fmt.Errorf("a %s of %g: want a number above 0", f.name, f.value)
		}
	}
	switch rate := q.rate(); {
	case q.Load.Concurrency != 0:
		return serving.CheckClients(q.Load.Concurrency)
	case rate != 0 || q.Load.Throughput != 0:
		return serving.CheckRate(rate)
	}
	return nil
}

// check returns what is wrong with the request, if anything is.
func (q *Request) check() error {
	given := 0
	for _, is := range []bool{q.Load.Rate != 0, q.Load.Concurrency != 0, q.Load.Throughput != 0} {
		if is {
			given++
		}
	}
	switch {
	case len(q.Cards) == 0:
		return fmt.Errorf("no GPU is given")
	case slices.ContainsFunc(q.Cards, func(c Card) bool { return c.Model == nil }):
		return fmt.Errorf("no model is given")
	case given == 0 && !q.fixed():
		return fmt.Errorf("prompts of %v and answers of %v tokens: without a load all sequences of a batch have one length", &q.Prompt, &q.Gen)
	case given == 0 && q.tailed():
		return fmt.Errorf("percentiles are of a load: give a rate, a concurrency or a throughput")
	case given > 1:
		return fmt.Errorf("the load is given more than once: want a rate, a concurrency or a throughput")
	case len(q.Drafts) > 0 && !(q.Acceptance > 0 && q.Acceptance <= 1):
		return fmt.Errorf("an acceptance of %g: want a probability above 0 and at most 1", q.Acceptance)
	case len(q.Drafts) > 0 && (slices.Min(q.Drafts) < 1 || slices.Max(q.Drafts) > 64):
		return fmt.Errorf("%d tokens to draft: want from 1 to 64", q.Drafts)
	case len(q.Limits) > 0 && (slices.Min(q.Limits) < 1 || slices.Max(q.Limits) > 1<<20):
		return fmt.Errorf("at most %d sequences: want from 1 to %d", q.Limits, 1<<20)
	case len(q.Budgets) > 0 && (slices.Min(q.Budgets) < 1 || slices.Max(q.Budgets) > 1<<20):
		return fmt.Errorf("steps of at most %d tokens: want from 1 to %d", q.Budgets, 1<<20)
	}
	if err := cmp.Or(q.Prompt.Check(), q.Gen.Check(), q.finite()); err != nil {
		return err
	}
	for i := range q.Cards {
		if q.tooLong(q.Cards[i].Model) == "" {
			return nil
		}
	}
	return errors.New(q.tooLong(q.Cards[0].Model))
}

// tooLong says that requests have longer contexts than a model was made for.
func (q *Request) tooLong(m *models.Model) string {
	prompt, gen := q.tokens()
	if m.MaxContext == 0 || prompt+gen <= m.MaxContext {
		return ""
	}
	return fmt.Sprintf("a context of %d tokens is over the %d that %s was made for", prompt+gen, m.MaxContext, m.Name)
}

// fixed reports whether all requests have the same lengths.
func (q *Request) fixed() bool { return q.Prompt.Kind == "fixed" && q.Gen.Kind == "fixed" }

// tokens are the mean lengths of a request, in whole tokens.
func (q *Request) tokens() (prompt, gen int) {
	return int(math.Round(q.Prompt.MeanLength())), int(math.Round(q.Gen.MeanLength()))
}

// rate is the requests a second that are planned for; 0 where clients wait for their answers.
func (q *Request) rate() float64 {
	if q.Load.Throughput > 0 {
		return q.Load.Throughput / q.Gen.MeanLength() * max(q.Headroom, 1)
	}
	return q.Load.Rate * max(q.Headroom, 1)
}

// clients is how many clients that wait for their answers are planned for; 0 at a rate.
func (q *Request) clients() int {
	return int(math.Ceil(float64(q.Load.Concurrency) * max(q.Headroom, 1)))
}

// priced reports whether the price of a card is known.
func (q *Request) priced() bool {
	return slices.ContainsFunc(q.Cards, func(c Card) bool { return len(c.Offers) > 0 })
}

// cheapest reports whether the price ranks deployments of a model.
func (q *Request) cheapest() bool { return q.By == Cost || q.By == ByModel }

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
			widest := 8 * tp
			if pp > 1 {
				widest = tp // Pipelines that share experts would take most of the time of a search.
			}
			for ranks := tp; ranks <= widest && ranks*pp <= most; ranks *= 2 {
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
func (q *Request) Warnings(rows int) (all []unit.Warning) {
	if rows > 0 && q.By != Latency && len(q.Targets) == 0 {
		all = append(all, unit.Warn("no_target", "No target for TTFT, TPOT or the time of a request was given: rows are ranked by %s alone, "+
			"and the first ones may be slow. Give {ttft}, {tpot} or {e2e}.", q.By))
	}
	if rows > 0 && !q.priced() {
		all = append(all, unit.Warn("no_price", "No price of the GPUs that were tried is known: rows are ranked by %s. Give {price} for "+
			"their cost.", q.By))
	}
	place := -1
	for i := range q.Cards {
		c := &q.Cards[i]
		if c.Place != place && c.Model.EncoderParams > 0 && q.MediaTokens == 0 && rows > 0 {
			all = append(all, unit.Warn("text", "%s is priced as text: {images} and {audio} add what its towers see and hear.", c.Model.Name))
		}
		place = max(place, c.Place)
	}
	return all
}

// Checkpoint is where the weights are: beside the file of a config, or in the repository of the hub that the shape is from.
func (c *Card) Checkpoint() string {
	if strings.ContainsAny(c.Request.Model, `/\`) {
		return strings.TrimSuffix(strings.TrimSuffix(c.Request.Model, "config.json"), "/")
	}
	if rest, ok := strings.CutPrefix(c.Model.Source, "https://huggingface.co/"); ok {
		if parts := strings.SplitN(rest, "/", 3); len(parts) == 3 {
			return parts[0] + "/" + parts[1]
		}
	}
	return c.Model.Name
}
