package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"llmprof"
	"llmprof/cmd/llmprof/internal/render"
	"llmprof/measure/aggregate"
	record "llmprof/measure/result"
	"llmprof/models"
)

func (a *app) aggregate() *cobra.Command {
	o := &output{}
	var dir string
	var all bool
	var may aggregate.Options
	cmd := &cobra.Command{
		Use:   "aggregate [ID | --all]",
		Short: "Put the processes of an experiment together",
		Long: "Put together what the processes of an experiment measured: energies, tokens and FLOPs summed,\n" +
			"percentiles over the samples of all. It checks that the processes ran at the same time, each on\n" +
			"GPUs of its own, with one configuration, and that none is missing. Repeats of a configuration\n" +
			"(cycles) are compared.",
		Example: "  llmprof aggregate example-c0\n  llmprof aggregate --all --format json -o aggregate.out",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			if (len(args) == 1) == all {
				return usage("aggregate what? Give the ID of an experiment, or --all")
			}
			results, broken := record.ReadFolder(dir)
			if results == nil && broken != nil {
				return broken
			}
			if len(args) == 1 {
				found, err := ofID(results, args[0])
				if err != nil {
					return errors.Join(err, unreadable(broken))
				}
				results, broken = found, nil
			}
			report, err := a.makeReport(results, may)
			if report == nil {
				return err
			}
			return errors.Join(o.write(a, reportForms(report)), err, unreadable(broken))
		},
	}
	o.flags(cmd)
	resultsFlag(cmd, &dir)
	cmd.Flags().BoolVar(&all, "all", false, "every experiment of the folder")
	allowFlags(cmd, &may)
	return cmd
}

func allowFlags(cmd *cobra.Command, o *aggregate.Options) {
	cmd.Flags().BoolVar(&o.AllowMixed, "allow-mixed", false, "add processes of other configurations all the same")
	cmd.Flags().BoolVar(&o.AllowMissing, "allow-missing", false, "add what is there where processes are missing")
}

// makeReport aggregates results, with FLOPs from the table of models. Of some
// that cannot be aggregated the error is beside the report of the others; nil
// is returned where there are no others.
func (a *app) makeReport(results []*record.Result, o aggregate.Options) (*aggregate.Report, error) {
	table, err := models.Load(llmprof.ModelsJSON)
	if err != nil {
		return nil, err
	}
	o.FLOPs = aggregate.Analytic(table)
	report, err := aggregate.Make(results, o)
	if err != nil && len(report.Experiments) == 0 {
		return nil, err
	}
	return report, err
}

func reportForms(r *aggregate.Report) result {
	return result{
		page:  func() *render.Document { return reportPage(r) },
		table: func() *render.Table { return reportTable(r) },
		data:  func() any { return r },
	}
}

// reportPage shows one experiment whole, and several as a table with what is to
// be said of them.
func reportPage(r *aggregate.Report) *render.Document {
	d := &render.Document{}
	if len(r.Experiments) == 1 {
		d = aggregatePage(&r.Experiments[0])
	} else {
		var warned []string
		for i := range r.Experiments {
			e := &r.Experiments[i]
			for _, w := range e.Method.Warnings {
				warned = append(warned, e.ID+": "+w)
			}
		}
		d.Blocks = append(d.Blocks, experimentTable(r), render.Notes{Title: "Warnings", Items: warned})
	}
	for i := range r.Cycles {
		d.Blocks = append(d.Blocks, cycleTable(&r.Cycles[i]))
	}
	return d
}

// reportTable is every experiment with every figure, one a row, under the keys
// of the JSON.
func reportTable(r *aggregate.Report) *render.Table {
	t := &render.Table{}
	var none aggregate.Aggregate
	for _, f := range flatten("", &none) {
		t.Columns = append(t.Columns, render.Column{Key: f.key})
	}
	for i := range r.Experiments {
		var row render.Row
		for _, f := range flatten("", &r.Experiments[i]) {
			row.Cells = append(row.Cells, f.value)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func cycleTable(c *aggregate.Cycles) render.Table {
	t := render.Table{Title: fmt.Sprintf("%d cycles of %s", c.N, c.Experiment), Columns: []render.Column{
		{Title: "metric", Left: true}, {Title: "mean"}, {Title: "±95 %"}, {Title: "std"}, {Title: "min"}, {Title: "max"}, {Title: "CV, %"}, {Title: "class", Left: true},
	}}
	for i := range c.Metrics {
		m := &c.Metrics[i]
		var half, cv, std any
		if m.CIHigh != nil {
			half = digits(*m.CIHigh - m.Mean)
		}
		if m.CV != nil {
			cv = render.Percent(*m.CV)
		}
		if m.Std != nil {
			std = digits(*m.Std)
		}
		t.Rows = append(t.Rows, render.Row{Cells: []any{m.Name, digits(m.Mean), half, std, digits(m.Min), digits(m.Max), cv, cell(m.Class)}})
	}
	return t
}

// digits is a number in four digits.
func digits(v float64) string { return strings.TrimSpace(fmt.Sprintf("%.4g", v)) }
