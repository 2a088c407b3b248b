package calibrate

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"llmprof/analytic"
	"llmprof/hardware"
	"llmprof/unit"
)

var when = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func h200Machine(engine string) Machine {
	return Machine{
		Schema: RowSchema, Kind: machineKind, GPU: "h200-sxm-141gb", Device: "NVIDIA H200", Engine: engine, Kernels: "synthetic", DType: unit.BF16,
		Tools: map[string]string{"torch": "2"}, Version: "v0", When: when,
	}
}

// synthetic makes rows of a whole plan that follow known constants.
func synthetic(t *testing.T, g *hardware.GPU, truth *hardware.Calibration, host hardware.Host, noise float64) *Rows {
	t.Helper()
	return syntheticOf(t, Transformers, g, truth, host, noise)
}

func syntheticOf(t *testing.T, engine string, g *hardware.GPU, truth *hardware.Calibration, host hardware.Host, noise float64) *Rows {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	peak, _ := g.Peak(unit.BF16)
	rows := &Rows{Machine: h200Machine(engine)}
	for _, p := range Plan(g, unit.BF16, engine, 8, false) {
		w := p.Work()
		kernel := func(k hardware.Kernel) float64 {
			flops := w.FLOPs + w.PerKey.Times(truth.AttentionRamp/2)
			return float64(k.Fixed) + max(float64(flops)/(k.Compute*float64(peak)), float64(w.Bytes)/(k.Memory*float64(g.Bandwidth)))
		}
		var s float64
		switch p.Kind.times() {
		case GEMM:
			s = kernel(truth.GEMM)
		case MixtureDecode:
			k := truth.Mixture
			if k.Memory == 0 {
				k = ownMixture(g).Mixture
			}
			fixed := k.Fixed
			if p.Shape.Batch > 1 {
				fixed = k.Several
			}
			s = float64(fixed) + (float64(w.Bytes+w.Groups)/k.Memory+k.Again*float64(w.Again))/float64(g.Bandwidth)
		case TopKPrefill:
			k := ownExperts(truth)
			s = float64(k.ChoiceFixed) + float64(k.ChoicePair)*float64(p.Shape.Tokens*p.Shape.TopK) + float64(k.ChoiceExpert)*float64(p.Shape.Experts)
		case GateUpPrefill, DownPrefill:
			k := ownExperts(truth)
			times := k.Sum
			if p.Kind == GateUpPrefill {
				times = k.Gather
			}
			busy := math.Hypot(float64(w.FLOPs)/(k.Compute*float64(peak)), p.reread(g)*float64(w.Bytes)/(k.Memory*float64(g.Bandwidth)))
			s = float64(truth.GEMM.Fixed) + busy + times*float64(w.Order)/float64(g.Bandwidth)
		case QKVDecode, ODecode, DenseUpDecode, DenseDownDecode, HeadDecode:
			k := ownWide(truth)
			s = float64(k.Fixed) + (float64(w.Bytes-w.Acts)/k.Memory+k.Again*float64(w.Acts))/float64(g.Bandwidth)
		case LaunchPrefill:
			s = float64(max(truth.Stream, 1e-6))
		case Sustained:
			s = float64(w.FLOPs) / (0.66 * float64(peak))
		case AttentionPrefill, AttentionDecode:
			s = kernel(truth.Attention)
		case RMSNorm, Activation:
			s = kernel(truth.Element)
		case AllReduce:
			s = float64(truth.LinkBase) + float64(p.Ranks)*float64(truth.LinkPerGPU) + float64(w.Wire)/(truth.Link*float64(g.LinkAmong(p.Ranks)))
		case GraphNode:
			s = float64(truth.Launch) * float64(p.Shape.Launches)
		case SmallKernel:
			s = float64(host.SmallKernel) * float64(p.Shape.Launches)
		case EagerStep:
			s = float64(host.Launch) * float64(p.Shape.Launches)
		case HostStep:
			s = float64(host.Step)
		case Read, Copy:
			s = float64(w.Bytes) / (0.9 * float64(g.Bandwidth))
		case EagerLaunch:
			s = 4e-6 * float64(p.Shape.Launches)
		case Idle:
			s = 2
		}
		s *= math.Exp(noise * random.NormFloat64())
		row, err := newRow(&p, []float64{s, s})
		if err != nil {
			t.Fatal(err)
		}
		row.Cold, row.When, row.Engine = true, when, engine
		if p.Kind.power() {
			row.Power = drawnBy(&p, g, truth, s, math.Exp(noise*random.NormFloat64()/3))
		}
		if err := row.check(); err != nil {
			t.Fatal(err)
		}
		rows.Rows = append(rows.Rows, row)
	}
	return rows
}

// drawnBy is the power of a point by known constants, all of it below the limit.
func drawnBy(p *Point, g *hardware.GPU, truth *hardware.Calibration, seconds, noise float64) *float64 {
	w := p.Work()
	peak, _ := g.Peak(unit.BF16)
	idle, _ := g.Idle()
	waiting := float64(idle) + truth.Power.Waiting*float64(g.TDP-idle)
	k, share := truth.GEMM, truth.Power.Memory
	if p.Kind == AttentionPower {
		k, share = truth.Attention, truth.Power.Attention
	} else if p.Shape.M <= 16 {
		share = truth.Power.Own
	}
	const matrix = 0.95 // of a large product at the rate of bursts, which the sustained rate below says
	busy := matrix*float64(w.FLOPs)/(truth.GEMM.Compute*float64(peak)) + share*float64(w.Bytes)/(k.Memory*float64(g.Bandwidth)) + truth.Power.Fixed*float64(k.Fixed)
	watts := waiting + (float64(g.TDP)-waiting)*busy/seconds*noise
	if p.Kind == Idle {
		watts = waiting
	}
	return &watts
}

// What a GPU draws is given back by rows of an engine whose own products draw more
// than a library's, and of one that has none.
func TestFitOfPower(t *testing.T) {
	g := board(t, "h200")
	for _, engine := range []string{Native, Transformers} {
		truth := hardware.DefaultCalibration(g)
		truth.GEMM = hardware.Kernel{Compute: 0.66, Memory: 0.88, Fixed: 3e-6}
		truth.Attention.Memory, truth.Attention.Fixed = 0.9, 6e-6
		truth.Power = hardware.Power{Memory: 0.60, Own: 0.85, Attention: 0.55, Fixed: 0.3, Waiting: 0.077}
		if engine == Transformers {
			truth.Power.Own = truth.Power.Memory
		}
		f, err := Fit(syntheticOf(t, engine, g, &truth, hardware.Host{Step: 1e-5, Launch: 1e-5, SmallKernel: 1e-6}, 0.01), g, "x")
		if err != nil {
			t.Fatal(err)
		}
		for key, want := range map[string]float64{
			"power.waiting": 0.077, "power.memory": 0.60, "power.own": truth.Power.Own, "power.attention": 0.55, "power.fixed": 0.3,
		} {
			v, ok := f.Values[key]
			if key == "power.own" && ok { // what a byte takes: own.row is a part of the time
				want *= f.Values["own.memory"].Value / truth.GEMM.Memory
			}
			switch {
			case key == "power.own" && engine == Transformers:
				if ok {
					t.Errorf("%s of an engine without own products: %+v", key, v)
				}
			case key == "power.fixed" && math.Abs(v.Value-want) > 0.06, key != "power.fixed" && math.Abs(v.Value/want-1) > 0.04, v.N < 1:
				t.Errorf("%s: %s is %+v, want %v", engine, key, v, want)
			}
		}
		if again, err := hardware.ParseCalibration("x", f.Text()); err != nil || len(again.Values) != len(f.Values) {
			t.Errorf("%v: %s", err, f.Text())
		}
	}
}

// Rows without a sensor's reading leave power to the defaults, and no section of it in
// the file.
func TestFitWithoutPower(t *testing.T) {
	g := board(t, "h200")
	truth := hardware.DefaultCalibration(g)
	rows := syntheticOf(t, Native, g, &truth, hardware.Host{Step: 1e-5}, 0.01)
	for i := range rows.Rows {
		rows.Rows[i].Power = nil
	}
	f, err := Fit(rows, g, "x")
	if err != nil {
		t.Fatal(err)
	}
	for key := range f.Values {
		if strings.HasPrefix(key, "power.") {
			t.Errorf("%s: %+v", key, f.Values[key])
		}
	}
}

// Power that no constants give leaves the defaults, with a word.
func TestFitOfImpossiblePower(t *testing.T) {
	g := board(t, "h200")
	truth := hardware.DefaultCalibration(g)
	rows := syntheticOf(t, Native, g, &truth, hardware.Host{Step: 1e-5}, 0.01)
	for i := range rows.Rows {
		if r := &rows.Rows[i]; r.Kind == GEMMPower {
			watts := 3000.0
			r.Power = &watts
		}
	}
	f, err := Fit(rows, g, "x")
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := f.Values["power.memory"]; ok || !strings.Contains(strings.Join(f.Notes, "\n"), "runs for their power do not agree") {
		t.Errorf("%+v: %q", f.Values, f.Notes)
	}
	if _, err := hardware.ParseCalibration("x", f.Text()); err != nil {
		t.Error(err)
	}
}

// Rows of a whole plan give the constants back that they were made with, each
// within twice its stated interval: of seventeen, one is often beside it.
func TestFitOfAPlan(t *testing.T) {
	g := board(t, "h200")
	truth := hardware.DefaultCalibration(g)
	truth.GEMM = hardware.Kernel{Compute: 0.74, Memory: 0.88, Fixed: 5e-6}
	truth.Attention = hardware.Kernel{Compute: 0.55, Memory: 0.80, Fixed: 8e-6}
	truth.Element = hardware.Kernel{Compute: 0.5, Memory: 0.72, Fixed: 3e-6}
	truth.AttentionRamp, truth.Launch = 500, 1.6e-6
	truth.Link, truth.LinkBase, truth.LinkPerGPU = 0.7, 6e-6, 1.2e-6
	host := hardware.Host{Step: 31e-6, Launch: 9e-6, SmallKernel: 2.2e-6}
	f, err := Fit(synthetic(t, g, &truth, host, 0.03), g, "synthetic")
	if err != nil {
		t.Fatal(err)
	}
	got, h, err := f.Apply(g, Transformers)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		key       string
		got, want float64
	}{
		{"gemm.compute", got.GEMM.Compute, 0.74}, {"gemm.memory", got.GEMM.Memory, 0.88}, {"gemm.fixed", float64(got.GEMM.Fixed), 5e-6},
		{"gemm.sustained", f.Values["gemm.sustained"].Value, 0.66},
		{"attention.compute", got.Attention.Compute, 0.55}, {"attention.memory", got.Attention.Memory, 0.80}, {"attention.fixed", float64(got.Attention.Fixed), 8e-6},
		{"attention.ramp", got.AttentionRamp, 500},
		{"element.memory", got.Element.Memory, 0.72}, {"element.fixed", float64(got.Element.Fixed), 3e-6},
		{"graph.node", float64(got.Launch), 1.6e-6},
		{"link.share", got.Link, 0.7}, {"link.base", float64(got.LinkBase), 6e-6}, {"link.per_gpu", float64(got.LinkPerGPU), 1.2e-6},
		{"host.step", float64(h.Step), 31e-6}, {"host.launch", float64(h.Launch), 9e-6}, {"host.small_kernel", float64(h.SmallKernel), 2.2e-6},
	} {
		v := f.Values[c.key]
		if off := math.Abs(c.got - c.want); v.N < 3 || off > max(2*v.Uncertainty, 0.01*c.want) || off > 0.15*c.want {
			t.Errorf("%s is %v ± %v (n %d), want %v", c.key, c.got, v.Uncertainty, v.N, c.want)
		}
	}
	if v := f.Values["element.compute"]; v.N != 0 || !strings.HasPrefix(v.From, "default for hopper") {
		t.Errorf("element.compute: %+v", v)
	}
	if r := f.HeldOut["gemm.memory"]; r.N < 20 || r.Median > 0.04 || r.P90 > 0.08 {
		t.Errorf("rows with 3 %% of noise are predicted with errors of %+v", r)
	}
	if _, err := hardware.ParseCalibration("f", f.Text()); err != nil {
		t.Error(err)
	}
}

// Constants that no peak allows say so, and what may be wrong.
func TestFitRefuses(t *testing.T) {
	g := board(t, "h200")
	truth := hardware.DefaultCalibration(g)
	truth.GEMM.Compute = 1.3
	_, err := Fit(synthetic(t, g, &truth, hardware.Host{Step: 1e-5, Launch: 1e-5, SmallKernel: 1e-6}, 0), g, "x")
	if err == nil || !strings.Contains(err.Error(), "gemm.compute comes out as 1.3") || !strings.Contains(err.Error(), "peaks in the table of GPUs are too low") {
		t.Error(err)
	}
	if _, err := Fit(&Rows{Machine: h200Machine("")}, board(t, "a100"), "x"); err == nil || !strings.Contains(err.Error(), "the rows are of h200-sxm-141gb, not of a100-sxm-80gb") {
		t.Error(err)
	}
	f, err := Fit(&Rows{Machine: h200Machine("")}, g, "nothing")
	if err != nil {
		t.Fatal(err)
	}
	for key, v := range f.Values {
		if v.N != 0 || v.From != "default for hopper" {
			t.Errorf("without a row, %s is %+v", key, v)
		}
	}
}

func TestRowMistakes(t *testing.T) {
	machine, err := json.Marshal(h200Machine(""))
	if err != nil {
		t.Fatal(err)
	}
	p := Point{GEMM, Shape{M: 8, N: 64, K: 64}, unit.BF16, 1}
	r, err := newRow(&p, []float64{1e-5, 3e-5, 2e-5})
	if err != nil {
		t.Fatal(err)
	}
	r.When = when
	line, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	good := string(machine) + "\n" + string(line) + "\n"
	if rows, err := parseRows("r", []byte(good+"\n"+`{"sch`)); err != nil || len(rows.Rows) != 1 || rows.Torn != 5 || !rows.Has(p) {
		t.Fatalf("%+v, %v", rows, err)
	}
	for _, c := range []struct{ old, new, says string }{
		{`"seconds":[0.00001`, `"seconds":[0`, "r:2: gemm 8×64×64 took 0 s"},
		{`"seconds":[0.00001`, `"seconds":[-1`, "took -1 s"},
		{`"seconds":[0.00001,0.00003,0.00002]`, `"seconds":[]`, "no samples"},
		{`"median_s":0.00002`, `"median_s":0.00003`, "its samples and its shape give 2e-05"},
		{`"flops":65536`, `"flops":1`, "has flops 1"},
		{`"m":8`, `"m":0`, "a size is missing"},
		{`"m":8`, `"mm":8`, "unknown field"},
		{`"kind":"gemm"`, `"kind":"gem"`, `no kind "gem"`},
		{`"dtype":"bf16"`, `"dtype":"bf17"`, "bf17"},
		{`"ranks":1`, `"ranks":0`, "over 0 ranks"},
		{`"power_w":null`, `"power_w":-3`, "a power or a clock of -3"},
		{`{"schema":"llmprof.bench/v1","kind":"gemm"`, `{"schema":"llmprof.bench/v2","kind":"gemm"`, `the schema is "llmprof.bench/v2": want "llmprof.bench/v1"`},
		{`{"schema":"llmprof.bench/v1","kind":"gemm"`, `{`, "not a row"},
		{string(machine), "", "comes before the line of the machine"},
		{string(line), string(machine), "a second line of the machine"},
		{`"device":"NVIDIA H200"`, `"device":""`, "lacks gpu, device, kernels or llmprof"},
	} {
		text := strings.Replace(good, c.old, c.new, 1)
		if c.old == `"dtype":"bf16"` || text == good {
			i := strings.LastIndex(good, c.old)
			if i < 0 {
				t.Errorf("%q is not in the file", c.old)
				continue
			}
			text = good[:i] + c.new + good[i+len(c.old):]
		}
		if _, err := parseRows("r", []byte(text)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q for %q: %v, want %q", c.new, c.old, err, c.says)
		}
	}
	if _, err := parseRows("r", nil); err == nil || !strings.Contains(err.Error(), "no line says on which machine") {
		t.Error(err)
	}
}

// Rows of another machine are not added to a file, and a torn line is cut off.
func TestAppend(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	m := h200Machine(Native)
	f, had, err := openRows(path, &m)
	if err != nil || len(had.Rows) != 0 {
		t.Fatal(had, err)
	}
	p := Point{GEMM, Shape{M: 8, N: 64, K: 64}, unit.BF16, 1}
	r, err := newRow(&p, []float64{1e-5})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.add(&r); err != nil {
		t.Fatal(err)
	}
	f.close()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(text, `{"torn`...), 0o644); err != nil {
		t.Fatal(err)
	}
	if f, had, err = openRows(path, &m); err != nil || len(had.Rows) != 1 {
		t.Fatal(had, err)
	}
	if err := f.add(&r); err != nil {
		t.Fatal(err)
	}
	f.close()
	if had, err = ReadRows(path); err != nil || len(had.Rows) != 2 || had.Torn != 0 {
		t.Errorf("%+v, %v", had, err)
	}
	other := h200Machine(Transformers)
	if _, _, err := openRows(path, &other); err == nil || !strings.Contains(err.Error(), "give another file") {
		t.Error(err)
	}
}

// A plan has every shape once, and what it says that the host launches is what
// the theory counts.
func TestPlan(t *testing.T) {
	for _, name := range []string{"h200", "orin-nano", "rtx-4090"} {
		g := board(t, name)
		for _, engine := range []string{Native, Transformers} {
			seen := map[Point]bool{}
			for _, p := range Plan(g, unit.BF16, engine, 8, false) {
				if err := p.check(); err != nil || seen[p] {
					t.Errorf("%s: %v is twice in the plan, or wrong: %v", name, p, err)
				}
				if p.Work().Bytes > g.Memory/4 {
					t.Errorf("%s: %v needs %v", name, p, p.Work().Bytes)
				}
				seen[p] = true
			}
			if len(seen) < 150 {
				t.Errorf("%s: %d points", name, len(seen))
			}
		}
	}
	if n := tinyLaunches(1); n < 300 || n != tinyLaunches(4) {
		t.Errorf("the tiny model has %d launches a step", n)
	}
}

func FuzzParseRows(f *testing.F) {
	machine, err := json.Marshal(h200Machine(""))
	if err != nil {
		f.Fatal(err)
	}
	p := Point{AllReduce, Shape{Bytes: 64}, unit.BF16, 2}
	r, err := newRow(&p, []float64{1e-5, 3e-5})
	if err != nil {
		f.Fatal(err)
	}
	line, err := json.Marshal(r)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(machine, line)
	f.Fuzz(func(t *testing.T, first, second []byte) {
		rows, err := parseRows("r", append(append(append(append([]byte{}, first...), '\n'), second...), '\n'))
		if err != nil {
			return
		}
		for i := range rows.Rows {
			if r := &rows.Rows[i]; !(r.Median > 0 && r.Median < 1e4) {
				t.Errorf("a row of %v s", r.Median)
			}
		}
	})
}

// Whatever times rows have, a fit gives constants that a file can have, or an error.
func FuzzFit(f *testing.F) {
	f.Add(uint64(1), 0.5, uint8(20))
	f.Add(uint64(7), 3.0, uint8(90))
	f.Fuzz(func(t *testing.T, seed uint64, noise float64, count uint8) {
		if !(noise >= 0 && noise < 10) {
			return
		}
		g := board(t, "h200")
		random := rand.New(rand.NewPCG(seed, 0))
		plan := Plan(g, unit.BF16, Transformers, 4, true)
		rows := &Rows{Machine: h200Machine(Transformers)}
		for range int(count) % 40 {
			p := plan[random.IntN(len(plan))]
			row, err := newRow(&p, []float64{1e-5 * math.Exp(noise*random.NormFloat64())})
			if err != nil {
				t.Fatal(err)
			}
			row.Cold = random.IntN(2) == 0
			rows.Rows = append(rows.Rows, row)
		}
		c, err := Fit(rows, g, "x")
		if err != nil {
			return
		}
		if _, err := hardware.ParseCalibration("x", c.Text()); err != nil {
			t.Errorf("%v\n%s", err, c.Text())
		}
	})
}

// Rows that something disturbed cost their own constants, and no others.
func TestFitOfDisturbedRows(t *testing.T) {
	g := board(t, "h200")
	truth := hardware.DefaultCalibration(g)
	rows := synthetic(t, g, &truth, hardware.Host{Step: 1e-5, Launch: 1e-5, SmallKernel: 1e-6}, 0.01)
	random := rand.New(rand.NewPCG(9, 9))
	for i := range rows.Rows {
		if r := &rows.Rows[i]; r.Kind == AttentionPrefill || r.Kind == AttentionDecode {
			p := r.Point()
			again, err := newRow(&p, []float64{1e-3 * math.Exp(4*random.NormFloat64())})
			if err != nil {
				t.Fatal(err)
			}
			again.Cold, again.When = true, when
			*r = again
		}
	}
	f, err := Fit(rows, g, "x")
	if err != nil {
		t.Fatal(err)
	}
	if v := f.Values["gemm.memory"]; v.N < 20 || math.Abs(v.Value-truth.GEMM.Memory) > 0.01 {
		t.Errorf("gemm.memory is %+v", v)
	}
	for _, key := range []string{"attention.compute", "attention.memory", "attention.fixed", "attention.ramp"} {
		if v := f.Values[key]; v.N != 0 || !strings.HasPrefix(v.From, "default for hopper") {
			t.Errorf("%s is %+v", key, v)
		}
	}
	if _, err := hardware.ParseCalibration("f", f.Text()); err != nil {
		t.Error(err)
	}
}

// What is no file of a size is none of rows: a device gives bytes without an end.
func TestReadRowsOfADevice(t *testing.T) {
	if _, err := ReadRows(t.TempDir()); err == nil || !strings.Contains(err.Error(), "want a regular file of at most") {
		t.Errorf("a folder: %v", err)
	}
}

// ownMixture are the defaults of a GPU with constants of mixtures, for rows of the native
// engine.
func ownMixture(g *hardware.GPU) hardware.Calibration {
	c := hardware.DefaultCalibration(g)
	c.Mixture = hardware.Mixture{Memory: 0.85, Again: 0.4, Fixed: 9e-6, Several: 20e-6}
	return c
}

// Constants of mixtures are those that rows of a whole plan follow.
func TestFitOfMixtures(t *testing.T) {
	g := board(t, "h200")
	truth := ownMixture(g)
	rows := syntheticOf(t, Native, g, &truth, hardware.Host{Step: 1e-5}, 0.01)
	f, err := Fit(rows, g, "x")
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]float64{"mixture.memory": 0.85, "mixture.again": 0.4, "mixture.fixed": 9e-6, "mixture.several": 20e-6} {
		if v := f.Values[key]; v.N < 3 || math.Abs(v.Value/want-1) > 0.1 {
			t.Errorf("%s: %+v, want %v", key, v, want)
		}
	}
	again, err := hardware.ParseCalibration("x", f.Text())
	if err != nil {
		t.Fatal(err)
	}
	if cal, _, err := again.Apply(g, Native); err != nil || math.Abs(cal.Mixture.Memory/truth.Mixture.Memory-1) > 0.1 {
		t.Errorf("%+v, %v", cal.Mixture, err)
	}
	rows.Rows = slices.DeleteFunc(rows.Rows, func(r Row) bool { return r.Kind == MixtureDecode && r.Shape.Batch > 1 })
	if f, err = Fit(rows, g, "x"); err != nil {
		t.Fatal(err)
	}
	if v, ok := f.Values["mixture.again"]; ok && v.N > 0 {
		t.Errorf("one row of each expert tells of more: %+v", v)
	}
}

// All-reduces within own products have constants of their own, and the engine's others
// have one latency, large and small.
func TestFitOfPostedSums(t *testing.T) {
	g := board(t, "h200")
	truth := hardware.DefaultCalibration(g)
	truth.Link, truth.LinkBase, truth.LinkPerGPU = 0.35, 4e-6, 0.5e-6
	rows := syntheticOf(t, Native, g, &truth, hardware.Host{Step: 1e-5}, 0.01)
	for i := range rows.Rows {
		if r := &rows.Rows[i]; r.Kind == AllReduce && r.Shape.Bytes <= 128<<10 && analytic.Posted(r.Ranks, unit.Bytes(r.Shape.Bytes), false) {
			s := 1.5e-6 + 0.2e-6*float64(r.Ranks) + r.Wire/(0.35*float64(g.LinkAmong(r.Ranks)))
			r.Seconds, r.Median = []float64{s, s}, s
		}
	}
	f, err := Fit(rows, g, "x")
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]float64{
		"link.share": 0.35, "link.base": 4e-6, "one_shot.base": 4e-6, "one_shot.per_gpu": 0.5e-6, "posted.base": 1.5e-6, "posted.per_gpu": 0.2e-6,
	} {
		if v := f.Values[key]; v.N < 3 || math.Abs(v.Value/want-1) > 0.1 {
			t.Errorf("%s: %+v, want %v", key, v, want)
		}
	}
}

// ownExperts are the constants of prompts' experts, or some where truth has none.
func ownExperts(truth *hardware.Calibration) hardware.Experts {
	if truth.Experts.Memory > 0 {
		return truth.Experts
	}
	return hardware.Experts{Compute: 0.6, Memory: 0.85, Gather: 2, Sum: 4, ChoiceFixed: 4e-6, ChoicePair: 1.5e-9, ChoiceExpert: 4e-8}
}

// ownWide are the same of products of many sequences.
func ownWide(truth *hardware.Calibration) hardware.Wide {
	if truth.Wide.Memory > 0 {
		return truth.Wide
	}
	return hardware.Wide{Memory: 0.9, Again: 5, Fixed: 4e-6}
}

// Constants of prompts' mixtures, of products of many sequences and of launches are those that rows of a
// whole plan follow.
func TestFitOfOwnKernels(t *testing.T) {
	g := board(t, "h200")
	truth := hardware.DefaultCalibration(g)
	truth.Experts = hardware.Experts{Compute: 0.62, Memory: 0.88, Gather: 3, Sum: 5.5, ChoiceFixed: 3.6e-6, ChoicePair: 1.3e-9, ChoiceExpert: 3.4e-8}
	truth.Wide, truth.Stream = hardware.Wide{Memory: 0.92, Again: 9, Fixed: 5e-6}, 1.6e-6
	f, err := Fit(syntheticOf(t, Native, g, &truth, hardware.Host{Step: 1e-5}, 0.01), g, "x")
	if err != nil {
		t.Fatal(err)
	}
	again, err := hardware.ParseCalibration("x", f.Text())
	if err != nil {
		t.Fatal(err)
	}
	cal, _, err := again.Apply(g, Native)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]float64{
		"experts.compute": 0.62, "experts.memory": 0.88, "experts.gather": 3, "experts.sum": 5.5, "choice.pair": 1.3e-9, "choice.expert": 3.4e-8, "choice.fixed": 3.6e-6,
		"wide.memory": 0.92, "wide.again": 9, "wide.fixed": 5e-6, "stream.node": 1.6e-6,
	} {
		if v := f.Values[key]; v.N < 3 || math.Abs(v.Value/want-1) > 0.1 || math.Abs(hardware.ConstantOf(key).Of(&cal)/want-1) > 0.1 {
			t.Errorf("%s: %+v, want %v", key, v, want)
		}
	}
}
