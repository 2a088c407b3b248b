package main

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"llmprof/analytic"
	"llmprof/cmd/llmprof/internal/cli"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/plots"
)

// A drawing is a picture as it was asked for on the command line.
type drawing struct {
	question
	file   string // where to
	kind   string // "svg", "png" or "pdf"; "" for what the file's name ends in
	by     string
	values []int

	measured string // file of operators that were timed; "" for none
	timed    []plots.MeasuredOperator

	make func(context.Context, *drawing) (*plots.Figure, error)
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
			"Draw FLOPs by time over FLOPs by memory traffic of every operator, under what the GPU can do\nat its data-sheet peaks and what its kernels achieve.", a.drawRoofline),
		a.drawingCommand("breakdown", "Draw what parameters, FLOPs, traffic, time and energy are made of",
			"Draw bars of the parameters, and of FLOPs, memory traffic, time and energy of either phase, by\ngroups of operators.", a.drawBreakdown),
		a.drawingCommand("memory", "Draw the memory of a GPU over batch or context",
			"Draw what the memory of a GPU is used for over batch or context, and how much fits.", a.drawMemory),
		a.drawingCommand("sweep", "Draw TTFT and TPOT over batch, context or tensor parallelism",
			"Draw TTFT and TPOT over batch, context or tensor parallelism, of one or several GPUs or models\n(names with commas between).", a.drawSweep),
	)
	return cmd
}

func (a *app) drawingCommand(name, short, long string, draw func(context.Context, *drawing) (*plots.Figure, error)) *cobra.Command {
	d := &drawing{make: draw}
	cmd := &cobra.Command{
		Use: name + " MODEL GPU -o FILE", Short: short, Long: long,
		Example:           "  llmprof plot " + name + " llama2-70b a100 --tp 8 -o " + name + ".svg",
		Args:              cli.Positional("model", "gpu"),
		ValidArgsFunction: completeModelThenGPU,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d.Given = cmd.Flags().Changed
			return a.runPlot(cmd.Context(), d)
		},
	}
	d.flags(cmd)
	cli.Define(cmd, cli.Output, d.outputFlags)
	return cmd
}

func (d *drawing) outputFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&d.file, "output", "o", "", "write the picture to `FILE`, whole or not at all; - for standard output")
	f.StringVar(&d.kind, "format", "", "`form` of the picture: svg, png or pdf (default: what FILE ends in)")
	_ = cmd.RegisterFlagCompletionFunc("format", words(plots.Formats()...))
	switch cmd.Name() {
	case "roofline":
		cmd.Flags().StringVar(&d.measured, "measured", "", "`FILE` of measured operators: a trace as \"validate --trace\" reads it, or a result of \"measure --ops\"")
	case "memory":
		f.StringVar(&d.by, "by", "batch", "`what` to vary: batch or context")
		_ = cmd.RegisterFlagCompletionFunc("by", words("batch", "context"))
	case "sweep":
		f.StringVar(&d.by, "by", "batch", "`what` to vary: batch, context or tp")
		f.IntSliceVar(&d.values, "values", nil, "`values` to try, as 1,2,4 (default: doublings)")
		_ = cmd.RegisterFlagCompletionFunc("by", words("batch", "context", "tp"))
	}
}

func (d *drawing) form() (string, error) {
	kind := strings.ToLower(d.kind)
	switch {
	case d.file == "":
		return "", usage("which file? Give -o, as in -o picture.svg")
	case kind == "" && d.file == "-":
		return "", usage("-o -: give --format too: %s", strings.Join(plots.Formats(), ", "))
	case kind == "":
		kind = ending(d.file)
	}
	if !slices.Contains(plots.Formats(), kind) {
		return "", usage("-o %.40q: want a name that ends in .svg, .png or .pdf, or --format with one of them", d.file)
	}
	return kind, nil
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
	if err := f.Write(&b, kind); err != nil {
		return err
	}
	return a.put("picture", d.file, b.Bytes())
}

func (a *app) drawRoofline(ctx context.Context, d *drawing) (*plots.Figure, error) {
	ans, err := a.answer(ctx, &d.question)
	if err != nil {
		return nil, err
	}
	a.warn(ans)
	return plots.Roofline(&ans.Case, &ans.Report, d.timed)
}

func (a *app) drawBreakdown(ctx context.Context, d *drawing) (*plots.Figure, error) {
	ans, err := a.answer(ctx, &d.question)
	if err != nil {
		return nil, err
	}
	a.warn(ans)
	return plots.Breakdown(&ans.Case, &ans.Report)
}

func (a *app) drawMemory(ctx context.Context, d *drawing) (*plots.Figure, error) {
	v, err := plots.ParseVariable(d.by)
	if err != nil || v == plots.ByTP {
		return nil, usage("--by %.40q: want batch or context", d.by)
	}
	ans, err := a.answer(ctx, &d.question)
	if err != nil {
		return nil, err
	}
	curve, err := plots.MemorySweep(&ans.Case, v)
	if err != nil {
		return nil, err
	}
	return plots.Memory(&ans.Case, v, curve)
}

// warn writes to standard error what a reader of the picture has to know.
func (a *app) warn(ans *answer) {
	for _, w := range ans.Warnings {
		a.logf("warning: %s", w)
	}
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
func (a *app) drawSweep(ctx context.Context, d *drawing) (*plots.Figure, error) {
	v, err := plots.ParseVariable(d.by)
	if err != nil {
		return nil, wrong(err)
	}
	models, gpus := names(d.Model), names(d.GPU)
	if len(models) == 0 || len(gpus) == 0 {
		return nil, usage("which model on which GPU? Give --model and --gpu a name each, or several with commas between")
	}
	var curves []plots.Curve
	var cases []*analytic.Case
	for _, m := range models {
		for _, g := range gpus {
			q := d.question
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
		return ans.Q.GPU + ", " + ans.Model.Name
	case len(models) > 1:
		return ans.Model.Name
	}
	return ans.Q.GPU
}

// sweep answers at each value. Of the doublings it leaves out those that the
// model cannot be split into, as TP 16 of a model with 12 heads; of given values
// it refuses them.
func (a *app) sweep(d *drawing, v plots.Variable, c *analytic.Case, name string) (plots.Curve, error) {
	curve := plots.Curve{Name: name}
	for _, x := range d.steps(v, c) {
		one, err := plots.Sweep(c, v, []int{x}, name)
		if err != nil {
			if len(d.values) > 0 {
				return curve, wrong(err)
			}
			a.logf("left out: %v", err)
			continue
		}
		curve.Points = append(curve.Points, one.Points...)
	}
	return curve, nil
}
