//go:build !js

package view

import (
	"cmp"
	"fmt"
	"slices"

	"llmprof/internal/stats"
	"llmprof/measure/aggregate"
	"llmprof/plots/render"
	"llmprof/unit"
)

// A PaperTable is stored results in the shape of a paper's tables.
type PaperTable struct{ *aggregate.PaperTable }

// Page is the sizes of ELANA's table 2, or times and energies by device and setting as in its tables 3 and 4, or both.
func (p *PaperTable) Page(sizes, latency bool) *render.Document {
	d := &render.Document{}
	if sizes {
		d.Blocks = append(d.Blocks, p.sizeTable())
	}
	if latency {
		d.Blocks = append(append(d.Blocks, p.latencyTables()...), p.notes())
	}
	return d
}

func (p *PaperTable) notes() render.Notes {
	energy := "Energies are of one sequence of the batch, gross of idle power."
	if p.Whole {
		energy = "Energies are of the whole batch, gross of idle power, as in ELANA's tables; divide by the batch for one sequence."
	}
	notes := render.Notes{Items: []string{"Times are the mean ± the standard deviation of all samples. " + energy}}
	if slices.ContainsFunc(p.Rows, func(r aggregate.PublishedRow) bool { return len(r.Marks) > 0 }) {
		notes.Items = append(notes.Items, "* marked by the measurement (throttled, contaminated, ...): \"llmprof results list\" says why")
	}
	return notes
}

// A setting is what the rows of a group have in common.
type setting struct {
	engine              string
	batch, prompt, answ int
}

func (s setting) String() string {
	text := fmt.Sprintf("batch %d", s.batch)
	if s.batch == 0 {
		text = "server"
	}
	return fmt.Sprintf("%s, %d + %d tokens, %s", text, s.prompt, s.answ, s.engine)
}

// latencyTables are one table for each device.
func (p *PaperTable) latencyTables() []render.Block {
	var blocks []render.Block
	title := func(r *aggregate.PublishedRow) string { return "Latency and energy on " + r.Device }
	for _, device := range distinct(p.Rows, title) {
		t, last := render.Table{Title: device, Columns: latencyColumns()}, setting{}
		for i := range p.Rows {
			r := &p.Rows[i]
			if title(r) != device {
				continue
			}
			if now := (setting{r.Engine, r.Batch, r.PromptLen, r.GenLen}); now != last {
				last = now
				t.Rows = append(t.Rows, render.Row{Kind: render.Group, Cells: []any{now.String()}})
			}
			t.Add(p.latencyCells(r)...)
		}
		blocks = append(blocks, t)
	}
	return blocks
}

func latencyColumns() []render.Column {
	figure := func(title, unit string) render.Column {
		return render.Column{Title: title, Unit: unit, Fixed: true, Places: 2}
	}
	spread := render.Column{Title: "±", Unit: "ms", Fixed: true, Places: 2, Drop: 1}
	return []render.Column{
		{Title: "model", Left: true, Max: 28}, figure("TTFT", "ms"), spread, figure("J/prompt", "J"),
		figure("TPOT", "ms"), spread, figure("J/token", "J"), figure("TTLT", "ms"), spread, figure("J/request", "J"),
	}
}

func (p *PaperTable) latencyCells(r *aggregate.PublishedRow) []any {
	name := r.Model
	if len(r.Marks) > 0 {
		name += " *"
	}
	cells := []any{name}
	for _, f := range figures(r) {
		mean, spread := any(nil), any(nil)
		if f.times != nil {
			mean, spread = 1e3*f.times.Mean, spreadCell(f.times.StdDev)
		}
		cells = append(cells, mean, spread, scaledCell(f.energy, p.share(r)))
	}
	return cells
}

// A timeAndEnergy is a time with the energy that goes with it; nil for what is not known.
type timeAndEnergy struct {
	times  *stats.Summary
	energy *float64
}

// figures are the times and energies of a row, in the order of the columns.
func figures(r *aggregate.PublishedRow) []timeAndEnergy {
	return []timeAndEnergy{{r.TTFT, r.PerPrompt}, {r.TPOT, r.PerToken}, {r.TTLT, r.PerRequest}}
}

// spreadCell is a standard deviation in ms; one that rounds to nothing is not nothing.
func spreadCell(s *float64) any {
	if s != nil && *s > 0 && *s < 0.005e-3 {
		return "<0.01"
	}
	return scaledCell(s, 1e3)
}

// share is what an energy of one sequence is multiplied by.
func (p *PaperTable) share(r *aggregate.PublishedRow) float64 {
	if p.Whole && r.Batch > 0 {
		return float64(r.Batch)
	}
	return 1
}

// scaledCell is a number times a factor, nil where there is none.
func scaledCell(v *float64, factor float64) any {
	return Cell(of(v, func(v *float64) float64 { return *v * factor }))
}

// sizeTable is the size of each model, and of its cache at each batch and length.
func (p *PaperTable) sizeTable() render.Table {
	type shape struct{ batch, length int }
	var shapes []shape
	var models []string
	params, caches := map[string]*float64{}, map[string]map[shape]*float64{}
	for _, r := range p.Rows {
		if r.Params == nil && r.Cache == nil {
			continue
		}
		s := shape{r.Batch, r.CacheTokens}
		if !slices.Contains(shapes, s) {
			shapes = append(shapes, s)
		}
		if caches[r.Model] == nil {
			models, caches[r.Model] = append(models, r.Model), map[shape]*float64{}
		}
		params[r.Model], caches[r.Model][s] = r.Params, r.Cache
	}
	slices.Sort(models)
	slices.SortFunc(shapes, func(a, b shape) int { return cmp.Or(a.batch-b.batch, a.length-b.length) })
	t := render.Table{Title: "Sizes: parameters, and cache by batch and tokens", Columns: []render.Column{
		{Title: "model", Left: true}, {Title: "param.", Unit: "GB", Fixed: true, Places: 2},
	}}
	for i, s := range shapes {
		t.Columns = append(t.Columns, render.Column{Title: fmt.Sprintf("b%d L%d", s.batch, s.length), Unit: "GB", Fixed: true, Places: 2,
			Drop: 1 + i})
	}
	for _, m := range models {
		cells := []any{m, scaledCell(params[m], 1e-9)}
		for _, s := range shapes {
			cells = append(cells, scaledCell(caches[m][s], 1e-9))
		}
		t.Add(cells...)
	}
	return t
}

// Table has a row for each configuration, in SI units, which the keys name.
func (p *PaperTable) Table() *render.Table {
	t := render.Keyed("device", "engine", "model", "batch", "prompt_len", "gen_len", "runs",
		"ttft_s", "ttft_stddev_s", "energy_per_prompt_j", "tpot_s", "tpot_stddev_s", "energy_per_token_j",
		"ttlt_s", "ttlt_stddev_s", "energy_per_request_j", "generated_tok_s", "params_bytes", "cache_bytes", "cache_tokens", "marks")
	for i := range p.Rows {
		r := &p.Rows[i]
		cells := []any{r.Device, r.Engine, r.Model, Cell(unit.OrNull(r.Batch)), r.PromptLen, r.GenLen, r.Runs}
		for _, f := range figures(r) {
			mean, spread := any(nil), any(nil)
			if f.times != nil {
				mean, spread = f.times.Mean, Cell(f.times.StdDev)
			}
			cells = append(cells, mean, spread, scaledCell(f.energy, p.share(r)))
		}
		cells = append(cells, Cell(r.Generated), Cell(r.Params), Cell(r.Cache), Cell(unit.OrNull(r.CacheTokens)), joined(r.Marks))
		t.Add(cells...)
	}
	return t
}

// EnergyTable is the totals of each experiment, as LLM Energy Measure's tables have them.
func EnergyTable(r *aggregate.Report) render.Table {
	figure := func(title, unit, key string, places int) render.Column {
		return render.Column{Title: title, Key: key, Unit: unit, Fixed: true, Places: places}
	}
	t := render.Table{Title: "Energy of experiments, all processes together", Columns: []render.Column{
		{Title: "experiment", Key: "id", Left: true, Max: 24}, {Title: "model", Key: "model", Left: true, Max: 16},
		{Title: "batch", Key: "batch"}, {Title: "proc.", Key: "processes", Drop: 3},
		figure("tokens", " ", "total_tokens", 1), figure("time", "s", "total_inference_time_sec", 2), figure("energy", "J", "total_energy_j", 1),
		figure("rate", "tok/s", "tokens_per_second", 1), figure("J/token", "J", "avg_energy_per_token_j", 4),
		figure("work", "TFLOP", "total_flops", 2),
	}}
	for i := range r.Experiments {
		a := &r.Experiments[i]
		o := &a.Totals
		t.Add(a.ID, a.ModelName, Cell(unit.OrNull(a.Workload.Batch)), a.Method.NumProcesses, Cell(o.Tokens), Cell(o.InferenceS), Cell(o.EnergyJ),
			Cell(o.TokensPerS), Cell(o.AvgEnergyToken), scaledCell(o.FLOPs, 1e-12))
	}
	return t
}
