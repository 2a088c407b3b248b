package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"llmprof/analytic"
	"llmprof/cmd/llmprof/internal/render"
	"llmprof/hardware"
	"llmprof/roofline"
	"llmprof/unit"
)

// page is the estimate for people.
func (ans *answer) page() *render.Document {
	w := &ans.Workload
	d := &render.Document{Title: fmt.Sprintf("%s on %s: batch %d, prompt %d, generate %d",
		ans.Model.Name, ans.gpusText(), w.Batch, w.Prompt, w.Gen)}
	d.Blocks = append(d.Blocks, ans.setup(), ans.times(), ans.rates(), ans.memoryTable())
	d.Blocks = append(d.Blocks, ans.limits(), ans.phaseTable("Prefill: "+ans.prefillText()+ans.rankText(), &ans.Prefill, ans.PrefillOps))
	if ans.Tokens > 0 {
		d.Blocks = append(d.Blocks, ans.phaseTable(ans.decodeTitle(), &ans.Decode, ans.DecodeOps))
	}
	return &render.Document{Title: d.Title, Blocks: append(d.Blocks, ans.notes())}
}

func (ans *answer) gpusText() string {
	if ans.GPUs == 1 {
		return ans.gpu.Name
	}
	return fmt.Sprintf("%d × %s", ans.GPUs, ans.gpu.Name)
}

// prefillText says what the prefill runs on.
func (ans *answer) prefillText() string {
	w := &ans.Workload
	s := fmt.Sprintf("%d tokens", w.Prompt-w.CachedPrefix)
	if w.Batch > 1 {
		s = fmt.Sprintf("%d × %s", w.Batch, s)
	}
	if w.CachedPrefix > 0 {
		s += fmt.Sprintf(" after %d cached ones", w.CachedPrefix)
	}
	if fresh := w.Prompt - w.CachedPrefix; w.Chunk > 0 && w.Chunk < fresh {
		s += fmt.Sprintf(", in %d steps", (fresh+w.Chunk-1)/w.Chunk)
	}
	return s
}

// decodeTitle says which step of decode its operators are of.
func (ans *answer) decodeTitle() string {
	return fmt.Sprintf("Decode: one step at the mean context of %s tokens%s", trimFloat(ans.Context), ans.rankText())
}

// rankText says whose work the operators are.
func (ans *answer) rankText() string {
	if ans.Parallel.TP < 2 {
		return ""
	}
	return fmt.Sprintf(", on one of %d TP ranks", ans.Parallel.TP)
}

// setup says what was asked, with what the short names stand for.
func (ans *answer) setup() render.Fields {
	m, g, c := ans.Model, ans.gpu, &ans.Machine.Cal
	return render.Fields{Rows: []render.Field{
		{Name: "Model", Lines: append([]string{asked(ans.q.model, m.Name) + modelLine(m), "from " + m.Source}, layerLines(m)...)},
		{Name: "GPU", Lines: []string{ans.gpuLine(g)}},
		{Name: "Split", Lines: []string{ans.splitLine()}},
		{Name: "Formats", Lines: []string{ans.schemeLine()}},
		{Name: "Engine", Lines: []string{ans.Machine.Engine.Profile().Name + ": " + ans.Machine.Engine.Profile().Source}},
		{Name: "Calibration", Lines: []string{fmt.Sprintf("%s: %s; error ±%.0f %% in prefill, ±%.0f %% in decode",
			c.Name, c.Source, 100*c.PrefillError, 100*c.DecodeError)}},
	}}
}

func (ans *answer) gpuLine(g *hardware.GPU) string {
	run, peak := ans.Machine.Runs(ans.Scheme.Act)
	s := fmt.Sprintf("%s: %v, %v, %v dense in %v, %v", g.Name, g.Memory, g.Bandwidth, peak, run, g.TDP)
	if g.Link > 0 {
		s += fmt.Sprintf(", %v link each way", g.Link)
	}
	return asked(ans.q.gpu, g.Name) + s
}

// asked says what a name was asked for as, if by another.
func asked(as, name string) string {
	if as == name {
		return ""
	}
	return as + " = "
}

func (ans *answer) splitLine() string {
	p := &ans.Parallel
	if ans.GPUs == 1 {
		return "one GPU"
	}
	s := fmt.Sprintf("TP %d", p.TP)
	add := func(name string, n int) {
		if n > 1 {
			s += fmt.Sprintf(" × %s %d", name, n)
		}
	}
	add("PP", p.PP)
	add("DP", p.DP)
	s += fmt.Sprintf(" = %d GPUs", ans.GPUs)
	if p.EP > 1 {
		s += fmt.Sprintf(", experts over EP %d", p.EP)
	}
	if p.SP {
		s += ", sequence parallel"
	}
	if p.MicroBatches > 1 {
		s += fmt.Sprintf(", %d micro-batches", p.MicroBatches)
	}
	nodes := "one node"
	if n := p.Nodes(); n > 1 {
		nodes = fmt.Sprintf("%d nodes", n)
	}
	if p.GPUsPerNode > 0 {
		nodes += fmt.Sprintf(" of %d", p.GPUsPerNode)
	}
	return s + ", on " + nodes
}

func (ans *answer) schemeLine() string {
	s := &ans.Scheme
	what := "weights"
	if s.Experts {
		what = "experts' weights"
	}
	text := fmt.Sprintf("%s in %v, activations in %v, KV cache in %v", what, s.Weights, s.Act, s.KV)
	if s.Group > 0 {
		text += fmt.Sprintf(", a scale for each %d weights", s.Group)
	}
	return fmt.Sprintf("%s: %s; %s", s.Name, text, ans.schemeWhy)
}

// times is the headline: how long it takes.
func (ans *answer) times() render.Table {
	t := render.Table{Title: "Time, with a 90 % interval from low to high", Columns: []render.Column{
		{Title: "", Left: true}, {Title: "floor"}, {Title: "expected"}, {Title: "low"}, {Title: "high"},
		{Title: "bound by", Left: true}, {Title: "", Left: true, Drop: 1},
	}}
	add := func(name string, s analytic.Span, bound any, what string) {
		t.Rows = append(t.Rows, render.Row{Cells: []any{name, s.Floor, s.Expected, s.Low, s.High, bound, what}})
	}
	add("TTFT", ans.TTFT, painted(ans.Prefill.Bound), "to the first token")
	if ans.Tokens > 0 {
		add("TPOT", ans.TPOT, painted(ans.Decode.Bound), "for each token after it")
	}
	add("TTLT", ans.TTLT, "", "to the last token")
	return t
}

// held says what the power limit costs, nothing where it is not reached.
func (ans *answer) held() string {
	var all []string
	for _, p := range []struct {
		name  string
		phase *analytic.Phase
	}{{"the prefill", &ans.Prefill}, {"a decode step", &ans.Decode}} {
		if h := p.phase.Throttled; h > 0 {
			all = append(all, fmt.Sprintf("%v of %s, whose arithmetic it slows %.2f times", h, p.name, p.phase.Clock))
		}
	}
	if len(all) == 0 {
		return ""
	}
	return fmt.Sprintf("%v a GPU: costs %s", ans.gpu.TDP, strings.Join(all, ", "))
}

// rates is what follows from the times: throughput, utilization, energy, money.
func (ans *answer) rates() render.Fields {
	e, gpus := &ans.Energy, float64(ans.GPUs)
	f := render.Fields{Rows: []render.Field{
		{Name: "Throughput", Lines: []string{fmt.Sprintf("%s tok/s generated (%s a GPU), %s prompt tok/s while prefilling",
			rate(ans.Throughput), rate(ans.Throughput/gpus), rate(ans.InputRate))}},
		{Name: "Utilization", Lines: []string{ans.utilization()}},
		{Name: "Work", Lines: []string{ans.work()}},
	}}
	energy := fmt.Sprintf("%v a prompt, %v a request", e.PerPrompt, e.PerRequest)
	power := fmt.Sprintf("%v a GPU in prefill", e.Prefill)
	if ans.Tokens > 0 {
		energy = fmt.Sprintf("%v a prompt, %v a token, %v a request", e.PerPrompt, e.PerToken, e.PerRequest)
		power += fmt.Sprintf(", %v in decode", e.Decode)
	}
	f.Rows = append(f.Rows, render.Field{Name: "Energy", Lines: []string{energy + ", all GPUs together; " + power + ", on the mean"}})
	if held := ans.held(); held != "" {
		f.Rows = append(f.Rows, render.Field{Name: "Power limit", Lines: []string{held}})
	}
	cost := "n/a: the GPU table has no price for " + ans.gpu.Name + "; give --price"
	if ans.Price > 0 {
		d := &ans.Money
		cost = fmt.Sprintf("%v for a million generated tokens, %v for a million of all tokens, %v for a thousand requests, at %v a GPU (%s)",
			d.PerMillionGenerated, d.PerMillionTokens, 1000*d.PerRequest, ans.Price, ans.priceWhy)
	}
	f.Rows = append(f.Rows, render.Field{Name: "Cost", Lines: []string{cost}})
	return f
}

func (ans *answer) utilization() string {
	s := fmt.Sprintf("MFU %.1f %% of the peak in prefill", 100*ans.MFU)
	if ans.Tokens > 0 {
		s += fmt.Sprintf(", MBU %.1f %% of the bandwidth in decode", 100*ans.MBU)
	}
	return s
}

// work is how much one replica computes.
func (ans *answer) work() string {
	s := fmt.Sprintf("%v in prefill", ans.Prefill.FLOPs)
	if ans.Tokens > 0 {
		s += fmt.Sprintf(", %v a decode step", ans.Decode.FLOPs)
	}
	return s + ", matrix products of the model for the batch"
}

// rate is a number of tokens a second in four digits.
func rate(v float64) string {
	decimals := 0
	for limit := 999.95; v < limit && decimals < 3; limit /= 10 {
		decimals++
	}
	return strconv.FormatFloat(v, 'f', decimals, 64)
}

// trimFloat is a number with the decimals that it has, at most one.
func trimFloat(v float64) string {
	if v == float64(int64(v)) {
		return strconv.FormatInt(int64(v), 10)
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}

// painted is a bound in its colour.
func painted(b roofline.Bound) render.Painted {
	colors := [...]render.Color{render.Compute, render.Memory, render.Network, render.Launch}
	return render.Painted{Value: b, Color: colors[int(b)%len(colors)]}
}

// notes is what a reader has to know.
func (ans *answer) notes() render.Notes {
	return render.Notes{Title: "Notes", Items: slices.Concat(ans.Warnings, ans.method(), []string{"GPU figures: " + ans.gpu.Source})}
}

// method is how the figures came about.
func (ans *answer) method() []string {
	all := []string{
		"The floor takes the data sheet's peaks and lets all resources work at once; nothing beats it. It is less than " +
			"the sum of the operators' floors, in which only the resources of one operator overlap.",
		fmt.Sprintf("FLOPs: %s. Confidence %s: %s.", ans.Count.Method, ans.Count.Confidence, ans.Count.Reason),
	}
	for _, p := range []struct {
		name  string
		lines []analytic.Line
	}{{"prefill", ans.PrefillOps}, {"decode step", ans.DecodeOps}} {
		if in := carried(p.lines); len(in) > 0 {
			all = append(all, fmt.Sprintf("The engine does within other kernels of a %s, so without a launch of their own and without their activations in memory: %s.",
				p.name, strings.Join(in, ", ")))
		}
	}
	return all
}

// carried says which operators are done within whose kernels.
func carried(lines []analytic.Line) (all []string) {
	for i := range lines {
		if l := &lines[i]; l.In != "" {
			if text := l.Name + " in " + l.In; !slices.Contains(all, text) {
				all = append(all, text)
			}
		}
	}
	return all
}

// memoryTable is what one GPU holds.
func (ans *answer) memoryTable() render.Table {
	m := &ans.Memory
	t := render.Table{Title: "Memory of one GPU", Columns: []render.Column{
		{Title: "", Left: true}, {Title: "size", Unit: "B"}, {Title: "share", Unit: "%", Fixed: true}, {Title: "", Left: true, Drop: 1},
	}}
	add := func(kind render.RowKind, name string, b unit.Bytes, note any) {
		share := float64(b) / float64(m.Capacity)
		if note == nil {
			note = render.Bar(share)
		}
		t.Rows = append(t.Rows, render.Row{Kind: kind, Cells: []any{name, b, 100 * share, note}})
	}
	add(render.Plain, "weights", m.Weights, nil)
	add(render.Plain, "KV cache", m.KV, nil)
	if m.State > 0 {
		add(render.Plain, "state", m.State, nil)
	}
	add(render.Plain, "activations", m.Activations, nil)
	add(render.Plain, "reserve", m.Reserve, nil)
	verdict := render.Painted{Value: "fits", Color: render.Good}
	if !m.Fits() {
		verdict = render.Painted{Value: "does not fit", Color: render.Bad}
	}
	add(render.Total, "total", m.Total, verdict)
	add(render.Total, "capacity", m.Capacity, "")
	return t
}

// limits is what else would fit.
func (ans *answer) limits() render.Fields {
	m := &ans.Memory
	tokens := "not limited by the cache, which does not grow"
	if !m.Unbounded {
		tokens = fmt.Sprintf("%d tokens of context in all", m.MaxTokens)
	}
	return render.Fields{Rows: []render.Field{
		{Name: "Max batch", Lines: []string{fmt.Sprintf("%d (%d in prefill alone, %d in decode alone)", m.MaxBatch, m.MaxPrefillBatch, m.MaxDecodeBatch)}},
		{Name: "Max tokens", Lines: []string{tokens}},
	}}
}
