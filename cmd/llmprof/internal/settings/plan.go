package settings

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"llmprof/analytic"
	"llmprof/analytic/energy"
	"llmprof/analytic/engine"
	"llmprof/deployment"
	"llmprof/hardware"
	"llmprof/models"
	"llmprof/plan"
	"llmprof/serving"
	"llmprof/unit"
)

// A Planned is a search of deployments as it is asked for by the flags of "llmprof plan".
type Planned struct {
	Models []string
	Given  func(flag string) bool
	Trace  TraceReader // nil where no traces are read

	request         plan.Request // what the flags say, without the fields below
	ttft, tpot, e2e string
	p99             bool
	limits, drafts  []int
	gpus, engines   []string
	prices          []string
	weights         []string
	floor, by       string

	cap                   energy.Cap
	hardware, calibration string
	offline               bool
	links                 hardware.Links
}

// Flags are the settings of "llmprof plan", which set o.
func (o *Planned) Flags(f *pflag.FlagSet) {
	q := &o.request
	q.Prompt, q.Gen = serving.Fixed(1024), serving.Fixed(256)
	f.StringSliceVarP(&o.Models, "model", "m", nil, "`models` to try, each as \"llmprof estimate\" takes it")
	f.Var(PromptFlag(&q.Prompt, o.Trace), "in", "`tokens` of prompts: 1024, 512..2048, lognormal:1024,0.8 or trace:FILE")
	f.Var(AnswerFlag(&q.Gen, o.Trace), "out", "`tokens` of answers: as --in")
	f.StringVar(&o.ttft, "ttft", "", "longest mean `time` to the first token, as 500ms; p99=2s at p99")
	f.StringVar(&o.tpot, "tpot", "", "longest mean `time` per output token, as 30ms or p99=50ms")
	f.StringVar(&o.e2e, "e2e", "", "longest mean `time` of a request, as 10s or p99=20s")
	f.BoolVar(&o.p99, "p99", false, "hold all targets to 99th percentiles")
	f.Float64Var(&q.Load.Rate, "rate", 0, "load: `requests` a second")
	f.IntVar(&q.Load.Concurrency, "concurrency", 0, "load: `requests` at a time")
	f.Float64Var(&q.Load.Throughput, "tps", 0, "load: generated `tokens` a second")
	f.Var(priceFlag(&q.Budget), "budget", "most `dollars` an hour")
	f.IntVar(&q.MaxGPUs, "max-gpus", 0, fmt.Sprintf("most `GPUs` (default %d)", plan.DefaultGPUs))
	f.StringSliceVar(&o.gpus, "gpus", nil, "`GPUs` to try (default: all)")
	f.StringSliceVar(&o.prices, "price", nil, "`dollars` an hour of a GPU, as h100=1.99,t4=0.35 (default: the GPU table's)")
	f.StringSliceVar(&o.engines, "engines", engine.Names()[:1], "`engines` to try")
	Words(f, "engines", engine.Names()...)
	f.StringSliceVar(&o.weights, "weights", []string{"fp8", "w4a16-g128"}, "`schemes` of weights to try beside the checkpoint's")
	f.StringVar(&o.floor, "quality-floor", "fp8", "least `format` of weights and cache, as bf16, fp8 or int4")
	f.IntSliceVar(&q.Budgets, "max-num-batched-tokens", plan.DefaultBudgets(), "most `tokens` of a step to try beside the scheduler's")
	f.IntSliceVar(&o.limits, "max-num-seqs", plan.DefaultLimits(),
		"most `sequences` at once to try beside the scheduler's; of --concurrency if given")
	f.Float64Var(&q.Acceptance, "acceptance", 0, "try speculation: `probability` that a drafted token is right")
	f.IntSliceVar(&o.drafts, "speculative-tokens", []int{1, 2, 3}, "`tokens` to draft, where --acceptance is given")
	f.BoolVar(&q.Together, "aggregated", false, "try no replicas that only prefill")
	Choice(f, &o.by, "by", "cost", "`objective`: %s (the order of --model)", plan.Objectives()...)
	f.BoolVar(&q.Expected, "expected", false, "hold targets to expected times, not to the intervals' slow end")
	f.IntVar(&q.Top, "top", 10, "show the best `N` rows; 0 for all")
	f.IntVar(&q.PerGPU, "per-gpu", 1, "show at most `N` rows of a model on a GPU; 0 for any number")
	capFlags(f, &o.cap)
	linkFlags(f, &o.links)
	f.StringVar(&o.hardware, "hardware", "", "TOML `FILE` of GPUs that overlays the built-in table")
	CalibrationFlag(f, &o.calibration)
	f.BoolVar(&o.offline, "offline", false, "never use the network")
}

// Request is the search that was asked for.
func (o *Planned) Request(ctx context.Context, from *deployment.Library) (q *plan.Request, err error) {
	if len(o.Models) == 0 || slices.Contains(o.Models, "") {
		return nil, Usage("which model? As in llmprof plan llama3.1-8b; \"llmprof models list\" has the names")
	}
	own := o.request
	q = &own
	q.Budgets = append([]int{}, q.Budgets...)
	if err := o.numbers(); err != nil {
		return nil, err
	}
	if err := o.together(); err != nil {
		return nil, err
	}
	if o.Given("acceptance") {
		q.Drafts = o.drafts
	}
	if o.Given("max-num-seqs") {
		q.Limits = append([]int{}, o.limits...)
	}
	if q.By, err = plan.ParseObjective(o.by); err != nil {
		return nil, Usage("--by: %w", err)
	}
	if err := o.targets(q); err != nil {
		return nil, err
	}
	all := make([]*models.Model, len(o.Models))
	for i, name := range o.Models {
		if all[i], err = from.Model(ctx, name, o.offline, false); err != nil {
			return nil, err
		}
	}
	q.Cards, err = o.cards(from, all)
	return q, err
}

// targets reads the longest times. A mean is never beyond the 99th percentile that is allowed.
func (o *Planned) targets(q *plan.Request) error {
	for _, t := range []struct {
		flag, text string
		mean, tail *unit.Seconds
	}{
		{"ttft", o.ttft, &q.Targets.TTFT, &q.Tails.TTFT}, {"tpot", o.tpot, &q.Targets.TPOT, &q.Tails.TPOT},
		{"e2e", o.e2e, &q.Targets.E2E, &q.Tails.E2E},
	} {
		text, tail := strings.CutPrefix(strings.TrimSpace(t.text), "p99=")
		if text == "" && !tail {
			continue
		}
		if v, err := strconv.ParseFloat(text, 64); err == nil && v > 0 && v <= math.MaxFloat64 { // 500 is rarely meant to be 500 s
			return Usage("--%s %s: want a unit, as %sms or %ss", t.flag, text, text, text)
		}
		var err error
		if *t.mean, err = ParseTime(text); err != nil {
			return Usage("--%s: %w", t.flag, err)
		}
		if *t.mean <= 0 {
			return Usage("--%s %s: want a time above 0", t.flag, text)
		}
		if tail || o.p99 {
			*t.tail = *t.mean
		}
	}
	switch {
	case q.Tails != plan.Targets{} && !q.Load.Given():
		return Usage("percentiles are of a load: give one, as --rate 10")
	case o.p99 && q.Tails == plan.Targets{}:
		return Usage("--p99 holds targets to 99th percentiles: give one, as --ttft 2s")
	}
	return nil
}

// numbers refuses numbers that ask for nothing.
func (o *Planned) numbers() error {
	q := &o.request
	for _, n := range []struct {
		flag  string
		value float64
		least float64
	}{
		{"rate", q.Load.Rate, math.SmallestNonzeroFloat64}, {"tps", q.Load.Throughput, math.SmallestNonzeroFloat64},
		{"concurrency", float64(q.Load.Concurrency), 1}, {"max-gpus", float64(q.MaxGPUs), 1}, {"top", float64(q.Top), 0},
		{"per-gpu", float64(q.PerGPU), 0},
	} {
		switch {
		case !o.Given(n.flag) || n.value >= n.least && n.value <= math.MaxFloat64:
		case n.least >= 1:
			return Usage("--%s %g: want at least 1", n.flag, n.value)
		case n.least > 0:
			return Usage("--%s %g: want a number above 0", n.flag, n.value)
		default:
			return Usage("--%s %g: want a number of rows, or 0 for all", n.flag, n.value)
		}
	}
	return nil
}

// together refuses flags that have no meaning without another one.
func (o *Planned) together() error {
	rate := o.Given("rate") || o.Given("tps")
	load := rate || o.Given("concurrency")
	for _, x := range []struct {
		flag string
		ok   bool
		need string
	}{
		{"acceptance", rate, "--rate or --tps"}, {"aggregated", rate, "--rate or --tps, under which alone replicas that only prefill are tried"},
		{"max-num-batched-tokens", rate, "--rate or --tps"},
		{"max-num-seqs", load, "a load, as --rate 10"},
		{"speculative-tokens", o.Given("acceptance"), "--acceptance"}, {"p99", load, "a load, as --rate 10"},
	} {
		if o.Given(x.flag) && !x.ok {
			return Usage("--%s changes nothing without %s", x.flag, x.need)
		}
	}
	return nil
}

// cards are the GPUs with the engines that are to be tried.
func (o *Planned) cards(from *deployment.Library, of []*models.Model) (all []plan.Card, err error) {
	floor, err := unit.ParseFormat(o.floor)
	if err != nil {
		return nil, Usage("--quality-floor: %w", err)
	}
	for _, name := range o.weights {
		if _, err := models.ParseScheme(name); err != nil && !models.IsMix(name) {
			return nil, Usage("--weights: %w", err)
		}
	}
	if len(o.engines) == 0 {
		return nil, Usage("--engines: want one or more of %s", strings.Join(engine.Names(), ", "))
	}
	gpus, err := o.table(from)
	if err != nil {
		return nil, err
	}
	prices, err := o.priced(from, gpus)
	if err != nil {
		return nil, err
	}
	constants, err := from.Constants(o.calibration)
	if err != nil {
		return nil, err
	}
	for _, name := range o.engines {
		e, err := engine.Parse(name)
		if err != nil {
			return nil, Usage("--engines: %w", err)
		}
		for i := range gpus {
			g := &gpus[i]
			file, err := constants.Among(g, e.Profile().Engine())
			if err != nil {
				return nil, err
			}
			machines, err := analytic.Calibrated(g, e, file)
			if err != nil {
				return nil, err
			}
			if machines, err = o.capped(machines); err != nil {
				if o.Given("gpus") {
					return nil, UsageError{err}
				}
				continue
			}
			price, ok := prices[g.Key]
			if !ok {
				price, _ = g.Price()
			}
			for place, m := range of {
				all = append(all, plan.Card{
					Model: m, Name: o.Models[place], Place: place, GPU: g, Price: price, Machine: machines,
					Formats: plan.DefaultFormats(m, g, o.weights, floor.Bits()),
				})
			}
		}
	}
	return all, nil
}

// capped is a machine under the limits that were asked for, as far as they are below the board's own.
func (o *Planned) capped(m *analytic.Machine) (*analytic.Machine, error) {
	c := deployment.Over(o.cap, m.Cap())
	if o.cap.Limit >= m.GPU.TDP {
		c.Limit = m.Cap().Limit
	}
	if o.cap.Clock >= m.GPU.Clock {
		c.Clock = m.Cap().Clock
	}
	if c == m.Cap() {
		return m, nil
	}
	return m.Capped(c)
}

func (o *Planned) table(from *deployment.Library) ([]hardware.GPU, error) {
	table, err := from.GPUs(o.hardware)
	if err != nil {
		return nil, err
	}
	if !o.Given("gpus") {
		return o.linked(table.All())
	}
	if len(o.gpus) == 0 {
		return nil, Usage("--gpus: want one or more, as h100,l40s; without the flag all are tried")
	}
	var all []hardware.GPU
	for _, name := range o.gpus {
		g, err := table.GPU(name)
		if err != nil {
			return nil, Usage("--gpus: %w", err)
		}
		if !slices.ContainsFunc(all, func(other hardware.GPU) bool { return other.Key == g.Key }) {
			all = append(all, g)
		}
	}
	return o.linked(all)
}

// linked are GPUs on hosts with the links that were asked for, which some of them have to have a use for.
func (o *Planned) linked(all []hardware.GPU) ([]hardware.GPU, error) {
	for _, c := range hardware.LinkChoices() {
		var l hardware.Links
		*c.Of(&l) = true
		uses := func(g hardware.GPU) bool { return !g.SameRoutes(g.Linked(l), []int{2}) }
		if o.Given(strings.TrimPrefix(Flag(c.Name), "--")) && !slices.ContainsFunc(all, uses) {
			return nil, InFlags(deployment.IdleLink(c.Name))
		}
	}
	for i := range all {
		all[i] = *all[i].Linked(o.links)
	}
	return all, nil
}

// priced are the prices that were given for GPUs that are tried, by the key of the GPU.
func (o *Planned) priced(from *deployment.Library, gpus []hardware.GPU) (map[string]unit.DollarsPerHour, error) {
	all := map[string]unit.DollarsPerHour{}
	for _, item := range o.prices {
		name, text, ok := strings.Cut(item, "=")
		if !ok || strings.TrimSpace(name) == "" {
			return nil, Usage("--price %.60q: want a GPU and dollars, as h100=1.99", item)
		}
		g, err := from.GPU(strings.TrimSpace(name), o.hardware)
		if err != nil {
			return nil, Usage("--price: %w", err)
		}
		if !slices.ContainsFunc(gpus, func(tried hardware.GPU) bool { return tried.Key == g.Key }) {
			return nil, Usage("--price %.60s: --gpus leaves %s out", item, g.Key)
		}
		var p unit.DollarsPerHour
		if err := price(&p, strings.TrimSpace(text)); err != nil {
			return nil, Usage("--price %s: %w", name, err)
		}
		all[g.Key] = p
	}
	return all, nil
}

// Shown are the best rows, of each GPU no more than were asked for.
func (o *Planned) Shown(rows []plan.Row) []plan.Row {
	return plan.Shown(rows, o.request.Top, o.request.PerGPU)
}
