package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"llmprof/analytic"
	"llmprof/analytic/breakdown"
	"llmprof/hardware"
	"llmprof/plots/render"
	"llmprof/unit"
)

// Page is all of the estimate for people.
func (e *Estimate) Page() *render.Document {
	blocks := append(e.figures(), e.operatorTables()...)
	return &render.Document{Title: e.title(), Blocks: append(blocks, e.notes())}
}

// Explanation is the estimate with what it is computed from and how.
func (e *Estimate) Explanation() *render.Document {
	return &render.Document{Title: e.title(), Blocks: append(e.figures(), e.notes())}
}

// Operators is the short estimate with every operator.
func (e *Estimate) Operators() *render.Document {
	d := e.Brief()
	d.Width = 0
	d.Blocks = append(d.Blocks, e.operatorTables()...)
	return d
}

func (e *Estimate) figures() []render.Block {
	var load, home render.Fields
	if e.Load != nil {
		load = (&Load{e.Load}).block()
	}
	e.homeLines(home.Add)
	return []render.Block{e.setup(), load, e.times(), home, e.rates(), e.others(), e.memoryTable(), e.limits()}
}

func (e *Estimate) operatorTables() []render.Block {
	if e.Tokens == 0 {
		return []render.Block{e.prefillTable()}
	}
	return []render.Block{e.prefillTable(), e.decodeTable()}
}

// title says what was asked for: a load, or a batch.
func (e *Estimate) title() string {
	gpus, asked := e.GPUs, e.batch()
	if l := e.Load; l != nil {
		gpus, asked = gpusOf(l.Server), loadWords(l.Rate, l.Concurrency)
	}
	return fmt.Sprintf("%s on %s: %s", e.Model.Name, times(gpus, e.Machine.GPU.Name), asked)
}

func (e *Estimate) batch() string {
	w := &e.Workload
	return fmt.Sprintf("batch %d, prompt %d, generate %d", w.Batch, w.PromptLen, w.GenLen)
}

func (e *Estimate) prefillText() string {
	w := &e.Workload
	s := fmt.Sprintf("%d tokens", w.PromptLen-w.CachedPrefix)
	if w.Batch > 1 {
		s = fmt.Sprintf("%d × %s", w.Batch, s)
	}
	if w.CachedPrefix > 0 {
		s += fmt.Sprintf(" after %d cached ones", w.CachedPrefix)
	}
	if fresh := w.PromptLen - w.CachedPrefix; w.Chunk > 0 && w.Chunk < fresh {
		s += fmt.Sprintf(", in %d steps", (fresh+w.Chunk-1)/w.Chunk)
	}
	return s
}

// rankText says whose work the operators are.
func (e *Estimate) rankText() string {
	if e.Parallel.TP < 2 {
		return ""
	}
	return fmt.Sprintf(", on one of %d TP ranks", e.Parallel.TP)
}

// setup says what is estimated: model, GPU, split, formats, engine, calibration.
func (e *Estimate) setup() render.Fields {
	m, g, c := e.Model, e.Machine.GPU, &e.Machine.Cal
	return render.Fields{Rows: []render.Field{
		{Name: "Model", Lines: append([]string{asked(e.Request.Model, m.Name) + modelLine(m), "from " + m.Source}, layerLines(m)...)},
		{Name: "GPU", Lines: []string{e.gpuLine(g)}},
		{Name: "Split", Lines: []string{e.splitLine()}},
		{Name: "Formats", Lines: []string{e.schemeLine()}},
		{Name: "Engine", Lines: []string{e.engine("") + ": " + e.Machine.Engine.Profile().Source}},
		{Name: "Calibration", Lines: []string{fmt.Sprintf("%s: %s; error %s in prefill, %s in decode",
			c.Name, c.Source, errorText(&e.Prefill), errorText(e.decodeOrPrefill()))}},
	}}
}

// decodeOrPrefill is the phase whose error a decode step has: of a prompt alone it is that of the prefill.
func (e *Estimate) decodeOrPrefill() *analytic.Phase {
	if e.Tokens == 0 {
		return &e.Prefill
	}
	return &e.Decode
}

// errorText is how far the kernels of a phase may be off.
func errorText(p *analytic.Phase) string {
	low, high := fmt.Sprintf("%.0f", 100*p.KernelLow), fmt.Sprintf("%.0f", 100*p.KernelHigh)
	if low == high {
		return "±" + high + " %"
	}
	return fmt.Sprintf("−%s to +%s %%", low, high)
}

func (e *Estimate) gpuLine(g *hardware.GPU) string {
	run, peak := e.Machine.Runs(e.Computes())
	s := fmt.Sprintf("%s: %v, %v, %v dense in %v, %v", g.Name, g.Capacity(), g.Bandwidth, run.Rate(peak), run, g.TDP)
	if g.Joined() > 1 {
		s += fmt.Sprintf(", %v link each way", g.Link)
	}
	return asked(e.Request.GPU, g.Name) + s
}

// asked is the name that was given, where it is not the full one.
func asked(as, name string) string {
	if as == name {
		return ""
	}
	return as + " = "
}

func (e *Estimate) splitLine() string {
	p := &e.Parallel
	if e.GPUs == 1 {
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
	s += fmt.Sprintf(" = %d GPUs", e.GPUs)
	switch {
	case p.GathersTokens() && p.EP > 1:
		s += fmt.Sprintf(", experts over EP %d × TP %d", p.EP, p.ExpertTP())
	case p.GathersTokens():
		s += fmt.Sprintf(", experts over TP %d", p.ExpertTP())
	case p.EP > 1:
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

func (e *Estimate) schemeLine() string {
	s := &e.Scheme
	what := "weights"
	if s.Experts {
		what = "experts' weights"
	}
	text := fmt.Sprintf("%s in %v, activations in %v, KV cache in %v", what, s.Weights, s.Act, s.KV)
	if s.Group > 0 {
		text += fmt.Sprintf(", a scale for each %d weights", s.Group)
	}
	return fmt.Sprintf("%s: %s; %s", s.Name, text, e.SchemeReason)
}

// times are TTFT, TPOT and TTLT with their intervals.
func (e *Estimate) times() render.Table {
	t := render.Table{Title: "Time, with a 90 % interval from low to high", Columns: []render.Column{
		{Title: "", Left: true}, {Title: "floor"}, {Title: "expected"}, {Title: "low"}, {Title: "high"},
		{Title: "bound by", Left: true}, {Title: "", Left: true, Drop: 1},
	}}
	add := func(name string, s analytic.Span, bound any, what string) {
		t.Add(name, s.Floor, s.Expected, s.Low, s.High, bound, what)
	}
	add("TTFT", e.TTFT, PaintedBound(e.Prefill.Bound), "to the first token")
	if e.Tokens > 0 {
		add("TPOT", e.TPOT, PaintedBound(e.Decode.Bound), "for each token after it")
	}
	add("TTLT", e.TTLT, "", "to the last token")
	return t
}

// others are the metrics that no line of the page is made for.
func (e *Estimate) others() render.Fields {
	f, own := render.Fields{}, []string{"ttft_s", "tpot_s", "ttlt_s", "tok_s", "tok_s_gpu", "j_token", "j_request", "usd_h", "usd_mtok",
		"memory_bytes"}
	for _, m := range e.Metrics() {
		if m.Title != "" && m.Reason == "" && !slices.Contains(own, m.Key) {
			f.Add(m.Title, fmt.Sprint(quantity(&m)))
		}
	}
	return f
}

// quantity is a metric in its unit.
func quantity(m *unit.Metric) any {
	switch m.Unit {
	case "s":
		return unit.Seconds(m.Value)
	case "B":
		return unit.Bytes(m.Value)
	case "FLOP":
		return unit.FLOPs(m.Value)
	case "share":
		return fmt.Sprintf("%.3g %%", 100*m.Value)
	}
	return fmt.Sprintf("%.4g", m.Value)
}

// throttling says what the power limit costs; it is empty where the limit is not reached.
func (e *Estimate) throttling() string {
	var all []string
	for _, p := range []named[*analytic.Phase]{{"the prefill", &e.Prefill}, {"a decode step", &e.Decode}} {
		if h := p.of.Throttled; h > 0 {
			all = append(all, fmt.Sprintf("adds %v to %s, whose arithmetic runs %.2f times slower", h, p.name, p.of.Clock))
		}
	}
	if len(all) == 0 {
		return ""
	}
	limit := fmt.Sprintf("%v per GPU", e.Machine.Most())
	if c := e.Machine.Cap(); c.Clock > 0 {
		limit += fmt.Sprintf(" at no more than %v", c.Clock)
	}
	return fmt.Sprintf("%s %s", limit, strings.Join(all, " and "))
}

func (e *Estimate) rates() render.Fields {
	energy := &e.Energy
	f := render.Fields{Rows: []render.Field{
		{Name: "Throughput", Lines: []string{fmt.Sprintf("%s tok/s generated (%s per GPU), %s prompt tok/s in prefill",
			Rate(e.Throughput), Rate(e.PerGPU()), Rate(e.InputRate))}},
		{Name: "Utilization", Lines: []string{e.utilization()}},
		{Name: "Work", Lines: []string{e.work()}},
	}}
	used := fmt.Sprintf("%v per prompt, %v per request", energy.PerPrompt, energy.PerRequest)
	power := fmt.Sprintf("a GPU draws %v in prefill", energy.Prefill)
	if e.Tokens > 0 {
		used = fmt.Sprintf("%v per prompt, %v per token, %v per request", energy.PerPrompt, energy.PerToken, energy.PerRequest)
		power += fmt.Sprintf(" and %v in decode", energy.Decode)
	}
	f.Add("Energy", used+", over all GPUs; on average "+power)
	if text := e.throttling(); text != "" {
		f.Add("Power limit", text)
	}
	cost := "n/a: the GPU table has no price for " + e.Machine.GPU.Name + "; give --price"
	if e.Price > 0 {
		d := &e.Money
		cost = fmt.Sprintf("%v per million generated tokens, %v per million prompt and generated tokens, %v per thousand requests, at %v per "+
			"GPU (%s)",
			d.PerMillionGenerated, d.PerMillionTokens, 1000*d.PerRequest, e.Price, e.priceSource())
	}
	f.Add("Cost", cost)
	return f
}

func (e *Estimate) utilization() string {
	s := fmt.Sprintf("MFU %.1f %% of the peak in prefill", 100*e.MFU)
	if e.Tokens > 0 {
		s += fmt.Sprintf(", MBU %.1f %% of the bandwidth in decode", 100*e.MBU)
	}
	return s
}

// work is how much one replica computes.
func (e *Estimate) work() string {
	s := fmt.Sprintf("%v of matrix products in the prefill of the batch", e.Prefill.FLOPs)
	if e.Tokens > 0 {
		s += fmt.Sprintf(", %v in each decode step", e.Decode.FLOPs)
	}
	return s
}

// notes are the warnings, how the figures are computed, and the source of the GPU's.
func (e *Estimate) notes() render.Notes {
	return render.Notes{Title: "Notes", Items: slices.Concat(Texts(e.Warnings), e.method(), []string{"GPU figures: " + e.Machine.GPU.Source})}
}

// method says how the figures are computed.
func (e *Estimate) method() []string {
	all := []string{
		"The floor assumes the data sheet's peaks and perfect overlap of all resources; nothing beats it. It is less than " +
			"the sum of the operators' floors, where only the resources of one operator overlap.",
		fmt.Sprintf("FLOPs: %s. Confidence %s: %s.", e.Count.Method, e.Count.Confidence, e.Count.Reason),
	}
	for _, p := range []named[[]breakdown.Operator]{{"prefill", e.PrefillOps}, {"decode", e.DecodeOps}} {
		if in := fusedOps(p.of); len(in) > 0 {
			all = append(all, fmt.Sprintf("Fused in %s: %s. A fused operator has no launch, and its activations do not go through memory.",
				p.name, strings.Join(in, "; ")))
		}
	}
	return all
}

// fusedOps names the operators that the engine fuses into the kernel of another, for
// each such kernel.
func fusedOps(lines []breakdown.Operator) (all []string) {
	fused := map[string][]string{}
	var kernels []string
	for _, l := range lines {
		if l.In == "" || slices.Contains(fused[l.In], l.Name) {
			continue
		}
		if fused[l.In] == nil {
			kernels = append(kernels, l.In)
		}
		fused[l.In] = append(fused[l.In], l.Name)
	}
	for _, k := range kernels {
		all = append(all, strings.Join(fused[k], ", ")+" into "+k)
	}
	return all
}

func (e *Estimate) memoryTable() render.Table {
	m := &e.Memory
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
	add(render.Total, "total", m.Total, judged(m.Fits(), "fits", "does not fit"))
	if m.Usable < m.Capacity {
		add(render.Plain, "usable by "+e.Machine.Engine.Profile().Name, m.Usable, "")
	}
	add(render.Total, "capacity", m.Capacity, "")
	return t
}

// limits are the largest batch and the most tokens that fit.
func (e *Estimate) limits() render.Fields {
	m := &e.Memory
	tokens := "no limit: the state does not grow with the context"
	if !m.Unbounded {
		tokens = fmt.Sprintf("%d tokens of context, all sequences together", m.MaxTokens)
	}
	rows := []render.Field{
		{Name: "Max batch", Lines: []string{fmt.Sprintf("%d (prefill alone: %d, decode alone: %d)", m.MaxBatch, m.MaxPrefillBatch,
			m.MaxDecodeBatch)}},
		{Name: "Max tokens", Lines: []string{tokens}},
	}
	if m.Logged.Tokens > 0 {
		rows = append(rows, render.Field{Name: "Engine's log", Lines: []string{e.logged()}})
	}
	return render.Fields{Rows: rows}
}

// logged is what the log of the engine says of its KV cache at start-up.
func (e *Estimate) logged() string {
	l := &e.Memory.Logged
	if l.Blocks == 0 {
		return fmt.Sprintf("%.0f tokens, at most %.0f running requests", l.Tokens, l.Requests)
	}
	longest := cmp.Or(e.Workload.Longest, e.Workload.Context())
	return fmt.Sprintf("%.0f tokens, %.2f requests of %d", l.Tokens, l.Requests, longest)
}
