package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"llmprof/cmd/llmprof/internal/render"
	"llmprof/measure/aggregate"
	record "llmprof/measure/result"
	"llmprof/measure/stats"
	"llmprof/unit"
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
			if raw {
				return o.write(a, rawForms(found))
			}
			report, err := a.makeReport(found, may)
			if err != nil {
				return err
			}
			return o.write(a, reportForms(report))
		},
	}
	o.flags(cmd)
	resultsFlag(cmd, &dir)
	cmd.Flags().BoolVar(&raw, "raw", false, "each process by itself, with all samples")
	allowFlags(cmd, &may)
	return cmd
}

// rawForms are the results of an experiment as they are stored.
func rawForms(all []*record.Result) result {
	return result{
		page: func() *render.Document {
			d := &render.Document{Title: all[0].ID}
			for _, r := range all {
				d.Blocks = append(d.Blocks, rawBlocks(r)...)
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
	}
	return t
}

// rawBlocks show one process to people.
func rawBlocks(r *record.Result) []render.Block {
	gpu := "none"
	for i, g := range r.Machine.GPUs {
		if i == 0 {
			gpu = g.Name + " " + g.UUID
		} else {
			gpu += ", " + g.Name + " " + g.UUID
		}
	}
	w := &r.Workload
	fields := render.Fields{Title: fmt.Sprintf("Process %d of %d", r.Process, r.Processes), Rows: []render.Field{
		{Name: "Model", Lines: []string{fmt.Sprintf("%s, %s parameters (%s)", r.Model.Name, unit.Count(float64(r.Model.ParamsTotal)), r.Model.Source)}},
		{Name: "Engine", Lines: []string{r.Engine.Name + " " + r.Engine.Version + "; times: " + r.Engine.Timer}},
		{Name: "GPU", Lines: []string{gpu}},
		{Name: "Workload", Lines: []string{fmt.Sprintf("batch %d, prompt %d, generate %d, weights %s, KV %s", w.Batch, w.PromptLen, w.GenLen, w.Weights, w.KV)}},
		{Name: "Ran", Lines: []string{fmt.Sprintf("%s, for %v", r.Started.Format("2006-01-02 15:04:05 MST"), unit.Seconds(r.Ended.Sub(r.Started).Seconds()))}},
	}}
	t := render.Table{Title: "Times", Columns: timeColumns()}
	for _, d := range durationsOf(r) {
		if d.times != nil {
			t.Rows = append(t.Rows, timeRow(d.title, &d.times.Summary))
		}
	}
	return []render.Block{fields, t, windowTable(r.Energy), render.Notes{Title: "Warnings", Items: r.Warnings}}
}

func timeColumns() []render.Column {
	return []render.Column{
		{Title: "time", Left: true}, {Title: "n"}, {Title: "median"}, {Title: "mean"}, {Title: "±95 %"}, {Title: "p5", Drop: 3},
		{Title: "p95", Drop: 2}, {Title: "p99", Drop: 1}, {Title: "max", Drop: 4},
	}
}

func timeRow(title string, s *stats.Summary) render.Row {
	var half any
	if s.MeanHigh != nil {
		half = unit.Seconds(*s.MeanHigh - s.Mean)
	}
	return render.Row{Cells: []any{
		title, s.N, unit.Seconds(s.Median), unit.Seconds(s.Mean), half, unit.Seconds(s.P5), unit.Seconds(s.P95), unit.Seconds(s.P99), unit.Seconds(s.Max),
	}}
}

// windowTable is the energy of each phase by each meter.
func windowTable(e *record.Energy) render.Table {
	t := render.Table{Title: "Energy", Columns: []render.Column{
		{Title: "phase", Left: true}, {Title: "domain", Left: true}, {Title: "sensor", Left: true, Drop: 1}, {Title: "energy"}, {Title: "mean power"}, {Title: "window"}, {Title: "passes"},
	}}
	if e == nil {
		return t
	}
	for _, w := range []struct {
		name string
		*record.Window
	}{{"prefill", e.Prefill}, {"decode", e.Decode}, {"request", e.Request}, {"idle", e.Idle}, {"idle, loaded", e.IdleLoaded}} {
		if w.Window == nil {
			continue
		}
		for i := range w.Domains {
			d := &w.Domains[i]
			t.Rows = append(t.Rows, render.Row{Cells: []any{
				w.name, d.Name, d.Sensor, unit.Joules(d.EnergyJ), unit.Watts(d.MeanW), unit.Seconds(w.Seconds), render.Tenths(w.Passes),
			}})
		}
	}
	return t
}
