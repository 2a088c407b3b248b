package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/cmd/llmprof/internal/cli"
	"llmprof/cmd/llmprof/internal/settings"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/internal/input"
	"llmprof/measure/result"
	"llmprof/plots"
	"llmprof/validate"
)

// A drawing is a picture as it was asked for on the command line.
type drawing struct {
	estimateFlags
	given  func(flag string) bool
	file   string // where to
	kind   string // "svg", "png" or "pdf"; "" for what the file's name ends in
	by     string
	values []int

	measured string // file of operators that were timed; "" for none
	timed    []plots.MeasuredOperator

	graph bool // it is the model's graph, which can be text in DOT too
	phase string
	make  func(context.Context, *drawing) (picture, error)
}

// A picture is what can be written in one of its forms.
type picture interface {
	Write(w io.Writer, form string) error
}

func (a *app) plot() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plot COMMAND",
		Short: "Draw rooflines, breakdowns, memory and sweeps",
		Long: "Draw what an estimate is made of, as SVG, PNG (200 dots an inch) or PDF, in the width of a\n" +
			"page. Every picture names its configuration.",
		Example: "  llmprof plot roofline llama2-70b a100 --tp 8 --batch 32 -o roofline.svg\n" +
			"  llmprof plot sweep llama3.1-8b a100,h100,h200 -o sweep.pdf",
		Args: noArgs,
		RunE: needCommand,
	}
	cmd.AddCommand(
		a.drawingCommand("roofline", "Draw every operator under the roofs of the GPU",
			"Draw FLOPs by time over FLOPs by memory traffic of every operator, under what the GPU can do\nat its data-sheet peaks and what its "+
				"kernels achieve.", a.ofEstimate(func(d *drawing, ans *answer) (picture, error) {
				return plots.Roofline(&ans.Case, &ans.Report, d.timed)
			})),
		a.drawingCommand("breakdown", "Draw what parameters, FLOPs, traffic, time and energy are made of",
			"Draw bars of the parameters, and of FLOPs, memory traffic, time and energy of either phase, by\ngroups of operators.",
			a.ofEstimate(func(_ *drawing, ans *answer) (picture, error) { return plots.Breakdown(&ans.Case, &ans.Report) })),
		a.drawingCommand("memory", "Draw the memory of a GPU over batch or context",
			"Draw what the memory of a GPU is used for over batch or context, and how much fits.", a.drawMemory),
		a.drawingCommand("sweep", "Draw TTFT and TPOT over batch, context or tensor parallelism",
			"Draw TTFT and TPOT over batch, context or tensor parallelism, of one or several GPUs or models\n(names with commas between).",
			a.drawSweep),
	)
	return cmd
}

func (a *app) graph() *cobra.Command {
	cmd := a.drawingCommand("graph", "Draw the model as a graph, every operator with its cost",
		"Draw one layer of each kind with its repeat count, what comes before and after the layers, and\n"+
			"of every operator its shape, and its share of time, FLOPs, bytes, intensity and bound in prefill\n"+
			"and decode. The experts of a mixture are one node, and a strip shows how kinds of layers\n"+
			"alternate. As SVG, PNG (200 dots an inch) or PDF, or as DOT, the language of Graphviz.",
		a.ofEstimate(func(d *drawing, ans *answer) (picture, error) { return modelGraph{ans, plots.Phases(d.phase)}, nil }))
	cmd.Example = "  llmprof graph llama2-70b a100 --tp 8 -o graph.svg\n" +
		"  llmprof graph deepseek-v3 h200 --tp 8 --batch 32 -o graph.dot\n" +
		"  llmprof graph nemotron-h-8b h100 --phase decode -o decode.png"
	return cmd
}

func (a *app) drawingCommand(name, short, long string, draw func(context.Context, *drawing) (picture, error)) *cobra.Command {
	d := &drawing{make: draw, graph: name == "graph"}
	cmd := &cobra.Command{
		Use: name + " MODEL GPU -o FILE", Short: short, Long: long,
		Example:           "  llmprof plot " + name + " llama2-70b a100 --tp 8 -o " + name + ".svg",
		Args:              cli.Positional("model", "gpu"),
		ValidArgsFunction: completeModelThenGPU,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d.given = cmd.Flags().Changed
			return a.runPlot(cmd.Context(), d)
		},
	}
	d.flags(cmd)
	cli.Define(cmd, cli.Output, func(f *pflag.FlagSet) { d.outputFlags(f, name) })
	return cmd
}

func (d *drawing) outputFlags(f *pflag.FlagSet, name string) {
	what := "picture"
	if d.graph {
		what = "graph"
	}
	f.StringVarP(&d.file, "output", "o", "", "write the "+what+" to `FILE`, whole or not at all; - for standard output")
	settings.Choice(f, &d.kind, "format", "", "`form` of the "+what+": %s (default: what FILE ends in)", d.forms()...)
	switch name {
	case "roofline":
		f.StringVar(&d.measured, "measured", "",
			"`FILE` of measured operators: a trace as \"validate --trace\" reads it, or a result of \"measure --ops\"")
	case "memory":
		settings.Choice(f, &d.by, "by", "batch", "`what` to vary: %s", "batch", "context")
	case "sweep":
		settings.Choice(f, &d.by, "by", "batch", "`what` to vary: %s", "batch", "context", "tp")
		f.IntSliceVar(&d.values, "values", nil, "`values` to try, as 1,2,4 (default: doublings)")
	case "graph":
		settings.Choice(f, &d.phase, "phase", "both", "`phase` to show: %s", "both", "prefill", "decode")
	}
}

// forms are those in which the picture can be written.
func (d *drawing) forms() []string {
	if d.graph {
		return append(plots.Formats(), "dot")
	}
	return plots.Formats()
}

func (d *drawing) form() (kind string, err error) {
	kind = d.kind
	switch {
	case d.file == "":
		err = usage("which file? Give -o, as in -o picture.svg")
	case kind == "" && d.file == "-":
		err = usage("-o -: give --format too: %s", strings.Join(plots.Formats(), ", "))
	case kind == "":
		kind = ending(d.file)
	}
	if err == nil && !slices.Contains(d.forms(), kind) {
		err = usage("-o %.40q: want a name that ends in .svg, .png or .pdf, or --format with one of them", d.file)
	}
	if err != nil && d.graph {
		err = usage("%w; a graph can be dot too", err)
	}
	return kind, err
}

// runPlot draws all of the picture before the first byte goes out.
func (a *app) runPlot(ctx context.Context, d *drawing) error {
	kind, err := d.form()
	if err != nil {
		return err
	}
	if d.measured != "" { // which says what is drawn
		if d.timed, err = a.timedOperators(ctx, d); err != nil {
			return err
		}
	}
	if err := d.check(); err != nil {
		return err
	}
	f, err := d.make(ctx, d)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := errors.Join(f.Write(&b, kind), ctx.Err()); err != nil {
		return err // an interrupt while it was drawn leaves the old file
	}
	return a.put("picture", d.file, b.Bytes())
}

// ofEstimate draws one estimate, of which it writes the warnings to standard error.
func (a *app) ofEstimate(draw func(*drawing, *answer) (picture, error)) func(context.Context, *drawing) (picture, error) {
	return func(ctx context.Context, d *drawing) (picture, error) {
		ans, err := a.answer(ctx, &d.estimateFlags)
		if err != nil {
			return nil, err
		}
		for _, w := range view.Texts(ans.Warnings) {
			a.logf("warning: %s", w)
		}
		return draw(d, ans)
	}
}

func (a *app) drawMemory(ctx context.Context, d *drawing) (picture, error) {
	v := plots.Variable(d.by)
	ans, err := a.answer(ctx, &d.estimateFlags)
	if err != nil {
		return nil, err
	}
	curve, err := plots.MemorySweep(&ans.Case, v)
	if err != nil {
		return nil, err
	}
	return plots.Memory(&ans.Case, v, curve)
}

// A modelGraph is a model's graph in its forms.
type modelGraph struct {
	*answer
	phases plots.Phases
}

// Write writes the graph as DOT or as a picture.
func (g modelGraph) Write(w io.Writer, form string) error {
	if form == "dot" {
		text, err := plots.GraphDOT(&g.Case, &g.Report, g.phases)
		_, failed := io.WriteString(w, text)
		return errors.Join(err, failed)
	}
	f, err := plots.Graph(&g.Case, &g.Report, g.phases)
	if err != nil {
		return err
	}
	return f.Write(w, form)
}

// steps are the values to try: the given ones, or doublings of the variable.
func (d *drawing) steps(v plots.Variable, c *analytic.Case) []int {
	if len(d.values) > 0 {
		xs := slices.Clone(d.values)
		slices.Sort(xs)
		return slices.Compact(xs)
	}
	return view.SweepValues(v, c)
}

// drawSweep sweeps every pair of the models and GPUs that were named.
func (a *app) drawSweep(ctx context.Context, d *drawing) (picture, error) {
	v := plots.Variable(d.by)
	models, gpus := names(d.Model), names(d.GPU)
	if len(models) == 0 || len(gpus) == 0 {
		return nil, usage("which model on which GPU? Give --model and --gpu a name each, or several with commas between")
	}
	var curves []plots.Curve
	var cases []*analytic.Case
	for _, m := range models {
		for _, g := range gpus {
			q := d.estimateFlags
			q.Model, q.GPU = m, g
			ans, err := a.answer(ctx, &q)
			if err != nil {
				return nil, err
			}
			curve, err := a.sweep(d, v, &ans.Case, curveName(models, gpus, ans))
			if err != nil {
				return nil, err
			}
			curves = append(curves, curve)
			cases = append(cases, &ans.Case)
		}
	}
	return plots.Latency(plots.SweepCaption(v, cases...), v, curves)
}

// names are those between commas.
func names(list string) (all []string) {
	for n := range strings.SplitSeq(list, ",") {
		if n = strings.TrimSpace(n); n != "" {
			all = append(all, n)
		}
	}
	return all
}

func curveName(models, gpus []string, ans *answer) string {
	switch {
	case len(models) > 1 && len(gpus) > 1:
		return ans.Request.GPU + ", " + ans.Model.Name
	case len(models) > 1:
		return ans.Model.Name
	}
	return ans.Request.GPU
}

// sweep answers at each value. Of the doublings it leaves out those that the
// model cannot be split into, as TP 16 of a model with 12 heads; of given values
// it refuses them.
func (a *app) sweep(d *drawing, v plots.Variable, c *analytic.Case, name string) (plots.Curve, error) {
	curve, refused := view.Swept(v, c, name, d.steps(v, c))
	if len(refused) > 0 && len(d.values) > 0 {
		return curve, wrong(refused[0])
	}
	for _, err := range refused {
		a.logf("left out: %v", err)
	}
	return curve, nil
}

// timedOperators reads the operators of a trace or a result, and asks for the estimate of the step that
// they are of.
func (a *app) timedOperators(ctx context.Context, d *drawing) ([]plots.MeasuredOperator, error) {
	phases, err := a.timedPhases(ctx, d)
	if err != nil {
		return nil, err
	}
	var all []plots.MeasuredOperator
	for i := range phases {
		p := &phases[i]
		if p.Why != nil {
			return nil, fmt.Errorf("--measured %s: %w", d.measured, p.Why)
		}
		for k := range p.Rows {
			if r := &p.Rows[k]; r.Predicted != nil {
				all = append(all, plots.MeasuredOperator{Name: r.Name, Decode: p.Decode, FLOPs: r.Predicted.FLOPs, Bytes: r.Predicted.Bytes,
					Observed: r.Observed})
			}
		}
	}
	return all, d.requestAs(phases)
}

func (a *app) timedPhases(ctx context.Context, d *drawing) ([]validate.OperatorPhase, error) {
	if _, err := os.Stat(d.measured); err != nil {
		return nil, fmt.Errorf("--measured %s: %w", d.measured, input.Cause(err))
	}
	v := &comparison{Selection: validate.Selection{GPU: d.GPU}, constant: d.Calibration, given: d.given,
		live: liveFlags{hardware: d.Hardware, offline: d.Offline}}
	if d.Model != "" {
		v.Models = []string{d.Model}
	}
	if d.Engine != "" {
		v.Engines = []string{d.Engine}
	}
	if strings.HasSuffix(d.measured, ".gz") || !isResult(d.measured) {
		w := d.Workload()
		v.trace = traceFlags{file: d.measured, tp: d.Split().TP, weights: d.Weights}
		v.live.batches, v.live.prompts = []int{w.Batch}, []int{w.PromptLen}
		t, err := a.traced(ctx, v)
		if err != nil {
			return nil, err
		}
		var phases []validate.OperatorPhase
		for i := range t.Phases {
			phases = append(phases, t.Phases[i].OperatorPhase)
		}
		return phases, nil
	}
	r, err := result.Read(d.measured)
	if err != nil {
		return nil, err
	}
	if v.Scorer, err = a.scorer(d.Hardware, d.Calibration); err != nil {
		return nil, err
	}
	if err := a.ownModels(ctx, v); err != nil {
		return nil, err
	}
	phases := v.Scorer.Operators(r)
	if len(phases) == 0 {
		return nil, fmt.Errorf("%s has no operators: \"llmprof measure --ops\" times them", d.measured)
	}
	return phases, nil
}

const mostOfResult = 256 << 20

// isResult reports whether a file is a result rather than a trace. What is neither is a mistake
// of the reader that gets it.
func isResult(file string) bool {
	text, err := input.Read(file, mostOfResult)
	const head = 1 << 12
	return err == nil && strings.Contains(string(text[:min(len(text), head)]), result.Schema)
}

// requestAs sets the question to what was timed, and refuses flags that contradict it.
func (d *drawing) requestAs(phases []validate.OperatorPhase) error {
	c := &phases[0].Config
	e, err := engine.ParseMode(c.Engine, c.Mode)
	if err != nil {
		return err
	}
	d.Model, d.GPU, d.Engine = cmp.Or(d.Model, c.Model), cmp.Or(d.GPU, c.GPU), cmp.Or(d.Engine, e.Profile().Name)
	for _, p := range phases {
		for flag, of := range map[string]struct {
			to **int
			is int
		}{"batch": {&d.Batch, p.Config.Batch}, "prompt-len": {&d.PromptLen, max(p.Config.Prompt, p.Context)}, "tp": {&d.TP, p.Config.TP}} {
			if n := *of.to; n != nil && *n != of.is && of.is > 0 && d.given(flag) {
				return usage("--%s %d: %s was measured with %d", flag, *n, d.measured, of.is)
			}
			if of.is > 0 {
				*of.to = &of.is
			}
		}
	}
	d.GenLen = new(2)
	d.Weights = cmp.Or(d.Weights, c.Weights)
	return nil
}
