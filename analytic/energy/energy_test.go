package energy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/energy"
	"llmprof/hardware"
	"llmprof/internal/testkit/casetest"
	"llmprof/roofline"
	"llmprof/unit"
)

// slowed is the time of a load at the power limit, and its power.
func slowed(p *energy.Power, l energy.Load) (unit.Seconds, unit.Watts) {
	clock, throttled := p.Limit(&l)
	l.Expected += throttled
	return l.Expected, p.Mean(&l, clock, 1, 1)
}

// phase is the time and the power of a phase of one kernel.
func phase(m *analytic.Machine, k *roofline.Kernel) (unit.Seconds, unit.Watts) {
	var l energy.Load
	c := casetest.Cost(m, k)
	m.Take(&l, &c)
	return slowed(&m.Power, l)
}

// square is the square GEMM of n rows that the sustained share of a calibration refers to.
func square() *roofline.Kernel {
	const n = hardware.SquareRows
	return &roofline.Kernel{
		Class: roofline.GEMM, Format: unit.BF16, Count: 1, Work: roofline.Work{FLOPs: 2 * n * n * n, Weights: 2 * n * n, Acts: 2 * 2 * n * n},
	}
}

// A square GEMM takes the time of the calibration's sustained rate, or its time in a burst where that is longer, and draws
// the power limit there, on every GPU.
func TestSquareProductSustains(t *testing.T) {
	throttled := 0
	for _, name := range casetest.GPUs(t) {
		m := casetest.Machine(t, name, "native")
		k := &m.Cal.Constants
		_, peak := m.Runs(unit.BF16)
		time, watts := phase(m, square())
		burst := casetest.Cost(m, square()).Time
		casetest.Near(t, name+": time of a square product", time, max(burst, square().Work.FLOPs.Over(peak.Times(k[roofline.GEMMSustained]))),
			1e-9)
		casetest.Near(t, name+": its power", watts, m.GPU.TDP, 1e-9)
		if k[roofline.GEMMSustained] < k[roofline.GEMMCompute] {
			throttled++
		}
	}
	if throttled < 5 {
		t.Errorf("%d GPUs are slowed at their power limit", throttled)
	}
}

// More of any work takes no less time, and a little more takes little more: the time has no jump where
// the power limit takes effect.
func TestLimitIsContinuousAndMonotonic(t *testing.T) {
	m := casetest.Machine(t, "h200", "native")
	rng := rand.New(rand.NewPCG(3, 5))
	for range 5000 {
		k := roofline.Kernel{
			Class: roofline.GEMM, Format: unit.BF16, Count: 1, Launches: 1,
			Work: roofline.Work{FLOPs: unit.FLOPs(math.Exp(20 + 12*rng.Float64())), Weights: unit.Bytes(math.Exp(12 + 14*rng.Float64()))},
		}
		base, _ := phase(m, &k)
		const little = 1e-6
		for _, grow := range []func(*roofline.Kernel){
			func(k *roofline.Kernel) { k.Work.FLOPs *= 1 + little }, func(k *roofline.Kernel) { k.Work.Weights *= 1 + little },
			func(k *roofline.Kernel) { k.Launches *= 1 + little },
		} {
			more := k
			grow(&more)
			grown, _ := phase(m, &more)
			ratio := float64(grown/base) - 1
			if ratio < -1e-12 || ratio > 3*little {
				t.Fatalf("%v and %v: a millionth more takes %g more", k.Work.FLOPs, k.Work.Weights, ratio)
			}
		}
	}
}

// The power model reproduces the power that an H200 drew under GEMMs of several shapes, two of which its
// shares come from.
func TestPowerOnH200(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "hardware", "testdata", "h200_operators.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Rows []struct {
			Op    string
			M     float64
			N, K  float64
			Watts unit.Watts       `json:"power_w"`
			FLOPs unit.FLOPsPerSec `json:"flops_per_s"`
			Bytes unit.BytesPerSec `json:"bytes_per_s"`
		}
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	m := casetest.Machine(t, "h200", "native")
	_, peak := m.Runs(unit.BF16)
	k := &m.Cal.Constants
	seen := 0
	for _, r := range file.Rows {
		if r.Op != "gemm_power" {
			continue
		}
		seen++
		var c roofline.Cost
		c.Traffic = unit.Seconds(float64(r.Bytes) / float64(m.GPU.Bandwidth))
		busy := m.BusyOf(&c)
		busy.Compute = unit.Seconds(float64(r.FLOPs) / float64(peak.Times(k[roofline.GEMMCompute])))
		busy.Fixed = unit.Seconds(k[roofline.GEMMFixed] * float64(r.FLOPs) / (2 * r.M * r.N * r.K)) // the fixed time of all GEMMs of a second
		_, got := slowed(&m.Power, energy.Load{Expected: 1, Busy: busy})
		t.Logf("%.0f rows: %.0f W, measured %.0f", r.M, float64(got), float64(r.Watts))
		casetest.Near(t, "power", got, r.Watts, 0.04)
	}
	if seen < 4 {
		t.Errorf("%d measured powers", seen)
	}
}

// A GPU that waits for its host draws its waiting power: the median of the windows in which an H200 had
// a model loaded and nothing to do.
func TestWaitingPowerOfH200(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "experiments", "h200", "h200-*.json"))
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
	casetest.Near(t, "waiting power", float64(casetest.Machine(t, "h200", "native").Waiting), drawn[len(drawn)/2], 0.005)
}

// The energy of a request is that of its prompt and of its further tokens, over the GPUs of a sequence.
func TestEnergyOfASequence(t *testing.T) {
	e := energy.Of(600, 400, 0.5, 2, 100, 0.25)
	casetest.Near(t, "J/prompt", e.PerPrompt, 600*0.5*0.25, 1e-12)
	casetest.Near(t, "J/token", e.PerToken, 400*2*0.25/100, 1e-12)
	casetest.Near(t, "J/request", e.PerRequest, 600*0.5*0.25+400*2*0.25, 1e-12)
	if e = energy.Of(600, 0, 0.5, 0, 0, 1); e.PerToken != 0 || e.Decode != 0 || e.PerRequest != e.PerPrompt {
		t.Errorf("a request of one token: %+v", e)
	}
}

// A square GEMM sustains its rate where arithmetic and memory traffic hide each other in part, too.
func TestSquareProductSustainsExposed(t *testing.T) {
	for _, name := range casetest.GPUs(t) {
		m := casetest.Machine(t, name, "native")
		c := m.Cal
		c.Constants[roofline.GEMMExposed] = 2
		c.Constants[roofline.GEMMSustained] = 0.8 * c.Constants[roofline.GEMMCompute]
		peaks, err := m.GPU.Peaks()
		if err != nil {
			t.Fatal(err)
		}
		prices := roofline.NewMachine(peaks, &c.Constants)
		power := energy.PowerOf(m.GPU, &c, prices)
		cost := prices.Cost(square())
		var l energy.Load
		power.Take(&l, &cost)
		time, watts := slowed(&power, l)
		_, peak := m.Runs(unit.BF16)
		casetest.Near(t, name+": time", time, square().Work.FLOPs.Over(peak.Times(c.Constants[roofline.GEMMSustained])), 1e-9)
		casetest.Near(t, name+": power", watts, m.GPU.TDP, 1e-9)
	}
}

// measuredPower is a line of experiments/power.
type measuredPower struct {
	Kind, Format string
	M, N, K      float64
	Busy         float64
	Call         float64 `json:"call_s"`
	Power        float64 `json:"power_w"`
	Clock        float64 `json:"clock_hz"`
}

// atFullClocks reads the GEMMs in 16 bits of a file of experiments/power that ran at full clocks.
func atFullClocks(t *testing.T, name string) (rows []measuredPower) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "experiments", "power", name))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		r := measuredPower{Busy: 1}
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		if r.M > 0 && r.Clock >= 1.95e9 && r.Format != "fp8" {
			rows = append(rows, r)
		}
	}
	if len(rows) < 12 {
		t.Fatalf("%s: %d GEMMs at full clocks", name, len(rows))
	}
	return rows
}

// GEMMs of few rows, and large ones in bursts whose pauses keep the clocks at their highest, draw what their FLOPs and their
// bytes add up to.
func TestPowerAtFullClocks(t *testing.T) {
	m := casetest.Machine(t, "h100", "vllm")
	_, peak := m.Runs(unit.BF16)
	k := &m.Cal.Constants
	for _, name := range []string{"h100.jsonl", "h100-weights.jsonl"} {
		for _, r := range atFullClocks(t, name) {
			memory := 2 * (r.M*r.K + r.N*r.K + r.M*r.N) / float64(m.GPU.Bandwidth.Times(k[roofline.GEMMMemory])) / r.Call
			matrix := 2 * r.M * r.N * r.K / r.Call / float64(peak)
			share := k[roofline.PowerMatrix]*matrix + k[roofline.PowerMemory]*memory + k[roofline.PowerFixed]*k[roofline.GEMMFixed]/r.Call
			want := float64(m.Waiting) + r.Busy*share*float64(m.Rest)
			casetest.Near(t, fmt.Sprintf("%s: %.0f×%.0f×%.0f, busy %.2f", name, r.M, r.N, r.K, r.Busy), r.Power, want, 0.10)
		}
	}
}

// TestPowerOfGEMMsOnB200 holds GEMMs in bf16 of few rows to the medians of what TensorRT-LLM's drew on a B200
// (experiments/operators/watts.py reads the tables): a short one draws nearly as much as a long one, though it moves bytes for a part of
// its time.
func TestPowerOfGEMMsOnB200(t *testing.T) {
	m := casetest.Machine(t, "b200", "native")
	for _, x := range []struct {
		rows, inputs, outputs float64
		want                  unit.Watts
	}{{8, 5120, 51200, 960}, {8, 8192, 5120, 864}, {8, 5120, 10240, 865}} {
		weights := unit.BF16.Bytes(x.inputs * x.outputs)
		_, watts := phase(m, &roofline.Kernel{
			Class: roofline.GEMM, Format: unit.BF16, Count: 1, Launches: 1, Shape: roofline.Shape{M: x.rows, K: x.inputs, N: x.outputs},
			Work: roofline.Work{FLOPs: unit.FLOPs(2 * x.rows * x.inputs * x.outputs), Weights: weights},
		})
		casetest.Near(t, "power", watts, x.want, 0.06)
	}
}
