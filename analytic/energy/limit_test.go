package energy_test

import (
	"cmp"
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/energy"
	"llmprof/analytic/operator"
	"llmprof/internal/testkit"
	"llmprof/internal/testkit/casetest"
	"llmprof/models"
	"llmprof/roofline"
	"llmprof/unit"
)

// under is a case whose GPUs are held by limits.
func under(t *testing.T, c *analytic.Case, set energy.Cap) *analytic.Case {
	t.Helper()
	m, err := c.Machine.Capped(set)
	testkit.Must(t, err)
	other := *c
	other.Machine = m
	return &other
}

// A measured is a series of a model on a GPU under power limits, the highest last.
type measured struct {
	name   string
	within float64 // largest error of the speed, relative to that at the highest limit
	model  string
	mix    string // quantization of llama.cpp; "" for weights in INT4
	gpu    string
	tokens float64 // tokens that a step verifies: those that are drafted, and one
	tp     int
}

// step is the time of a step under a limit, and the power of one GPU.
func (s *measured) step(t *testing.T, limit unit.Watts) (unit.Seconds, unit.Watts) {
	t.Helper()
	name, scheme := "vllm", "w4a16-g128"
	if s.mix != "" {
		name = "llama.cpp"
	}
	c := casetest.Case(t, s.model, s.gpu, 1, s.tp)
	c.Machine = casetest.Machine(t, s.gpu, name)
	if s.mix == "" {
		c.Scheme = casetest.Scheme(t, scheme, c.Machine.GPU)
	} else {
		var err error
		c.Model, err = models.Quantize(c.Model, s.mix)
		testkit.Must(t, err)
		c.Scheme = models.StoredScheme(c.Model).For(c.Machine.GPU)
	}
	p, err := analytic.NewPredictor(under(t, c, energy.Cap{Limit: limit}))
	testkit.Must(t, err)
	cost := p.StepCost([]operator.Group{{Batch: 1, New: s.tokens, Past: 700, Logits: s.tokens}}, 0)
	if s.tokens == 1 {
		cost = p.StepCost([]operator.Group{{Batch: 1, New: 1, Past: 700, Logits: 1}}, 0)
	}
	return cost.Time, unit.Watts(float64(cost.Energy) / float64(cost.Time) / float64(s.tp))
}

// Speed and power under a limit, relative to those at the highest, are those of published sweeps of the limit. The weights of 3 bits of the
// RTX 3090 take more operations than the law of llama.cpp's kernels has: from 250 W their speed is within 3 % too.
func TestPowerCaps(t *testing.T) {
	series := map[string]measured{
		"rtx-5090 UD-Q4_K_XL 0":  {"RTX 5090", 0.05, "qwen3.6-27b", "q4_k_m", "rtx-5090", 1, 1},
		"rtx-5090 UD-Q4_K_XL 4":  {"RTX 5090 with drafts", 0.05, "qwen3.6-27b", "q4_k_m", "rtx-5090", 5, 1},
		"rtx-5060-ti Q4_K_M 0":   {"RTX 5060 Ti", 0.05, "qwen2.5-7b", "q4_k_m", "rtx-5060-ti-16gb", 1, 1},
		"rtx-3090 INT4 3":        {"RTX 3090, vLLM", 0.05, "qwen3.6-27b", "", "rtx-3090", 1, 2},
		"rtx-3090 UD-Q3_K_XL 0":  {"RTX 3090, llama.cpp", 0.27, "qwen3.6-27b", "q3_k_m", "rtx-3090", 1, 1},
		"rtx-3090 INT4 3 gemma-": {"RTX 3090, vLLM, Gemma 4", 0.05, "gemma4-31b", "", "rtx-3090", 1, 2},
	}
	file, err := os.Open(filepath.Join("testdata", "power_caps.csv"))
	testkit.Must(t, err)
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	testkit.Must(t, err)
	number := func(s string) float64 {
		v, err := strconv.ParseFloat(s, 64)
		testkit.Must(t, err)
		return v
	}
	type point struct{ limit, speed, watts float64 }
	of := map[string][]point{}
	for _, r := range rows[1:] {
		key := strings.Join([]string{r[0], r[2], r[5]}, " ")
		if strings.HasPrefix(r[1], "gemma") {
			key += " gemma-"
		}
		of[key] = append(of[key], point{number(r[6]), number(r[7]), number(r[8])})
	}
	if len(of) != len(series) {
		t.Fatalf("%d series in the file, %d in the test", len(of), len(series))
	}
	for key, points := range of {
		s := series[key]
		if s.name == "" {
			t.Fatalf("no test of %s", key)
		}
		top := points[0]
		for _, p := range points {
			if cmp.Compare(p.limit, top.limit) > 0 {
				top = p
			}
		}
		time, watts := s.step(t, unit.Watts(top.limit))
		for _, p := range points {
			slower, drawn := s.step(t, unit.Watts(p.limit))
			speed, power := float64(time/slower)/(p.speed/top.speed)-1, float64(drawn/watts)/(p.watts/top.watts)-1
			t.Logf("%s at %.0f W: speed %+.1f %%, power %+.1f %%", s.name, p.limit, 100*speed, 100*power)
			if math.Abs(speed) > s.within && p.limit < 250 || p.limit >= 250 && math.Abs(speed) > 0.05 || math.Abs(power) > 0.1 {
				t.Errorf("%s at %.0f W: speed %+.1f %% of what was measured, power %+.1f %%", s.name, p.limit, 100*speed, 100*power)
			}
		}
	}
}

// A lower limit never shortens a time, and no phase draws more than it. At the board's own limit and full clock nothing changes, and a
// little below it little.
func TestLimitsAreMonotonic(t *testing.T) {
	for _, x := range []struct {
		model, gpu    string
		batch, tp     int
		prompt, least int
	}{
		{"llama3.1-8b", "h200", 1, 1, 1024, 200}, {"llama3.1-8b", "h200", 64, 1, 2048, 250}, {"llama3.1-70b", "h100", 16, 4, 512, 250},
		{"qwen3-30b-a3b", "h200", 32, 1, 300, 250}, {"llama3.1-8b", "a100", 8, 1, 4096, 150}, {"llama3.1-8b", "rtx-5090", 4, 1, 1000, 250},
	} {
		c := casetest.Case(t, x.model, x.gpu, x.batch, x.tp)
		c.Workload.PromptLen = x.prompt
		c.Machine = casetest.Machine(t, x.gpu, "vllm")
		own := c.Machine.GPU.TDP
		none := casetest.Predict(t, c)
		if e := casetest.Predict(t, under(t, c, energy.Cap{Limit: own, Clock: c.Machine.GPU.Clock})); e != none {
			t.Errorf("%s on %s: its own limit changes\n%+v to\n%+v", x.model, x.gpu, none, e)
		}
		before, all := none, 0.0
		for limit := own * (1 - 1e-9); limit > unit.Watts(x.least); limit -= 5 {
			e := casetest.Predict(t, under(t, c, energy.Cap{Limit: limit}))
			if e.TTFT.Expected < before.TTFT.Expected.Times(1-1e-9) || e.TPOT.Expected < before.TPOT.Expected.Times(1-1e-9) {
				t.Fatalf("%s on %s at %v: TTFT %v, TPOT %v; %v and %v at a higher limit", x.model, x.gpu, limit, e.TTFT.Expected, e.TPOT.Expected,
					before.TTFT.Expected, before.TPOT.Expected)
			}
			most := limit * (1 + 1e-9)
			if e.Energy.Prefill > most || e.Energy.Decode > most || e.Prefill.Clock < before.Prefill.Clock || e.Decode.Clock < before.Decode.Clock {
				t.Fatalf("%s on %s at %v: %v in prefill, %v in decode", x.model, x.gpu, limit, e.Energy.Prefill, e.Energy.Decode)
			}
			if limit > own*(1-1e-6) {
				casetest.Near(t, "a billionth below its own limit", e.TTLT.Expected, none.TTLT.Expected, 1e-6)
			}
			before, all = e, all+1
		}
		if before.Decode.Clock <= 1.05 || all < 10 {
			t.Errorf("%s on %s: decode at %.3f, %.0f limits", x.model, x.gpu, before.Decode.Clock, all)
		}
		before = none
		for clock := c.Machine.GPU.Clock; clock > 300e6; clock -= 30e6 {
			e := casetest.Predict(t, under(t, c, energy.Cap{Clock: clock}))
			if e.TTFT.Expected < before.TTFT.Expected || e.TPOT.Expected < before.TPOT.Expected || e.Energy.Decode > before.Energy.Decode*(1+1e-9) {
				t.Fatalf("%s on %s at %v: %v, %v, %v; %v, %v, %v before", x.model, x.gpu, clock, e.TTFT.Expected, e.TPOT.Expected, e.Energy.Decode,
					before.TTFT.Expected, before.TPOT.Expected, before.Energy.Decode)
			}
			before = e
		}
	}
}

// The time and the power of one kernel at half of its clock, worked out by hand: a GEMM that waits for its weights.
func TestHalfTheClockByHand(t *testing.T) {
	m := casetest.Machine(t, "rtx-5090", "native")
	k := &roofline.Kernel{Class: roofline.GEMM, Format: unit.BF16, Count: 1, Launches: 1, Work: roofline.Work{Weights: 1e9, FLOPs: 1e9}}
	c := casetest.Cost(m, k)
	served := math.Pow((1+math.Pow(0.6, 4))/(1+math.Pow(0.3, 4)), 0.25)
	fixed, bytes := float64(c.Times[roofline.Fixed]), float64(c.Times[roofline.Memory])
	// Arithmetic is hidden: 5 µs beside a millisecond, of which its square shows.
	want := 1.3*fixed + math.Hypot(served*bytes, 2*math.Sqrt(m.Cal.Constants[roofline.GEMMExposed])*float64(c.Compute()))
	half, err := m.Power.Capped(energy.Cap{Clock: m.GPU.Clock / 2}, m.GPU)
	testkit.Must(t, err)
	var l energy.Load
	half.Take(&l, &c)
	clocks, throttled := half.Limit(&l)
	casetest.Near(t, "time", float64(l.Expected+throttled), want, 1e-6)
	l.Expected += throttled
	got := half.Mean(&l, clocks, 1, 1)
	// The voltage is at its lowest, 1/1.35 of its square: arithmetic and starts take that share of their energy; of a byte's, 0.3 stays, and
	// 0.7 is drawn at half of the clock for as long as the kernel takes.
	const volts = 1 / 1.35
	stretched := want / float64(c.Time)
	joules := float64(m.Rest) * (m.Matrix*float64(l.Compute)*volts + float64(l.Chip)*volts/2*stretched +
		float64(l.Memory)*(0.3+0.7*volts/2*stretched) + m.Cal.Constants[roofline.PowerFixed]*fixed*volts)
	casetest.Near(t, "power", float64(got), float64(m.Waiting)+joules/want, 1e-6)
}

// Limits that cannot be kept are refused, with what would be right.
func TestImpossibleLimits(t *testing.T) {
	c := casetest.Case(t, "llama3.1-8b", "h200", 8, 1)
	for _, x := range []struct {
		set  energy.Cap
		want string
	}{
		{energy.Cap{Limit: 100}, "draws 121.2 W with nothing to do; give more than that (its own limit is 700.0 W)"},
		{energy.Cap{Clock: 100e6}, "give one from 210.0 MHz to 1.980 GHz"},
		{energy.Cap{Clock: 2.5e9}, "give one from 210.0 MHz to 1.980 GHz"},
	} {
		if _, err := c.Machine.Capped(x.set); err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%+v: %v", x.set, err)
		}
	}
	_, err := analytic.Predict(under(t, c, energy.Cap{Limit: 125}))
	if err == nil || !strings.Contains(err.Error(), "a power limit of 125.0 W: H200 SXM 141GB draws more than that even at its lowest clock") {
		t.Errorf("125 W: %v", err)
	}
}

// A limit of a hardware file is that of the flag.
func TestOverlayIsTheFlag(t *testing.T) {
	_, table := casetest.Tables(t)
	mine, err := table.Overlay("mine.toml", "[gpu.h200-sxm-141gb]\ntdp = \"400 W\"\nclock = \"1500 MHz\"\n")
	testkit.Must(t, err)
	g, err := mine.GPU("h200")
	testkit.Must(t, err)
	c := casetest.Case(t, "llama3.1-8b", "h200", 64, 1)
	byFlag := under(t, c, energy.Cap{Limit: 400, Clock: 1500e6})
	byFile := *c
	byFile.Machine = casetest.MachineOf(t, &g, "native")
	a, b := casetest.Predict(t, byFlag), casetest.Predict(t, &byFile)
	if a != b || a.Energy.Prefill > 400 || a.TTFT.Expected <= casetest.Predict(t, c).TTFT.Expected {
		t.Errorf("%+v by flags, %+v by a file", a, b)
	}
	other, err := byFile.Machine.With(byFile.Machine.Cal)
	testkit.Must(t, err)
	if byFile.Machine = other; casetest.Predict(t, &byFile) != b {
		t.Error("other constants lose the limits")
	}
}
