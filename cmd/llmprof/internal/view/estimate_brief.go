package view

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"

	"llmprof/analytic"
	"llmprof/analytic/breakdown"
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
	ttft, tpot, ttlt := e.latencies()
	paint(PaintedBound(e.Prefill.Bound).Color, "TTFT", fmt.Sprintf("%s (90 %% interval %s); %s", ttft.Value, ttft.Interval, ttft.Note))
	if e.Tokens > 0 {
		paint(PaintedBound(e.Decode.Bound).Color, "TPOT", fmt.Sprintf("%v; %s", tpot, tpot.Note))
	}
	e.homeLines(add)
	add("TTLT", ttlt.String())
	add("Throughput", e.throughputLine(verdict.Possible))
	add("Energy", e.energyLine())
	add("Cost", e.costLine(verdict.Possible))
	add("Rests on", e.calibration())
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

// around is a value with its interval.
func around(r unit.Rounded) string { return fmt.Sprintf("%v (%s)", r, r.Interval()) }

// throughputLine is the generated tokens a second.
func (e *Estimate) throughputLine(possible bool) string {
	rate, each := e.throughput()
	switch {
	case !possible:
		return "none: it cannot run"
	case e.GPUs > 1:
		return fmt.Sprintf("%v, %s per GPU", rate, each)
	}
	return rate.String()
}

// rounded is a number and its interval in as many digits as the interval leaves.
func rounded(v, low, high float64) (value, interval string) {
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
	h, all := e.energy(), &e.Energy
	text := fmt.Sprintf("%v %s", h, h.Note)
	if e.Tokens > 0 {
		text += fmt.Sprintf(", %v per prompt, %v per request", unit.Around(all.PerPrompt, all.Prompt.Low, all.Prompt.High),
			unit.Around(all.PerRequest, all.Request.Low, all.Request.High))
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
	return fmt.Sprintf("%v per million generated tokens, at %v a GPU", e.cost(), e.Price)
}

// calibration says what the figures rest on.
func (e *Estimate) calibration() string {
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
		value, interval := rounded(v, v*float64(s.Expected/s.High), v*float64(s.Expected/s.Low))
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
	Evidence  string      `json:"basis"`
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
	w := &Words{Fits: e.verdictLine(&v), Evidence: e.calibration(), Headlines: e.headlines(), Prefill: opWords(e.PrefillOps),
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
	ttft, tpot, ttlt := e.latencies()
	all := []Headline{ttft}
	if e.Tokens > 0 {
		all = append(all, tpot)
	}
	all = append(all, ttlt)
	if e.Verdict().Possible {
		rate, each := e.throughput()
		rate.Note = each + " tok/s per GPU"
		all = append(all, rate, e.cost(), e.energy())
	}
	return all
}

// latencies are the times of a request; that of a token is of no use where one token is generated.
func (e *Estimate) latencies() (ttft, tpot, ttlt Headline) {
	return timeHeadline("ttft", "TTFT", e.TTFT, e.Prefill.Bound.String()+"-bound, "),
		timeHeadline("tpot", "TPOT", e.TPOT, e.Decode.Bound.String()+"-bound, "), timeHeadline("ttlt", "TTLT", e.TTLT, "")
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
	return Headline{Key: key, Name: name, Value: r.String(), Interval: r.Interval(), SI: float64(s.Expected), High: float64(s.High),
		Note: bound + "floor " + unit.Around(s.Floor, s.Floor, s.Floor).String()}
}

// String is the figure with its interval.
func (h Headline) String() string { return fmt.Sprintf("%s (%s)", h.Value, h.Interval) }

// throughput is the generated tokens a second, of all GPUs and of each.
func (e *Estimate) throughput() (all Headline, each string) {
	m, one := e.Metric("tok_s"), e.Metric("tok_s_gpu")
	value, interval := rounded(m.Value, m.Low, m.High)
	each, _ = rounded(one.Value, one.Low, one.High)
	// The slow end of a rate is its low one.
	return Headline{Key: "tps", Name: "Throughput", Value: value + " tok/s", Interval: interval, SI: m.Value, High: m.Low}, each
}

// cost is the price of a million generated tokens.
func (e *Estimate) cost() Headline {
	if e.Price <= 0 {
		return Headline{Key: "usd", Name: "Cost", Value: "n/a", Note: "no price of " + e.Machine.GPU.Name + " is known: give one"}
	}
	m := e.Metric("usd_mtok")
	value, interval := rounded(m.Value, m.Low, m.High)
	return Headline{Key: "usd", Name: "Cost", Value: "$" + value, Interval: interval, SI: m.Value, High: m.High,
		Note: fmt.Sprintf("per million generated; %v per GPU", e.Price)}
}

// energy is that of a token, or of a prompt where one token is generated.
func (e *Estimate) energy() Headline {
	j, i, per := e.Energy.PerToken, e.Energy.Token, "per token"
	if e.Tokens == 0 {
		j, i, per = e.Energy.PerPrompt, e.Energy.Prompt, "per prompt"
	}
	r := unit.Around(j, i.Low, i.High)
	return Headline{Key: "j", Name: "Energy", Value: r.String(), Interval: r.Interval(), Note: per, SI: float64(j), High: float64(i.High)}
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
