package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"llmprof/cmd/llmprof/internal/cli"
	"llmprof/sweep"
	"llmprof/unit"
)

// A gridOrder is a sweep as it was asked for on the command line.
type gridOrder struct {
	flags  *pflag.FlagSet // of sweep
	lists  map[string]*string
	format string
	file   string
	keep   bool
	shard  string
	plot   string
}

// sweep is the command that answers a grid of estimates.
func (a *app) sweepCommand() *cobra.Command {
	o := &gridOrder{lists: map[string]*string{}}
	cmd := &cobra.Command{
		Use:   "sweep --model MODELS --gpu GPUS",
		Short: "Predict a grid of estimates, one row a point",
		Long: "Predict every combination of lists of the settings of \"llmprof estimate\", one row a point, as CSV,\n" +
			"JSON Lines or Parquet. Lists have commas, whole numbers ranges too: 1..256 has every number,\n" +
			"1..256x2 doubles, 0..1024+128 adds. Rows come in the order of the flags below, of which those\n" +
			"of the workload vary fastest: batch, prompt-len, cached-prefix, chunk, gen-len. Points that are\n" +
			"impossible are left out and counted, or kept with the reason (--keep).",
		Example: "  llmprof sweep -m llama3.1-8b -g h100,h200 --tp 1..8x2 -b 1..256 -o grid.csv\n" +
			"  llmprof sweep -m qwen3-32b -g h100 --weights bf16,fp8 -b 1..256x2 --plot g.svg\n" +
			"  llmprof sweep -m llama3.1-8b -g h100 -b 1..512 --shard 1/8 -o part1.csv",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.flags = cmd.Flags()
			return a.runSweep(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	estimateFlags(&question{}).VisitAll(func(e *pflag.Flag) {
		o.lists[e.Name] = f.StringP(e.Name, e.Shorthand, "", listUsage(e))
		if e.NoOptDefVal != "" {
			f.Lookup(e.Name).NoOptDefVal = e.NoOptDefVal
		}
	})
	f.StringVar(&o.format, "format", "", "`form`: csv, jsonl or parquet (default: what FILE ends in, else csv)")
	f.StringVarP(&o.file, "output", "o", "", "write the rows to `FILE`, not to standard output")
	f.BoolVar(&o.keep, "keep", false, "keep impossible points, with the reason")
	f.StringVar(&o.shard, "shard", "", "one `I/N` of the rows, as 2/8; all of them put together are the whole")
	f.StringVar(&o.plot, "plot", "", "draw TTFT and TPOT over one or two lists to `FILE` (.svg, .png or .pdf)")
	f.SortFlags = false
	cli.Rare(cmd, "act", "sp", "micro-batches", "gpus-per-node", "hardware", "all-logits", "max-num-batched-tokens", "memory-utilization",
		"compute-eff", "memory-eff", "link-eff", "inter-node-eff", "offline", "lenient", "price", "cached-prefix", "chunk")
	_ = cmd.RegisterFlagCompletionFunc("model", completeModels)
	_ = cmd.RegisterFlagCompletionFunc("gpu", completeGPUs)
	_ = cmd.RegisterFlagCompletionFunc("format", words(sweep.Formats()...))
	return cmd
}

// estimateFlags are the settings of "llmprof estimate", which set q.
func estimateFlags(q *question) *pflag.FlagSet {
	cmd := &cobra.Command{}
	q.flags(cmd)
	cmd.Flags().SortFlags = false
	return cmd.Flags()
}

// listUsage is the help of a flag of estimate that takes a list.
func listUsage(f *pflag.Flag) string {
	name, usage := pflag.UnquoteUsage(f)
	quoted := strings.Replace(usage, name, "`"+name+"`", 1)
	if !strings.Contains(quoted, "`") {
		quoted = "`list`: " + usage
	}
	if f.DefValue != "" && f.DefValue != "0" && f.DefValue != "false" {
		quoted += fmt.Sprintf(" (default %s)", f.DefValue)
	}
	return quoted
}

// alone are flags whose value is no list.
var alone = []string{"hardware", "offline", "calibration"}

// grid makes the axes of the lists that were given. Every value is tried, so that a
// mistake in one is not counted as an impossible point.
func (o *gridOrder) grid() (g *sweep.Grid, err error) {
	g = &sweep.Grid{}
	q := &question{}
	of := estimateFlags(q)
	of.VisitAll(func(f *pflag.Flag) {
		if err != nil {
			return
		}
		var a sweep.Axis
		if a, err = o.axis(f); err == nil && len(a.Values) > 0 {
			err = g.Add(a)
		}
	})
	if err != nil {
		return nil, usageError{err}
	}
	return g, nil
}

// axis is the values of a flag. A number of the workload that was not given has its
// default.
func (o *gridOrder) axis(f *pflag.Flag) (a sweep.Axis, err error) {
	a.Name = f.Name
	_, number := sweep.NumberOf(f.Name)
	given := o.flags.Changed(f.Name)
	text := *o.lists[f.Name]
	switch {
	case !given && number:
		text = f.DefValue
	case !given:
		return a, nil
	}
	switch {
	case slices.Contains(alone, f.Name):
		a.Values = []string{text}
	case f.Value.Type() == "int" || number:
		a.Values, err = sweep.Range(text, func(s string) (int, error) {
			if err := f.Value.Set(s); err != nil {
				return 0, err
			}
			return strconv.Atoi(f.Value.String())
		})
	default:
		a.Values, err = sweep.List(text)
		for i := 0; i < len(a.Values) && err == nil; i++ {
			err = f.Value.Set(a.Values[i])
		}
	}
	if err != nil {
		return a, fmt.Errorf("--%s: %w", f.Name, err)
	}
	return a, nil
}

// form is how the rows are written.
func (o *gridOrder) form() (sweep.Format, error) {
	form := strings.ToLower(o.format)
	if ext := strings.TrimPrefix(strings.ToLower(filepath.Ext(o.file)), "."); form == "" {
		form = string(sweep.CSV)
		if slices.Contains(sweep.Formats(), ext) {
			form = ext
		}
	}
	if !slices.Contains(sweep.Formats(), form) {
		return "", usage("--format %.40q: want csv, jsonl or parquet", o.format)
	}
	if form == string(sweep.Parquet) && o.file == "" {
		return "", usage("--format parquet: give -o FILE, since a Parquet file is no text")
	}
	return sweep.Format(form), nil
}

// runSweep answers the grid.
func (a *app) runSweep(ctx context.Context, o *gridOrder) (err error) {
	options := sweep.Options{Keep: o.keep}
	if options.Format, err = o.form(); err != nil {
		return err
	}
	if o.shard != "" {
		if options.Shard, err = sweep.ParseShard(o.shard); err != nil {
			return usage("--shard: %w", err)
		}
	}
	g, err := o.grid()
	if err != nil {
		return err
	}
	known := a.deployments()
	if err := a.known(ctx, known, g); err != nil {
		return err
	}
	var picture *gridPicture
	if o.plot != "" {
		if picture, err = newGridPicture(o.plot, g); err != nil {
			return err
		}
		options.See = picture.see
	}
	options.Source = func() (sweep.Source, error) { return newGridSource(ctx, known, g), nil }
	summary, err := a.stream(ctx, o, g, options)
	a.saySummary(&summary, o.keep)
	if err != nil {
		return err
	}
	if picture != nil {
		return picture.draw()
	}
	if summary.Written == 0 {
		return errors.New("no point of the grid is possible")
	}
	return nil
}

// known looks every name of the grid up before the first row is written.
func (a *app) known(ctx context.Context, d *deployments, g *sweep.Grid) error {
	q := &question{}
	flags := estimateFlags(q)
	for _, axis := range g.Axes {
		if slices.Contains(alone, axis.Name) {
			_ = flags.Set(axis.Name, axis.Values[0]) // was tried before
		}
	}
	for _, name := range []string{"model", "gpu"} {
		if !slices.ContainsFunc(g.Axes, func(a sweep.Axis) bool { return a.Name == name }) {
			return usage("which %s? Give --%s a name, or several with commas between", name, name)
		}
	}
	for _, axis := range g.Axes {
		for _, v := range axis.Values {
			if err := a.knownValue(ctx, d, q, axis.Name, v); err != nil {
				return err
			}
		}
	}
	return nil
}

// stream writes the rows to where they go.
func (a *app) stream(ctx context.Context, o *gridOrder, g *sweep.Grid, options sweep.Options) (summary sweep.Summary, err error) {
	to := a.stdout
	var file *os.File
	if o.file != "" && o.file != "-" {
		if file, err = os.Create(o.file); err != nil {
			return summary, fmt.Errorf("writing %s: %w", o.file, reason(err))
		}
		to = file
	}
	buffered := bufio.NewWriterSize(to, 1<<20)
	options.Out = io.Writer(buffered)
	options.Progress = a.sweepProgress()
	summary, err = sweep.Run(ctx, g, options)
	if err == nil || ctx.Err() != nil {
		err = errors.Join(err, buffered.Flush())
	}
	if file != nil {
		err = errors.Join(err, file.Close())
	}
	return summary, err
}

// sweepProgress says how far the sweep is, four times a second.
func (a *app) sweepProgress() func(n, all uint64) {
	f, begin, last, done := a.follow(), time.Now(), time.Now(), uint64(0)
	return func(n, all uint64) {
		if done += n; done == all {
			f.progress("")
			return
		}
		if time.Since(last) < 250*time.Millisecond {
			return
		}
		last = time.Now()
		took := last.Sub(begin)
		left := time.Duration(float64(took) * float64(all-done) / float64(done))
		f.progress(fmt.Sprintf("%s of %s points, %.0f %%, %.0f a second, %s left", unit.Count(float64(done)), unit.Count(float64(all)),
			100*float64(done)/float64(all), float64(done)/took.Seconds(), left.Round(time.Second)))
	}
}

// saySummary says what became of the points.
func (a *app) saySummary(s *sweep.Summary, keep bool) {
	if len(s.Left) == 0 {
		return
	}
	did := "left out"
	if keep {
		did = "kept"
	}
	a.logf("%d of %d points are possible; %s as impossible:", s.Possible(), s.Points, did)
	for _, r := range s.Reasons() {
		a.logf("%8d: %s", r.Points, r.Example)
	}
}
