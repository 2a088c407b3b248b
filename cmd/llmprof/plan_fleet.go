package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"llmprof/cmd/llmprof/internal/cli"
	"llmprof/cmd/llmprof/internal/settings"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/plan"
)

// planArgs takes a model, or several with settings of their own, as "qwen3-32b:rate=8 llama3.1-8b:rate=4".
func planArgs(cmd *cobra.Command, args []string) error {
	if len(args) < 2 {
		return cli.Positional("model")(cmd, args)
	}
	if f := cmd.Flags().Lookup("model"); f.Changed {
		return usage("--model %s and the argument %.40q: give one of them", f.Value, args[0])
	}
	return nil
}

// optionsOfModel is what is asked of one model of a fleet: what the flags give for all, and its own settings.
func optionsOfModel(flags *pflag.FlagSet, arg string) (*plan.Options, error) {
	asked := &plan.Options{}
	own := pflag.NewFlagSet("plan", pflag.ContinueOnError)
	settings.Planned(own, asked, traceLengths)
	var err error
	flags.Visit(func(f *pflag.Flag) {
		if own.Lookup(f.Name) != nil && err == nil {
			err = own.Set(f.Name, f.Value.String())
		}
	})
	if err != nil {
		return nil, err
	}
	model, text, _ := strings.Cut(arg, ":")
	asked.Models = []string{model}
	for _, word := range settingsOf(own, text) {
		name, value, _ := strings.Cut(word, "=")
		if own.Lookup(name) == nil {
			return nil, usage("%s: %q is no setting of a plan: want one as %s:rate=8", arg, word, model)
		}
		if err := own.Set(name, value); err != nil {
			return nil, cli.WrongValue(name, value, err)
		}
	}
	return asked, nil
}

// settingsOf are the settings of a text, whose values may have commas: "rate=8,in=mean=2000,p95=6000".
func settingsOf(f *pflag.FlagSet, text string) (all []string) {
	for part := range strings.SplitSeq(text, ",") {
		name, _, _ := strings.Cut(part, "=")
		switch {
		case part == "":
		case len(all) > 0 && f.Lookup(name) == nil:
			all[len(all)-1] += "," + part
		default:
			all = append(all, part)
		}
	}
	return all
}

// runFleet searches deployments of each model, and puts them together.
func (a *app) runFleet(ctx context.Context, flags *pflag.FlagSet, o *planOrder, args []string) error {
	f := &view.Fleet{Full: o.rejected}
	var requests []*plan.Request
	var rows [][]plan.Row
	for _, arg := range args {
		asked, err := optionsOfModel(flags, arg)
		if err != nil {
			return err
		}
		p, err := a.searched(ctx, asked)
		if err != nil {
			return fmt.Errorf("%s: %w", arg, err)
		}
		if p.Request.By != plan.Cost {
			return usage("--by %s: a fleet is ranked by cost", p.Request.By)
		}
		f.Plans, requests, rows = append(f.Plans, p), append(requests, p.Request), append(rows, p.Shown)
	}
	all := forms{page: f.Page, table: f.Table, data: func() any { return f.Document() }}
	if f.Fleets = plan.Fleets(requests, rows); len(f.Fleets) > 0 {
		for i := range f.Plans {
			p := f.Chosen(i)
			a.detail(ctx, o, p)
			f.Plans[i].Checks, f.Plans[i].Launch, f.Plans[i].Formats = p.Checks, p.Launch, p.Formats
		}
		all.chart, all.sheet = f.Chart, made(f.ReportPage, o.command)
	}
	err := o.output.write(a, all)
	if err != nil || len(f.Fleets) > 0 {
		return err
	}
	for i, p := range f.Plans {
		if len(p.Shown) == 0 {
			return fmt.Errorf("%s: %w", args[i], nothing(p.Result))
		}
	}
	return errors.New("no fleet is within the budget and the number of GPUs")
}
