package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"llmprof/cmd/llmprof/internal/cli"
	"llmprof/cmd/llmprof/internal/render"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/measure/experiment"
	"llmprof/measure/result"
	"llmprof/plots"
	"llmprof/spelling"
)

// defaultResults is where results are stored.
const defaultResults = "results"

func resultsFlag(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "results", defaultResults, "`FOLDER` of result files")
	_ = cmd.MarkFlagDirname("results")
}

func (a *app) resultsList() *cobra.Command {
	o := &output{}
	var dir string
	cmd := &cobra.Command{
		Use:   "list [FOLDER]",
		Short: "List the results in a folder",
		Long: "List the results in a folder, one process a row, and the runs that failed. Files that are no\n" +
			"results, or are damaged, are named on standard error; then it fails. A chart is of the latency of\n" +
			"servers over their throughput.",
		Example: "  llmprof results list\n  llmprof results list results --format csv",
		Args:    cli.Positional("results"),
		RunE: func(*cobra.Command, []string) error {
			all, broken := result.ReadFolder(dir)
			if all == nil && broken != nil {
				return broken
			}
			failures, err := experiment.Store{Dir: dir}.Failures()
			broken = errors.Join(broken, err)
			return errors.Join(o.write(a, resultSet(all, failures)), unreadable(broken))
		},
	}
	o.chart = true
	o.flags(cmd)
	resultsFlag(cmd, &dir)
	return cmd
}

// unreadable is the error of files that could not be read, if there are any.
func unreadable(broken error) error {
	if broken == nil {
		return nil
	}
	return fmt.Errorf("files that are not read:\n%w", broken)
}

// resultSet is a list in all its forms; its chart is of the servers in it.
func resultSet(all []*result.Result, failures []experiment.Failure) forms {
	rows := view.ResultRows(all)
	return forms{
		page:  func() *render.Document { return view.ResultPage(rows, failures) },
		table: func() *render.Table { return view.ResultTable(rows) },
		data:  func() any { return view.ResultDocument(rows, failures) },
		chart: func() (*plots.Figure, error) { return loadFigure(all) },
	}
}

// ofID picks the results of one experiment.
func ofID(all []*result.Result, id string) ([]*result.Result, error) {
	var found []*result.Result
	var known []string
	for _, r := range all {
		if r.ID == id {
			found = append(found, r)
		}
		if !slices.Contains(known, r.ID) {
			known = append(known, r.ID)
		}
	}
	switch {
	case len(found) > 0:
		return found, nil
	case filepath.Ext(id) == result.Extension:
		return nil, fmt.Errorf("no result with id %.80q, which looks like a file: give the id that \"llmprof results list\" has, and its folder by --results", id)
	case len(known) == 0:
		return nil, fmt.Errorf("no result with id %.80q: the folder has none", id)
	case len(spelling.Near(id, known)) > 0:
		return nil, fmt.Errorf("no result with id %.80q; %s", id, spelling.Hint(id, known))
	}
	return nil, fmt.Errorf("no result with id %.80q; \"llmprof results list\" has those of the folder's %d", id, len(known))
}
