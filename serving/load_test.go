package serving

import (
	"math"
	"slices"
	"testing"

	"llmprof/internal/testkit"
)

// Stratified lengths are those of their distribution, with a mean and a 99th percentile that hardly depend on the seed.
func TestStratifiedLengths(t *testing.T) {
	prompt := Lengths{Kind: "lognormal", Mean: 2000, Spread: 1.2}
	for seed := range uint64(10) {
		load := Load{Arrival: Arrival{Kind: "poisson", Rate: 1}, Prompt: prompt, Gen: Fixed(7), Requests: 5000, Seed: seed, Stratified: true}
		source, err := load.Source()
		testkit.Must(t, err)
		var all []int
		sum := 0
		for q, ok := source.Next(); ok; q, ok = source.Next() {
			if sum += q.Prompt; q.Gen != 7 {
				t.Fatalf("an answer of %d tokens", q.Gen)
			}
			all = append(all, q.Prompt)
		}
		if slices.IsSorted(all) {
			t.Error("the lengths come in their order")
		}
		slices.Sort(all)
		mean, p99 := float64(sum)/float64(len(all)), float64(all[len(all)*99/100])
		if len(all) != load.Requests || math.Abs(mean/prompt.Mean-1) > 0.01 || math.Abs(p99/prompt.Quantile(0.99)-1) > 0.01 {
			t.Errorf("seed %d: %d lengths have a mean of %g and a 99th percentile of %g, want %g and %g", seed, len(all), mean, p99, prompt.Mean,
				prompt.Quantile(0.99))
		}
	}
}
