package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"llmprof/models"

	"github.com/spf13/cobra"

	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/cmd/llmprof/internal/ask"
	"llmprof/cmd/llmprof/internal/cli"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/hardware"
	"llmprof/plan"
	"llmprof/unit"
	"llmprof/validate"
)

// A planOrder is a plan as it was asked for on the command line.
type planOrder struct {
	model           string
	prompt, gen     int
	ttft, tpot, e2e string
	rate, tps       float64
	concurrency     int
	budget          ask.Price
	maxGPUs         int
	budgets, drafts []int
	acceptance      float64
	aggregated      bool
	given           func(string) bool
	gpus, engines   []string
	prices          []string
	weights         []string
	floor           string
	by              string
	expected        bool
	p99             bool
	top             int
	perCard         int
	launch          bool
	hardware        string
	calibration     string
	offline         bool
	output          output
}

// planCommand is the command that searches deployments.
func (a *app) planCommand() *cobra.Command {
	o := &planOrder{}
	cmd := &cobra.Command{
		Use:   "plan MODEL",
		Short: "Find the GPUs and settings that meet targets at least cost",
		Long: "Search GPUs, their number, tensor, pipeline, expert and data parallelism, formats and batch for\n" +
			"deployments of a model that meet targets of latency under a load and a budget, and rank them. Times\n" +
			"are those of the slow end of the 90 % interval unless --expected is given. Every row names the\n" +
			"\"llmprof estimate\" that it is from. Exits with 1, and the nearest miss, where nothing qualifies.",
		Example: "  llmprof plan qwen3-32b --in 2048 --ttft 500ms --tpot 30ms --tps 2000\n" +
			"  llmprof plan deepseek-v3 --gpus h200,b200 --rate 10 --ttft 2s --launch\n" +
			"  llmprof plan llama3.1-8b --gpus rtx-4090 --max-gpus 1 --tpot 25ms --by energy",
		Args: cli.Positional("model"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.given = cmd.Flags().Changed
			return a.runPlan(cmd.Context(), o)
		},
	}
	o.flags(cmd)
	cmd.ValidArgsFunction = completeModels
	return cmd
}

func (o *planOrder) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&o.model, "model", "m", "", "`model`, as \"llmprof estimate\" takes it")
	f.IntVar(&o.prompt, "in", 1024, "`tokens` of a prompt")
	f.IntVar(&o.gen, "out", 256, "`tokens` of an answer")
	f.StringVar(&o.ttft, "ttft", "", "longest `time` to the first token, as 500ms")
	f.StringVar(&o.tpot, "tpot", "", "longest `time` per output token, as 30ms")
	f.StringVar(&o.e2e, "e2e", "", "longest `time` of a request, as 10s")
	f.Float64Var(&o.rate, "rate", 0, "load: `requests` a second")
	f.IntVar(&o.concurrency, "concurrency", 0, "load: `requests` at a time")
	f.Float64Var(&o.tps, "tps", 0, "load: generated `tokens` a second")
	f.Var(&o.budget, "budget", "most `dollars` an hour")
	f.IntVar(&o.maxGPUs, "max-gpus", 0, fmt.Sprintf("most `GPUs` (default %d)", plan.DefaultGPUs))
	f.StringSliceVar(&o.gpus, "gpus", nil, "`GPUs` to try (default: all)")
	f.StringSliceVar(&o.prices, "price", nil, "`dollars` an hour of a GPU, as h100=1.99,t4=0.35 (default: the GPU table's)")
	f.StringSliceVar(&o.engines, "engines", []string{"vllm"}, "`engines` to try")
	f.StringSliceVar(&o.weights, "weights", []string{"fp8", "w4a16-g128"}, "`schemes` of weights to try beside the checkpoint's")
	f.StringVar(&o.floor, "quality-floor", "fp8", "least `format` of weights and cache, as bf16, fp8 or int4")
	f.IntSliceVar(&o.budgets, "max-num-batched-tokens", plan.DefaultBudgets(), "most `tokens` of a step to try beside the scheduler's")
	f.Float64Var(&o.acceptance, "acceptance", 0, "try speculation: `probability` that a drafted token is right")
	f.IntSliceVar(&o.drafts, "speculative-tokens", []int{1, 2, 3}, "`tokens` to draft, where --acceptance is given")
	f.BoolVar(&o.aggregated, "aggregated", false, "try no replicas that only prefill")
	f.StringVar(&o.by, "by", "cost", "`objective`: cost, energy, latency or throughput")
	f.BoolVar(&o.expected, "expected", false, "hold targets to expected times, not to the intervals' slow end")
	f.BoolVar(&o.p99, "p99", false, "hold targets to the 99th percentiles of a simulation of the rows shown")
	f.IntVar(&o.top, "top", 10, "show the best `N` rows; 0 for all")
	f.IntVar(&o.perCard, "per-gpu", 1, "show at most `N` rows of a GPU; 0 for any number")
	f.BoolVar(&o.launch, "launch", false, "print how engines and Kubernetes start the best row")
	f.StringVar(&o.hardware, "hardware", "", "TOML `FILE` of GPUs that overlays the built-in table")
	ask.CalibrationFlag(cmd.Flags(), &o.calibration)
	f.BoolVar(&o.offline, "offline", false, "never use the network")
	o.output.chart = true
	o.output.flags(cmd)
	f.SortFlags = false
	cli.Rare(cmd, "max-num-batched-tokens", "speculative-tokens", "aggregated", "offline", "hardware")
	_ = cmd.RegisterFlagCompletionFunc("model", completeModels)
	_ = cmd.RegisterFlagCompletionFunc("gpus", completeGPUs)
	_ = cmd.RegisterFlagCompletionFunc("engines", words(engine.Names()...))
	_ = cmd.RegisterFlagCompletionFunc("by", words(plan.Objectives()...))
}

// request is the search that was asked for.
func (a *app) planRequest(ctx context.Context, o *planOrder) (q *plan.Request, err error) {
	if o.model == "" {
		return nil, usage("which model? As in llmprof plan llama3.1-8b; \"llmprof models list\" has the names")
	}
	q = &plan.Request{
		Prompt: o.prompt, Gen: o.gen, Load: plan.Load{Rate: o.rate, Concurrency: o.concurrency, Throughput: o.tps},
		Budget: unit.DollarsPerHour(o.budget), MaxGPUs: o.maxGPUs, Expected: o.expected,
		Budgets: append([]int{}, o.budgets...), Acceptance: o.acceptance, Together: o.aggregated,
	}
	if err := o.numbers(); err != nil {
		return nil, err
	}
	if err := o.together(); err != nil {
		return nil, err
	}
	if o.given("acceptance") {
		q.Drafts = o.drafts
	}
	if q.By, err = plan.ParseObjective(o.by); err != nil {
		return nil, usage("--by: %w", err)
	}
	for _, t := range []struct {
		flag, text string
		to         *unit.Seconds
	}{{"ttft", o.ttft, &q.Targets.TTFT}, {"tpot", o.tpot, &q.Targets.TPOT}, {"e2e", o.e2e, &q.Targets.E2E}} {
		if t.text == "" {
			continue
		}
		if _, err := strconv.ParseFloat(t.text, 64); err == nil { // 500 is rarely meant to be 500 s
			return nil, usage("--%s %s: want a unit, as %sms or %ss", t.flag, t.text, t.text, t.text)
		}
		if err := t.to.UnmarshalText([]byte(t.text)); err != nil {
			return nil, usage("--%s: %w", t.flag, err)
		}
		if *t.to <= 0 {
			return nil, usage("--%s %s: want a time above 0", t.flag, t.text)
		}
	}
	if q.Model, err = a.model(ctx, o.model, o.offline); err != nil {
		return nil, err
	}
	q.Cards, err = a.cards(o, q)
	return q, err
}

// numbers refuses numbers that ask for nothing.
func (o *planOrder) numbers() error {
	for _, n := range []struct {
		flag  string
		value float64
		least float64
	}{
		{"in", float64(o.prompt), 1}, {"out", float64(o.gen), 1}, {"rate", o.rate, math.SmallestNonzeroFloat64}, {"tps", o.tps, math.SmallestNonzeroFloat64},
		{"concurrency", float64(o.concurrency), 1}, {"max-gpus", float64(o.maxGPUs), 1}, {"top", float64(o.top), 0}, {"per-gpu", float64(o.perCard), 0},
	} {
		switch {
		case !o.given(n.flag) || n.value >= n.least && n.value <= math.MaxFloat64:
		case n.least >= 1:
			return usage("--%s %g: want at least 1", n.flag, n.value)
		case n.least > 0:
			return usage("--%s %g: want a number above 0", n.flag, n.value)
		default:
			return usage("--%s %g: want a number of rows, or 0 for all", n.flag, n.value)
		}
	}
	return nil
}

// together refuses flags that have no meaning without another one.
func (o *planOrder) together() error {
	rate := o.given("rate") || o.given("tps")
	load := rate || o.given("concurrency")
	for _, x := range []struct {
		flag string
		ok   bool
		need string
	}{
		{"acceptance", rate, "--rate or --tps"}, {"aggregated", rate, "--rate or --tps"}, {"max-num-batched-tokens", rate, "--rate or --tps"},
		{"speculative-tokens", o.given("acceptance"), "--acceptance"}, {"p99", load, "a load, as --rate 10"},
	} {
		if o.given(x.flag) && !x.ok {
			return usage("--%s changes nothing without %s", x.flag, x.need)
		}
	}
	return nil
}

// cards are the GPUs with the engines that are to be tried.
func (a *app) cards(o *planOrder, q *plan.Request) (all []plan.Card, err error) {
	floor, err := unit.ParseFormat(o.floor)
	if err != nil {
		return nil, usage("--quality-floor: %w", err)
	}
	for _, name := range o.weights {
		if _, err := models.ParseScheme(name); err != nil {
			return nil, usage("--weights: %w", err)
		}
	}
	if len(o.engines) == 0 {
		return nil, usage("--engines: want one or more of %s", strings.Join(engine.Names(), ", "))
	}
	gpus, err := a.planGPUs(o)
	if err != nil {
		return nil, err
	}
	prices, err := a.planPrices(o, gpus)
	if err != nil {
		return nil, err
	}
	constants, err := ask.NewCalibrations(o.calibration)
	if err != nil {
		return nil, err
	}
	for _, name := range o.engines {
		e, err := engine.Parse(name)
		if err != nil {
			return nil, usage("--engines: %w", err)
		}
		for i := range gpus {
			g := &gpus[i]
			file, err := constants.Among(g, e.Profile().Name)
			if err != nil {
				return nil, err
			}
			machines, err := analytic.NewMachines(g, e, file)
			if err != nil {
				return nil, err
			}
			price, ok := prices[g.Key]
			if !ok {
				price, _ = g.Price()
			}
			all = append(all, plan.Card{GPU: g, Price: price, Machines: machines, Formats: plan.DefaultFormats(q.Model, g, o.weights, floor.Bits())})
		}
	}
	return all, nil
}

// planGPUs are the GPUs that are to be tried.
func (a *app) planGPUs(o *planOrder) ([]hardware.GPU, error) {
	table, err := a.gpuTable(o.hardware)
	if err != nil {
		return nil, err
	}
	if !o.given("gpus") {
		return table.All(), nil
	}
	if len(o.gpus) == 0 {
		return nil, usage("--gpus: want one or more, as h100,l40s; without the flag all are tried")
	}
	var all []hardware.GPU
	for _, name := range o.gpus {
		g, err := table.GPU(name)
		if err != nil {
			return nil, usage("--gpus: %w", err)
		}
		if !slices.ContainsFunc(all, func(other hardware.GPU) bool { return other.Key == g.Key }) {
			all = append(all, g)
		}
	}
	return all, nil
}

// planPrices are the prices that were given for GPUs that are tried, by the key of the GPU.
func (a *app) planPrices(o *planOrder, gpus []hardware.GPU) (map[string]unit.DollarsPerHour, error) {
	all := map[string]unit.DollarsPerHour{}
	for _, item := range o.prices {
		name, text, ok := strings.Cut(item, "=")
		if !ok || strings.TrimSpace(name) == "" {
			return nil, usage("--price %.60q: want a GPU and dollars, as h100=1.99", item)
		}
		g, err := a.gpu(strings.TrimSpace(name), o.hardware)
		if err != nil {
			return nil, usage("--price: %w", err)
		}
		if !slices.ContainsFunc(gpus, func(tried hardware.GPU) bool { return tried.Key == g.Key }) {
			return nil, usage("--price %.60s: --gpus leaves %s out", item, g.Key)
		}
		var p ask.Price
		if err := p.Set(strings.TrimSpace(text)); err != nil {
			return nil, usage("--price %s: %w", name, err)
		}
		all[g.Key] = unit.DollarsPerHour(p)
	}
	return all, nil
}

// runPlan searches and says what was found.
func (a *app) runPlan(ctx context.Context, o *planOrder) error {
	if err := o.output.check(); err != nil {
		return err
	}
	q, err := a.planRequest(ctx, o)
	if err != nil {
		return err
	}
	begin := time.Now()
	part, end := a.follow().counted("searching GPUs")
	q.Progress = part
	found, err := plan.Search(ctx, q)
	end()
	if err != nil {
		return wrong(err)
	}
	p := &view.Plan{Name: o.model, Request: q, Result: found, Took: unit.Seconds(time.Since(begin).Seconds())}
	p.Shown = o.shown(found.Rows)
	if o.p99 {
		var left []plan.Rejected
		if p.Shown, left, err = plan.Confirm(ctx, q, p.Shown); err != nil {
			return err
		}
		found.Rejected = append(left, found.Rejected...)
	}
	if p.Accuracy, err = a.accuracy(p.Shown); err != nil {
		return err
	}
	if len(p.Shown) > 0 {
		best := &p.Shown[0]
		p.Checks = checks(best, q, o.model)
		if o.launch {
			p.Launch = plan.Launches(best, q, checkpoint(q, o.model))
		}
	}
	if err := a.writePlan(o, p); err != nil {
		return err
	}
	if len(p.Shown) == 0 {
		return nothing(found)
	}
	return nil
}

// writePlan writes the plan, and the chart where -o names one.
func (a *app) writePlan(o *planOrder, p *view.Plan) error {
	out := o.output
	form := forms{page: p.Page, table: p.Table, data: func() any { return p.Document() }}
	kind := out.picture()
	if kind == "" {
		return out.write(a, form)
	}
	out.file = ""
	if err := out.write(a, form); err != nil || len(p.Result.Rows) == 0 {
		return err
	}
	figure, err := p.Chart()
	if err != nil {
		return err
	}
	return writeFigure(figure, o.output.file, kind)
}

// nothing says that no deployment qualifies, and which came nearest.
func nothing(r *plan.Result) error {
	if len(r.Rejected) == 0 {
		return errors.New("no deployment qualifies, on no GPU")
	}
	first := &r.Rejected[0]
	if first.Miss.Row == nil {
		return fmt.Errorf("no deployment qualifies; %s: %s", first.Card.GPU.Key, first.Miss.Reason)
	}
	return fmt.Errorf("no deployment qualifies; %s", first.Miss.Reason)
}

// shown are the best rows, of each GPU no more than were asked for.
func (o *planOrder) shown(rows []plan.Row) (all []plan.Row) {
	of := map[*hardware.GPU]int{}
	for i := range rows {
		r := &rows[i]
		if of[r.Card.GPU]++; o.perCard > 0 && of[r.Card.GPU] > o.perCard {
			continue
		}
		if all = append(all, *r); len(all) == o.top {
			break
		}
	}
	return all
}

// checkpoint is the name of the weights, which a file of a config stands beside.
func checkpoint(q *plan.Request, name string) string {
	if strings.ContainsAny(name, `/\`) {
		return strings.TrimSuffix(strings.TrimSuffix(name, "config.json"), "/")
	}
	return q.Model.Name
}

// checks is the command line that measures a row's server.
func checks(r *plan.Row, q *plan.Request, model string) []string {
	load := fmt.Sprintf("--concurrency %d --requests %d", r.Batch*r.DP, max(4*r.Batch*r.DP, 32))
	switch rate := q.Load.Rate + q.Load.Throughput/float64(q.Gen); {
	case q.Load.Concurrency > 0:
		load = fmt.Sprintf("--concurrency %d --requests %d", q.Load.Concurrency, max(4*q.Load.Concurrency, 32))
	case rate > 0:
		load = fmt.Sprintf("--rate %.4g --requests %d", rate, max(int(120*rate), 32)) // two minutes
	}
	return []string{fmt.Sprintf("llmprof measure --engine openai --base-url http://127.0.0.1:8000/v1 --model %s %s --prompt-len %d --gen-len %d",
		checkpoint(q, model), load, q.Prompt, q.Gen)}
}

// accuracy scores the engine of each row against the built-in observations.
func (a *app) accuracy(rows []plan.Row) ([]view.Accuracy, error) {
	scorer, err := a.scorer("", nil)
	if err != nil {
		return nil, err
	}
	observed, err := validate.Embedded()
	if err != nil {
		return nil, err
	}
	of := map[string][]validate.Row{}
	var all []view.Accuracy
	for i := range rows {
		name := rows[i].Engine()
		if _, ok := of[name]; !ok {
			some := slices.DeleteFunc(slices.Clone(observed), func(x validate.Observation) bool { return x.Engine != name })
			of[name] = scorer.Score(some).Rows
		}
		all = append(all, accuracyOf(&rows[i], of[name]))
	}
	return all, nil
}

// accuracyOf is the errors of an engine, and of those on the GPU of a row.
func accuracyOf(r *plan.Row, rows []validate.Row) (a view.Accuracy) {
	a.Measured = r.Card.Machines.Machine.Cal.Measured
	var on, anywhere []float64
	for i := range rows {
		x := &rows[i]
		if x.Metric.Energy() || x.Fitted != "" { // what a constant was fitted on says little of the rest
			continue
		}
		off := max(x.Error, -x.Error)
		anywhere = append(anywhere, off)
		if x.GPU == r.Card.GPU.Key {
			on = append(on, off)
		}
	}
	a.N, a.Median, a.Engine, a.EngineBy = len(on), median(on), len(anywhere), median(anywhere)
	return a
}

// median is the middle of some numbers, 0 of none.
func median(xs []float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	slices.Sort(xs)
	return (xs[(len(xs)-1)/2] + xs[len(xs)/2]) / 2
}
