package measure

import (
	"math"
	"testing"

	"llmprof/measure/worker"
)

// step is one forward pass, in milliseconds.
func step(index int, start, end int64) worker.Step {
	return worker.Step{Index: index, StartNS: start * 1e6, EndNS: end * 1e6}
}

// passOf is a pass of steps that follow each other.
func passOf(steps ...worker.Step) pass {
	return pass{worker.Pass{Steps: steps, BeginNS: steps[0].StartNS, EndNS: steps[len(steps)-1].EndNS}}
}

// shown is a time as a message prints it.
func shown(seconds *float64) any {
	if seconds == nil {
		return "none"
	}
	return *seconds
}

func TestTimesOfARequest(t *testing.T) {
	p := passOf(step(0, 100, 150), step(1, 151, 160), step(2, 160, 172))
	if got := p.ttft(); got == nil || math.Abs(*got-0.050) > 1e-12 {
		t.Fatalf("TTFT = %v, want 50 ms", shown(got))
	}
	// From the first token at 150 ms to the last at 172 ms, two tokens.
	if got := p.tpot(); got == nil || math.Abs(*got-0.011) > 1e-12 {
		t.Fatalf("TPOT = %v, want 11 ms", shown(got))
	}
	if got := p.seconds(); math.Abs(got-0.072) > 1e-12 {
		t.Errorf("TTLT = %v, want 72 ms", got)
	}
	if sum := *p.ttft() + 2**p.tpot(); math.Abs(sum-p.seconds()) > 1e-12 {
		t.Errorf("TTFT + 2 TPOT = %v, TTLT = %v", sum, p.seconds())
	}
}

func TestTPOTOfADecodePassCountsEveryStep(t *testing.T) {
	p := passOf(step(1, 10, 14), step(2, 14, 20))
	if got := p.tpot(); got == nil || math.Abs(*got-0.005) > 1e-12 {
		t.Errorf("TPOT = %v, want 5 ms: 10 ms for two tokens", shown(got))
	}
	if p.ttft() != nil {
		t.Error("a pass without a prefill has a TTFT")
	}
}

func TestPrefillAloneHasNoTPOT(t *testing.T) {
	p := passOf(step(0, 10, 14))
	if got := p.tpot(); got != nil {
		t.Errorf("TPOT = %v of a pass without decode steps", *got)
	}
}

// A pass that straddles an edge counts by its share of time, so the counts of
// windows that follow each other add up.
func TestWithinAddsUp(t *testing.T) {
	passes := []pass{
		passOf(step(1, 0, 10), step(2, 10, 20)),
		passOf(step(1, 20, 30), step(2, 30, 40)),
		passOf(step(1, 45, 55), step(2, 55, 65)),
	}
	const ms = 1_000_000
	for _, cut := range []int64{0, 7, 20, 33, 42, 60, 65} {
		a, as := within(passes, 0, cut*ms)
		b, bs := within(passes, cut*ms, 65*ms)
		if math.Abs(a+b-3) > 1e-9 || math.Abs(as+bs-6) > 1e-9 {
			t.Errorf("cut at %d ms: %v + %v passes, want 3; %v + %v steps, want 6", cut, a, b, as, bs)
		}
	}
	if n, steps := within(passes, 5*ms, 25*ms); math.Abs(n-(0.75+0.25)) > 1e-9 || math.Abs(steps-2) > 1e-9 {
		t.Errorf("5 to 25 ms: %v passes, %v steps; want 1 and 2", n, steps)
	}
}
