package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"llmprof/measure/result"
	"llmprof/validate"
)

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
	f.SortFlags = false
	return cmd
}

// runReduce writes nothing unless all files could be read.
func (a *app) runReduce(paths []string, source, file string, conditions bool) error {
	var all []validate.Observation
	var files []validate.File
	var wrong []error
	paths, err := expand(paths)
	if err != nil {
		return err
	}
	for _, path := range paths {
		data, r, err := readRecord(path)
		if err != nil {
			wrong = append(wrong, err)
			continue
		}
		name := cmp.Or(source, path)
		some, err := validate.Reduce(name, r)
		for i := range some {
			err = errors.Join(err, some[i].Check()) // files that are written can be read
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", path, err))
			continue
		}
		all = append(all, some...)
		files = append(files, validate.Describe(data, r))
	}
	if err := errors.Join(wrong...); err != nil {
		return err
	}
	var b bytes.Buffer
	write := func() error { return validate.WriteCSV(&b, all) }
	if conditions {
		write = func() error { return validate.WriteFiles(&b, files) }
	}
	if err := write(); err != nil {
		return err
	}
	return a.put("observations", file, b.Bytes())
}

func readRecord(path string) ([]byte, *result.Result, error) {
	data, err := result.Load(path)
	if err != nil {
		return nil, nil, err
	}
	r, err := result.Decode(path, data)
	return data, r, err
}
