package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"llmprof/analytic"
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
