package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"llmprof/cmd/llmprof/internal/cli"
	"llmprof/measure"
	"llmprof/measure/experiment"
	"llmprof/measure/result"
	"llmprof/plan/sweep"
)

// A measurer prepares for measuring points, and says how to end it.
type measurer func(offline bool) (measure experiment.Measure, end func() error, err error)

// runCommand is the command that runs an experiment by what start prepares.
func (a *app) runCommand(start measurer) *cobra.Command {
	o := &output{}
	var dir string
	var noRetry, offline bool
	machines := &submission{}
	cmd := &cobra.Command{
		Use:   "run FILE",
		Short: "Run an experiment file, or what is left of it",
		Long: "Measure every point of an experiment file and store the results, each process's in a file of\n" +
			"its own. What has its results in the folder already is not run again, so that an experiment that\n" +
			"was interrupted goes on where it stopped. A point that fails is recorded beside the results, the\n" +
			"others are run, and the next run tries it again. The results are listed at the end. Before it\n" +
			"starts it says which commands of the file it will execute and where it will send a key.",
		Example: "  llmprof run experiment.toml\n  llmprof run experiment.toml --results h200 --no-retry",
		Args:    cli.Needs("FILE", 1, 1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			e, err := experiment.Load(args[0])
			if err != nil {
				return fmt.Errorf("the experiment has mistakes:\n%w", err)
			}
			if err := machines.check(); err != nil {
				return err
			}
			store := experiment.Store{Dir: dir}
			if machines.to != "" {
				return a.submitExperiment(cmd.Context(), machines, e, o, store)
			}
			points, end, err := start(offline)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, end()) }()
			return a.runExperiment(cmd.Context(), e, points, o, machines, experiment.Options{
				Store: store, File: e.File, Gap: e.Gap, NoRetry: noRetry, Notify: (&notifier{app: a}).Notify, Shard: machines.shard,
			})
		},
	}
	cmd.Flags().BoolVar(&noRetry, "no-retry", false, "leave alone what failed before")
	o.chart = true
	o.flags(cmd)
	resultsFlag(cmd, &dir)
	cmd.Flags().BoolVar(&offline, "offline", false, "never use the network")
	cli.Define(cmd, "Run", func(*pflag.FlagSet) {}) // all flags so far
	machines.flags(cmd, "runs")
	return cmd
}

func (a *app) runExperiment(ctx context.Context, e *experiment.Experiment, one experiment.Measure, o *output, machines *submission,
	how experiment.Options) error {
	for _, w := range e.Warnings {
		a.logf("warning: %s", w)
	}
	trials, err := e.Trials()
	if err != nil {
		return err
	}
	if how.Shard != "" {
		shard, err := machines.mine(a)
		if err != nil {
			return err
		}
		from, to := shard.Span(uint64(len(trials)))
		trials, how.Shard = trials[from:to], fmt.Sprintf("%d/%d", shard.I, shard.N)
	}
	for _, line := range experiment.Effects(e.Points, measure.KeyVariable, a.env(measure.KeyVariable) != "") {
		a.logf("%s: %s", e.Name, line)
	}
	sum, err := experiment.Run(ctx, trials, one, how)
	if sum.Trials > 0 {
		a.logf("%s: %v", e.Name, sum)
	}
	lost := &experiment.UnstoredError{}
	if !errors.As(err, &lost) && (ctx.Err() != nil || sum.Measured+sum.Kept == 0) {
		return err
	}
	return errors.Join(a.listTrials(trials, o, how.Store, lost.Results...), err)
}

// submitExperiment has the runs of an experiment made elsewhere, those that the store lacks, and
// lists the results.
func (a *app) submitExperiment(ctx context.Context, s *submission, e *experiment.Experiment, o *output, store experiment.Store) error {
	trials, err := e.Trials()
	if err != nil {
		return err
	}
	f, err := s.folder(a, len(trials), "")
	if err != nil {
		return err
	}
	missing := func() (all []int) {
		for i := 1; i <= f.Shards; i++ {
			from, to := sweep.Shard{I: i, N: f.Shards}.Span(uint64(len(trials)))
			if len(store.Lacks(trials[from:to])) > 0 {
				all = append(all, i)
			}
		}
		return all
	}
	ready, err := a.elsewhere(ctx, s, f, missing)
	if err != nil && ctx.Err() == nil { // the results measured so far are shown nevertheless
		return errors.Join(a.listTrials(trials, o, store), err)
	}
	if err != nil || !ready {
		return err
	}
	return a.listTrials(trials, o, store)
}

// listTrials writes the results and the failures of an experiment, with results that could not be stored.
func (a *app) listTrials(trials []experiment.Trial, o *output, store experiment.Store, more ...*result.Result) error {
	ours := map[string]bool{}
	for i := range trials {
		ours[trials[i].ID] = true
	}
	all, _ := result.ReadFolder(store.Dir) // files of others are none of this run's
	all = slices.DeleteFunc(all, func(r *result.Result) bool { return !ours[r.ID] })
	failures, err := store.Failures()
	failures = slices.DeleteFunc(failures, func(f result.Failure) bool { return !ours[f.ID] })
	return errors.Join(o.write(a, resultSet(append(all, more...), failures)), err)
}

// A notifier says how far an experiment is, a line an event, with the time left as far as
// the trials before it show.
type notifier struct {
	app   *app
	begun time.Time // begin of the trial that runs
	spent time.Duration
	ended int // trials that took so long
}

// Logf writes a line on standard error.
func (n *notifier) Logf(format string, args ...any) { n.app.logf(format, args...) }

// Notify writes what happened to a point on standard error.
func (n *notifier) Notify(e experiment.Event) {
	if e.Trial == nil {
		n.Logf("%s", e.Note)
		return
	}
	left := ""
	switch e.State {
	case experiment.Started:
		n.begun = time.Now()
	case experiment.Done, experiment.Failed:
		n.spent, n.ended = n.spent+time.Since(n.begun), n.ended+1
		if text := timeLeft(n.spent, n.ended, e.Of-e.At); text != "" {
			left = ", " + text
		}
	}
	switch {
	case e.State == experiment.Remark:
		n.Logf("%s: %s", e.Trial.ID, e.Note)
	case e.Err != nil:
		n.Logf("[%d/%d] %s: %s: %v%s", e.At, e.Of, e.Trial.ID, e.State, e.Err, left)
	default:
		n.Logf("[%d/%d] %s: %s%s", e.At, e.Of, e.Trial.ID, e.State, left)
	}
}
