package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"llmprof/cmd/llmprof/internal/cli"
	"llmprof/cmd/llmprof/internal/settings"
	"llmprof/deployment"
	"llmprof/internal/atomicfile"
	"llmprof/internal/input"
	"llmprof/plan/sweep"
)

// A gridOrder is a sweep as it was asked for on the command line.
type gridOrder struct {
	flags  *pflag.FlagSet // flags of sweep
	lists  map[string]*string
	format string
	file   string
	keep   bool
	plot   string
	shard  string // "I/N"; "" for all rows
}

// sweepCommand is the command that answers a grid of estimates.
func (a *app) sweepCommand() *cobra.Command {
	o := &gridOrder{lists: map[string]*string{}}
	cmd := &cobra.Command{
		Use:   "sweep MODELS GPUS",
		Short: "Predict a grid of estimates, one row a point",
		Long: "Predict every combination of lists of the settings of \"llmprof estimate\", one row a point, as CSV,\n" +
			"JSON, JSON Lines or Parquet. Lists have commas, numbers ranges too: 1..256 has every number, 1..256x2\n" +
			"doubles, 0..1024+128 adds, and so does 0.5..0.9+0.1. Rows come in the order of the flags below,\n" +
			"of which those of the workload vary fastest: batch, prompt-len, cached-prefix, chunk, gen-len.\n" +
			"Points that are impossible are left out and counted, or kept with the reason (--keep). With\n" +
			"--rate or --concurrency rows have the steady state under that load too, in columns of its own.",
		Example: "  llmprof sweep -m llama3.1-8b -g h100,h200 --tp 1..8x2 -b 1..256 -o grid.csv\n" +
			"  llmprof sweep -m qwen3-32b -g h100 --weights bf16,fp8 -b 1..256x2 --plot g.svg\n" +
			"  llmprof sweep -m llama3.1-8b -g h100,h200 --rate 1..32x2 -o loads.csv\n" +
			"  llmprof sweep -m llama3.1-8b -g h100 -b 1..512 --shard 1/8 -o part1.csv",
		Args: cli.Positional("model", "gpu"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.flags = cmd.Flags()
			return a.runSweep(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	settings.Flags(&deployment.Request{}).VisitAll(func(e *pflag.Flag) {
		o.lists[e.Name] = new(string)
		f.VarP(&gridList{text: o.lists[e.Name], more: e.NoOptDefVal == ""}, e.Name, e.Shorthand, listUsage(e))
		if e.NoOptDefVal != "" {
			f.Lookup(e.Name).NoOptDefVal = e.NoOptDefVal
		}
	})
	settings.Choice(f, &o.format, "format", "", "`form`: %s (default: what FILE ends in, else csv)", sweep.Formats()...)
	f.StringVarP(&o.file, "output", "o", "", "write the rows to `FILE`, not to standard output")
	f.BoolVar(&o.keep, "keep", false, "keep impossible points, with the reason")
	f.StringVar(&o.plot, "plot", "", "draw TTFT and TPOT over one or two lists to `FILE` (.svg, .png or .pdf)")
	f.StringVar(&o.shard, "shard", "", "one `I/N` of the rows, as 2/8; all of them put together are the whole")
	cli.Define(cmd, "Grid", func(*pflag.FlagSet) {})
	rare(cmd, "fit", "images", "price")
	return cmd
}

// listUsage is the help of a flag of estimate that takes a list.
func listUsage(f *pflag.Flag) string {
	name, usage := pflag.UnquoteUsage(f)
	quoted := strings.Replace(usage, name, "`"+name+"`", 1)
	if !strings.Contains(quoted, "`") {
		quoted = "`list`: " + usage
	}
	if f.DefValue != "" && f.DefValue != "0" && f.DefValue != "false" && !strings.Contains(usage, "(default") {
		quoted += fmt.Sprintf(" (default %s)", f.DefValue)
	}
	return quoted
}

func (o *gridOrder) form() (sweep.Format, error) {
	form := o.format
	if form == "" {
		form = cmp.Or(ending(o.file), string(sweep.CSV))
		if !slices.Contains(sweep.Formats(), form) {
			return "", usage("-o %.60q: want a name that ends in .csv, .json, .jsonl or .parquet, or a --format", o.file)
		}
	}
	if form == string(sweep.JSON) && o.shard != "" {
		return "", usage("--format json: one list is not put together from parts; take jsonl with --shard")
	}
	if form == string(sweep.Parquet) && o.file == "" {
		return "", usage("--format parquet: give -o FILE, since a Parquet file is no text")
	}
	return sweep.Format(form), nil
}

func (a *app) runSweep(ctx context.Context, o *gridOrder) (err error) {
	options := sweep.Options{Keep: o.keep}
	if options.Format, err = o.form(); err != nil {
		return err
	}
	if options.Shard, err = shardOf(o.shard); err != nil {
		return err
	}
	if o.plot != "" && o.shard != "" {
		return usage("--plot draws the whole: leave out --shard, or draw from the rows")
	}
	g, err := settings.NewGrid(func(flag string) (string, bool) { return *o.lists[flag], o.flags.Changed(flag) })
	if err != nil {
		return err
	}
	if err := a.known(ctx, g); err != nil {
		return err
	}
	var picture *gridPicture
	if o.plot != "" {
		if picture, err = newGridPicture(o.plot, g); err != nil {
			return err
		}
		options.See = picture.see
	}
	options.Source = func() (sweep.Source, error) { return sweep.NewSource(ctx, a.library(), g), nil }
	options.Name = settings.Flag
	summary, err := a.stream(ctx, o, g, options)
	a.saySummary(&summary, o.keep)
	if err != nil {
		if summary.Points > 0 {
			a.logf("%d of %d points were answered", summary.Done, summary.Points)
		}
		return err
	}
	if picture != nil {
		return picture.draw()
	}
	return possible(o, &summary)
}

// possible refuses a whole grid of which no point is possible.
func possible(o *gridOrder, s *sweep.Summary) error {
	if s.Written == 0 && o.shard == "" {
		return errors.New("no point of the grid is possible")
	}
	return nil
}

// known looks every name of the grid up before the first row is written.
func (a *app) known(ctx context.Context, g *sweep.Grid) error {
	var base deployment.Request
	for _, axis := range g.Axes {
		if settings.Alone(axis.Key) {
			axis.Values[0].Set(&base)
		}
	}
	for _, name := range []string{"model", "gpu"} {
		if !slices.ContainsFunc(g.Axes, func(a sweep.Axis) bool { return a.Name == name }) {
			return usage("which %s? Give --%s a name, or several with commas between", name, name)
		}
	}
	for _, axis := range g.Axes {
		for _, v := range axis.Values {
			q := base
			if v.Set(&q); a.library().Known(ctx, &q) != nil {
				return settings.InFlags(a.library().Known(ctx, &q))
			}
		}
	}
	return nil
}

// stream writes the rows to where they go. What an error leaves in a file are whole rows.
func (a *app) stream(ctx context.Context, o *gridOrder, g *sweep.Grid, options sweep.Options) (summary sweep.Summary, err error) {
	part, end := a.follow().counted("sweep, points")
	defer end()
	options.Progress = func(done, all uint64) { part(int(done), int(all)) }
	if options.Out = a.stdout; o.file == "" || o.file == "-" {
		return sweep.Run(ctx, g, options)
	}
	file, err := atomicfile.Replace(o.file, 0o666)
	if err != nil {
		return summary, fmt.Errorf("writing %s: %w", o.file, input.Cause(err))
	}
	options.Out = file
	summary, err = sweep.Run(ctx, g, options)
	if kept := o.finish(file, &summary, options.Format, err); kept != nil {
		err = errors.Join(err, fmt.Errorf("writing %s: %w", o.file, input.Cause(kept)))
	}
	return summary, err
}

// finish keeps the rows that are whole, and the file that was there before where no row came. A shard without rows has a file all the same.
func (o *gridOrder) finish(file *atomicfile.File, s *sweep.Summary, form sweep.Format, failed error) error {
	info, err := file.Stat()
	regular := err == nil && info.Mode().IsRegular()
	if s.Written == 0 && o.shard == "" && regular {
		return file.Drop()
	}
	if failed != nil && regular && form != sweep.Parquet {
		err = file.Truncate(s.Bytes)
	}
	return errors.Join(err, file.Keep())
}

// shardOf reads the flag --shard. The zero Shard is the whole.
func shardOf(text string) (sweep.Shard, error) {
	if text == "" {
		return sweep.Shard{}, nil
	}
	shard, err := sweep.ParseShard(text)
	if err != nil {
		return shard, usage("--shard: %w", err)
	}
	return shard, nil
}

// saySummary counts the points by what became of them.
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

// A gridList is a flag of values with commas between. Given again it has more of them, but for a switch.
type gridList struct {
	text  *string
	more  bool
	given bool
}

func (l *gridList) String() string {
	if l.text == nil {
		return ""
	}
	return *l.text
}

// Type lets help and errors treat the flag as a text.
func (l *gridList) Type() string { return "string" }

func (l *gridList) Set(s string) error {
	if l.given && l.more {
		s = *l.text + "," + s
	}
	*l.text, l.given = s, true
	return nil
}
