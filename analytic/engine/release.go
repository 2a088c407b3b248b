package engine

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"llmprof/analytic"
	"llmprof/hardware"
	"llmprof/roofline"
)

// releases says which releases of an engine its constants are of, and how those of others may differ.
type releases struct {
	known []string // releases whose operators or steps were timed; "0.24" is 0.24.0 and 0.24.1 too
	async float64  // the first release that schedules a step while the GPU works on the one before without being asked; 0 where all do
	scatter
}

// A scatter is the 90th percentile of the change of an operator's time from one release of an engine to another,
// over the shapes that the tables of aiconfigurator-core 0.12.0 have of both by the same kernel
// (experiments/operators/releases.py).
type scatter struct{ experts, attention, reduce float64 }

// known releases. vLLM 0.14.0 made asynchronous scheduling the default (vllm-project/vllm#27614). Tables of
// attention by two releases are of vLLM alone, whose scatter the other engines take.
var known = map[string]releases{
	"vllm":         {known: []string{"0.24", "0.25"}, async: 0.14, scatter: scatter{experts: 0.20, attention: 0.35, reduce: 0.36}},
	"sglang":       {known: []string{"0.5.14"}, scatter: scatter{experts: 0.54, attention: 0.35, reduce: 0.75}},
	"tensorrt-llm": {known: []string{"1.3.0rc20"}, scatter: scatter{experts: 0.14, attention: 0.35, reduce: 0.16}},
}

// halfExposed is the share of its host's time that a step of an engine waits for which schedules it after the one
// before has ended. What of that time the GPU still hides, as that of launches, is not known: from none to all of it.
const halfExposed = 0.5

// spelled is how versions are written: 1.2.0rc6.post2, 0.1.dev19262+g1a2b.
var spelled = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z.+_-]{0,39}$`)

// AtRelease is an engine at a release. Its constants are those of the releases that were timed. The intervals of another
// one have the scatter of operators between releases besides, and the error that a host nobody measured has.
// A release before asynchronous scheduling waits for its host.
func AtRelease(e analytic.Engine, release string) (analytic.Engine, error) {
	g, ok := e.(*graphed)
	if !ok {
		return nil, fmt.Errorf("release %.40q of %s: releases of vllm, sglang and tensorrt-llm alone are told apart", release, e.Profile().Name)
	}
	if release = strings.TrimPrefix(release, "v"); !spelled.MatchString(release) {
		return nil, fmt.Errorf("release %.40q of %s: want a version, as in %s@0.19.0", release, e.Profile().Name, e.Profile().Name)
	}
	at, of := *g, known[g.profile.Name]
	p := &at.profile
	p.Name += "@" + release
	if slices.ContainsFunc(of.known, func(k string) bool { return release == k || strings.HasPrefix(release, k+".") }) {
		return &at, nil
	}
	p.Source = "release " + release + ", by the constants of other releases: " + p.Source
	p.HostError = max(p.HostError, eagerHostError)
	p.Operators = of.widen(p.Operators)
	if v, err := minor(release); err == nil && v < of.async {
		p.Exposed = halfExposed
	}
	return &at, nil
}

// minor is the number of a release up to its second dot: 0.12 of 0.12.0. Releases of vLLM have two digits behind the first.
func minor(release string) (float64, error) {
	major, rest, _ := strings.Cut(release, ".")
	second, _, _ := strings.Cut(rest, ".")
	if len(second) == 1 {
		second = "0" + second
	}
	return strconv.ParseFloat(major+"."+second, 64)
}

// widen adds the scatter between releases to the residuals of operators.
func (s scatter) widen(operators func(*hardware.GPU, *hardware.Calibration)) func(*hardware.GPU, *hardware.Calibration) {
	return func(g *hardware.GPU, c *hardware.Calibration) {
		operators(g, c)
		for _, k := range roofline.All() {
			if r := &c.Residuals[k]; *r != 0 {
				*r = math.Hypot(*r, s.of(k.String()))
			}
		}
	}
}

// of is the scatter of the operators that a constant is of.
func (s scatter) of(constant string) float64 {
	switch section, _, _ := strings.Cut(constant, "."); {
	case strings.HasPrefix(section, "grouped_gemm"), strings.HasPrefix(section, "moe_"):
		return s.experts
	case strings.Contains(section, "attention"):
		return s.attention
	case section == "one_shot", section == "link":
		return s.reduce
	}
	return 0
}
