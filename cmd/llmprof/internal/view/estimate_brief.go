package view

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"

	"llmprof/analytic"
	"llmprof/analytic/breakdown"
	"llmprof/analytic/energy"
	"llmprof/cmd/llmprof/internal/settings"
	"llmprof/deployment"
	"llmprof/plots/render"
	"llmprof/unit"
)

// briefWidth is the width of the short answer, also where there is more room.
const briefWidth = 80

// Brief is the estimate for people in some 15 lines: whether it fits, the figures in as
// many digits as they mean, what they rest on, and what would change them most.
func (e *Estimate) Brief() *render.Document {
	f := render.Fields{}
	paint := func(color render.Color, name string, lines ...string) {
		f.Rows = append(f.Rows, render.Field{Name: name, Lines: lines, Color: color})
	}
	add := func(name string, lines ...string) { paint(render.NoColor, name, lines...) }
	verdict := e.Verdict()
	color := render.Good
	if !verdict.Possible {
		color = render.Bad
	}
	paint(color, "Fits", e.verdictLine(&verdict))
	paint(PaintedBound(e.Prefill.Bound).Color, "TTFT", e.timeLine(e.TTFT, &e.Prefill, "90 % interval "))
	if e.Tokens > 0 {
		paint(PaintedBound(e.Decode.Bound).Color, "TPOT", e.timeLine(e.TPOT, &e.Decode, ""))
	}
	e.homeLines(add)
	add("TTLT", around(unit.Around(e.TTLT.Expected, e.TTLT.Low, e.TTLT.High), ""))
	add("Throughput", e.throughputLine())
	add("Energy", e.energyLine())
	add("Cost", e.costLine(verdict.Possible))
	add("Rests on", e.basis())
	if text := e.resourceLine(); text != "" {
		add("Depends on", text)
	}
	if lines := e.choiceLines(); len(lines) > 0 && verdict.Possible {
		add("Try", lines...)
	}
	if e.Links != nil {
		add("Links", Text(e.Links))
	}
	if notes := e.briefNotes(); len(notes) > 0 {
		add("Note", notes...)
	}
	add("More", "--ops, --explain, --full, or llmprof report for a page with pictures")
	d := &render.Document{Title: e.title(), Width: briefWidth, Blocks: []render.Block{f}}
	if e.Load != nil { // It is what was asked for.
		f.Title = "Without other requests: " + e.batch()
		d.Blocks = []render.Block{(&Load{e.Load}).block(), f}
	}
	return d
}

// verdictLine says whether it fits, in which memory, and what would make it fit.
func (e *Estimate) verdictLine(v *deployment.Verdict) string {
	m := &e.Memory
	if v.Possible {
		text := fmt.Sprintf("yes: %s; max batch %d", e.memoryLine(), m.MaxBatch)
		if m.Logged.Tokens > 0 {
			text += "; the engine's log: " + e.logged()
		}
		return text
	}
	text := "no: " + v.Text
	if v.Short != nil {
		text = fmt.Sprintf("no: %s short, %s", e.sized(*v.Short), e.memoryLine())
		if v.Over != nil {
			text += "; " + e.OverText(*v.Over)
		}
	}
	if i := slices.IndexFunc(e.Warnings, func(w unit.Warning) bool { return strings.HasPrefix(w.Code, "fits_") }); i >= 0 {
		text += "; " + Text(&e.Warnings[i])
	}
	return text
}

// timeLine is a time with its interval, its floor and its bound.
func (e *Estimate) timeLine(s analytic.Span, p *analytic.Phase, label string) string {
	floor := unit.Around(s.Floor, s.Floor, s.Floor)
	return fmt.Sprintf("%s; %s-bound, floor %v", around(unit.Around(s.Expected, s.Low, s.High), label), p.Bound, floor)
}

func around(r unit.Rounded, label string) string {
	return fmt.Sprintf("%v (%s%s)", r, label, r.Interval())
}

// throughputLine is the generated tokens a second.
func (e *Estimate) throughputLine() string {
	rate, each := e.Metric("tok_s"), e.Metric("tok_s_gpu")
	if rate.Reason != "" {
		return "none: it cannot run"
	}
	v, interval := rounded(rate)
	s := fmt.Sprintf("%s tok/s (%s)", v, interval)
	if e.GPUs > 1 {
		each, _ := rounded(each)
		s += fmt.Sprintf(", %s per GPU", each)
	}
	return s
}

// rounded is a metric and its interval in as many digits as the interval leaves.
func rounded(m *unit.Metric) (value, interval string) { return roundedNumber(m.Value, m.Low, m.High) }

// roundedNumber is a number and its interval in as many digits as the interval leaves.
func roundedNumber(v, low, high float64) (value, interval string) {
	digits := 3
	if high-low >= 0.2*v {
		digits = 2
	}
	return unit.Significant(v, digits), unit.Significant(low, digits) + " to " + unit.Significant(high, digits)
}

func (e *Estimate) memoryLine() string {
	m := &e.Memory
	parts := []string{"weights " + e.giga(m.Weights)}
	if m.KV > 0 {
		parts = append(parts, "KV cache "+e.giga(m.KV))
	}
	if m.State > 0 {
		parts = append(parts, "state "+e.giga(m.State))
	}
	return fmt.Sprintf("%s of %s (%s)", e.giga(m.Total), e.sized(m.Usable), strings.Join(parts, ", "))
}

func (e *Estimate) sized(b unit.Bytes) string {
	if e.Binary {
		return e.giga(b) + " GiB"
	}
	return e.giga(b) + " GB"
}

// giga is a size in GB, or in GiB, with three digits, and two decimals at most.
func (e *Estimate) giga(b unit.Bytes) string {
	v := float64(b) / 1e9
	if e.Binary {
		v = float64(b) / (1 << 30)
	}
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v > 0 && v < 0.005:
		return "<0.01"
	}
	return fmt.Sprintf("%.2f", v)
}

// energyLine is the energy with its interval.
func (e *Estimate) energyLine() string {
	span := func(j unit.Joules, i energy.Interval) unit.Rounded { return unit.Around(j, i.Low, i.High) }
	prompt, request := span(e.Energy.PerPrompt, e.Energy.Prompt), span(e.Energy.PerRequest, e.Energy.Request)
	text := around(prompt, "") + " per prompt"
	if e.Tokens > 0 {
		token := span(e.Energy.PerToken, e.Energy.Token)
		text = fmt.Sprintf("%s per token, %v per prompt, %v per request", around(token, ""), prompt, request)
	}
	if !e.Energy.IdleKnown {
		text += " (idle power assumed)"
	}
	return text
}

// costLine is the price of a million generated tokens.
func (e *Estimate) costLine(possible bool) string {
	switch {
	case !possible:
		return "none: it cannot run"
	case e.Price <= 0:
		return "n/a: no price of " + e.Machine.GPU.Name + " is known; give --price"
	}
	v, interval := rounded(e.Metric("usd_mtok"))
	return fmt.Sprintf("$%s (%s) per million generated tokens, at %v a GPU", v, interval, e.Price)
}

// basis says what the figures rest on.
func (e *Estimate) basis() string {
	formats := fmt.Sprintf("%s weights, %s KV cache", e.Scheme.Weights, e.Scheme.KV)
	switch {
	case e.Memory.KV == 0:
		formats = fmt.Sprintf("%s weights", e.Scheme.Weights)
	case e.Scheme.KV == e.Scheme.Weights:
		formats = fmt.Sprintf("%s weights and KV cache", e.Scheme.Weights)
	}
	runs := cmp.Or(e.Machine.Engine.Profile().Unmeasured, e.engine(" engine"))
	return fmt.Sprintf("%s; %s; constants: %s", runs, formats, e.Machine.Cal.Name)
}

// engine names the engine and, where nobody asked for it, why it was taken.
func (e *Estimate) engine(noun string) string {
	profile := e.Machine.Engine.Profile()
	name := profile.Name + noun
	if profile.Told != "" {
		name += " with " + profile.Told
	}
	if e.EngineReason == "" {
		return name
	}
	return name + " (" + e.EngineReason + ")"
}

// resourceLine says which resources a request's time depends on most.
func (e *Estimate) resourceLine() string {
	var parts []string
	for i, g := range e.Depends() {
		text := fmt.Sprintf("%s (−%.1f %%)", g.Name, 100*g.Share)
		if i == 0 {
			text = fmt.Sprintf("%s (10 %% faster: TTLT −%.1f %%)", g.Name, 100*g.Share)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// choiceLines say which choices gain most.
func (e *Estimate) choiceLines() (lines []string) {
	for _, c := range e.Try() {
		text := fmt.Sprintf("%s: tok/s per GPU × %.2f", c.By.In(settings.Flag), c.PerGPU)
		if c.TPOT > 0 {
			text += fmt.Sprintf(", TPOT × %.2f", c.TPOT)
		}
		lines = append(lines, text)
	}
	return lines
}

// mostNotes is how many remarks the short answer has; the others are in --explain.
const mostNotes = 1

// briefNotes are the first remarks that the other lines do not say.
func (e *Estimate) briefNotes() (notes []string) {
	said := []string{"memory_short", "context_too_long", "fits_with", "fits_nowhere", "idle_power_assumed", "engine_unmeasured",
		"links_assumed"}
	for i := range e.Warnings {
		if w := &e.Warnings[i]; !slices.Contains(said, w.Code) {
			notes = append(notes, Text(w))
		}
	}
	if left := len(notes) - mostNotes; left > 0 {
		notes = notes[:mostNotes]
		notes[mostNotes-1] += fmt.Sprintf(" (%d more with --explain)", left)
	}
	return notes
}

// homeRates is the rates of a variant in a line.
func homeRates(r *deployment.HomeRates) string {
	return fmt.Sprintf("%s: %s tok/s, prompts %s", r.Name, unit.Significant(r.Generate, 2), unit.Significant(r.Prefill, 2))
}

// homeLines are what the short answer says of the memory of the host.
func (e *Estimate) homeLines(add func(name string, lines ...string)) {
	h := e.Home
	if h == nil {
		return
	}
	rate := func(v float64, s analytic.Span) string {
		value, interval := roundedNumber(v, v*float64(s.Expected/s.High), v*float64(s.Expected/s.Low))
		return fmt.Sprintf("%s tok/s (%s)", value, interval)
	}
	own := deployment.RatesOf("", &e.Estimate, e.Workload.Batch)
	text := "prompts " + rate(own.Prefill, e.TTFT)
	if own.Generate > 0 {
		text = "generation " + rate(own.Generate, e.TPOT) + ", " + text
	}
	add("Speed", text)
	add("Host", fmt.Sprintf("%s of %s in its memory (weights %s, KV cache %s); %s, %v", e.giga(h.Weights+h.KV), e.sized(h.RAM),
		e.giga(h.Weights), e.giga(h.KV), h.Host, h.Bandwidth))
	add("Command", h.Command)
	if h.Own != nil {
		add("Own --fit", homeRates(h.Own))
	}
	var worth []string
	for i := range h.Worth {
		worth = append(worth, homeRates(&h.Worth[i]))
	}
	if len(worth) > 0 {
		add("Worth", strings.Join(worth, "; "))
	}
}

// A Headline is one figure of an estimate as people read it.
type Headline struct {
	Key      string  `json:"key"`
	Name     string  `json:"name"`
	Value    string  `json:"value"`
	Interval string  `json:"interval"`
	Note     string  `json:"note"`
	SI       float64 `json:"si"`
	High     float64 `json:"high"` // the interval's slow end
}

// Words is an estimate as a page says it, rounded as the command line rounds it.
type Words struct {
	Fits      string      `json:"fits"`
	Basis     string      `json:"basis"`
	Headlines []Headline  `json:"headlines"`
	Memory    [][2]string `json:"memory"`
	Prefill   []OpWords   `json:"prefill"`
	Decode    []OpWords   `json:"decode"`
	Roofs     []Roof      `json:"roofs"` // roofs of the formats of the GEMMs, the highest first
	Bandwidth float64     `json:"bandwidth_bytes_per_s"`
	Home      [][2]string `json:"home"` // what lies in host memory, and what it is worth, by name
}

// A Roof is the peak of a number format.
type Roof struct {
	Format string  `json:"format"`
	Peak   float64 `json:"peak_flop_per_s"`
}

// OpWords is an operator as a page says it.
type OpWords struct {
	Expected  string `json:"expected"`
	Floor     string `json:"floor"`
	FLOPs     string `json:"flops"`
	Bytes     string `json:"bytes"`
	Intensity string `json:"intensity"`
	Share     string `json:"share"`
	Format    string `json:"format"`
}

// Words is the estimate in words.
func (e *Estimate) Words() *Words {
	v := e.Verdict()
	w := &Words{Fits: e.verdictLine(&v), Basis: e.basis(), Headlines: e.headlines(), Prefill: opWords(e.PrefillOps),
		Decode: opWords(e.DecodeOps)}
	m := &e.Memory
	for _, part := range []named[unit.Bytes]{
		{"weights", m.Weights}, {"KV cache", m.KV}, {"state", m.State}, {"activations", m.Activations}, {"reserve", m.Reserve},
		{"total", m.Total}, {"usable", m.Usable}, {"capacity", m.Capacity},
	} {
		w.Memory = append(w.Memory, [2]string{part.name, e.sized(part.of)})
	}
	e.homeLines(func(name string, lines ...string) { w.Home = append(w.Home, [2]string{name, strings.Join(lines, " ")}) })
	w.Roofs, w.Bandwidth = e.roofs(), float64(e.Machine.GPU.Bandwidth)
	return w
}

// headlines are the figures that people ask for first: times, and rates where it can run.
func (e *Estimate) headlines() []Headline {
	all := []Headline{timeHeadline("ttft", "TTFT", e.TTFT, e.Prefill.Bound.String())}
	if e.Tokens > 0 {
		all = append(all, timeHeadline("tpot", "TPOT", e.TPOT, e.Decode.Bound.String()))
	}
	all = append(all, timeHeadline("ttlt", "TTLT", e.TTLT, ""))
	if e.Verdict().Possible {
		all = append(all, e.rateHeadlines()...)
	}
	return all
}

// roofs are the peaks of the formats that GEMMs run in, the highest first.
func (e *Estimate) roofs() (all []Roof) {
	for _, ops := range [][]breakdown.Operator{e.PrefillOps, e.DecodeOps} {
		for i := range ops {
			if ops[i].FLOPs == 0 {
				continue
			}
			run, peak := e.Machine.Runs(ops[i].Format)
			if r := (Roof{run.String(), float64(peak)}); !slices.Contains(all, r) {
				all = append(all, r)
			}
		}
	}
	// slices.SortStableFunc would be compiled for this type alone, 7 kB of the page's program.
	sort.SliceStable(all, func(i, j int) bool { return all[i].Peak > all[j].Peak })
	return all
}

func timeHeadline(key, name string, s analytic.Span, bound string) Headline {
	r := unit.Around(s.Expected, s.Low, s.High)
	note := "floor " + unit.Around(s.Floor, s.Floor, s.Floor).String()
	if bound != "" {
		note = bound + "-bound, " + note
	}
	return Headline{Key: key, Name: name, Value: r.String(), Interval: r.Interval(), Note: note, SI: float64(s.Expected),
		High: float64(s.High)}
}

// rateHeadlines are those that exist only where it can run.
func (e *Estimate) rateHeadlines() []Headline {
	headline := func(key, name string, m *unit.Metric, format, note string) Headline {
		v, interval := rounded(m)
		return Headline{Key: key, Name: name, Value: fmt.Sprintf(format, v), Interval: interval, Note: note, SI: m.Value, High: m.High}
	}
	each, _ := rounded(e.Metric("tok_s_gpu"))
	rate := headline("tps", "Throughput", e.Metric("tok_s"), "%s tok/s", each+" tok/s per GPU")
	rate.High = e.Metric("tok_s").Low // the slow end
	usd := headline("usd", "Cost", e.Metric("usd_mtok"), "$%s", fmt.Sprintf("per million generated; %v per GPU", e.Price))
	if e.Price <= 0 {
		usd = Headline{Key: "usd", Name: "Cost", Value: "n/a", Note: "no price of " + e.Machine.GPU.Name + " is known: give one"}
	}
	j, i, per := e.Energy.PerToken, e.Energy.Token, "per token"
	if e.Tokens == 0 {
		j, i, per = e.Energy.PerPrompt, e.Energy.Prompt, "per prompt"
	}
	r := unit.Around(j, i.Low, i.High)
	return []Headline{rate, usd, {Key: "j", Name: "Energy", Value: r.String(), Interval: r.Interval(), Note: per, SI: float64(j),
		High: float64(i.High)}}
}

func opWords(ops []breakdown.Operator) []OpWords {
	all := make([]OpWords, len(ops))
	for i := range ops {
		o := &ops[i]
		w := &all[i]
		w.Expected, w.Floor, w.Share = o.Expected.String(), o.Floor.String(), fmt.Sprintf("%.1f %%", 100*o.Share)
		if o.FLOPs > 0 {
			w.FLOPs, w.Format = o.FLOPs.String(), o.Format.String()
		}
		if b := o.Traffic(); b > 0 {
			w.Bytes = b.String()
		}
		if x := finite(o.Intensity()); x != nil && *x > 0 {
			w.Intensity = unit.Significant(*x, 3)
		}
	}
	return all
}
