package engine

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"

	"llmprof/analytic"
	"llmprof/hardware"
	"llmprof/roofline"
)

// releases says on which releases of an engine its constants were measured, and how far others may differ.
type releases struct {
	timed []string // releases whose operators or steps were timed; "0.24" is 0.24.0 and 0.24.1 too
	scatter
}

// A scatter is the 90th percentile of the change of an operator's time from one release of an engine to another,
// over the shapes that the tables of aiconfigurator-core 0.12.0 have of both by the same kernel
// (experiments/operators/releases.py).
type scatter struct{ experts, reduce float64 }

// Only vLLM has attention tables of two releases, and the other engines take their scatter. What a prompt's attention takes changes in
// proportion, by rows of 20 µs and more. Attention of decode steps changes by 2.6 µs in the shortest rows and 3.8 µs in the longest
// (medians). The 90th percentile of rows up to 100 µs is 3.9 µs, where attention.fixed is 10.2 µs on that B200.
const promptScatter, decodeScatter = 0.37, 0.38

// known has the timed releases of each engine.
var known = map[string]releases{
	"vllm":         {timed: []string{"0.24", "0.25"}, scatter: scatter{experts: 0.19, reduce: 0.36}},
	"sglang":       {timed: []string{"0.5.14"}, scatter: scatter{experts: 0.52, reduce: 0.75}},
	"tensorrt-llm": {timed: []string{"1.3.0rc20"}, scatter: scatter{experts: 0.14, reduce: 0.16}},
}

// spelled matches versions, as 1.2.0rc6.post2 and 0.1.dev19262+g1a2b, builds as nightly-5b8c and gpt-oss-dev, and a release that nobody
// knows.
var spelled = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(unknown|nightly[0-9A-Za-z.-]{0,32}|[a-z0-9-]{1,32}-dev|[0-9][0-9A-Za-z.+_-]{0,39})$`)
})

// AtRelease is an engine at a release, with the known differences of older releases. Its constants are those of the
// timed releases, but where tables of an older one differ. The intervals of another release include the scatter of operators between
// releases, and the error of a host that nobody measured.
func AtRelease(e analytic.Engine, release string) (analytic.Engine, error) {
	g, served := e.(*graphed)
	h, _ := e.(*eager)
	if !served && (h == nil || h == &elana) {
		return nil, fmt.Errorf("release %.40q of %s: only releases of vllm, sglang, tensorrt-llm and transformers are known", release,
			e.Profile().Name)
	}
	if release = strings.TrimPrefix(release, "v"); !spelled().MatchString(release) {
		return nil, fmt.Errorf("release %.40q of %s: want a version, as in %s@0.19.0", release, e.Profile().Name, e.Profile().Name)
	}
	if e.Profile().Engine() != e.Profile().Name {
		return nil, fmt.Errorf("release %.40q of %s: it has a release already", release, e.Profile().Name)
	}
	if !served {
		return h.atRelease(release), nil
	}
	at, name := *g, g.profile.Name
	p, of := &at.profile, known[name]
	p.Name += "@" + release
	if slices.ContainsFunc(of.timed, func(t string) bool { return release == t || strings.HasPrefix(release, t+".") }) {
		return &at, nil
	}
	p.Source = "release " + release + ", by the constants of other releases: " + p.Source
	p.HostError = max(p.HostError, eagerHostError)
	number, older := parseVersion(release), ""
	// DeepGEMM took experts in FP8 by blocks on Hopper at every number of rows from when scales in E8M0 were the default
	// there (vllm-project/vllm, pull request 26197; triton_deep_gemm_moe.py) until backends were ranked (32414), which by its date is 0.15.
	at.contiguous = name == vllm.profile.Name && !number.before(11, 1) && number.before(15, 0)
	if name == vllm.profile.Name && number.before(11, 1) {
		at.overlaps = 0 // vllm-project/vllm, pull request 26440
	}
	if name == sglang.profile.Name && number.before(5, 9) {
		older = sglang056
	}
	switch {
	case name == tensorRT.profile.Name && number.older(1, 3):
		older, at.quantizes = tensorRT12, true
	case name == sglang.profile.Name && number.before(5, 10):
		at.pieces = nil // --enable-piecewise-cuda-graph is off by default: python/sglang/srt/server_args.py of 0.5.9
	case name == vllm.profile.Name && number.before(14, 0):
		p.Blocking, p.Constants = true, blockingConstants
	}
	if p.Name == older { // its own tables need no scatter between releases
		p.Operators = over(of.widen(p.Operators), older)
	} else {
		p.Operators = of.widen(over(p.Operators, older))
	}
	return &at, nil
}

// These name rows of tables of older releases, where they differ from the timed ones. TensorRT-LLM had a slower kernel that quantizes the
// inputs of products in FP8 by blocks on Blackwell's GPUs of data centres, and slower experts and latent attention on an H200. SGLang's
// attention started in 19 µs there, and takes 9 since.
const (
	tensorRT12 = "tensorrt-llm@1.2.0rc5"
	sglang056  = "sglang@0.5.6.post2"
)

// blockingConstants sets the constants of vLLM without asynchronous scheduling, which is the default since 0.14
// (vllm-project/vllm, pull request 27614). Without it, steps of llama3.1-8b by 0.25.1 take longer by these times, and
// TTFT does not change (experiments/h200-vllm-sync).
func blockingConstants(c *roofline.Constants) {
	const step = 0.97e-3
	setDefault(c, roofline.HostStep, step)
	setDefault(c, roofline.HostSequence, 11.2e-6)
	setDefault(c, roofline.HostRequest, vllmRequest+vllmAsync-step)
	vllmServerConstants(c)
	c[roofline.HostAsync] = 0
}

// A version is the leading numbers of a release, as 0, 5 and 10 of 0.5.10.post1.
type version [3]int

// parseVersion gives the leading numbers of a release. A release that does not begin with a number is before no other.
func parseVersion(release string) (v version) {
	if _, err := fmt.Sscanf(release, "%d.%d", &v[0], &v[1]); err != nil {
		return version{math.MaxInt}
	}
	fmt.Sscanf(release, "%d.%d.%d", &v[0], &v[1], &v[2]) //nolint:errcheck // 0.14 is 0.14.0
	return v
}

// older reports whether a release is of a series before one.
func (v version) older(major, minor int) bool {
	return slices.Compare(v[:], []int{major, minor}) < 0
}

func (v version) before(minor, patch int) bool {
	return slices.Compare(v[:], []int{0, minor, patch}) < 0
}

// widen adds the scatter between releases to the residuals of operators.
func (s scatter) widen(operators func(*hardware.GPU, *hardware.Calibration)) func(*hardware.GPU, *hardware.Calibration) {
	return func(g *hardware.GPU, c *hardware.Calibration) {
		fitted := c.Fitted // by a file
		operators(g, c)
		for _, k := range roofline.All() {
			if !changes(k.String()) { // tables of the board have the kernel of another release, and nothing says how far it is off
				c.Fitted[k] = fitted[k]
			}
			if r := &c.Residuals[k]; *r != 0 {
				*r = math.Hypot(*r, s.of(k.String()))
			}
		}
		c.Residuals[roofline.AttentionFixed] = math.Hypot(c.Residuals[roofline.AttentionFixed], decodeScatter)
	}
}

// changes reports whether the change from one release to another is known of the operators whose law has the constant.
func changes(constant string) bool {
	section, _, _ := strings.Cut(constant, ".")
	return strings.Contains(section, "attention") || scatter{experts: 1, reduce: 1}.of(constant) != 0
}

// of gives the scatter of the operators whose law has the constant. It is a share of their time.
func (s scatter) of(constant string) float64 {
	switch section, name, _ := strings.Cut(constant, "."); {
	case strings.HasPrefix(section, "grouped_gemm"), strings.HasPrefix(section, "moe_"):
		return s.experts
	case strings.Contains(section, "attention") && (name == "compute" || strings.Contains(section, "latent")):
		return promptScatter
	case section == "one_shot", section == "link":
		return s.reduce
	}
	return 0
}
