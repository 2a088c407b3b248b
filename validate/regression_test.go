package validate

import (
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat"

	"llmprof/internal/testkit"
)

// nullProcesses are processes of vLLM of one release: by how much the logarithm of each of a process's times differs from the mean of the
// processes of its model, over all prompts. Identifiers end in the name of the process.
func nullProcesses(t *testing.T) (all [][]float64) {
	t.Helper()
	for _, name := range []string{"h100-vllm-processes", "h200-vllm-processes"} {
		file := filepath.Join("..", "experiments", name, "observations.csv")
		text, err := os.ReadFile(file)
		testkit.Must(t, err)
		observed, err := Parse(file, text)
		testkit.Must(t, err)
		models, values := map[string][]string{}, map[string][]float64{}
		for _, o := range observed {
			process := o.ID[strings.LastIndex(o.ID, name[:4]):]
			key := o.Model + o.Weights
			if !slices.Contains(models[key], process) {
				models[key] = append(models[key], process)
			}
			values[key+process] = append(values[key+process], math.Log(o.Value))
		}
		for _, key := range slices.Sorted(maps.Keys(models)) {
			processes := models[key]
			n := float64(len(processes))
			if n < 2 {
				continue
			}
			points := len(values[key+processes[0]])
			for _, p := range processes {
				off := make([]float64, points)
				for i := range off {
					var at []float64
					for _, q := range processes {
						at = append(at, values[key+q][i])
					}
					off[i] = (values[key+p][i] - stat.Mean(at, nil)) * math.Sqrt(n/(n-1))
				}
				all = append(all, off)
			}
		}
	}
	return all
}

// drawn are observations of processes that are drawn from some, each so many times as slow.
func drawn(from [][]float64, n int, slower float64, random *rand.Rand) (all []Observation) {
	for range n {
		for i, off := range from[random.IntN(len(from))] {
			o := Observation{Metric: TTFT, Value: slower * math.Exp(off)}
			o.Model, o.Prompt, o.Gen, o.Batch, o.Load = "m", 128<<i, 1, 1, Static
			all = append(all, o)
		}
	}
	return all
}

// TestChangesOfOneReleaseRaiseFewAlarms draws processes of one release for both sides: no more comparisons than FalseAlarms says raise an
// alarm. Of a release that is half as slow again, most do.
func TestChangesOfOneReleaseRaiseFewAlarms(t *testing.T) {
	from := nullProcesses(t)
	if len(from) < 20 {
		t.Fatalf("%d processes", len(from))
	}
	times := testkit.Cases(250, 1000)
	for _, n := range []int{2, 3, 5, 8} {
		random := rand.New(rand.NewPCG(1, uint64(n)))
		alarms := map[float64]int{}
		for _, slower := range []float64{1, 1.5} {
			for range times {
				all, _, err := Changes(drawn(from, n, 1, random), drawn(from, n, slower, random), 0.05)
				testkit.Must(t, err)
				if slices.ContainsFunc(all, func(c Change) bool { return c.Slower }) {
					alarms[slower]++
				}
			}
		}
		t.Logf("%d processes a side: %d of %d false alarms, %d of %d where it is slower", n, alarms[1], times, alarms[1.5], times)
		if float64(alarms[1]) > FalseAlarms*float64(times) || n >= 3 && alarms[1.5] < 8*times/10 {
			t.Errorf("%d processes a side: %d of %d false alarms, %d where it is slower by a half", n, alarms[1], times, alarms[1.5])
		}
	}
}

// TestChangesByHand holds a ratio with its interval against a calculation of its own, by the closed form of Student's t of two degrees of
// freedom.
func TestChangesByHand(t *testing.T) {
	one := func(prompt int, value float64) Observation {
		o := Observation{Metric: TTFT, Value: value}
		o.Model, o.Prompt, o.Gen, o.Batch, o.Load = "m", prompt, 1, 1, Static
		return o
	}
	e := math.Exp
	base := []Observation{one(128, 1), one(128, e(0.02)), one(256, 1), one(256, e(0.02))}
	next := []Observation{one(128, e(0.1)), one(128, e(0.12)), one(256, 1), one(256, e(0.02))}
	all, alone, err := Changes(base, next, 0.05)
	testkit.Must(t, err)
	// Variance 2·0.01² / 1 in each of four groups, pooled 0.0002; t at 0.9875 of 2 degrees of freedom: F(t) = 1/2 + t/(2√(2+t²)), so that
	// t = (2p−1)·√2/√(1−(2p−1)²) with p = 0.9875.
	q := 2*0.9875 - 1
	half := q * math.Sqrt2 / math.Sqrt(1-q*q) * math.Sqrt(0.0002*(0.5+0.5))
	if c := all[0]; len(alone) != 0 || !near(c.Ratio, e(0.1)) || !near(c.Low, e(0.1-half)) || !near(c.High, e(0.1+half)) ||
		c.Slower != (0.1 > half) {
		t.Errorf("%+v: want %v to %v", c, e(0.1-half), e(0.1+half))
	}
	if c := all[1]; c.Prompt != 256 || !near(c.Ratio, 1) || c.Slower {
		t.Errorf("%+v: nothing changed", c)
	}
	if _, alone, err := Changes(base[:3], next[:3], 0.05); err != nil || len(alone) != 1 {
		t.Errorf("%q, %v: one process of 256 tokens is no interval", alone, err)
	}
	if _, _, err := Changes(base[:1], next, 0.05); err == nil || !strings.Contains(err.Error(), "two processes") {
		t.Errorf("%v", err)
	}
	next[0].Release = "0.26"
	if _, _, err := Changes(base, next, 0.05); err == nil || !strings.Contains(err.Error(), "different settings") {
		t.Errorf("two releases on one side: %v", err)
	}
}

func near(a, b float64) bool { return math.Abs(a/b-1) < 1e-6 }
