package main

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"llmprof/deployment"
	"llmprof/measure/detect"
	"llmprof/validate"
	"llmprof/validate/reports"
)

// unread is an error where files are damaged or of another kind.
func unread(refused []reports.Refusal) error {
	if n := len(slices.DeleteFunc(slices.Clone(refused), func(r reports.Refusal) bool { return r.Whole })); n > 0 {
		return fmt.Errorf("%d of the files could not be read", n)
	}
	return nil
}

// told is what the flags say of files that do not say it.
func (v *comparison) told() *reports.Overrides {
	ask := &reports.Overrides{GPU: v.GPU, Host: v.host, Weights: v.trace.weights, KV: v.trace.kv}
	if len(v.Models) == 1 {
		ask.Model = v.Models[0]
	}
	if len(v.Engines) == 1 {
		ask.Engine = v.Engines[0]
	}
	if v.given("tp") {
		ask.TP = v.trace.tp
	}
	if v.live.device == "cpu" {
		ask.Processor = v.GPU
	}
	return ask
}

// collect reads the files, or the observations that come with the program, and keeps those that are wanted.
func (a *app) collect(v *comparison) (c *reports.Collection, err error) {
	c = &reports.Collection{}
	if len(v.Files) == 0 {
		c.Observations, err = validate.Embedded()
	} else {
		c, err = reports.Collect(v.Files, v.told())
	}
	if err != nil {
		return nil, err
	}
	for _, line := range c.Said {
		a.logf("%s", line)
	}
	if len(c.Observations) == 0 && len(c.Refused) > 0 && (len(c.Said) > 0 || len(v.Engines) > 0) {
		for _, r := range c.Refused {
			err = errors.Join(err, fmt.Errorf("%s: %w", r.Path, r.Err))
		}
		return nil, err
	}
	if err := v.Resolve(v.Scorer); err != nil {
		return nil, err
	}
	if v.live.device == "cpu" {
		g, err := v.Scorer.GPU(v.GPU)
		if err == nil {
			err = detect.Processor(deployment.BuiltInGPUs(), g)
		}
		if err != nil {
			return nil, err
		}
	}
	c.Observations, err = v.Of(v.Scorer, c.Observations)
	return c, err
}

func (a *app) validateReduce() *cobra.Command {
	var source, file string
	var conditions bool
	cmd := &cobra.Command{
		Use:   "reduce FILE...",
		Short: "Reduce result files to observations",
		Long: "Reduce result files of \"llmprof measure\", or folders of them, to observations: the median of each\n" +
			"time with its interval, and the energies, one a line of CSV. \"llmprof validate\" reads that file in\n" +
			"place of them. With --conditions it is the conditions and versions under which each file was made,\n" +
			"with its SHA-256.",
		Example: "  llmprof validate reduce --source lab results -o lab.csv",
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage("reduce which results? Give files of \"llmprof measure\"")
			}
			return a.runReduce(args, source, file, conditions)
		},
	}
	f := cmd.Flags()
	f.StringVar(&source, "source", "", "`name` of where they are from (default: each file's own)")
	f.StringVarP(&file, "output", "o", "", "write to `FILE`, whole or not at all")
	f.BoolVar(&conditions, "conditions", false, "write conditions and versions instead of observations")
	return cmd
}

func (a *app) runReduce(paths []string, source, file string, conditions bool) error {
	all, files, err := reports.Reduce(paths, source)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if conditions {
		err = validate.WriteFiles(&b, files)
	} else {
		err = validate.WriteCSV(&b, all)
	}
	if err != nil {
		return err
	}
	return a.put("observations", file, b.Bytes())
}
