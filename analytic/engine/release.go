package engine

import (
	"fmt"
	"strconv"
	"strings"

	"llmprof/analytic"
	"llmprof/roofline"
)

// asOf is an engine as a release of it runs: what an older one does otherwise, as far as it is
// known. Constants are those of the release that was measured.
func asOf(e analytic.Engine, release string) (analytic.Engine, error) {
	number, err := parseRelease(release)
	if err != nil {
		return nil, err
	}
	g, ok := e.(*graphed)
	if !ok {
		return nil, fmt.Errorf("release %s of %s: only releases of vllm, sglang and tensorrt-llm are told apart", release, e.Profile().Name)
	}
	old := *g
	if e == analytic.Engine(&vllm) && !number.before(0, 25, 0) || e == analytic.Engine(&sglang) && number == (version{0, 5, 14}) {
		return e, nil // what was measured
	}
	old.profile.Source += "; as of release " + release
	old.profile.Release, old.profile.KernelError = release, releaseError
	if g.profile.Name == sglang.profile.Name && number.before(0, 5, 10) {
		old.pieces = nil // --enable-piecewise-cuda-graph is off by default: python/sglang/srt/server_args.py of 0.5.9
	}
	if g.profile.Name == vllm.profile.Name && number.before(0, 14, 0) {
		old.profile.Blocking, old.profile.Constants = true, blockingConstants
	}
	return &old, nil
}

// releaseError is how far a kernel of another release is from that of the release whose tables the constants come from:
// nine of ten products in 16 bits of 20 µs and more by vLLM 0.12.0 (aiconfigurator 0.6.0) take 10 to 13 % more or less than
// by vLLM 0.24.0, on an H100 and an H200 (experiments/operators/releases.py).
const releaseError = 0.10

// blockingConstants are those of vLLM without asynchronous scheduling, which is the default since 0.14
// (vllm-project/vllm, pull request 27614): steps of llama3.1-8b by 0.25.1 are longer by that (experiments/h200-vllm-sync),
// and TTFT of a prompt is the same.
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

func parseRelease(s string) (v version, err error) {
	parts := strings.SplitN(s, ".", len(v)+1)
	if len(parts) < 2 {
		return v, fmt.Errorf("release %.20q: want numbers with dots, as 0.12.0", s)
	}
	for i := range min(len(parts), len(v)) {
		digits := parts[i]
		if end := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' }); end > 0 {
			digits = digits[:end] // 2 of 2rc3
		}
		n, err := strconv.ParseUint(digits, 10, 16)
		if v[i] = int(n); err != nil {
			return v, fmt.Errorf("release %.20q: want numbers with dots, as 0.12.0", s)
		}
	}
	return v, nil
}

func (v version) before(major, minor, patch int) bool {
	for i, n := range [3]int{major, minor, patch} {
		if v[i] != n {
			return v[i] < n
		}
	}
	return false
}
