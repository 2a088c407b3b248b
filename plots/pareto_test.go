package plots_test

import (
	"math"
	"strings"
	"testing"

	"llmprof/internal/testkit"
	"llmprof/plots"
)

// A Pareto plot names its GPUs, and what has no figures is no picture.
func TestPareto(t *testing.T) {
	var all []plots.Deployment
	for i, g := range []string{"h100", "h200", "b200", "a100", "l40s", "l4", "t4"} {
		for j := range 4 {
			all = append(all, plots.Deployment{Group: g, PerUser: 10 + float64(i*j), PerGPU: 1000 / float64(1+j), Cost: float64(1 + j),
				Latency: 1 / float64(1+i+j)})
		}
	}
	f, err := plots.Pareto("a model", "$ an hour", all)
	testkit.Must(t, err)
	text, err := f.SVG()
	testkit.Must(t, err)
	for _, want := range []string{"h100", "l40s", "2 other GPUs", "best of all GPUs", "$ an hour"} {
		if !strings.Contains(text, want) {
			t.Errorf("the picture lacks %q", want)
		}
	}
	for _, bad := range [][]plots.Deployment{nil, {{Group: "x"}}, {{Group: "x", PerUser: math.NaN(), PerGPU: 1}}} {
		if _, err := plots.Pareto("", "", bad); err == nil {
			t.Errorf("%+v is drawn", bad)
		}
	}
}
