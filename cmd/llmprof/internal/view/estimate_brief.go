package view

import (
	"fmt"
	"strings"

	"llmprof/analytic"
	"llmprof/analytic/sensitivity"
	"llmprof/cmd/llmprof/internal/render"
	"llmprof/unit"
)

// Brief is the estimate for people in some 15 lines: whether it fits, the figures in as
// many digits as they mean, what they rest on, and what would change them most.
func (e *Estimate) Brief() *render.Document {
	f := render.Fields{}
	add := func(name string, lines ...string) {
		f.Rows = append(f.Rows, render.Field{Name: name, Lines: lines})
	}
	verdict := e.Verdict()
	name := "Fits"
	if !verdict.Possible {
		name = "No"
	}
	add(name, e.verdictLine(&verdict))
	add("TTFT", e.timeLine(e.TTFT, &e.Prefill)+" (90 % interval)")
	if e.Tokens > 0 {
		add("TPOT", e.timeLine(e.TPOT, &e.Decode))
	}
	add("Throughput", e.throughputLine(verdict.Possible))
	add("Memory", e.memoryLine())
	add("Energy", e.energyLine())
	add("Cost", e.costLine(verdict.Possible))
	add("Rests on", e.basis())
	if text := e.resourceLine(); text != "" {
		add("Depends on", text)
	}
	if text := e.choiceLine(); text != "" && verdict.Possible {
		add("Try", text)
	}
	if notes := e.briefNotes(); len(notes) > 0 {
		add("Note", notes...)
	}
	add("More", "--ops, --explain, --full, or llmprof report for a page with pictures")
	return &render.Document{Title: e.title(), Blocks: []render.Block{f}}
}

// verdictLine says whether it fits, and what would make it fit.
func (e *Estimate) verdictLine(v *Verdict) string {
	if v.Possible {
		m := &e.Memory
		return fmt.Sprintf("%.0f %% of the memory of each GPU; at most batch %d at this length", 100*float64(m.Total/m.Capacity), m.MaxBatch)
	}
	text := strings.ToUpper(v.Text[:1]) + v.Text[1:]
	if hint := e.WhatFits(); hint != "" {
		text += "; " + hint
	}
	return text
}

// timeLine is a time with its interval, its floor and its bound.
func (e *Estimate) timeLine(s analytic.Span, p *analytic.Phase) string {
	r := unit.Around(s.Expected, s.Low, s.High)
	floor := unit.Around(s.Floor, s.Floor, s.Floor)
	return fmt.Sprintf("%v, %s-bound; floor %v; %s %s", r, p.Bound, floor, r.Interval(), r.Unit)
}

// throughputLine is the tokens a second, and how long a request takes.
func (e *Estimate) throughputLine(possible bool) string {
	r := unit.Around(e.TTLT.Expected, e.TTLT.Low, e.TTLT.High)
	request := fmt.Sprintf("a request takes %v, %s", r, r.Interval())
	if !possible {
		return "none, since it cannot run; " + request + " if it could"
	}
	low, high := e.scaled(e.Throughput, e.TTLT.High), e.scaled(e.Throughput, e.TTLT.Low)
	v, interval := roundedNumber(e.Throughput, low, high)
	s := fmt.Sprintf("%s tok/s, %s", v, interval)
	if e.GPUs > 1 {
		each, _ := roundedNumber(e.Throughput/float64(e.GPUs), low/float64(e.GPUs), high/float64(e.GPUs))
		s += fmt.Sprintf(" (%s on each GPU)", each)
	}
	return s + "; " + request
}

// scaled is a rate at another length of the request.
func (e *Estimate) scaled(rate float64, ttlt unit.Seconds) float64 {
	return rate * float64(e.TTLT.Expected/ttlt)
}

// roundedNumber is a number and its interval in as many digits as the interval leaves.
func roundedNumber(v, low, high float64) (value, interval string) {
	digits := 3
	if high-low >= 0.2*v {
		digits = 2
	}
	return unit.Significant(v, digits), unit.Significant(low, digits) + " to " + unit.Significant(high, digits)
}

// memoryLine is what the memory of one GPU holds.
func (e *Estimate) memoryLine() string {
	m := &e.Memory
	parts := []string{fmt.Sprintf("weights %s", gigabytes(m.Weights))}
	for _, p := range []struct {
		name string
		size unit.Bytes
	}{{"KV cache", m.KV}, {"state", m.State}, {"activations", m.Activations}, {"reserve", m.Reserve}} {
		if p.size > 0 {
			parts = append(parts, p.name+" "+gigabytes(p.size))
		}
	}
	return fmt.Sprintf("%s of %s GB: %s", gigabytes(m.Total), gigabytes(m.Capacity), strings.Join(parts, ", "))
}

// gigabytes is a size in GB with three digits, and two decimals at most.
func gigabytes(b unit.Bytes) string {
	v := float64(b) / 1e9
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

// energyLine is the energy, its interval being that of the time at the same power.
func (e *Estimate) energyLine() string {
	span := func(j unit.Joules, s analytic.Span) unit.Rounded {
		return unit.Around(j, j.Times(float64(s.Low/s.Expected)), j.Times(float64(s.High/s.Expected)))
	}
	prompt, request := span(e.Energy.PerPrompt, e.TTFT), span(e.Energy.PerRequest, e.TTLT)
	if e.Tokens == 0 {
		return fmt.Sprintf("%v a prompt, %s", prompt, prompt.Interval())
	}
	token := span(e.Energy.PerToken, e.TPOT)
	return fmt.Sprintf("%v a token, %s; %v a prompt; %v a request", token, token.Interval(), prompt, request)
}

// costLine is the price of a million generated tokens.
func (e *Estimate) costLine(possible bool) string {
	switch {
	case !possible:
		return "none, since it cannot run"
	case e.Price <= 0:
		return "n/a: no price of " + e.Machine.GPU.Name + " is known; give --price"
	}
	c := e.Money.PerMillionGenerated
	v, interval := roundedNumber(float64(c), float64(c)*float64(e.TTLT.Low/e.TTLT.Expected), float64(c)*float64(e.TTLT.High/e.TTLT.Expected))
	return fmt.Sprintf("$%s, %s, for a million generated tokens at $%.2f an hour for a GPU", v, interval, float64(e.Price))
}

// basis says what the figures rest on.
func (e *Estimate) basis() string {
	c := &e.Machine.Cal
	formats := fmt.Sprintf("%s weights, %s KV cache", e.Scheme.Weights, e.Scheme.KV)
	return fmt.Sprintf("engine %s, %s; constants %s, ±%.0f %% in prefill and ±%.0f %% in decode",
		e.Machine.Engine.Profile().Name, formats, c.Name, 100*c.PrefillError, 100*c.DecodeError)
}

// least is the change of a request's time that is worth a word.
const least = 0.005

// resourceLine says which resources a request's time depends on most.
func (e *Estimate) resourceLine() string {
	var parts []string
	for _, r := range sensitivity.Resources(&e.Case) {
		if gain := 1 - float64(r.TTLT.Expected/e.TTLT.Expected); gain >= least && len(parts) < 3 {
			text := fmt.Sprintf("%s %.1f %%", r.Name, 100*gain)
			if len(parts) == 0 {
				text = fmt.Sprintf("%s: 10 %% more makes a request %.1f %% shorter", r.Name, 100*gain)
			}
			parts = append(parts, text)
		}
	}
	if len(parts) < 2 {
		return strings.Join(parts, "")
	}
	return parts[0] + " (" + strings.Join(parts[1:], ", ") + ")"
}

// choiceLine says which choices gain most: in throughput of a GPU, and in TPOT.
func (e *Estimate) choiceLine() string {
	all := sensitivity.Choices(&e.Case)
	base := e.Throughput / float64(e.GPUs)
	var parts []string
	if len(all) > 0 && all[0].PerGPU() > (1+least)*base {
		parts = append(parts, fmt.Sprintf("%s: %.2f times the tok/s of a GPU", all[0].Flags, all[0].PerGPU()/base))
	}
	if e.Tokens > 0 {
		best := -1
		for i := range all {
			if all[i].TPOT.Expected < e.TPOT.Expected.Times(1-least) && (best < 0 || all[i].TPOT.Expected < all[best].TPOT.Expected) {
				best = i
			}
		}
		if best >= 0 {
			parts = append(parts, fmt.Sprintf("%s: %.2f times the TPOT", all[best].Flags, float64(all[best].TPOT.Expected/e.TPOT.Expected)))
		}
	}
	return strings.Join(parts, "; ")
}

// mostNotes is how many remarks the short answer has; the others are in --explain.
const mostNotes = 2

// briefNotes are the first remarks that the other lines do not say.
func (e *Estimate) briefNotes() (notes []string) {
	for _, w := range e.Warnings {
		if !strings.HasPrefix(w, "does not fit") && !strings.HasPrefix(w, "context of") && !strings.HasPrefix(w, "it fits with") &&
			!strings.HasPrefix(w, "no split over") {
			notes = append(notes, w)
		}
	}
	if left := len(notes) - mostNotes; left > 0 {
		notes = append(notes[:mostNotes], fmt.Sprintf("%d more with --explain", left))
	}
	return notes
}
