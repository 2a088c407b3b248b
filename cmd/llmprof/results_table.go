package main

import (
	"errors"

	"github.com/spf13/cobra"

	"llmprof/cmd/llmprof/internal/cli"
	"llmprof/cmd/llmprof/internal/render"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/measure/aggregate"
	"llmprof/measure/result"
)

// layouts are the shapes of a published table.
var layouts = []string{"latency", "sizes", "elana", "energy"}

func (a *app) resultsTable() *cobra.Command {
	o := &output{latex: true}
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
	cmd.Flags().StringVar(&layout, "layout", layouts[0], "`shape` of the tables: latency, sizes, elana or energy")
	_ = cmd.RegisterFlagCompletionFunc("layout", words(layouts...))
	allowFlags(cmd, &may)
	return cmd
}

// published is the tables of a layout in their forms.
func (a *app) published(all []*result.Result, layout string, may aggregate.Options) (f forms, err error) {
	p := view.Publish(all, layout == "elana")
	f = forms{table: p.Table, data: func() any { return p.Rows }}
	switch layout {
	case "latency":
		f.page = p.LatencyPage
	case "sizes":
		f.page = p.SizesPage
	case "elana":
		f.page = p.ElanaPage
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
	default:
		return f, usage("--layout %.40q: want latency, sizes, elana or energy", layout)
	}
	return f, nil
}
