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

	"llmprof/analytic/engine"
	"llmprof/hardware"
	"llmprof/internal/testkit"
	"llmprof/roofline"
	"llmprof/unit"
)

var when = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func h200Machine(engine string) Machine {
	return Machine{
		Schema: RowSchema, Kind: machineKind, GPU: "h200-sxm-141gb", Device: "NVIDIA H200", Engine: engine, Kernels: "synthetic",
		DType: unit.BF16,
		Tools: map[string]string{"torch": "2"}, Version: "v0", When: when,
	}
}

// truthOf are the defaults of a GPU with a value for each constant that an engine's own
// kernels and host have.
func truthOf(g *hardware.GPU) *roofline.Constants {
	c := hardware.DefaultCalibration(g).Constants
	for k, v := range map[roofline.Constant]float64{
		roofline.SkinnyGEMMMemory: 0.93, roofline.SkinnyGEMMRow: 0.012, roofline.SkinnyGEMMFixed: 3e-6,
		roofline.WGMMAMemory: 0.9, roofline.WGMMAReload: 5, roofline.WGMMAFixed: 4e-6,
		roofline.MoEDecodeMemory: 0.85, roofline.MoEDecodeReload: 0.4, roofline.MoEDecodeFixed: 9e-6, roofline.MoEDecodeBatched: 20e-6,
		roofline.MoEPrefillCompute: 0.6, roofline.MoEPrefillMemory: 0.85, roofline.MoEPrefillPermute: 2, roofline.MoEPrefillUnpermute: 4,
		roofline.RoutingPair: 1.5e-9, roofline.RoutingExpert: 4e-8, roofline.RoutingFixed: 4e-6,
		roofline.StreamNode: 1e-6, roofline.HostStep: 1e-5, roofline.HostLaunch: 1e-5, roofline.HostSmallKernel: 1e-6,
	} {
		c[k] = v
	}
	return &c
}

// byHand is how long a point takes with known constants. Its formulas are written
// out here, so that the laws of package roofline are held to a second text.
type byHand struct {
	*roofline.Constants
	engine    string
	gpu       *hardware.GPU
	peak      float64
	bandwidth float64
}

func newByHand(engine string, g *hardware.GPU, truth *roofline.Constants) *byHand {
	peak, _ := g.Peak(unit.BF16)
	return &byHand{truth, engine, g, float64(peak), float64(g.Bandwidth)}
}

// skinny reports whether the point is a product that the engine's skinny GEMM does.
func (h *byHand) skinny(p *Point) bool {
	return h.engine == Native && p.Kind.times() == GEMM && p.Shape.M <= 16
}

// seconds is the time of a point.
func (h *byHand) seconds(p *Point) float64 {
	w := p.Work()
	n := float64(max(p.Shape.Launches, 1))
	switch p.Kind.times() {
	case GEMM, AttentionPrefill, AttentionDecode, RMSNorm, Activation:
		return h.once(p)
	case QKVDecode, ODecode, DenseUpDecode, DenseDownDecode, HeadDecode:
		return h.Constants[roofline.WGMMAFixed] + (float64(w.Weights)/h.Constants[roofline.WGMMAMemory]+h.Constants[roofline.WGMMAReload]*float64(
			w.Acts))/h.bandwidth
	case MixtureDecode:
		return h.moeDecode(p)
	case TopKPrefill:
		return h.Constants[roofline.RoutingFixed] + h.Constants[roofline.RoutingPair]*float64(p.Shape.Tokens*p.Shape.TopK) +
			h.Constants[roofline.RoutingExpert]*float64(p.Shape.Experts)
	case GateUpPrefill, DownPrefill:
		return h.moePrefill(p)
	case Sustained:
		return float64(w.FLOPs) / (0.66 * h.peak)
	case AllReduce:
		ranks := float64(p.Ranks)
		return h.Constants[roofline.LinkBase] + ranks*h.Constants[roofline.LinkPerGPU] +
			2*(ranks-1)/ranks*float64(p.Shape.Bytes)/(h.Constants[roofline.LinkShare]*float64(h.gpu.LinkAmong(p.Ranks)))
	case LaunchPrefill:
		return h.Constants[roofline.StreamNode]
	case GraphNode:
		return h.Constants[roofline.GraphNode] * n
	case SmallKernel:
		return h.Constants[roofline.HostSmallKernel] * n
	case EagerStep:
		return h.Constants[roofline.HostLaunch] * n
	case HostStep:
		return h.Constants[roofline.HostStep]
	case Read, Copy:
		return float64(w.Traffic()) / (0.9 * h.bandwidth)
	case EagerLaunch:
		return 4e-6 * n
	}
	return 2 // of the run of an idle GPU
}

// shares are share of the peak, share of the bandwidth and fixed time of a point that
// reads and writes everything once.
func (h *byHand) shares(p *Point) (compute, memory, fixed float64) {
	c := h.Constants
	switch p.Kind.times() {
	case AttentionPrefill, AttentionDecode:
		return c[roofline.AttentionCompute], c[roofline.AttentionMemory], c[roofline.AttentionFixed]
	case RMSNorm, Activation:
		return c[roofline.ElementwiseCompute], c[roofline.ElementwiseMemory], c[roofline.ElementwiseFixed]
	}
	if h.skinny(p) {
		return c[roofline.GEMMCompute], c[roofline.SkinnyGEMMMemory], c[roofline.SkinnyGEMMFixed]
	}
	return c[roofline.GEMMCompute], c[roofline.GEMMMemory], c[roofline.GEMMFixed]
}

// memory is the time that the bytes of such a point take.
func (h *byHand) memory(p *Point) float64 {
	_, share, _ := h.shares(p)
	w := p.Work()
	t := float64(w.Traffic()) / (share * h.bandwidth)
	if h.skinny(p) {
		t += float64(p.Shape.M) * h.Constants[roofline.SkinnyGEMMRow] * 2 * float64(p.Shape.N*p.Shape.K) / h.bandwidth
	}
	return t
}

func (h *byHand) once(p *Point) float64 {
	compute, _, fixed := h.shares(p)
	flops := float64(p.Work().FLOPs)
	if p.Kind == AttentionPrefill {
		flops += 4 * float64(p.Shape.Heads*p.Shape.HeadDim*p.Shape.Tokens) * h.Constants[roofline.AttentionRamp] / 2
	}
	return fixed + max(flops/(compute*h.peak), h.memory(p))
}

// moeDecode reads each expert once for eight pairs of it and a token; gate and up of up
// to 16 tokens are read once a pair, most of it out of the L2 cache.
func (h *byHand) moeDecode(p *Point) float64 {
	s, c := &p.Shape, h.Constants
	e, top, b := float64(s.Experts), float64(s.TopK), float64(s.Batch)
	expert := 2 * 3 * float64(s.Hidden) * float64(s.Width)
	hit := e * (1 - math.Pow(1-top/e, b))
	fixed, memory, again := c[roofline.MoEDecodeFixed], 2*e*float64(s.Hidden)+hit*expert, 0.0
	if s.Batch > 1 {
		fixed = c[roofline.MoEDecodeBatched]
		more := engine.Groups(e, top, b, 8) - hit
		if s.Batch <= 16 {
			memory, again = memory+more*expert/3, (b*top-hit)*expert*2/3
		} else {
			memory += more * expert
		}
	}
	return fixed + (memory/c[roofline.MoEDecodeMemory]+again*c[roofline.MoEDecodeReload])/h.bandwidth
}

// moePrefill reads what the L2 cache does not hold of an expert again for each tile of
// 160 pairs.
func (h *byHand) moePrefill(p *Point) float64 {
	s, c := &p.Shape, h.Constants
	e, pairs := float64(s.Experts), float64(s.Tokens*s.TopK)
	hit := e * (1 - math.Pow(1-float64(s.TopK)/e, float64(s.Tokens)))
	weights, times := float64(s.Hidden*s.Width), c[roofline.MoEPrefillUnpermute]
	if p.Kind == GateUpPrefill {
		weights, times = 2*weights, c[roofline.MoEPrefillPermute]
	}
	read := 1 + (max(1, pairs/hit/160)-1)*max(0, 1-float64(h.gpu.L2)/(2*weights))
	compute := 2 * pairs * weights / (c[roofline.MoEPrefillCompute] * h.peak)
	memory := read * hit * 2 * weights / (c[roofline.MoEPrefillMemory] * h.bandwidth)
	return c[roofline.GEMMFixed] + math.Hypot(compute, memory) + times*2*pairs*float64(s.Hidden)/h.bandwidth
}

// watts is the power of a point that takes so many seconds, all of it below the limit.
func (h *byHand) watts(p *Point, seconds, noise float64) *float64 {
	c := h.Constants
	idle, _ := h.gpu.Idle()
	limit := float64(h.gpu.TDP)
	waiting := float64(idle) + c[roofline.PowerWaiting]*(limit-float64(idle))
	share := c[roofline.PowerMemory]
	_, _, fixed := h.shares(p)
	memory := h.memory(p)
	switch {
	case p.Kind == AttentionPower:
		share = c[roofline.PowerAttention]
	case p.Kind == GateUpPower:
		share, fixed = c[roofline.PowerWGMMA], c[roofline.WGMMAFixed]
		memory = seconds - fixed
	case p.Kind == MoEPower:
		share, fixed = c[roofline.PowerMoEDecode], c[roofline.MoEDecodeBatched]
		memory = seconds - fixed
	case p.Kind == AllReducePower:
		share, fixed = c[roofline.PowerNetwork], c[roofline.LinkBase]+float64(p.Ranks)*c[roofline.LinkPerGPU]
		memory = seconds - fixed
	case h.skinny(p):
		share = c[roofline.PowerSkinnyGEMM]
	}
	const matrix = 0.95 // of a large product at the rate of bursts, which the sustained rate says
	busy := matrix*float64(p.Work().FLOPs)/(c[roofline.GEMMCompute]*h.peak) + share*memory + c[roofline.PowerFixed]*fixed
	watts := waiting + (limit-waiting)*busy/seconds*noise
	if p.Kind == Idle {
		watts = waiting
	}
	return &watts
}

// synthetic makes rows of a whole plan for an engine that follow known constants.
func synthetic(t *testing.T, engine string, g *hardware.GPU, truth *roofline.Constants, noise float64) *Rows {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	h := newByHand(engine, g, truth)
	rows := &Rows{Head: h200Machine(engine)}
	for _, p := range plan(g, unit.BF16, engine, 8, false) {
		s := h.seconds(&p) * math.Exp(noise*random.NormFloat64())
		row, err := newRow(&p, []float64{s, s})
		if err != nil {
			t.Fatal(err)
		}
		row.Cold, row.When, row.Engine = true, when, engine
		if p.Kind.power() {
			row.Power = h.watts(&p, s, math.Exp(noise*random.NormFloat64()/3))
		}
		if err := row.check(nil); err != nil {
			t.Fatal(err)
		}
		rows.Rows = append(rows.Rows, row)
	}
	return rows
}

// TestFitOfPower checks that rows of known power give the power constants back, for an engine whose
// skinny GEMM draws more than a library's GEMMs, and for one without skinny GEMMs.
func TestFitOfPower(t *testing.T) {
	g := board(t, "h200")
	for _, engine := range []string{Native, Transformers}[:testkit.Cases(1, 2)] {
		truth := truthOf(g)
		for k, v := range map[roofline.Constant]float64{
			roofline.GEMMCompute: 0.66, roofline.GEMMMemory: 0.88, roofline.GEMMFixed: 3e-6, roofline.AttentionMemory: 0.9,
			roofline.AttentionFixed: 6e-6,
			roofline.PowerMemory:    0.60, roofline.PowerSkinnyGEMM: 0.85, roofline.PowerWGMMA: 0.8, roofline.PowerMoEDecode: 0.95,
			roofline.PowerAttention: 0.55, roofline.PowerFixed: 0.3, roofline.PowerWaiting: 0.077,
		} {
			truth[k] = v
		}
		f, err := Fit(synthetic(t, engine, g, truth, 0.01), g, "x")
		if err != nil {
			t.Fatal(err)
		}
		own := []roofline.Constant{roofline.PowerNetwork, roofline.PowerSkinnyGEMM, roofline.PowerWGMMA, roofline.PowerMoEDecode}
		for _, k := range append(slices.Clone(powerKeys), roofline.PowerWaiting) {
			v, ok := f.Values[k.String()]
			switch {
			case engine == Transformers && slices.Contains(own, k):
				if ok {
					t.Errorf("%s of an engine without such kernels: %+v", k, v)
				}
			case k == roofline.PowerFixed && math.Abs(v.Value-truth[k]) > 0.06, k != roofline.PowerFixed && math.Abs(v.Value/truth[k]-1) > 0.04,
				v.N < 1:
				t.Errorf("%s: %s is %+v, want %v", engine, k, v, truth[k])
			}
		}
		if again, err := hardware.ParseCalibration("x", f.Text()); err != nil || len(again.Values) != len(f.Values) {
			t.Errorf("%v: %s", err, f.Text())
		}
	}
}

// Rows without a power reading leave the power constants at their defaults, and the file without a
// section for them.
func TestFitWithoutPower(t *testing.T) {
	testkit.Long(t, "a fit of seconds, whose code other tests run too")
	g := board(t, "h200")
	rows := synthetic(t, Native, g, truthOf(g), 0.01)
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

// Power that no constants can explain leaves the defaults, with a note.
func TestFitOfImpossiblePower(t *testing.T) {
	testkit.Long(t, "a fit of seconds, whose code other tests run too")
	g := board(t, "h200")
	rows := synthetic(t, Native, g, truthOf(g), 0.01)
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
	if v := f.Values["power.memory"]; v.N != 0 || !strings.HasPrefix(v.From, "default for hopper") {
		t.Errorf("power.memory: %+v", v)
	}
	if !strings.Contains(strings.Join(f.Notes, "\n"), "runs for their power") {
		t.Errorf("notes: %q", f.Notes)
	}
	if _, err := hardware.ParseCalibration("x", f.Text()); err != nil {
		t.Error(err)
	}
}

// Rows of a whole plan give the constants back that they were made with, each within twice its stated
// interval, because one of seventeen is often outside of it.
func TestFitOfAPlan(t *testing.T) {
	g := board(t, "h200")
	truth := truthOf(g)
	want := map[roofline.Constant]float64{
		roofline.GEMMCompute: 0.74, roofline.GEMMMemory: 0.88, roofline.GEMMFixed: 5e-6,
		roofline.AttentionCompute: 0.55, roofline.AttentionMemory: 0.80, roofline.AttentionFixed: 8e-6, roofline.AttentionRamp: 500,
		roofline.ElementwiseMemory: 0.72, roofline.ElementwiseFixed: 3e-6, roofline.GraphNode: 1.6e-6,
		roofline.LinkShare: 0.7, roofline.LinkBase: 6e-6, roofline.LinkPerGPU: 1.2e-6,
		roofline.HostStep: 31e-6, roofline.HostLaunch: 9e-6, roofline.HostSmallKernel: 2.2e-6,
	}
	for k, v := range want {
		truth[k] = v
	}
	f, err := Fit(synthetic(t, Transformers, g, truth, 0.03), g, "synthetic")
	if err != nil {
		t.Fatal(err)
	}
	cal, err := f.Apply(g, Transformers)
	if err != nil {
		t.Fatal(err)
	}
	want[roofline.GEMMSustained] = 0.66 // of the rows of products for seconds
	for k, want := range want {
		v, got := f.Values[k.String()], cal.Constants[k]
		if off := math.Abs(got - want); v.N < 3 || off > max(2*v.Uncertainty, 0.01*want) || off > 0.15*want {
			t.Errorf("%s is %v ± %v (n %d), want %v", k, got, v.Uncertainty, v.N, want)
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
	truth := truthOf(g)
	truth[roofline.GEMMCompute] = 1.3
	_, err := Fit(synthetic(t, Transformers, g, truth, 0), g, "x")
	if err == nil || !strings.Contains(err.Error(), "gemm.compute comes out as 1.3") ||
		!strings.Contains(err.Error(), "peaks in the table of GPUs are too low") {
		t.Error(err)
	}
	if _, err := Fit(&Rows{Head: h200Machine("")}, board(t, "a100"), "x"); err == nil ||
		!strings.Contains(err.Error(), "the rows are of h200-sxm-141gb, not of a100-sxm-80gb") {
		t.Error(err)
	}
	f, err := Fit(&Rows{Head: h200Machine("")}, g, "nothing")
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
	p := Point{Kind: GEMM, Shape: Shape{M: 8, N: 64, K: 64}, DType: unit.BF16, Ranks: 1}
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
	rows, err := parseRows[Machine, Row]("r", []byte(good+"\n"+`{"sch`))
	if err != nil || len(rows.Rows) != 1 || rows.Torn != 5 || !measured(rows, p) {
		t.Fatalf("%+v, %v", rows, err)
	}
	for _, c := range []struct{ old, new, says string }{
		{`"seconds":[0.00001`, `"seconds":[0`, "r:2: gemm m=8 n=64 k=64 took 0 s"},
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
		{`{"schema":"llmprof.bench/v1","kind":"gemm"`, `{"schema":"llmprof.bench/v2","kind":"gemm"`,
			`the schema is "llmprof.bench/v2": want "llmprof.bench/v1"`},
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
		if _, err := parseRows[Machine, Row]("r", []byte(text)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q for %q: %v, want %q", c.new, c.old, err, c.says)
		}
	}
	if _, err := parseRows[Machine, Row]("r", nil); err == nil || !strings.Contains(err.Error(), "no line says what was measured") {
		t.Error(err)
	}
}

// Rows of another machine are not added to a file, and a torn line is cut off.
func TestAppend(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	m := h200Machine(Native)
	f, err := OpenRows[Machine, Row](path, m)
	if err != nil || len(f.Rows) != 0 {
		t.Fatal(f, err)
	}
	p := Point{Kind: GEMM, Shape: Shape{M: 8, N: 64, K: 64}, DType: unit.BF16, Ranks: 1}
	r, err := newRow(&p, []float64{1e-5})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Add(r); err != nil {
		t.Fatal(err)
	}
	f.Close()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(text, `{"torn`...), 0o644); err != nil {
		t.Fatal(err)
	}
	if f, err = OpenRows[Machine, Row](path, m); err != nil || len(f.Rows) != 1 {
		t.Fatal(f, err)
	}
	if err := f.Add(r); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if had, err := ReadRows[Machine, Row](path); err != nil || len(had.Rows) != 2 || had.Torn != 0 {
		t.Errorf("%+v, %v", had, err)
	}
	other := h200Machine(Transformers)
	if _, err := OpenRows[Machine, Row](path, other); err == nil || !strings.Contains(err.Error(), "give another file") {
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
			for _, p := range plan(g, unit.BF16, engine, 8, false) {
				if err := p.check(); err != nil || seen[p] {
					t.Errorf("%s: %v is twice in the plan, or wrong: %v", name, p, err)
				}
				if w := p.Work(); w.Traffic() > g.Memory/4 {
					t.Errorf("%s: %v needs %v", name, p, w.Traffic())
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
	p := Point{Kind: AllReduce, Shape: Shape{Bytes: 64}, DType: unit.BF16, Ranks: 2}
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
		rows, err := parseRows[Machine, Row]("r", append(append(append(append([]byte{}, first...), '\n'), second...), '\n'))
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
		plan := plan(g, unit.BF16, Transformers, 4, true)
		rows := &Rows{Head: h200Machine(Transformers)}
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

// Disturbed rows change the constants of their kinds, and no others.
func TestFitOfDisturbedRows(t *testing.T) {
	g := board(t, "h200")
	truth := truthOf(g)
	rows := synthetic(t, Transformers, g, truth, 0.01)
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
	if v := f.Values["gemm.memory"]; v.N < 20 || math.Abs(v.Value-truth[roofline.GEMMMemory]) > 0.01 {
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
	if _, err := ReadRows[Machine, Row](t.TempDir()); err == nil || !strings.Contains(err.Error(), "want a regular file of at most") {
		t.Errorf("a folder: %v", err)
	}
}

// recovered checks that rows of the native engine give constants back: those in a file,
// and those that the file makes of a GPU.
func recovered(t *testing.T, g *hardware.GPU, rows *Rows, want map[roofline.Constant]float64) {
	t.Helper()
	f, err := Fit(rows, g, "x")
	if err != nil {
		t.Fatal(err)
	}
	again, err := hardware.ParseCalibration("x", f.Text())
	if err != nil {
		t.Fatal(err)
	}
	cal, err := again.Apply(g, Native)
	if err != nil {
		t.Fatal(err)
	}
	for k, want := range want {
		if v := f.Values[k.String()]; v.N < 3 || math.Abs(v.Value/want-1) > 0.1 || math.Abs(cal.Constants[k]/want-1) > 0.1 {
			t.Errorf("%s: %+v in the file and %v of the GPU, want %v", k, v, cal.Constants[k], want)
		}
	}
}

// TestFitOfEngineKernels checks that rows of a whole plan give back the constants of the
// native engine's own kernels: skinny and wgmma products, the mixtures of decode steps
// and prompts, routing, and launches outside a graph.
func TestFitOfEngineKernels(t *testing.T) {
	g := board(t, "h200")
	truth := truthOf(g)
	want := map[roofline.Constant]float64{
		roofline.SkinnyGEMMMemory: 0.94, roofline.SkinnyGEMMRow: 0.011, roofline.SkinnyGEMMFixed: 2.8e-6,
		roofline.WGMMAMemory: 0.92, roofline.WGMMAReload: 9, roofline.WGMMAFixed: 5e-6,
		roofline.MoEDecodeMemory: 0.85, roofline.MoEDecodeReload: 0.4, roofline.MoEDecodeFixed: 9e-6, roofline.MoEDecodeBatched: 20e-6,
		roofline.MoEPrefillCompute: 0.62, roofline.MoEPrefillMemory: 0.88, roofline.MoEPrefillPermute: 3, roofline.MoEPrefillUnpermute: 5.5,
		roofline.RoutingPair: 1.3e-9, roofline.RoutingExpert: 3.4e-8, roofline.RoutingFixed: 3.6e-6, roofline.StreamNode: 1.6e-6,
	}
	for k, v := range want {
		truth[k] = v
	}
	rows := synthetic(t, Native, g, truth, 0.01)
	recovered(t, g, rows, want)
	testkit.Long(t, "a fit of rows of a single batch")
	rows.Rows = slices.DeleteFunc(rows.Rows, func(r Row) bool { return r.Kind == MixtureDecode && r.Shape.Batch > 1 })
	f, err := Fit(rows, g, "x")
	if err != nil {
		t.Fatal(err)
	}
	if v, ok := f.Values[roofline.MoEDecodeReload.String()]; ok && v.N > 0 {
		t.Errorf("one row of each expert gives more: %+v", v)
	}
}

// TestFitOfFusedAllReduces checks that all-reduces fused into GEMMs have separate constants, and that the
// engine's other all-reduces have one latency for large and small messages.
func TestFitOfFusedAllReduces(t *testing.T) {
	testkit.Long(t, "a fit of seconds, whose code other tests run too")
	g := board(t, "h200")
	truth := truthOf(g)
	rows := synthetic(t, Native, g, truth, 0.01)
	for i := range rows.Rows {
		r := &rows.Rows[i]
		if r.Kind != AllReduce {
			continue
		}
		n, message, link := float64(r.Ranks), unit.Bytes(r.Shape.Bytes), float64(g.LinkAmong(r.Ranks))
		s := 4e-6 + 1.5e-6*n + (n-1)*float64(message)/(0.35*link)
		switch {
		case message <= 128<<10 && engine.FusesAllReduce(r.Ranks, message, false):
			s = 1.5e-6 + 0.5e-6*n + (n-1)*float64(message)/(0.35*link)
		case message > engine.OneShotBytes(r.Ranks): // two exchanges
			s = 4e-6 + 1.5e-6*n + r.Wire/(0.25*link)
		}
		r.Seconds, r.Median = []float64{s, s}, s
	}
	recovered(t, g, rows, map[roofline.Constant]float64{
		roofline.LinkShare: 0.35, roofline.OneShotSlicedShare: 0.25, roofline.LinkBase: 4e-6, roofline.OneShotBase: 4e-6,
		roofline.OneShotPerGPU:      1.5e-6,
		roofline.FusedAllReduceBase: 1.5e-6, roofline.FusedAllReducePerGPU: 0.5e-6,
	})
}
