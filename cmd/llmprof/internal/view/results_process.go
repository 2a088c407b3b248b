//go:build !js

package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"llmprof/internal/stats"
	"llmprof/measure/result"
	"llmprof/plots/render"
	"llmprof/unit"
)

// ProcessBlocks show the result of one process.
func ProcessBlocks(r *result.Result) []render.Block {
	t := render.Table{Title: "Times", Columns: timeColumns()}
	for _, d := range durationsOf(r) {
		if d.times != nil {
			t.Rows = append(t.Rows, timeRow(d.title, &d.times.Summary, d.times.Device))
		}
	}
	return []render.Block{
		processFields(r), t, servingFields(r.Serving), rateFields(r), sizeTable(r.Sizes), windowTable(r.Energy), closureTable(r.Closure),
		conditionTable(r), missing(r), render.Notes{Title: "Warnings", Items: r.Warnings},
	}
}

// processFields say what ran on which machine.
func processFields(r *result.Result) render.Fields {
	w := &r.Workload
	f := render.Fields{Title: fmt.Sprintf("Process %d of %d", r.Process, r.Processes), Rows: []render.Field{
		{Name: "Model", Lines: []string{modelText(&r.Model)}},
		{Name: "Engine", Lines: engineLines(&r.Engine)},
		{Name: "GPU", Lines: gpuLines(&r.Machine)},
		{Name: "Workload", Lines: []string{fmt.Sprintf("batch %s, prompt %d, generate %d, weights %s, KV %s, TP %s",
			orUnknown(w.Batch), w.PromptLen, w.GenLen, orUnknown(w.Weights), orUnknown(w.KV), orUnknown(r.Parallelism.TP))}},
		{Name: "Ran", Lines: []string{fmt.Sprintf("%s, for %v", r.Started.Format("2006-01-02 15:04:05 MST"), unit.Seconds(
			r.Ended.Sub(r.Started).Seconds()))}},
	}}
	if len(r.Marks) > 0 {
		f.Add("Marked", strings.Join(r.Marks, ", "))
	}
	return f
}

func modelText(m *result.Model) string {
	text := m.Name
	if m.ParamsTotal > 0 {
		text += fmt.Sprintf(", %s parameters (%s)", unit.Count(float64(m.ParamsTotal)), m.Source)
	}
	if m.RandomWeights {
		text += ", random weights"
	}
	return text
}

// engineLines name the engine, the versions of its libraries and its options.
func engineLines(e *result.Engine) []string {
	list := func(from map[string]string, between string) string {
		var all []string
		for _, key := range slices.Sorted(maps.Keys(from)) {
			all = append(all, key+between+from[key])
		}
		return strings.Join(all, ", ")
	}
	lines := []string{strings.TrimSpace(e.Name + " " + e.Version)}
	for _, text := range []string{list(e.Versions, " "), list(e.Options, " = ")} {
		if text != "" {
			lines = append(lines, text)
		}
	}
	lines = append(lines, "times: "+e.Timer)
	return append(lines, e.Notes...)
}

func gpuLines(m *result.Machine) []string {
	var lines []string
	for i := range m.GPUs {
		g := &m.GPUs[i]
		text := g.Name
		if g.PowerLimitW != nil {
			text += fmt.Sprintf(", limit %v", unit.Watts(*g.PowerLimitW))
		}
		if g.UUID != "" {
			text += ", " + g.UUID
		}
		lines = append(lines, text)
	}
	if len(lines) == 0 {
		return []string{"none"}
	}
	if m.Driver != "" {
		lines = append(lines, "driver "+m.Driver+", CUDA "+m.CUDA)
	}
	return lines
}

func timeColumns() []render.Column {
	return []render.Column{
		{Title: "time", Left: true}, {Title: "n"}, {Title: "median"}, {Title: "by device", Drop: 1}, {Title: "mean"}, {Title: "±95 %"},
		{Title: "p5", Drop: 4},
		{Title: "p95", Drop: 3}, {Title: "p99", Drop: 2}, {Title: "max", Drop: 5},
	}
}

func timeRow(title string, s *stats.Summary, device *float64) render.Row {
	var half any
	if s.MeanHigh != nil {
		half = unit.Seconds(*s.MeanHigh - s.Mean)
	}
	return render.Row{Cells: []any{
		title, s.N, unit.Seconds(s.Median), as[unit.Seconds](device), unit.Seconds(s.Mean), half, unit.Seconds(s.P5), unit.Seconds(s.P95),
		unit.Seconds(s.P99), unit.Seconds(s.Max),
	}}
}

// rateFields are throughput, energy per prompt, token and request, and CO2.
func rateFields(r *result.Result) render.Fields {
	f := render.Fields{}
	if t := r.Throughput; t != nil {
		var parts []string
		for _, p := range []named[*float64]{{"tok/s generated", t.Generated}, {"tok/s while decoding", t.Decode},
			{"prompt tok/s while prefilling", t.Prompt}} {
			if p.of != nil {
				parts = append(parts, Rate(*p.of)+" "+p.name)
			}
		}
		f.Add("Throughput", strings.Join(parts, ", "))
	}
	if e := r.Energy; e != nil {
		lines := []string{energyText(e.PerPrompt, e.PerToken, e.PerRequest) + ", gross; scope: " + e.Scope}
		if n := e.Net; n != nil {
			lines = append(lines, energyText(n.PerPrompt, n.PerToken, n.PerRequest)+", net of idle")
		}
		f.Add("Energy", lines...)
		if c := e.CO2; c != nil {
			f.Add("CO2", fmt.Sprintf("%.4g g a request at %v g/kWh (%s)", c.PerRequest, c.GramsPerKWh, c.Source))
		}
	}
	if m := r.Meter; m != nil && m.Overhead != nil {
		text := fmt.Sprintf("changes TPOT by %+.2f %%", 100**m.Overhead)
		if m.PeriodS != nil {
			text += fmt.Sprintf("; power each %v", unit.Seconds(*m.PeriodS))
		}
		f.Add("Meter", text)
	}
	return f
}

// energyText gives the energy per prompt, token and request of one sequence.
func energyText(prompt, token, request *float64) string {
	var parts []string
	for _, p := range []named[*float64]{{"prompt", prompt}, {"token", token}, {"request", request}} {
		if p.of != nil {
			parts = append(parts, fmt.Sprintf("%v a %s", unit.Joules(*p.of), p.name))
		}
	}
	return strings.Join(parts, ", ")
}

// sizeTable compares the sizes that the engine counted with those of the theory.
func sizeTable(s *result.Sizes) render.Table {
	t := render.Table{Title: "Memory", Columns: []render.Column{
		{Title: "", Left: true}, {Title: "counted"}, {Title: "theory"}, {Title: "difference", Unit: "%", Fixed: true, Places: 2}}}
	if s == nil {
		return t
	}
	a := cmp.Or(s.Analytic, &result.AnalyticSizes{})
	for _, row := range []struct {
		name   string
		value  *int64
		theory float64
	}{
		{"parameters", s.Params, a.Params}, {"buffers", s.Buffers, 0}, {"KV cache", s.KV, a.KV}, {"state", s.State, a.State},
		{"activations, peak", s.Activations, a.Activations}, {"all, peak", s.Peak, 0}, {"held by the allocator", s.Reserved, 0},
	} {
		if row.value == nil || *row.value == 0 && row.theory == 0 {
			continue
		}
		var theory, off any
		if row.theory > 0 {
			theory = unit.Bytes(row.theory)
			off = 100 * (float64(*row.value)/row.theory - 1)
		}
		t.Add(row.name, unit.Bytes(*row.value), theory, off)
	}
	return t
}

// windowTable has a row for the energy of each phase by each meter.
func windowTable(e *result.Energy) render.Table {
	t := render.Table{Title: "Energy", Columns: []render.Column{
		{Title: "phase", Left: true}, {Title: "domain", Left: true}, {Title: "sensor", Left: true, Drop: 1}, {Title: "energy"},
		{Title: "mean power"}, {Title: "window"}, {Title: "passes"},
	}}
	if e == nil {
		return t
	}
	for _, w := range []named[*result.Window]{{"prefill", e.Prefill}, {"decode", e.Decode}, {"request", e.Request}, {"idle", e.Idle},
		{"idle, loaded", e.IdleLoaded}} {
		if w.of == nil {
			continue
		}
		for _, d := range w.of.Domains {
			t.Add(w.name, d.Name, d.Sensor, unit.Joules(d.EnergyJ), unit.Watts(d.MeanW), unit.Seconds(w.of.Seconds),
				Known(render.Tenths(w.of.Passes), w.of.Passes != 0))
		}
	}
	return t
}

// closureTable says whether measured parts sum to the measured wholes.
func closureTable(all []result.Closure) render.Table {
	t := render.Table{Title: "Closure", Columns: []render.Column{
		{Title: "test", Left: true}, {Title: "off by", Unit: "%", Fixed: true, Places: 2}, {Title: "limit", Unit: "%", Fixed: true},
		{Title: "", Left: true},
	}}
	for i := range all {
		c := &all[i]
		t.Add(c.Name, 100*c.Off, 100*c.Limit, judged(c.Passed, "closes", "does not close"))
	}
	return t
}

// conditionTable shows clocks, temperature and throttling of each GPU.
func conditionTable(r *result.Result) render.Table {
	t := render.Table{Title: "Conditions", Columns: []render.Column{
		{Title: "phase", Left: true}, {Title: "GPU", Left: true, Max: 12}, {Title: "SM clock"}, {Title: "at least"}, {Title: "greatest"},
		{Title: "memory clock"}, {Title: "greatest"}, {Title: "°C"}, {Title: "held down by", Left: true},
	}}
	for _, c := range r.Conditions {
		var clock, least, memory, celsius any
		if s := c.SMClockHz; s != nil {
			clock, least = unit.Hertz(s.Median), unit.Hertz(s.Min)
		}
		if s := c.MemClockHz; s != nil {
			memory = unit.Hertz(s.Median)
		}
		if s := c.Temperature; s != nil {
			celsius = int(s.Max)
		}
		var held []string
		for _, reason := range slices.Sorted(maps.Keys(c.ThrottledS)) {
			held = append(held, fmt.Sprintf("%s for %v", reason, unit.Seconds(c.ThrottledS[reason])))
		}
		t.Add(c.Phase, c.UUID, clock, least, as[unit.Hertz](c.SMClockMaxHz), memory, as[unit.Hertz](c.MemClockMaxHz), celsius,
			strings.Join(held, ", "))
	}
	return t
}

// missing says why figures that readers expect were not measured. Figures that one reason explains share a note, and the
// lines of a reason are parted by semicolons.
func missing(r *result.Result) render.Notes {
	n := render.Notes{Title: "Not measured"}
	seen := map[string]int{}
	var whys []string
	for _, key := range []string{"ttft_s", "tpot_s", "ttlt_s", "sizes_bytes", "energy", "operators", "conditions"} {
		why := r.Reasons[key]
		if why == "" || why == "not asked for" || why == result.Earlier {
			continue
		}
		if i, again := seen[why]; again {
			n.Items[i] += ", " + key
			continue
		}
		seen[why] = len(whys)
		n.Items, whys = append(n.Items, key), append(whys, why)
	}
	for i, why := range whys {
		n.Items[i] += ": " + strings.Join(strings.Fields(strings.ReplaceAll(strings.TrimSpace(why), "\n", "; ")), " ")
	}
	return n
}

// servingFields summarize the requests that a server was sent.
func servingFields(s *result.Serving) render.Fields {
	if s == nil {
		return render.Fields{}
	}
	load := fmt.Sprintf("%d at a time", s.Concurrency)
	if s.RateHz != nil {
		load = fmt.Sprintf("%v a second, arriving at random", *s.RateHz)
	}
	requests := fmt.Sprintf("%d completed of %d in %v, %.4g a second", s.Completed, s.Requests, unit.Seconds(s.Duration), s.RequestRate)
	for _, kind := range slices.Sorted(maps.Keys(s.Failures)) {
		requests += fmt.Sprintf("; %d %s", s.Failures[kind], kind)
	}
	f := render.Fields{Title: "Requests", Rows: []render.Field{
		{Name: "Server", Lines: []string{serverText(s)}}, {Name: "Load", Lines: []string{load}}, {Name: "Requests", Lines: []string{requests}},
	}}
	add := func(name, text string) {
		if text != "" {
			f.Add(name, text)
		}
	}
	add("Steady state", steadyText(s))
	add("Lengths", lengthsText(s))
	if u := s.Usage; u != nil && (u.Tokens == nil || u.TokensPerChunk == nil || u.Chunks == 0) {
		add("Tokens", "not known: no answer came with usage")
	} else if u != nil {
		add("Tokens", fmt.Sprintf("%d by the server's usage in %d chunks, %.3g a chunk", *u.Tokens, u.Chunks, *u.TokensPerChunk))
	}
	if a := s.Adjusted; a != nil && s.Completed < s.Requests {
		f.Add("With the failed", tailText("TTFT", a.TTFT), tailText("TPOT", a.TPOT), tailText("TTLT", a.TTLT))
	}
	add("Goodput", goodputText(s.Goodput))
	add("Prefix cache", cacheText(s.PrefixCache))
	add("Server's metrics", metricsText(s.Metrics))
	return f
}

// steadyText says which requests times and goodput are of.
func steadyText(s *result.Serving) string {
	x := s.Steady
	switch {
	case x == nil:
		return ""
	case !x.Reached:
		return "none by " + x.Method + ": all requests count"
	}
	return fmt.Sprintf("by %s; the first %d requests, which fill the server, and the last %d, which come as it empties, do not count",
		x.Method, x.Begin, s.After())
}

// serverText names the server's endpoint, its API and the model it serves.
func serverText(s *result.Serving) string {
	text := s.Endpoint + ", " + s.API
	if s.ServedModel != "" {
		text += ", model " + s.ServedModel
	}
	if s.Connections != "" {
		text += ", connections " + s.Connections
	}
	return text
}

// lengthsText gives the lengths of prompts and answers that the server counted.
func lengthsText(s *result.Serving) string {
	var parts []string
	for _, l := range []named[*stats.Summary]{{"prompt", s.PromptTokens}, {"generated", s.GeneratedTokens}} {
		switch {
		case l.of == nil:
		case l.of.Min == l.of.Max:
			parts = append(parts, fmt.Sprintf("%s %.0f", l.name, l.of.Mean))
		default:
			parts = append(parts, fmt.Sprintf("%s %.1f in the mean, %.0f to %.0f", l.name, l.of.Mean, l.of.Min, l.of.Max))
		}
	}
	return strings.Join(parts, "; ")
}

// tailText gives percentiles of a time, with failed requests counted as the slowest.
func tailText(name string, t result.Tail) string {
	parts := []string{}
	for _, p := range []named[*float64]{{"p50", t.P50}, {"p90", t.P90}, {"p95", t.P95}, {"p99", t.P99}} {
		value := "a failed request"
		if p.of != nil {
			value = unit.Seconds(*p.of).String()
		}
		parts = append(parts, p.name+" "+value)
	}
	return name + ": " + strings.Join(parts, ", ")
}

// goodputText gives the rate of requests that met the limits.
func goodputText(g *result.Goodput) string {
	if g == nil {
		return ""
	}
	var limits []string
	for _, l := range []named[*float64]{{"TTFT", g.TTFT}, {"TPOT", g.TPOT}, {"TTLT", g.TTLT}} {
		if l.of != nil {
			limits = append(limits, fmt.Sprintf("%s %v", l.name, unit.Seconds(*l.of)))
		}
	}
	return fmt.Sprintf("%.4g requests a second, %.3g %% of all, within %s", g.PerSecond, 100*g.Share, strings.Join(limits, ", "))
}

// cacheText gives the share of prompt tokens that the server took from its prefix cache.
func cacheText(c *result.PrefixCache) string {
	switch {
	case c == nil:
		return ""
	case c.Share != nil:
		return fmt.Sprintf("%.3g %% of the prompts' tokens, by the server's %s", 100**c.Share, c.Source)
	case c.ControlTTFT != nil:
		return fmt.Sprintf("not counted by the server; prompts that were never sent before, one at a time, have a TTFT of %v",
			unit.Seconds(*c.ControlTTFT))
	}
	return "not known"
}

func metricsText(m *result.ServerMetrics) string {
	if m == nil {
		return ""
	}
	var parts []string
	for _, g := range []struct {
		of   *stats.Summary
		form string
		unit float64
	}{{m.Running, "%.3g requests running, at most %.3g", 1}, {m.Waiting, "%.3g waiting, at most %.3g", 1},
		{m.KVUse, "%.3g %% of the KV cache, at most %.3g %%", 100}} {
		if g.of != nil {
			parts = append(parts, fmt.Sprintf(g.form, g.unit*g.of.Mean, g.unit*g.of.Max))
		}
	}
	if n := m.Counters["preemptions"]; n > 0 {
		parts = append(parts, fmt.Sprintf("%.0f preemptions", n))
	}
	return strings.Join(parts, "; ")
}
