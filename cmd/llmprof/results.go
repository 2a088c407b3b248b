package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"llmprof/cmd/llmprof/internal/render"
	"llmprof/measure/experiment"
	record "llmprof/measure/result"
	"llmprof/measure/spelling"
	"llmprof/unit"
)

func (a *app) results() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "results",
		Short: "List or show stored results",
		Args:  noArgs,
		RunE:  needCommand,
	}
	cmd.AddCommand(a.resultsList(), a.resultsShow())
	return cmd
}

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
		Use:   "list",
		Short: "List the results in a folder",
		Long: "List the results in a folder, one process a row, and the runs that failed. Files that are no\n" +
			"results, or are damaged, are named on standard error; then it fails. A chart is of the latency of\n" +
			"servers over their throughput.",
		Example: "  llmprof results list\n  llmprof results list --results results --format csv",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := o.check(); err != nil {
				return err
			}
			all, broken := record.ReadFolder(dir)
			if all == nil && broken != nil {
				return broken
			}
			failures, err := experiment.Store{Dir: dir}.Failures()
			broken = errors.Join(broken, err)
			rows := summaries(all)
			err = a.writeListed(o, resultSet(rows, failures), all)
			return errors.Join(err, unreadable(broken))
		},
	}
	o.flags(cmd)
	cmd.Flags().Lookup("output").Usage = chartUsage
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

// A listed result is one process's in a line.
type listed struct {
	ID        string        `json:"id"`
	Process   int           `json:"process"`
	Processes int           `json:"processes"`
	Cycle     int           `json:"cycle"`
	Model     string        `json:"model"`
	Engine    string        `json:"engine"`
	GPU       *string       `json:"gpu"`
	GPUs      int           `json:"gpus"`
	Batch     *int          `json:"batch"` // null of a server
	PromptLen int           `json:"prompt_len"`
	GenLen    int           `json:"gen_len"`
	TTFT      *unit.Seconds `json:"ttft_s"` // medians
	TPOT      *unit.Seconds `json:"tpot_s"`
	TTLT      *unit.Seconds `json:"ttlt_s"`
	PerToken  *unit.Joules  `json:"energy_per_token_j"`
	Marks     []string      `json:"marks"`
	Server    *listedServer `json:"server"` // null of an engine that is not asked over HTTP
}

func summaries(all []*record.Result) []listed {
	rows := make([]listed, len(all))
	for i, r := range all {
		rows[i] = listed{
			ID: r.ID, Process: r.Process, Processes: r.Processes, Cycle: r.Cycle, Model: r.Model.Name, Engine: r.Engine.Name,
			GPUs: len(r.Machine.GPUs), Batch: orNull(r.Workload.Batch), PromptLen: r.Workload.PromptLen, GenLen: r.Workload.GenLen,
			TTFT: medianOf(r.TTFT), TPOT: medianOf(r.TPOT), TTLT: medianOf(r.TTLT), Marks: append([]string{}, r.Marks...),
			Server: serverOf(r),
		}
		if len(r.Machine.GPUs) > 0 {
			g := r.Machine.GPUs[0]
			rows[i].GPU = orNull(g.Key)
			if g.Key == "" {
				rows[i].GPU = orNull(g.Name)
			}
		}
		if r.Energy != nil && r.Energy.PerToken != nil {
			j := unit.Joules(*r.Energy.PerToken)
			rows[i].PerToken = &j
		}
	}
	return rows
}

func medianOf(t *record.Times) *unit.Seconds {
	if t == nil {
		return nil
	}
	s := unit.Seconds(t.Median)
	return &s
}

// resultSet is the list in all its forms.
func resultSet(rows []listed, failures []experiment.Failure) result {
	return result{
		page: func() *render.Document {
			engines, servers := listedPage(rows), serverPage(rows, true)
			var notes []string
			for _, f := range failures {
				notes = append(notes, fmt.Sprintf("%s (tried %d times): %s", f.ID, f.Attempts, strings.Join(f.Errors[:min(1, len(f.Errors))], "")))
			}
			return &render.Document{Blocks: []render.Block{engines, servers, render.Notes{Title: "Failed", Items: notes}}}
		},
		table: func() *render.Table { t := listedTable(rows); return &t },
		data: func() any {
			return struct {
				Results  []listed             `json:"results"`
				Failures []experiment.Failure `json:"failures"`
			}{rows, append([]experiment.Failure{}, failures...)}
		},
	}
}

// listedTable is for programs.
func listedTable(rows []listed) render.Table {
	t := render.Table{Columns: []render.Column{
		{Key: "id"}, {Key: "process"}, {Key: "processes"}, {Key: "cycle"}, {Key: "model"}, {Key: "engine"}, {Key: "gpu"}, {Key: "gpus"},
		{Key: "batch"}, {Key: "prompt_len"}, {Key: "gen_len"}, {Key: "ttft_s"}, {Key: "tpot_s"}, {Key: "ttlt_s"}, {Key: "energy_per_token_j"}, {Key: "marks"},
	}}
	t.Columns = append(t.Columns, serverColumns()...)
	for i := range rows {
		r := &rows[i]
		t.Rows = append(t.Rows, render.Row{Cells: append([]any{
			r.ID, r.Process, r.Processes, r.Cycle, r.Model, r.Engine, cell(r.GPU), r.GPUs, cell(r.Batch), r.PromptLen, r.GenLen,
			cell(r.TTFT), cell(r.TPOT), cell(r.TTLT), cell(r.PerToken), joined(r.Marks),
		}, r.Server.cells()...)})
	}
	return t
}

// listedPage is the same for people, of engines that are not asked over HTTP.
func listedPage(rows []listed) render.Table {
	t := render.Table{Columns: []render.Column{
		{Title: "id", Left: true}, {Title: "model", Left: true, Max: 24}, {Title: "engine", Left: true, Drop: 2}, {Title: "GPU", Left: true, Drop: 4},
		{Title: "batch"}, {Title: "prompt"}, {Title: "gen"}, {Title: "TTFT"}, {Title: "TPOT"}, {Title: "J/token"}, {Title: "marks", Left: true, Drop: 1, Max: 24},
	}}
	for i := range rows {
		r := &rows[i]
		if r.Server != nil {
			continue
		}
		id, gpu := r.name(), cell(r.GPU)
		if r.GPUs > 1 {
			gpu = fmt.Sprintf("%d × %v", r.GPUs, gpu)
		}
		t.Rows = append(t.Rows, render.Row{Cells: []any{
			id, r.Model, r.Engine, gpu, cell(r.Batch), r.PromptLen, r.GenLen, cell(r.TTFT), cell(r.TPOT), cell(r.PerToken), joined(r.Marks),
		}})
	}
	return t
}

// name is the id, with which of several processes it is.
func (r *listed) name() string {
	if r.Processes > 1 {
		return fmt.Sprintf("%s, %d of %d", r.ID, r.Process, r.Processes)
	}
	return r.ID
}

// joined is a list in one cell, nil if it is empty.
func joined(list []string) any {
	if len(list) == 0 {
		return nil
	}
	return strings.Join(list, " ")
}

// ofID picks the results of one experiment.
func ofID(all []*record.Result, id string) ([]*record.Result, error) {
	var found []*record.Result
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
	case len(known) == 0:
		return nil, fmt.Errorf("no result with id %.80q: the folder has none", id)
	case len(spelling.Near(id, known)) > 0:
		return nil, fmt.Errorf("no result with id %.80q; %s", id, spelling.Hint(id, known))
	}
	return nil, fmt.Errorf("no result with id %.80q; \"llmprof results list\" has those of the folder's %d", id, len(known))
}
