package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"llmprof/cmd/llmprof/internal/cli"
	"llmprof/cmd/llmprof/internal/settings"
	"llmprof/deployment"
	"llmprof/plan/sweep"
)

// A gridOrder is a sweep as it was asked for on the command line.
type gridOrder struct {
	flags  *pflag.FlagSet // flags of sweep
	lists  map[string]*string
	format string
	file   string
	keep   bool
	from   uint64
	plot   string
	submission
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
		f.VarP(listFlag(o.lists[e.Name], e.NoOptDefVal != ""), e.Name, e.Shorthand, listUsage(e))
		if e.NoOptDefVal != "" {
			f.Lookup(e.Name).NoOptDefVal = e.NoOptDefVal
		}
	})
	settings.Choice(f, &o.format, "format", "", "`form`: %s (default: what FILE ends in, else csv)", sweep.Formats()...)
	f.StringVarP(&o.file, "output", "o", "", "write the rows to `FILE`, not to standard output")
	f.BoolVar(&o.keep, "keep", false, "keep impossible points, with the reason")
	f.Uint64Var(&o.from, "from", 0, "go on from `point` N: append to the rows of FILE, or begin another\nFILE of Parquet")
	f.StringVar(&o.plot, "plot", "", "draw TTFT and TPOT over one or two lists to `FILE` (.svg, .png or .pdf)")
	cli.Define(cmd, "Grid", func(*pflag.FlagSet) {}) // all flags so far
	o.submission.flags(cmd, "rows")
	rare(cmd, "fit", "images", "price", "from")
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
	if form == string(sweep.JSON) && (o.from > 0 || o.to != "" || o.shard != "") {
		return "", usage("--format json: one list is not put together from parts; take jsonl with --from, --shard and --submit")
	}
	if form == string(sweep.Parquet) && o.file == "" {
		return "", usage("--format parquet: give -o FILE, since a Parquet file is no text")
	}
	return sweep.Format(form), nil
}

func (o *gridOrder) check() error {
	switch {
	case o.plot != "" && (o.to != "" || o.shard != ""):
		return usage("--plot draws the whole: leave out --shard and --submit, or draw from the rows")
	case o.from > 0 && (o.to != "" || o.plot != ""):
		return usage("--from goes on where a sweep was interrupted: leave out --submit and --plot")
	case o.from > 0 && (o.file == "" || o.file == "-"):
		return usage("--from %d appends to a file: give it, as -o grid.csv", o.from)
	}
	return o.submission.check()
}

func (a *app) runSweep(ctx context.Context, o *gridOrder) (err error) {
	options := sweep.Options{Keep: o.keep, Skip: o.from}
	if options.Format, err = o.form(); err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	if options.Shard, err = o.mine(a); err != nil {
		return err
	}
	g, err := settings.NewGrid(func(flag string) (string, bool) { return *o.lists[flag], o.flags.Changed(flag) })
	if err != nil {
		return err
	}
	if points, _, err := g.Points(); err == nil && o.from > 0 {
		if begin, end := options.Shard.Span(points); o.from >= end-begin {
			return usage("--from %d: there are %d points", o.from, end-begin)
		}
	}
	if err := a.known(ctx, g); err != nil {
		return err
	}
	if o.to != "" {
		return a.submitSweep(ctx, o, g, options.Format)
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
		a.sayRest(o, options.Format, &summary)
		return err
	}
	if picture != nil {
		return picture.draw()
	}
	return possible(o, &summary)
}

// possible refuses a whole grid of which no point is possible.
func possible(o *gridOrder, s *sweep.Summary) error {
	if s.Written == 0 && o.shard == "" && o.from == 0 {
		return errors.New("no point of the grid is possible")
	}
	return nil
}

// submitSweep has the shards answered elsewhere, and puts them together.
func (a *app) submitSweep(ctx context.Context, o *gridOrder, g *sweep.Grid, form sweep.Format) error {
	points, _, err := g.Points()
	if err != nil {
		return wrong(err)
	}
	f, err := o.folder(a, int(points), string(form))
	if err != nil {
		return err
	}
	if ready, err := a.elsewhere(ctx, &o.submission, f, nil); err != nil || !ready {
		return err
	}
	var all sweep.Summary
	for i := 1; i <= f.Shards; i++ {
		var one sweep.Summary
		if err := f.Note(i, &one); err != nil {
			return err
		}
		all.Add(&one)
	}
	join := func(out io.Writer) error { return f.Join(out, "rows") }
	if form == sweep.Parquet {
		join = f.JoinParquet
	}
	if err := a.whole(o.file, join); err != nil {
		return err
	}
	a.saySummary(&all, o.keep)
	return possible(o, &all)
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
	options.Progress = func(done, all uint64) { part(int(done-o.from), int(all-o.from)) } // Rows before --from took no time.
	if options.Out = a.stdout; o.part != "" {
		return a.streamPart(ctx, o, g, options)
	}
	if o.file == "" || o.file == "-" {
		return sweep.Run(ctx, g, options)
	}
	key, err := o.key(a, "", string(options.Format))
	if err != nil {
		return summary, err
	}
	file, err := o.open(key.Name(), options.Format)
	if err != nil {
		return summary, err
	}
	options.Out = file.File
	summary, err = sweep.Run(ctx, g, options)
	return summary, file.finish(&summary, options.Format, err)
}

// streamPart keeps the rows in the folder of the shards.
func (a *app) streamPart(ctx context.Context, o *gridOrder, g *sweep.Grid, options sweep.Options) (summary sweep.Summary, err error) {
	part, done, err := o.begin(a, options.Shard, string(options.Format))
	if err != nil || done {
		return summary, err
	}
	defer part.Drop()
	if options.Out, err = part.File("rows"); err != nil {
		return summary, err
	}
	if summary, err = sweep.Run(ctx, g, options); err != nil {
		return summary, err
	}
	return summary, part.Keep(&summary)
}

// sayRest says how to continue a sweep that stopped.
func (a *app) sayRest(o *gridOrder, form sweep.Format, s *sweep.Summary) {
	if s.Points == 0 || o.part != "" {
		return
	}
	if s.Done == 0 || o.file == "" || o.file == "-" || form == sweep.JSON {
		a.logf("%d of %d points were answered", s.Done, s.Points)
		return
	}
	others := "to append the others"
	if form == sweep.Parquet {
		others = "and another name after -o for a file of the others"
	}
	a.logf("%d of %d points were answered, and %s has their rows: give the same command with --from %d %s", s.Done, s.Points, o.file, s.Done,
		others)
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

// listFlag is a flag of values with commas between. Given again it has more of them, unless it is a switch.
func listFlag(text *string, isSwitch bool) pflag.Value {
	given := false
	return settings.OwnText(func() string { return *text }, func(s string) error {
		if given && !isSwitch {
			s = *text + "," + s
		}
		*text, given = s, true
		return nil
	})
}
