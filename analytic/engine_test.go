package analytic

import (
	"math"
	"testing"

	"llmprof/unit"
)

// onEngine is a case of one GPU with an engine.
func onEngine(t *testing.T, model, engine string, w Workload) *Case {
	t.Helper()
	c := testCase(t, model, "h200", 1, 1)
	e, err := ParseEngine(engine)
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewMachine(c.Machine.GPU, c.Machine.Cal, e)
	if err != nil {
		t.Fatal(err)
	}
	c.Machine, c.Workload = m, w
	return c
}

func predict(t *testing.T, c *Case) Estimate {
	t.Helper()
	e, err := Predict(c)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestRepeatedByHand works out the time by which a static cache's copies grow
// with its length: 32 layers, 8 KV heads of 128 for 32 query heads, in 16 bits.
func TestRepeatedByHand(t *testing.T) {
	const batch, more = 32, 1024
	short := predict(t, onEngine(t, "llama3.1-8b", "transformers-graph", Workload{Batch: batch, Prompt: 1024, Gen: 32}))
	long := predict(t, onEngine(t, "llama3.1-8b", "transformers-graph", Workload{Batch: batch, Prompt: 1024 + more, Gen: 32}))
	const kv = 32 * 2 * 8 * 128 * 2 // bytes of a position, all layers
	e, _ := ParseEngine("transformers-graph")
	want := (1 + 2*4) * kv * batch * more / (e.Repeat * 4.8e12)
	if got := float64(long.TPOT.Expected - short.TPOT.Expected); math.Abs(got-want) > 1e-9 {
		t.Errorf("%d more positions cost %v s, want %v s", more, got, want)
	}
	floor := kv * batch * more / 4.8e12
	if got := float64(long.TPOT.Floor - short.TPOT.Floor); math.Abs(got-floor) > 1e-9 {
		t.Errorf("the floor grows by %v s, want %v s: copies can be avoided", got, floor)
	}
}

// TestStaticCache holds that a cache of fixed length costs every step the same,
// whichever token of the answer it makes.
func TestStaticCache(t *testing.T) {
	one := predict(t, onEngine(t, "llama3.1-8b", "transformers-graph", Workload{Batch: 8, Prompt: 1024, Gen: 1025}))
	other := predict(t, onEngine(t, "llama3.1-8b", "transformers-graph", Workload{Batch: 8, Prompt: 2047, Gen: 2}))
	if d := float64(one.TPOT.Expected/other.TPOT.Expected - 1); math.Abs(d) > 1e-9 {
		t.Errorf("a cache of 2049 positions costs %v over a long answer, %v for one token", one.TPOT.Expected, other.TPOT.Expected)
	}
}

// TestGraphHidesLaunches holds that a graph takes the launches out of decoding
// and leaves them in the prefill.
func TestGraphHidesLaunches(t *testing.T) {
	w := Workload{Batch: 1, Prompt: 128, Gen: 32}
	eager, graph := predict(t, onEngine(t, "llama3.1-8b", "transformers", w)), predict(t, onEngine(t, "llama3.1-8b", "transformers-graph", w))
	if eager.Decode.Bound != ByLaunch || graph.Decode.Bound == ByLaunch {
		t.Errorf("decoding is %v-bound eagerly and %v-bound in a graph", eager.Decode.Bound, graph.Decode.Bound)
	}
	if eager.TTFT.Expected != graph.TTFT.Expected {
		t.Errorf("TTFT of a short prompt is %v eagerly and %v with a graph for decoding: both wait for launches", eager.TTFT.Expected, graph.TTFT.Expected)
	}
}

// TestNoCopyWithoutGroups holds that heads with keys of their own are not copied.
func TestNoCopyWithoutGroups(t *testing.T) {
	c := onEngine(t, "llama2-7b", "transformers-graph", Workload{Batch: 1, Prompt: 1024, Gen: 2})
	s := Step{Par: &Parallelism{TP: 1}, Scheme: &c.Scheme, Batch: 1, New: 1, Past: 99}
	a := c.Model.Layers[0].Blocks[0].Attention
	if got, want := s.repeated(a, 32), unit.Bytes(100*32*256*2); got != want {
		t.Errorf("%v moved, want %v", got, want)
	}
}

// TestEnginesExplained holds that the operators' times add up to the step's, with
// every engine.
func TestEnginesExplained(t *testing.T) {
	for _, name := range EngineNames() {
		c := onEngine(t, "llama3.1-8b", name, Workload{Batch: 8, Prompt: 512, Gen: 64})
		r, err := Explain(c)
		if err != nil {
			t.Fatal(err)
		}
		var sum unit.Seconds
		for i := range r.DecodeOps {
			sum += r.DecodeOps[i].Expected
		}
		if d := float64(sum/r.Decode.Expected - 1); math.Abs(d) > 1e-9 {
			t.Errorf("%s: operators take %v of %v", name, sum, r.Decode.Expected)
		}
	}
}

// TestJoinByHand works out what it costs to put a growing cache together anew in
// every step, where that and not the launches is what takes the time.
func TestJoinByHand(t *testing.T) {
	const batch, more = 64, 1024
	w := Workload{Batch: batch, Prompt: 4096, Gen: 2}
	short := predict(t, onEngine(t, "llama3.1-8b", "transformers", w))
	w.Prompt += more
	long := predict(t, onEngine(t, "llama3.1-8b", "transformers", w))
	if short.Decode.Bound != ByMemory {
		t.Fatalf("decoding is %v-bound, want memory", short.Decode.Bound)
	}
	const kv = 32 * 2 * 8 * 128 * 2 // bytes of a position, all layers
	c := testCase(t, "llama3.1-8b", "h200", 1, 1).Machine.Cal
	want := kv * batch * more / 4.8e12 * (1/c.Attention.Memory + 2/c.Element.Memory)
	if got := float64(long.TPOT.Expected - short.TPOT.Expected); math.Abs(got-want) > 1e-9 {
		t.Errorf("%d more positions cost %v s, want %v s", more, got, want)
	}
}

// TestOlderReleases holds that a profile of older releases expects what the later
// one does, and reaches further up alone.
func TestOlderReleases(t *testing.T) {
	w := Workload{Batch: 4, Prompt: 512, Gen: 64}
	for _, name := range []string{"vllm", "tensorrt-llm"} {
		now, then := predict(t, onEngine(t, "llama3.1-8b", name, w)), predict(t, onEngine(t, "llama3.1-8b", name+"-2024", w))
		for _, s := range [][2]Span{{now.TTFT, then.TTFT}, {now.TPOT, then.TPOT}, {now.TTLT, then.TTLT}} {
			near(t, name+": expected", s[1].Expected, s[0].Expected, 1e-12)
			near(t, name+": low", s[1].Low, s[0].Low, 1e-12)
			near(t, name+": high", s[1].High, s[0].High+s[0].Expected.Times(0.8), 1e-9)
		}
	}
}

// TestHostErrorFades holds that what another host could add counts as far as its
// launches could fill the time.
func TestHostErrorFades(t *testing.T) {
	e, _ := ParseEngine("transformers")
	for _, x := range []struct{ batch, prompt int }{{1, 128}, {1, 2048}, {32, 4096}} {
		c := onEngine(t, "llama3.1-8b", "transformers", Workload{Batch: x.batch, Prompt: x.prompt, Gen: 2})
		got := predict(t, c)
		alone := predict(t, onEngine(t, "llama3.1-8b", "transformers", Workload{Batch: 1, Prompt: 1, Gen: 2})).TTFT.Expected // launches and nothing else
		want := c.Machine.Cal.PrefillError + e.Error*min(float64(alone/got.TTFT.Expected), 1)
		near(t, "half-width of TTFT", float64(got.TTFT.High/got.TTFT.Expected)-1, want, 1e-9)
	}
}
