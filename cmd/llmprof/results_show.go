package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"llmprof/cmd/llmprof/internal/render"
	"llmprof/measure/aggregate"
	record "llmprof/measure/result"
	compare "llmprof/validate"
)

func (a *app) resultsShow() *cobra.Command {
	o := &output{}
	var dir string
	var raw bool
	var may aggregate.Options
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show the result of an experiment",
		Long: "Show what the processes of an experiment measured, put together. With --raw, show each process\n" +
			"by itself: as JSON the stored results, as CSV every sample.",
		Example: "  llmprof results show example-c0\n  llmprof results show example-c0 --raw --format csv",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			all, broken := record.ReadFolder(dir)
			found, err := ofID(all, args[0])
			if err != nil {
				if broken != nil {
					err = fmt.Errorf("%w\n%w", err, unreadable(broken))
				}
				return err
			}
			scorer, err := a.scorer("", nil)
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
func withOperators(forms result, all []*record.Result, s *compare.Scorer) result {
	page := forms.page
	forms.page = func() *render.Document {
		d := page()
		d.Blocks = append(d.Blocks, operatorBlocks(s, all)...)
		return d
	}
	return forms
}

// rawForms are the results of an experiment as they are stored.
func rawForms(all []*record.Result, s *compare.Scorer) result {
	return result{
		page: func() *render.Document {
			d := &render.Document{Title: all[0].ID}
			for i, r := range all {
				d.Blocks = append(append(d.Blocks, rawBlocks(r)...), operatorBlocks(s, all[i:i+1])...)
			}
			return d
		},
		table: func() *render.Table { return sampleTable(all) },
		data:  func() any { return all },
	}
}

// A durations is one measured duration with its name.
type durations struct {
	key, title string
	times      *record.Times
}

func durationsOf(r *record.Result) []durations {
	list := []durations{
		{"ttft_s", "TTFT", r.TTFT}, {"tpot_s", "TPOT", r.TPOT}, {"ttlt_s", "TTLT", r.TTLT}, {"step_s", "step", r.StepTime},
	}
	if s := r.Serving; s != nil {
		list = append(list, durations{"first_chunk_s", "first chunk", s.FirstChunk}, durations{"ttfo_s", "TTFO", s.TTFO}, durations{"chunk_gap_s", "chunk gap", s.ChunkGap})
	}
	return list
}

// sampleTable is every sample of every process.
func sampleTable(all []*record.Result) *render.Table {
	t := &render.Table{Columns: []render.Column{{Key: "id"}, {Key: "process"}, {Key: "metric"}, {Key: "sample"}, {Key: "value"}}}
	for _, r := range all {
		for _, d := range durationsOf(r) {
			if d.times == nil {
				continue
			}
			for i, v := range d.times.Samples {
				t.Rows = append(t.Rows, render.Row{Cells: []any{r.ID, r.Process, d.key, i, v}})
			}
		}
		operatorSamples(t, r)
	}
	return t
}

// operatorSamples adds every sample of each operator, under "operators", the
// phase and its name, and of the whole step under "step_s".
func operatorSamples(t *render.Table, r *record.Result) {
	if r.Operators == nil {
		return
	}
	for _, p := range []struct {
		name string
		*record.OperatorPhase
	}{{"prefill", r.Operators.Prefill}, {"decode", r.Operators.Decode}} {
		if p.OperatorPhase == nil {
			continue
		}
		add := func(name string, samples []float64) {
			for i, v := range samples {
				t.Rows = append(t.Rows, render.Row{Cells: []any{r.ID, r.Process, "operators." + p.name + "." + name, i, v}})
			}
		}
		for i := range p.Ops {
			add(p.Ops[i].Name, p.Ops[i].Time.Samples)
		}
		add("step_s", p.Step.Samples)
	}
}
