package analytic

import (
	"math"
	"math/rand/v2"
	"testing"

	"llmprof"
	"llmprof/models"
	"llmprof/unit"
)

// Every figure of this file is found a second time by another route.

var variety = []string{
	"llama3.1-8b", "gpt2", "falcon-7b", "gemma2-9b", "gemma3-27b", "mistral-7b-v0.1", "mixtral-8x7b", "qwen3-30b-a3b",
	"deepseek-v3", "gpt-oss-120b", "mamba2-2.7b", "falcon-mamba-7b", "jamba-v0.1", "nemotron-h-8b", "qwen3-next-80b-a3b", "llama4-scout",
}

// A Predictor's price of a step, lines and cores, is the sum of the costs of the
// operators that AppendOps lists.
func TestPredictorAddsUpOperators(t *testing.T) {
	for _, name := range variety {
		for _, tp := range []int{1, 2} {
			c := testCase(t, name, "h200", 1, tp)
			if c.Check() != nil {
				continue
			}
			p, err := NewPredictor(c)
			if err != nil {
				t.Fatal(err)
			}
			for _, shape := range [][4]float64{{1, 1, 1024, 1}, {8, 1, 5000, 1}, {3, 517, 0, 1}, {2, 64, 999, 0}, {1, 33, 0, 33}} {
				st := p.template()
				st.Batch, st.New, st.Past, st.Logits = shape[0], shape[1], shape[2], shape[3]
				u := sum{p: p, budget: 1}
				got := u.step(&st)
				var want tally
				for _, o := range st.AppendOps(nil, c.Model) {
					cost := c.Machine.within(&o, c.Machine.Engine.carries(&st))
					var s sums
					s.of(&o, &cost)
					want.sums.add(&s, 1)
					want.expected += cost.Time()
				}
				want.expected += c.Machine.Engine.Host
				near(t, name+" expected", got.expected, want.expected, 1e-9)
				near(t, name+" floor", got.least, want.floor.time(), 1e-9)
				near(t, name+" FLOPs", got.flops, want.flops, 1e-9)
				near(t, name+" traffic", got.traffic, want.traffic, 1e-9)
			}
		}
	}
}

// A run of steps in closed form is the sum of its steps one by one.
func TestRunIsSumOfSteps(t *testing.T) {
	for _, name := range variety {
		c := testCase(t, name, "h200", 4, 1)
		p, err := NewPredictor(c)
		if err != nil {
			t.Fatal(err)
		}
		for _, run := range []struct{ past, n, stride, count float64 }{
			{1024, 1, 1, 127}, {1, 1, 1, 300}, {120, 1, 1, 20}, {4000, 1, 1, 500}, {8100, 1, 1, 200}, {0, 128, 128, 40}, {64, 96, 96, 50},
		} {
			st := p.template()
			st.Batch, st.New, st.Past, st.Logits = 4, run.n, run.past, 1
			u := sum{p: p, budget: maxSteps}
			got := u.run(st, run.stride, run.count)
			var want tally
			for range int(run.count) {
				one := u.step(&st)
				want.add(&one, 1)
				st.Past += run.stride
			}
			near(t, name+" expected", got.expected, want.expected, 1e-9)
			near(t, name+" floor", got.least, want.least, 1e-9)
			near(t, name+" FLOPs", got.flops, want.flops, 1e-9)
			near(t, name+" traffic", got.traffic, want.traffic, 1e-9)
		}
	}
}

// The pairs of queries and keys are counted one by one.
func TestPairs(t *testing.T) {
	for range 2000 {
		n, p, w := rand.IntN(40)+1, rand.IntN(60), rand.IntN(50)+1
		var window, chunk float64
		for j := p; j < p+n; j++ {
			window += math.Min(float64(j+1), float64(w))
			chunk += float64(j%w + 1)
		}
		if got := windowPairs(float64(n), float64(p), float64(w)); got != window {
			t.Fatalf("windowPairs(%d, %d, %d) = %v, want %v", n, p, w, got, window)
		}
		if got := chunkPairs(float64(p+n), float64(w)) - chunkPairs(float64(p), float64(w)); got != chunk {
			t.Fatalf("chunkPairs of %d after %d in %d = %v, want %v", n, p, w, got, chunk)
		}
	}
}

// The number of distinct experts is what random choices touch on average.
func TestDistinctExperts(t *testing.T) {
	const trials = 4000
	rng := rand.New(rand.NewPCG(1, 2))
	for _, x := range []struct{ count, k, tokens int }{{128, 8, 1}, {128, 8, 16}, {8, 2, 3}, {256, 8, 64}, {16, 1, 5}} {
		var sum float64
		for range trials {
			hit := make([]bool, x.count)
			for range x.tokens {
				for _, e := range rng.Perm(x.count)[:x.k] {
					hit[e] = true
				}
			}
			for _, h := range hit {
				if h {
					sum++
				}
			}
		}
		near(t, "distinct", Distinct(float64(x.count), float64(x.k), float64(x.tokens)), sum/trials, 0.01)
	}
	if got := Distinct(8, 8, 1); got != 8 {
		t.Errorf("all experts chosen: %v of 8 touched", got)
	}
}

// A prompt in chunks, or behind a cached prefix, has the FLOPs of the layers that
// the whole prompt has.
func TestChunkedPrefillIsWholePrefill(t *testing.T) {
	for _, name := range []string{"llama3.1-8b", "gemma2-9b", "mixtral-8x7b", "falcon-mamba-7b", "gpt2"} {
		c := testCase(t, name, "h200", 2, 1)
		c.Workload.Prompt = 1000
		whole := explain(t, c)
		for _, chunk := range []int{1, 7, 256, 999, 1000, 5000} {
			c.Workload.Chunk = chunk
			r := explain(t, c)
			near(t, name+" FLOPs in chunks", r.Prefill.FLOPs, whole.Prefill.FLOPs, 1e-9)
			if r.TTFT.Expected < whole.TTFT.Expected {
				t.Errorf("%s: chunks of %d are faster than the whole prompt: %v, %v", name, chunk, r.TTFT.Expected, whole.TTFT.Expected)
			}
		}
		c.Workload.Chunk, c.Workload.CachedPrefix = 0, 600
		rest := explain(t, c)
		c.Workload.CachedPrefix, c.Workload.Prompt = 0, 600
		first := explain(t, c)
		head := op(t, first.PrefillOps, "lm_head").FLOPs
		near(t, name+" FLOPs around a cached prefix", rest.Prefill.FLOPs+first.Prefill.FLOPs-head, whole.Prefill.FLOPs, 1e-9)
	}
}

// A decode step with so many tokens that every expert is chosen reads every weight
// of every model of the table once, the embedding's apart.
func TestDecodeReadsEveryWeightOnce(t *testing.T) {
	c := testCase(t, "llama2-70b", "h200", 4096, 1)
	for _, m := range allModels(t) {
		if reuses(m) {
			continue
		}
		c.Model = m
		r := explain(t, c)
		var read unit.Bytes
		for _, l := range r.DecodeOps {
			if l.Name != "embedding" {
				read += l.Weights
			}
		}
		want := m.Params() - m.EmbeddingParams() - small(m)
		if m.TiedHead {
			want += int64(m.Head.In) * int64(m.Head.Out)
		}
		for _, l := range m.Embedding.Project {
			want += l.Params()
		}
		near(t, m.Name+": bytes of weights read", read, unit.BF16.Bytes(float64(want)), 1e-3)
	}
}

// reuses reports whether m runs a block's weights more than once (Zamba).
func reuses(m *models.Model) bool {
	for _, l := range m.Layers {
		for _, b := range l.Blocks {
			if b.Reused {
				return true
			}
		}
	}
	return false
}

func allModels(t *testing.T) []*models.Model {
	t.Helper()
	table, err := models.Load(llmprof.ModelsJSON)
	if err != nil {
		t.Fatal(err)
	}
	all, err := table.All()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// small is the parameters that the operators leave out for being of no account.
func small(m *models.Model) (n int64) {
	for _, l := range m.Layers {
		for _, b := range l.Blocks {
			n += b.Extra * int64(l.Count)
			if b.Scan != nil { // of which the convolution's weights are read
				n -= int64(b.Scan.Conv) * int64(b.Scan.Kernel) * int64(l.Count)
			}
		}
	}
	return n
}

// The weights of a rank, over all ranks, are the model's: what is cut adds up to
// the whole, and only what every rank holds is counted again.
func TestWeightsInMemory(t *testing.T) {
	c := testCase(t, "llama2-70b", "h200", 1, 1)
	for _, m := range allModels(t) {
		c.Model = m
		e, err := Predict(c)
		if err != nil {
			t.Fatal(err)
		}
		near(t, m.Name+": weights in memory", e.Memory.Weights, unit.BF16.Bytes(float64(m.Params())), 1e-6)
	}
	for _, tp := range []int{2, 4, 8} {
		c := testCase(t, "llama2-70b", "h200", 1, tp)
		r := explain(t, c)
		norms := unit.BF16.Bytes(float64(161 * 8192))
		whole := unit.BF16.Bytes(68976648192)
		near(t, "llama2-70b: weights of a rank", r.Memory.Weights, (whole-norms).Times(1/float64(tp))+norms, 1e-9)
	}
}

// FLOPs over all ranks are those of one GPU.
func TestRanksShareTheWork(t *testing.T) {
	for _, name := range []string{"llama2-70b", "qwen3-30b-a3b", "mixtral-8x7b"} {
		one := explain(t, testCase(t, name, "h200", 4, 1))
		for _, tp := range []int{2, 4} { // no more than KV heads, which would be computed twice
			r := explain(t, testCase(t, name, "h200", 4, tp))
			near(t, name+": FLOPs of the model", r.Prefill.FLOPs, one.Prefill.FLOPs, 1e-3)
			near(t, name+": FLOPs of all ranks", r.Prefill.Executed.Times(float64(tp)), one.Prefill.Executed, 2e-2)
		}
	}
}

// The lines of a report add up to its phases.
func TestLinesAddUp(t *testing.T) {
	for _, name := range variety {
		c := testCase(t, name, "h200", 4, 1)
		c.Workload.Chunk = 300
		for _, r := range []Report{explain(t, c)} {
			for _, phase := range []struct {
				lines []Line
				p     Phase
			}{{r.PrefillOps, r.Prefill}, {r.DecodeOps, r.Decode}} {
				var time, floors unit.Seconds
				var flops unit.FLOPs
				var share float64
				for _, l := range phase.lines {
					time += l.Expected
					floors += l.Floor
					flops += l.FLOPs
					share += l.Share
				}
				near(t, name+" time", time, phase.p.Expected, 2e-3)
				near(t, name+" FLOPs", flops, phase.p.Executed, 2e-3)
				near(t, name+" shares", share, 1, 2e-3)
				var layers unit.Seconds
				for _, l := range Layers(phase.lines) {
					layers += l.Expected
				}
				near(t, name+" time of the layers", layers, time, 1e-9)
				if floors < phase.p.Floor.Times(1-2e-3) {
					t.Errorf("%s: floors of the operators are %v, less than the step's %v", name, floors, phase.p.Floor)
				}
			}
		}
	}
}

// The longest context fits, and one token more does not.
func TestLongestContext(t *testing.T) {
	for _, name := range variety {
		p, err := NewPredictor(testCase(t, name, "h200", 1, 1))
		if err != nil {
			t.Fatal(err)
		}
		f := &p.footprint
		if f.cached(maxTokens) == f.cached(2*maxTokens) {
			continue // no cache grows
		}
		for _, left := range []unit.Bytes{1, 1e5, 3e6, 1e8, 7e9, 5e11} {
			n := float64(f.longest(left))
			if f.cached(n) > left || f.cached(n+1) <= left {
				t.Errorf("%s: %.0f tokens in %v: they take %v, one more %v", name, n, left, f.cached(n), f.cached(n+1))
			}
		}
	}
}
