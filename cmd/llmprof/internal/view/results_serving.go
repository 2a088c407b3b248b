//go:build !js

package view

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"llmprof/internal/stats"
	"llmprof/measure/result"
	"llmprof/plots/render"
	"llmprof/unit"
)

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
