package analytic

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"llmprof"
	"llmprof/hardware"
	"llmprof/unit"
)

// square is the square product that a calibration's sustained share is of, as a
// phase of its own: n rows, 2n³ FLOPs, 3n² values in and out.
func square(m *Machine) *tally {
	const n = 8192
	o := Op{Kind: GEMM, Format: unit.BF16, Layers: 1, FLOPs: 2 * n * n * n, Weights: 2 * n * n, Acts: 2 * 2 * n * n}
	c := m.Cost(&o)
	t := &tally{}
	t.of(&o, &c)
	t.takes(&c, 0, m.held)
	return t
}

// A square product takes what the calibration says that it sustains, at the power
// limit, on every GPU that is held there; on the others what it takes in a burst.
func TestSquareProductSustains(t *testing.T) {
	table, err := hardware.Load(llmprof.HardwareTOML)
	if err != nil {
		t.Fatal(err)
	}
	held := 0
	for _, name := range table.Names() {
		m := testMachine(t, name)
		work := square(m)
		m.hold(work)
		want := unit.FLOPs(2 * 8192 * 8192 * 8192).Over(m.rate[unit.BF16].Times(m.Cal.Sustained))
		near(t, name+": time of a square product", work.expected, want, 1e-9)
		near(t, name+": its power", m.draws(work, 1), m.GPU.TDP, 1e-9)
		if m.Cal.Sustained < m.Cal.GEMM.Compute {
			held++
		}
	}
	if held < 5 {
		t.Errorf("%d GPUs are held at their power limit", held)
	}
}

// Work that is slowed draws the limit, and what is not slowed draws no more.
func TestPowerBalances(t *testing.T) {
	seen := [2]int{}
	for _, engine := range []string{"native", "transformers", "transformers-graph"} {
		for _, batch := range []int{1, 8, 64, 256} {
			for _, prompt := range []int{16, 128, 700, 4096, 30000} {
				c := onEngine(t, "llama3.1-8b", engine, Workload{Batch: batch, Prompt: prompt, Gen: 2})
				if prompt%2 == 0 {
					c = hungry(t, c)
				}
				e := predict(t, c)
				for _, p := range []struct {
					Phase
					drawn unit.Watts
				}{{e.Prefill, e.Energy.Prefill}, {e.Decode, e.Energy.Decode}} {
					switch {
					case p.Slowed > 1:
						seen[0]++
						near(t, "power", p.drawn, c.Machine.GPU.TDP, 1e-9)
					case p.Held != 0 || p.drawn > c.Machine.GPU.TDP || p.drawn < c.Machine.waiting:
						t.Errorf("%s %+v: at %v, %v held", engine, c.Workload, p.drawn, p.Held)
					default:
						seen[1]++
					}
				}
			}
		}
	}
	if seen[0] < 20 || seen[1] < 20 {
		t.Errorf("%d phases at the limit, %d below: want both", seen[0], seen[1])
	}
}

// hungry is the case with own products that draw more than the limit, and attention
// that draws less than other products do.
func hungry(t *testing.T, c *Case) *Case {
	t.Helper()
	return withCalibration(t, c, func(cal *hardware.Calibration) { cal.Power.Own, cal.Power.Attention = 1.3, 0.4 })
}

// What own products draw beyond other products counts for steps that they are in, and
// for no others; it costs no time that a lower clock of the multiprocessors does not,
// which is none while the step waits for its memory.
func TestOwnProductsDraw(t *testing.T) {
	for _, c := range []struct {
		engine string
		batch  int
		own    bool
	}{{"native", 1, true}, {"native", 16, true}, {"native", 17, false}, {"transformers-graph", 1, false}} {
		plain := onEngine(t, "llama3.1-8b", c.engine, Workload{Batch: c.batch, Prompt: 64, Gen: 2})
		more := *plain
		cal := plain.Machine.Cal
		cal.Power.Own = 0.9
		more.Machine = machineOf(t, plain.Machine.GPU, cal, c.engine)
		a, b := predict(t, plain), predict(t, &more)
		if grows := b.Energy.PerToken > a.Energy.PerToken.Times(1.1); grows != c.own || b.Energy.PerPrompt != a.Energy.PerPrompt || b.TPOT != a.TPOT {
			t.Errorf("%s, batch %d: %v a token, %v before; %v a prompt, %v before; TPOT %v, %v", c.engine, c.batch,
				b.Energy.PerToken, a.Energy.PerToken, b.Energy.PerPrompt, a.Energy.PerPrompt, b.TPOT, a.TPOT)
		}
	}
	c := onEngine(t, "llama3.1-8b", "native", Workload{Batch: 1, Prompt: 64, Gen: 2})
	a, b := predict(t, c), predict(t, hungry(t, c))
	near(t, "power of hungry products", b.Energy.Decode, c.Machine.GPU.TDP, 1e-9)
	if b.Decode.Slowed <= 1 || b.TPOT.Expected > a.TPOT.Expected.Times(1.001) {
		t.Errorf("slowed %v, %v after %v", b.Decode.Slowed, b.TPOT.Expected, a.TPOT.Expected)
	}
	for _, share := range []float64{-0.1, math.NaN(), hardware.MostPower + 0.1} {
		cal := c.Machine.Cal
		cal.Power.Own = share
		if _, err := NewMachine(c.Machine.GPU, cal, c.Machine.Engine); err == nil {
			t.Errorf("a power of %v is taken", share)
		}
	}
}

// slowly prices the steps of a phase anew on a machine whose arithmetic takes x
// times as long, and says with its time what its units draw, in shares of what lies
// between waiting and the limit.
func slowly(t *testing.T, c *Case, x float64, steps func(u *sum, st Step) tally) (time, drawn float64) {
	t.Helper()
	slow, cal := *c, c.Machine.Cal
	cal.GEMM.Compute, cal.Attention.Compute, cal.Element.Compute = cal.GEMM.Compute/x, cal.Attention.Compute/x, cal.Element.Compute/x
	cal.Sustained = cal.GEMM.Compute
	m, err := NewMachine(c.Machine.GPU, cal, c.Machine.Engine)
	if err != nil {
		t.Fatal(err)
	}
	slow.Machine = m
	p, err := NewPredictor(&slow)
	if err != nil {
		t.Fatal(err)
	}
	got := steps(&sum{p: p, budget: maxSteps}, p.template())
	b := &got.busy
	chip := c.Machine.matrix*float64(b[0])/x + float64(got.draw.chip)
	return float64(got.expected), chip/x + float64(got.draw.memory) + c.Machine.others(b[1], b[2])
}

// The power balance in closed form is that found by trying clocks one by one,
// every operator priced anew.
func TestHoldIsTheBalanceOfClocks(t *testing.T) {
	for _, engine := range []string{"native", "transformers"} {
		for _, w := range []Workload{
			{Batch: 1, Prompt: 128, Gen: 1}, {Batch: 1, Prompt: 300, Gen: 1}, {Batch: 1, Prompt: 1024, Gen: 1}, {Batch: 8, Prompt: 4096, Gen: 1},
			{Batch: 1, Prompt: 65536, Gen: 1}, {Batch: 4, Prompt: 512, Gen: 2}, {Batch: 32, Prompt: 512, Gen: 2}, {Batch: 128, Prompt: 512, Gen: 2}, {Batch: 300, Prompt: 512, Gen: 2},
		} {
			c := onEngine(t, "llama3.1-8b", engine, w)
			if w.Batch == 8 || w.Gen == 2 {
				c = hungry(t, c)
			}
			steps := func(u *sum, st Step) tally {
				st.Batch = float64(w.Batch)
				if w.Gen == 1 {
					return u.prefill(&w, st)
				}
				st.Past = float64(w.Prompt)
				return u.run(st, 1, 1)
			}
			low, high := 1.0, 16.0
			for range 50 {
				x := (low + high) / 2
				if time, drawn := slowly(t, c, x, steps); drawn > time {
					low = x
				} else {
					high = x
				}
			}
			want, _ := slowly(t, c, low, steps)
			e := predict(t, c)
			got := e.Prefill
			if w.Gen > 1 {
				got = e.Decode
			}
			near(t, engine+": slowed", got.Slowed, low, 0.01)
			near(t, engine+": time", float64(got.Expected), want, 0.005)
		}
	}
}

// More of any work takes no less time, and a little more takes little more: there
// is no step where the power limit begins to hold.
func TestHoldIsContinuousAndMonotonic(t *testing.T) {
	m := testMachine(t, "h200")
	rng := rand.New(rand.NewPCG(3, 5))
	for range 20000 {
		o := Op{Kind: GEMM, Format: unit.BF16, Layers: 1, Kernels: 1, FLOPs: unit.FLOPs(math.Exp(20 + 12*rng.Float64())), Weights: unit.Bytes(math.Exp(12 + 14*rng.Float64()))}
		base := phaseOf(m, &o)
		const little = 1e-6
		for _, grow := range []func(*Op){
			func(o *Op) { o.FLOPs *= 1 + little }, func(o *Op) { o.Weights *= 1 + little }, func(o *Op) { o.Kernels *= 1 + little },
		} {
			more := o
			grow(&more)
			ratio := float64(phaseOf(m, &more)/base) - 1
			if ratio < -1e-12 || ratio > 3*little {
				t.Fatalf("%v and %v: a millionth more takes %g more", o.FLOPs, o.Weights, ratio)
			}
		}
	}
}

// phaseOf is the time of a phase of one operator.
func phaseOf(m *Machine, o *Op) unit.Seconds {
	var work tally
	c := m.Cost(o)
	work.of(o, &c)
	work.takes(&c, 0, m.held)
	m.hold(&work)
	return work.expected
}

// No phase is faster than its floor or draws more than its limit, and more work is
// never done sooner, whatever is asked of whatever machine.
func TestEveryMachineIsSane(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 9))
	var cases []*Case
	for _, name := range variety {
		cases = append(cases, testCase(t, name, "h200", 1, 1))
	}
	var machines []*Machine
	for _, name := range []string{"h200", "h100-pcie-80gb", "gh200-96gb", "b200", "a100", "l4", "t4", "agx-thor-128gb", "mi300x", "h20-96gb"} {
		g := testGPU(t, name)
		for _, engine := range EngineNames() {
			machines = append(machines, machineOf(t, g, hardware.DefaultCalibration(g), engine))
		}
	}
	seen := 0
	for range 20000 {
		c := *cases[rng.IntN(len(cases))]
		c.Machine = machines[rng.IntN(len(machines))]
		c.Scheme = scheme(t, SchemeNames()[rng.IntN(len(SchemeNames()))], c.Machine.GPU)
		c.Workload = Workload{Batch: 1 + rng.IntN(1<<rng.IntN(10)), Prompt: 1 + rng.IntN(1<<rng.IntN(14)), Gen: 1 + rng.IntN(1<<rng.IntN(9)), AllLogits: rng.IntN(2) == 0}
		if rng.IntN(3) == 0 {
			c.Parallel = Parallelism{TP: 1, PP: 2, MicroBatches: 1 + rng.IntN(c.Workload.Batch), GPUsPerNode: 8}
		}
		e, err := Predict(&c)
		if err != nil {
			continue
		}
		seen++
		sane(t, &c, &e)
		for _, p := range []Phase{e.Prefill, e.Decode} {
			if p.Expected < p.Floor.Times(1-1e-9) || p.Held < 0 || (p.Expected > 0 && p.Slowed < 1) {
				t.Fatalf("%s on %s, %s, %+v %+v: %+v", c.Model.Name, c.Machine.GPU.Name, c.Machine.Engine.Name, c.Workload, c.Parallel, p)
			}
		}
		if most := unit.Watts(float64(c.Machine.GPU.TDP) * (1 + 1e-9)); e.Energy.Prefill > most || e.Energy.Decode > most {
			t.Fatalf("%s on %s: %v and %v", c.Model.Name, c.Machine.GPU.Name, e.Energy.Prefill, e.Energy.Decode)
		}
		for _, w := range []Workload{
			{Batch: 2 * c.Workload.Batch, Prompt: c.Workload.Prompt, Gen: c.Workload.Gen}, {Batch: c.Workload.Batch, Prompt: c.Workload.Prompt, Gen: c.Workload.Gen + 1},
			{Batch: c.Workload.Batch, Prompt: c.Workload.Prompt + 1, Gen: c.Workload.Gen},
		} {
			if w.Prompt > c.Workload.Prompt && (c.Model.Family == "llama4_text" || c.Workload.Prompt == 1) {
				continue // attention starts anew at every chunk; scans of one token take no parallel form
			}
			more := c
			w.AllLogits = c.Workload.AllLogits
			more.Workload = w
			if grown, err := Predict(&more); err == nil {
				notLess(t, &c, &w, &e, &grown)
			}
		}
	}
	if seen < 10000 {
		t.Errorf("%d estimates", seen)
	}
}

// The energies of the operators and what the GPUs draw waiting add up to the
// energy of the prefill.
func TestLinesAddUpToEnergy(t *testing.T) {
	for _, tp := range []int{1, 2} {
		for _, gpu := range []string{"h200", "a100"} {
			for _, prompt := range []int{1, 64, 512, 4096} {
				c := hungry(t, testCase(t, "llama3.1-8b", gpu, 4, tp))
				c.Workload.Prompt = prompt
				r := explain(t, c)
				sum := c.Machine.waiting.For(r.TTFT.Expected).Times(float64(tp))
				for i := range r.PrefillOps {
					sum += r.PrefillOps[i].Energy
				}
				near(t, "J/prompt of all", r.Energy.PerPrompt.Times(float64(c.Workload.Batch)), sum, 1e-9)
			}
		}
	}
}

// A GPU that waits for its host draws its waiting power: the median of the windows
// in which an H200 had a model loaded and nothing to do.
func TestWaitingPowerOfH200(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "experiments", "h200", "h200-*.json"))
	if err != nil {
		t.Fatal(err)
	}
	var drawn []float64
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var r struct {
			Energy struct {
				Idle struct {
					Domains []struct {
						Watts float64 `json:"mean_w"`
					}
				} `json:"idle_loaded"`
			}
		}
		if err := json.Unmarshal(data, &r); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if d := r.Energy.Idle.Domains; len(d) > 0 {
			drawn = append(drawn, d[0].Watts)
		}
	}
	if len(drawn) < 41 {
		t.Fatalf("%d windows", len(drawn))
	}
	slices.Sort(drawn)
	t.Logf("%d windows, %.1f to %.1f W", len(drawn), drawn[0], drawn[len(drawn)-1])
	near(t, "waiting power", float64(testMachine(t, "h200").waiting), drawn[len(drawn)/2], 0.005)
}
