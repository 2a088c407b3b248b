package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"llmprof/cmd/llmprof/internal/cli"
	"llmprof/deployment"
	"llmprof/internal/input"
	"llmprof/measure"
	"llmprof/measure/experiment"
	"llmprof/measure/native/process"
	"llmprof/measure/result"
	"llmprof/models"
	"llmprof/plots"
	"llmprof/validate"
	"llmprof/validate/reports"
)

// A measureRun is a measurement as it was asked for on the command line.
type measureRun struct {
	point   experiment.Point
	eager   bool
	offline bool
	named   bool // the model is no file
	shared  bool
	node    int // this host, of several

	concurrencies []int      // each a run
	rates         []float64  // rates of requests, each a run
	span          [2]float64 // rates between which the knee is searched

	results string // folder that the results are stored in
	records string // file of a server's requests
	output  output
	given   func(flag string) bool
}

func (a *app) measure() *cobra.Command {
	t := &measureRun{point: experiment.Default()}
	cmd := &cobra.Command{
		Use:   "measure MODEL",
		Short: "Run a real engine and measure time, memory and energy",
		Long: "Run an inference engine on this machine, or ask a server, and measure the time to the first token " +
			"(TTFT), per token (TPOT) and to the last (TTLT), memory and energy: all of it, unless some of --ttft, " +
			"--tpot, --ttlt, --size and --energy are given. Every repeat is kept.\n\n" +
			"The native engine needs an NVIDIA GPU with its driver, NVRTC and cuBLASLt (CUDA 12 or 13), and no Python.",
		Example: "  llmprof measure llama3.1-8b --random-weights --batch 8\n" +
			"  llmprof measure ./my-model --engine transformers --eager --ttft --tpot\n" +
			"  llmprof measure qwen3-8b --engine openai --base-url http://localhost:8000",
		Args:              cli.Positional("model"),
		ValidArgsFunction: completeModels,
		RunE: func(cmd *cobra.Command, _ []string) error {
			t.given = cmd.Flags().Changed
			return a.runMeasure(cmd.Context(), t)
		},
	}
	t.flags(cmd)
	return cmd
}

// resolve turns what was given on the command line into a point.
func (t *measureRun) resolve() error {
	p := &t.point
	if (t.given("cuda-libs") || p.Ops) && !t.given("engine") {
		p.Engine = experiment.Native
	}
	if t.eager {
		if t.given("graph") && p.Graph {
			return usage("--eager: it contradicts --graph")
		}
		p.Graph = false
	}
	if !p.TTFT && !p.TPOT && !p.TTLT && !p.Size && !p.Energy {
		asked := func(name string) bool { return !t.given(name) } // --energy=false leaves that out alone
		p.TTFT, p.TPOT, p.TTLT, p.Size, p.Energy = asked("ttft"), p.GenLen > 1 && asked("tpot"), asked("ttlt"), asked("size"), asked("energy")
	}
	if t.node < 0 || t.node >= max(p.Nodes, 1) {
		return usage("--node %d: %d hosts count from 0", t.node, max(p.Nodes, 1))
	}
	if t.records != "" && p.Engine != experiment.OpenAI {
		return usage("--records %s: only a server's requests are recorded one by one: it is for --engine %s", t.records, experiment.OpenAI)
	}
	if err := t.checkCounts(); err != nil {
		return err
	}
	if t.output.picture() != "" && p.Engine != experiment.OpenAI {
		return usage("-o %s: the chart is of the loads of a server, with --engine openai", t.output.file)
	}
	if p.Engine == experiment.OpenAI {
		p.Load, p.Trace = p.Trace, ""
	}
	if len(t.concurrencies) > 0 {
		p.Concurrency = t.concurrencies[0]
	}
	if len(t.rates) > 0 {
		p.RequestRate = t.rates[0]
	}
	if t.span[1] > 0 {
		p.RequestRate = t.span[0]
	}
	if err := p.Check(); err != nil {
		return wrong(inFlags(err))
	}
	return nil
}

// checkCounts refuses a zero that is given, since the zero of a point stands for what is not given.
func (t *measureRun) checkCounts() error {
	p := &t.point
	for _, x := range []struct {
		flag string
		n    int
	}{{"requests", p.Requests}, {"repeats", p.Repeats}, {"warmup", p.Warmup}, {"served-tp", p.ServedTP}, {"trace-block", p.LoadBlock}} {
		if t.given(x.flag) && x.n < 1 {
			return usage("--%s %d: want at least 1, or leave it out", x.flag, x.n)
		}
	}
	switch {
	case t.given("speed") && p.Speed == 0:
		return usage("--speed 0: want above 0 and at most 1e9")
	case t.given("timeout") && p.Timeout == 0:
		return usage("--timeout 0: want a time above 0, or leave it out")
	}
	return nil
}

func (a *app) runMeasure(ctx context.Context, t *measureRun) (err error) {
	if err := t.resolve(); err != nil {
		return wrong(err)
	}
	p := &t.point
	lab, err := a.lab(t.offline)
	if err != nil {
		return err
	}
	lab.Models.NoFiles = t.named
	lab.Shared, lab.NeedEnergy, lab.Node = t.shared, t.given("energy") && p.Energy, t.node
	if !t.given("engine") && p.Engine != experiment.Native {
		p.Engine = lab.Engine(ctx, *p)
	}
	if t.node > 0 {
		return lab.Join(ctx, *p)
	}
	points, err := t.loads() // once the engine is chosen
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lab.Close()) }()
	if t.records != "" {
		file, err := os.Create(t.records)
		if err != nil {
			return fmt.Errorf("writing %s: %w", t.records, input.Cause(err))
		}
		defer file.Close() // a line that cannot be written is an error of the measurement
		lab.Records = file
	}
	var store *experiment.Store
	if t.results != "" {
		store = &experiment.Store{Dir: t.results}
	}
	several := func(points []experiment.Point) ([]*result.Result, error) {
		return experiment.Several(ctx, points, lab.Measure, store, a.sayLoads(points))
	}
	var results []*result.Result
	var failed error
	if t.span[1] > 0 {
		results, failed = a.searchKnee(ctx, t, several)
	} else {
		results, failed = several(points)
	}
	if len(results) == 0 {
		return failed
	}
	return errors.Join(failed, a.writeMeasured(&t.output, results, len(points) > 1 || t.span[1] > 0))
}

// writeMeasured writes results as their files have them: those of several loads as a
// list.
func (a *app) writeMeasured(o *output, results []*result.Result, list bool) error {
	whole := make([]*result.Result, len(results))
	for i, r := range results {
		var err error
		if whole[i], err = result.Complete(r); err != nil {
			return err
		}
	}
	if list {
		return o.write(a, loadSet(whole))
	}
	scorer, err := a.scorer("", "")
	if err != nil {
		return err
	}
	return o.write(a, measured(whole, scorer))
}

// measured is what was measured in its forms: as JSON one process's result is
// itself, those of replicas are a list.
func measured(results []*result.Result, s *validate.Scorer) forms {
	forms := rawForms(results, s)
	forms.chart = func() (*plots.Figure, error) { return loadFigure(results) }
	if len(results) == 1 {
		forms.data = func() any { return results[0] }
		forms.report = func() (any, error) { return reports.LLMD(results[0]) }
	}
	return forms
}

func (a *app) measurer(offline bool) (experiment.Measure, func() error, error) {
	lab, err := a.lab(offline)
	if err != nil {
		return nil, nil, err
	}
	return lab.Measure, lab.Close, nil
}

func (a *app) lab(offline bool) (*measure.Lab, error) {
	native, err := nativeCommand()
	if err != nil {
		return nil, err
	}
	hub := models.HubFromEnv(a.env)
	hub.Offline = hub.Offline || offline
	debug.SetGCPercent(100) // memory counts for more than it does in the first moments of a command
	f := a.follow()
	return &measure.Lab{
		Models: models.Resolver{Table: deployment.BuiltInModels(), Hub: hub}, GPUs: deployment.BuiltInGPUs(), Root: os.DirFS("/"), Env: a.env,
		Version: versionText(), Command: os.Args, NativeCommand: native, Say: f.say, Progress: f.progress,
	}, nil
}

// nativeWorker is the name of the command that measurements start this program
// with.
const nativeWorker = "engine-native"

// nativeCommand starts the native engine's worker.
func nativeCommand() ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("this program's own file, which is the native engine's too: %w", err)
	}
	return []string{self, nativeWorker}, nil
}

// engineNative is the native engine's worker. People have no use for it.
func (a *app) engineNative() *cobra.Command {
	return &cobra.Command{
		Use:    nativeWorker,
		Short:  "Run the native engine for a driver on standard input and output",
		Hidden: true,
		Args:   noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return process.Serve(cmd.Context(), a.stdin, a.stdout, versionText())
		},
	}
}
