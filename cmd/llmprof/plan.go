package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"llmprof/cmd/llmprof/internal/cli"
	"llmprof/cmd/llmprof/internal/settings"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/internal/printable"
	"llmprof/plan"
	"llmprof/plots/report"
	"llmprof/serving"
	"llmprof/unit"
)

// A planOrder is a plan as it was asked for on the command line.
type planOrder struct {
	plan.Options
	launch, rejected bool
	output           output
	command          string // command line that makes a report again
}

func (a *app) planCommand() *cobra.Command {
	o := &planOrder{}
	cmd := &cobra.Command{
		Use:   "plan MODEL...",
		Short: "Find the GPUs and settings that meet targets at least cost",
		Long: "Search GPUs, their number, tensor, pipeline, expert and data parallelism, formats and batch for\n" +
			"deployments of a model that meet targets of latency under a load and a budget, and rank them. Times\n" +
			"are those of the slow end of the 90 % interval unless --expected is given. Every row names the\n" +
			"\"llmprof estimate\" that it is from. Several models, each with settings of its own, are one fleet\n" +
			"of deployments. Exits with 1, and the nearest miss, where nothing qualifies.",
		Example: "  llmprof plan qwen3-32b --in 2048 --ttft 500ms --tpot 30ms --tps 2000\n" +
			"  llmprof plan deepseek-v3 --gpus h200,b200 --rate 10 --ttft p99=2s --launch\n" +
			"  llmprof plan qwen3-32b,qwen3-14b --gpus rtx-4090 --tpot 25ms --by model\n" +
			"  llmprof plan qwen3-32b:rate=8 llama3.1-8b:rate=4,out=400 --ttft 1s --tpot 30ms",
		Args: planArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.command = commandLine(cmd)
			if len(args) > 1 {
				o.command = commandLine(cmd, args...)
				return a.runFleet(cmd.Context(), cmd.Flags(), o, args)
			}
			return a.runPlan(cmd.Context(), o)
		},
	}
	o.flags(cmd)
	cmd.ValidArgsFunction = completeModels
	return cmd
}

func (o *planOrder) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	settings.Planned(f, &o.Options, traceLengths)
	f.BoolVar(&o.launch, "launch", false, "print how engines and Kubernetes start the best row")
	f.BoolVar(&o.rejected, "rejected", false, "say why each of the other GPUs fell out")
	o.output.chart, o.output.sheet = true, true
	o.output.flags(cmd)
	cli.Rare(cmd, "per-gpu", "p99", "power-limit", "clock", "max-num-batched-tokens", "max-num-seqs", "speculative-tokens", "aggregated",
		"offline",
		"hardware", "p2p", "no-p2p", "nvlink", "audio", "prompt-len", "gen-len", "itl", "term", "trust", "class", "acceptance", "images",
		"quality-floor", "weights", "engines", "expected", "calibration")
}

// runPlan searches and says what was found.
func (a *app) runPlan(ctx context.Context, o *planOrder) error {
	p, err := a.searched(ctx, &o.Options)
	if err != nil {
		return err
	}
	p.Full = o.rejected
	a.detail(ctx, o, p)
	if err := o.output.write(a, planForms(p, o.command)); err != nil {
		return err
	}
	if len(p.Shown) == 0 {
		return nothing(p.Result)
	}
	return nil
}

// searched is what a search found.
func (a *app) searched(ctx context.Context, o *plan.Options) (*view.Plan, error) {
	q, err := o.Request(ctx, a.library())
	if err != nil {
		return nil, err
	}
	view.Weigh(q)
	begin := time.Now()
	part, end := a.follow().counted("searching GPUs")
	q.Progress = part
	found, err := plan.Search(ctx, q)
	end()
	if err != nil {
		return nil, wrong(err)
	}
	return &view.Plan{Request: q, Result: found, Shown: plan.Shown(found.Rows, q.Top, q.PerGPU),
		Took: unit.Seconds(time.Since(begin).Seconds())}, nil
}

// detail adds what is told of the first row alone: how it is checked and started, and what other formats take.
func (a *app) detail(ctx context.Context, o *planOrder, p *view.Plan) {
	if len(p.Shown) == 0 {
		return
	}
	best, q := &p.Shown[0], p.Request
	p.Checks = checks(best, q)
	if o.launch || o.output.format == asReport {
		p.Launch = plan.Launches(best, q, best.Card.Checkpoint())
	}
	if o.rejected {
		p.Formats = a.formats(ctx, best, q).Reasons()
	}
}

// planForms is a plan in its forms; one without rows has no chart.
func planForms(p *view.Plan, command string) forms {
	f := forms{page: p.Page, table: p.Table, data: func() any { return p.Document() }}
	if len(p.Result.Rows) > 0 {
		f.chart, f.poster, f.sheet = p.Chart, p.Sheet, made(p.ReportPage, command)
	}
	return f
}

// made is a report that says which command line made it.
func made(of func(files bool) (*report.Page, error), command string) func(files bool) (*report.Page, error) {
	return func(files bool) (*report.Page, error) {
		page, err := of(files)
		if err == nil {
			page.Command, page.Version = command, versionText()
		}
		return page, err
	}
}

// nothing says that no deployment qualifies, and which came nearest.
func nothing(r *plan.Result) error {
	if len(r.Rejected) == 0 {
		return errors.New("no deployment qualifies, on no GPU")
	}
	first := &r.Rejected[0]
	switch {
	case r.Searched == 0 && first.Unpriced:
		return fmt.Errorf("no deployment qualifies: no price of the GPUs is known: give --price %s=1.50, or leave --budget out and rank by "+
			"another figure, as --by energy", first.Card.GPU.Key)
	case first.Miss.Row == nil:
		return fmt.Errorf("no deployment qualifies; %s: %s", first.Card.GPU.Key, first.Miss.Reason)
	}
	return fmt.Errorf("no deployment qualifies; %s", first.Miss.Reason)
}

// checks is the command line that measures a row's server.
func checks(r *plan.Row, q *plan.Request) []string {
	load := fmt.Sprintf("--concurrency %d --requests %d", r.Batch*r.DP, max(4*r.Batch*r.DP, 32))
	switch rate := q.Load.Rate + q.Load.Throughput/q.Gen.MeanLength(); {
	case q.Load.Concurrency > 0:
		load = fmt.Sprintf("--concurrency %d --requests %d", q.Load.Concurrency, max(4*q.Load.Concurrency, 32))
	case rate > 0:
		load = fmt.Sprintf("--rate %.4g --requests %d", rate, max(int(120*rate), 32)) // two minutes
	}
	return []string{fmt.Sprintf("llmprof measure --engine openai --base-url http://127.0.0.1:8000/v1 --gen-len %s --model %s %s "+
		"--prompt-len %s", lengthsOf(&q.Gen), printable.ShellWord(printable.Operand(r.Card.Checkpoint())), load, lengthsOf(&q.Prompt))}
}

// lengthsOf are lengths as "llmprof measure" takes them, which reads no traces.
func lengthsOf(l *serving.Lengths) string {
	if l.Kind == "trace" {
		return fmt.Sprintf("lognormal:%.0f,%.2g", l.Mean, max(l.Spread, 0.01))
	}
	return view.LengthWords(l)
}
