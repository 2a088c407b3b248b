package serving

import (
	"math"
	"slices"
	"testing"

	"llmprof/unit"
)

// TestReservedShareFalls holds the share of the answers that SGLang reserves room for to its decay: within 600 steps that only decode,
// whether prompts share steps with decodes or not. More sequences run then at once.
func TestReservedShareFalls(t *testing.T) {
	for _, name := range []string{"sglang", "sglang-mixed"} {
		s := server(t, "llama3.1-8b", "h100", 1, name)
		source, err := (&Load{Arrival: Arrival{Kind: "closed", Concurrency: 4}, Prompt: Fixed(100), Gen: Fixed(700), Requests: 4}).Source()
		if err != nil {
			t.Fatal(err)
		}
		c := newCluster(s, source, &Options{})
		for c.step() {
		}
		if r := c.mixed[0]; r.cache.expect > 1.01*expectLeast {
			t.Errorf("%s: after 700 steps a share of %g is reserved, want %g", name, r.cache.expect, expectLeast)
		}
	}
}

// A tracker is SGLang's NewTokenRatioTracker by its source (0.5.23, managers/scheduler_components/new_token_ratio_tracker.py), with its
// defaults.
type tracker struct{ initial, least, decay, current float64 }

func newTracker() *tracker {
	t := &tracker{initial: min(0.7*1.0, 1)}
	t.least = min(t.initial*0.14, 1)
	t.decay, t.current = (t.initial-t.least)/600, t.initial
	return t
}

func (t *tracker) retracted(stay []*sequence) {
	decoded, most := 0, 0
	for _, q := range stay {
		decoded += q.generated
		most += q.Request.Gen
	}
	t.current = min(float64(decoded+20*len(stay))/float64(most+1), 1)
}

// TestReservedShareByTracker holds the share that is reserved to SGLang's tracker, step by step: with retractions, since the cache is
// small, and with pauses, since the load comes in bursts.
func TestReservedShareByTracker(t *testing.T) {
	for _, name := range []string{"sglang", "sglang-mixed"} {
		s := server(t, "llama3.1-8b", "h100", 1, name)
		s.CacheTokens = 9_000
		var all []Request
		for burst := range 3 {
			for i := range 40 {
				all = append(all, Request{At: unit.Seconds(600 * burst), Prompt: 100 + 7*i, Gen: 600 + 40*(i%20)})
			}
		}
		c := newCluster(s, Replay(all), &Options{InEngine: true})
		r, want := c.mixed[0], newTracker()
		retractions, pauses, steps := 0, 0, 0
		for preempted := 0; ; preempted = r.preempted {
			if idle := !r.busy && len(r.running) == 0; idle && steps > 0 {
				want.current = want.initial
			}
			if !c.step() {
				break
			}
			if c.result.Steps == steps {
				continue
			}
			if steps = c.result.Steps; want.current == want.initial {
				pauses++
			}
			exact := 1e-12
			switch {
			case r.preempted > preempted:
				retractions++
				stay := slices.Concat(r.running, r.ending)
				want.retracted(stay)
				exact = 2 / want.average(stay) // The step has gained each a token already, and may end one.
			case len(r.batch.chunks) == 0:
				want.current = max(want.current-want.decay, want.least)
			}
			if math.Abs(r.cache.expect-want.current) > exact {
				t.Fatalf("%s, step %d: a share of %g is reserved, want %g (%d preempted)", name, steps, r.cache.expect, want.current,
					r.preempted-preempted)
			}
			want.current = r.cache.expect
		}
		if retractions < 10 || pauses < 3 {
			t.Errorf("%s: %d retractions and %d pauses, too few", name, retractions, pauses)
		}
	}
}

// average is the mean length of the answers of sequences.
func (t *tracker) average(all []*sequence) float64 {
	sum := 0
	for _, q := range all {
		sum += q.Request.Gen
	}
	return float64(sum) / float64(len(all))
}
