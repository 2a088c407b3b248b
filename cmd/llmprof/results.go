package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"llmprof/cmd/llmprof/internal/cli"
	"llmprof/cmd/llmprof/internal/settings"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/internal/printable"
	"llmprof/internal/spelling"
	"llmprof/measure/aggregate"
	"llmprof/measure/experiment"
	"llmprof/measure/result"
	"llmprof/plots"
	"llmprof/plots/render"
	"llmprof/validate"
)

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
			a.sayPartial(dir)
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

// sayPartial says in a line that a folder has results of runs that did not finish, and what resumes these.
func (a *app) sayPartial(dir string) {
	var runs, again []string
	for _, r := range (experiment.Store{Dir: dir}).Partial() {
		words := []string{"llmprof"}
		for _, w := range r.Provenance.Command[min(1, len(r.Provenance.Command)):] {
			words = append(words, printable.ShellWord(w))
		}
		runs, again = append(runs, r.ID), append(again, strconv.Quote(strings.Join(words, " ")))
	}
	slices.Sort(again)
	runs, again = slices.Compact(runs), slices.Compact(again)
	if len(again) > mostNamed {
		again = append(again[:mostNamed], "as many other commands as it takes")
	}
	if len(runs) > 0 {
		a.logf("%s has in its folder partial, and not in this list, what was measured of %d that did not finish: resumed by %s", dir, len(runs),
			strings.Join(again, ", "))
	}
}

// mostNamed is how many commands a line names.
const mostNamed = 3

// unreadable is the error of files that could not be read, if there are any.
func unreadable(broken error) error {
	if broken == nil {
		return nil
	}
	return fmt.Errorf("files that are not read:\n%w", broken)
}

// resultSet is a list in all its forms; its chart is of the servers in it.
func resultSet(all []*result.Result, failures []result.Failure) forms {
	rows := view.ResultRows(all)
	return forms{
		page:  func() *render.Document { return view.ResultPage(rows, failures) },
		table: func() *render.Table { return view.ResultTable(rows) },
		data:  func() any { return view.ResultDocument(rows, failures) },
		chart: func() (*plots.Figure, error) { return loadFigure(all) },
	}
}

// experimentOf reads the results of an experiment, of which the ID or the file of a process is given.
func experimentOf(cmd *cobra.Command, dir, what string) ([]*result.Result, error) {
	id := what
	if isFile(what) {
		if cmd.Flags().Changed("results") {
			return nil, usage("--results %s: it is the folder of an ID, and %s is a file; leave it out", dir, what)
		}
		r, err := result.Read(what)
		if err != nil || r.Processes == 1 {
			return []*result.Result{r}, err
		}
		dir, id = filepath.Dir(what), r.ID
	}
	all, broken := result.ReadFolder(dir)
	if all == nil && broken != nil {
		return nil, broken
	}
	found, err := ofID(all, id)
	if err != nil && broken != nil {
		err = fmt.Errorf("%w\n%w", err, unreadable(broken))
	}
	return found, err
}

// isFile reports whether a name is that of a file rather than the ID of an experiment.
func isFile(name string) bool {
	info, err := os.Stat(name)
	_, file := result.Base(name)
	return filepath.Base(name) != name || file || err == nil && info.Mode().IsRegular()
}

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
	case len(known) == 0:
		return nil, fmt.Errorf("no result with id %.80q: the folder has none", id)
	case len(spelling.Near(id, known)) > 0:
		return nil, fmt.Errorf("no result with id %.80q; %s", id, spelling.Hint(id, known))
	}
	return nil, fmt.Errorf("no result with id %.80q; \"llmprof results list\" has those of the folder's %d", id, len(known))
}

func (a *app) resultsShow() *cobra.Command {
	o := &output{}
	var dir string
	var raw bool
	var may aggregate.Options
	cmd := &cobra.Command{
		Use:   "show ID|FILE",
		Short: "Show the result of an experiment",
		Long: "Show what the processes of an experiment measured, put together; the file of one of them stands for\n" +
			"the experiment. With --raw, show each process by itself: as JSON the stored results, as CSV every\n" +
			"sample.",
		Example: "  llmprof results show example-c0\n  llmprof results show results/example-c0.p0.json --raw --format csv",
		Args:    cli.Needs("ID", 1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			found, err := experimentOf(cmd, dir, args[0])
			if err != nil {
				return err
			}
			scorer, err := a.scorer("", "")
			if err != nil {
				return err
			}
			if raw {
				return o.write(a, rawForms(found, scorer))
			}
			report, err := a.makeReport(found, may)
			if err != nil {
				return err
			}
			return o.write(a, withOperators(reportForms(report), found, scorer))
		},
	}
	o.flags(cmd)
	resultsFlag(cmd, &dir)
	cmd.Flags().BoolVar(&raw, "raw", false, "each process by itself, with all samples")
	allowFlags(cmd, &may)
	return cmd
}

// withOperators adds the operators of the processes to a page.
func withOperators(forms forms, all []*result.Result, s *validate.Scorer) forms {
	page := forms.page
	forms.page = func() *render.Document {
		d := page()
		d.Blocks = append(d.Blocks, view.OperatorBlocks(s, all)...)
		return d
	}
	return forms
}

// rawForms are the results of an experiment as they are stored.
func rawForms(all []*result.Result, s *validate.Scorer) forms {
	return forms{
		page:  func() *render.Document { return view.ProcessPage(all, s) },
		table: func() *render.Table { return view.SampleTable(all) },
		data:  func() any { return all },
	}
}

func (a *app) resultsTable() *cobra.Command {
	o := &output{}
	var dir, layout string
	var may aggregate.Options
	cmd := &cobra.Command{
		Use:   "table [FOLDER]",
		Short: "Make tables of stored results, to publish",
		Long: "Make tables of stored results in the shape of a paper's: one unit a column, a row for each " +
			"configuration over all its repeats, grouped by device and setting.\n\n" +
			"Layouts: latency (TTFT, TPOT and TTLT with their spread, J/prompt, J/token, J/request of one " +
			"sequence), sizes (parameters and caches), elana (ELANA's tables 2 to 4: sizes and latency, the " +
			"energies of the whole batch), energy (LLM Energy Measure's totals).",
		Example: "  llmprof results table\n" +
			"  llmprof results table results --layout elana --format latex -o tables.tex\n" +
			"  llmprof results table results --layout sizes --format markdown",
		Args: cli.Positional("results"),
		RunE: func(*cobra.Command, []string) error {
			all, broken := result.ReadFolder(dir)
			if len(all) == 0 {
				return errors.Join(errors.New(dir+" has no results"), broken)
			}
			tables, err := a.published(all, layout, may)
			if err != nil {
				return err
			}
			return errors.Join(o.write(a, tables), unreadable(broken))
		},
	}
	o.flags(cmd)
	resultsFlag(cmd, &dir)
	settings.Choice(cmd.Flags(), &layout, "layout", "latency", "`shape` of the tables: %s", "latency", "sizes", "elana", "energy")
	allowFlags(cmd, &may)
	return cmd
}

func (a *app) published(all []*result.Result, layout string, may aggregate.Options) (f forms, err error) {
	p := &view.PaperTable{PaperTable: aggregate.Publish(all, layout == "elana")}
	f = forms{table: p.Table, data: func() any { return p.Rows }}
	switch layout {
	case "latency", "sizes", "elana":
		f.page = func() *render.Document { return p.Page(layout != "latency", layout != "sizes") }
	case "energy":
		report, err := a.makeReport(all, may)
		if report == nil {
			return f, err
		}
		t := view.EnergyTable(report)
		f.page = func() *render.Document { return &render.Document{Blocks: []render.Block{t}} }
		f.table, f.data = func() *render.Table { return &t }, func() any { return report.Experiments }
		if err != nil {
			a.logf("left out: %v", err)
		}
	}
	return f, nil
}
