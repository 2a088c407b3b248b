package calibrate

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"llmprof"
	"llmprof/analytic/engine"
	"llmprof/hardware"
	"llmprof/internal/stats"
	"llmprof/internal/testkit"
	"llmprof/roofline"
	"llmprof/unit"
)

// timedOperator is a line of hardware/testdata/h200_operators.json.
type timedOperator struct {
	Op      string
	M, N, K int
	Tokens  int
	Heads   int
	KVHeads int `json:"kv_heads"`
	HeadDim int `json:"head_dim"`
	Width   int
	TimeS   float64  `json:"time_s"`
	PowerW  *float64 `json:"power_w"`
	FLOPsPS float64  `json:"flops_per_s"`
}

// h200Rows turns what hardware/testdata/operators.py saw on an H200 into rows. Of
// its runs at the power limit only the one bound by arithmetic is a row: the
// others repeat shapes that are timed already.
func h200Rows(t *testing.T) []byte {
	t.Helper()
	data, err := os.ReadFile("../../hardware/testdata/h200_operators.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		GPU, Torch string
		Rows       []timedOperator
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	when := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	var b bytes.Buffer
	out := json.NewEncoder(&b)
	m := Machine{
		Schema: RowSchema, Kind: machineKind, GPU: "h200-sxm-141gb", Device: file.GPU,
		Kernels: "torch " + file.Torch + " (cuBLAS, cuDNN attention)",
		DType:   unit.BF16, Tools: map[string]string{"torch": file.Torch}, Version: "hardware/testdata/operators.py", When: when,
	}
	if err := out.Encode(m); err != nil {
		t.Fatal(err)
	}
	for _, o := range file.Rows {
		p := Point{DType: unit.BF16, Ranks: 1}
		cold := false
		switch {
		case o.Op == "gemm":
			p.Kind, p.Shape, cold = GEMM, Shape{M: o.M, N: o.N, K: o.K}, true
		case o.Op == "prefill_attention":
			p.Kind, p.Shape = AttentionPrefill, Shape{Tokens: o.Tokens, Heads: o.Heads, KVHeads: o.KVHeads, HeadDim: o.HeadDim}
		case o.Op == "empty_kernel": // 500 in a graph
			p.Kind, p.Shape = GraphNode, Shape{Launches: 500}
			o.TimeS *= 500
		case o.Op == "rms_norm":
			p.Kind, p.Shape = RMSNorm, Shape{Tokens: o.Tokens, Width: o.Width}
		case o.Op == "gemm_power" && o.M == 8192:
			p.Kind, p.Shape = Sustained, Shape{M: o.M, N: o.N, K: o.K}
			o.TimeS = float64(p.Work().FLOPs) / o.FLOPsPS
		default:
			continue
		}
		row, err := newRow(&p, []float64{o.TimeS})
		if err != nil {
			t.Fatal(err)
		}
		row.Graph, row.Cold, row.Power, row.When = p.Kind != Sustained, cold, o.PowerW, when
		if err := out.Encode(row); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func board(t testing.TB, name string) *hardware.GPU {
	t.Helper()
	g, err := hardware.Find(llmprof.HardwareTOML, name)
	if err != nil {
		t.Fatal(err)
	}
	return &g
}

// TestH200 compares the built-in calibration of the H200 with the fit of its rows, and the rows
// with the measurements.
func TestH200(t *testing.T) {
	resamples = wholeResamples
	defer func() { resamples = testkit.Cases(briefResamples, wholeResamples) }()
	text := h200Rows(t)
	testkit.Golden(t, filepath.Join("testdata", "h200.jsonl"), string(text))
	rows, err := parseRows[Machine, Row]("h200.jsonl", text)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Fit(rows, board(t, "h200"), "h200")
	if err != nil {
		t.Fatal(err)
	}
	testkit.Golden(t, filepath.Join("..", "..", "hardware", "calibrations", "h200-sxm-141gb.toml"), f.Text())
}

// nativeRows are those of the native engine on an H200.
func nativeRows(t *testing.T) *Rows {
	t.Helper()
	return packedRows(t, native)
}

// Files of rows, without .gz: of the native engine, and of torch.
const (
	native = "testdata/h200-native.jsonl"
	torch  = "testdata/h200-transformers.jsonl"
)

// packedRows are those of a file.
func packedRows(t *testing.T, name string) *Rows {
	t.Helper()
	rows, err := parseRows[Machine, Row](name, testkit.Unzipped(t, name+".gz"))
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// nativeFit fits the rows of the native engine once for all tests.
func nativeFit(t *testing.T) *hardware.CalibrationFile {
	t.Helper()
	fitOnce.Do(func() { fitted, fitErr = Fit(nativeRows(t), board(t, "h200"), "h200-native") })
	if fitErr != nil {
		t.Fatal(fitErr)
	}
	return fitted
}

var (
	fitOnce sync.Once
	fitted  *hardware.CalibrationFile
	fitErr  error
)

// TestH200Native checks that the rows that llmprof calibrate measured on an H200 give the native
// engine's calibration file.
func TestH200Native(t *testing.T) {
	testkit.Long(t, "a fit of seconds, whose code other tests run too")
	rows := nativeRows(t)
	if len(rows.Rows) != 403 || len(rows.Head.Notes) != 0 || rows.Head.Engine != Native {
		t.Errorf("%d rows of %+v", len(rows.Rows), rows.Head)
	}
	testkit.Golden(t, filepath.Join("..", "..", "hardware", "calibrations", "h200-sxm-141gb.native.toml"), nativeFit(t).Text())
}

// TestBytesHaveAPrice checks what docs/log/h200-calibration.md says that kernels draw for a byte on
// an H200, above the waiting power: of skinny GEMMs and of torch's products it is the
// same within 8 % over three times the bandwidth, and skinny GEMMs of eight rows cost less
// of it since they load inputs once.
func TestBytesHaveAPrice(t *testing.T) {
	price := func(name string, keep func(*Row) bool) (least, most float64) {
		rows := packedRows(t, name)
		waiting := 0.0
		for i := range rows.Rows {
			if r := &rows.Rows[i]; r.Kind == Idle {
				waiting = *r.Power
			}
		}
		least = math.Inf(1)
		for i := range rows.Rows {
			if r := &rows.Rows[i]; r.Kind.power() && r.Bytes > 0 && keep(r) {
				picojoules := (*r.Power - waiting) / (r.Bytes / r.Median) * 1e12
				least, most = min(least, picojoules), max(most, picojoules)
			}
		}
		return least, most
	}
	rows := func(m int) func(*Row) bool { return func(r *Row) bool { return r.Kind == GEMMPower && r.Shape.M == m } }
	for _, c := range []struct {
		file        string
		keep        func(*Row) bool
		least, most float64 // pJ/B
	}{
		{native, rows(1), 138, 148}, {native, rows(8), 143, 196}, {native, rows(16), 156, 162}, {native, rows(32), 148, 165},
		{native, func(r *Row) bool { return r.Kind == AttentionPower }, 129, 137},
		{native, func(r *Row) bool { return r.Kind == ReadPower }, 120, 123},
		{torch, rows(1), 109, 115}, {torch, func(r *Row) bool { return r.Kind == AttentionPower }, 137, 142},
	} {
		if least, most := price(c.file, c.keep); math.Round(least) != c.least || math.Round(most) != c.most {
			t.Errorf("%s: %.1f to %.1f pJ/B, want %v to %v", c.file, least, most, c.least, c.most)
		}
	}
}

// lawOfFit is the law of kernels with the constants that were fitted to rows.
func lawOfFit(t *testing.T, g *hardware.GPU, f *hardware.CalibrationFile) *roofline.Machine {
	t.Helper()
	peaks, err := g.Peaks()
	if err != nil {
		t.Fatal(err)
	}
	cal, err := f.Apply(g, f.Engine)
	if err != nil {
		t.Fatal(err)
	}
	return roofline.NewMachine(peaks, &cal.Constants)
}

// TestMixturesOfH200 checks the figures of docs/log/h200-calibration.md for MoE layers of decode steps on
// an H200: the constants, and the error of the law by sequences.
func TestMixturesOfH200(t *testing.T) {
	rows, g := nativeRows(t), board(t, "h200")
	f := nativeFit(t)
	for k, want := range map[roofline.Constant]float64{roofline.MoEDecodeMemory: 0.88, roofline.MoEDecodeFixed: 1.27e-6,
		roofline.MoEDecodeBatched: 23.4e-6} {
		if v := f.Values[k.String()]; v.N < 3 || math.Abs(v.Value/want-1) > 0.15 {
			t.Errorf("%s is %+v, want %v", k, v, want)
		}
	}
	m, b := lawOfFit(t, g, f), &builder{file: f, gpu: g, rows: rows.Rows}
	many := map[int][2]float64{1: {-0.05, 0.08}, 2: {-0.03, 0.13}, 4: {-0.04, 0.09}, 8: {0.00, 0.06}, 16: {-0.18, 0.02}, 32: {-0.02, 0.04},
		64: {-0.04, 0.03}}
	// Of 8 experts.
	few := map[int][2]float64{1: {-0.04, 0.01}, 4: {-0.06, 0.01}, 8: {0.00, 0.08}, 16: {-0.03, 0.07}, 24: {-0.03, 0.06}, 32: {-0.02, 0.05},
		64: {0.02, 0.11}}
	for _, r := range b.of(MixtureDecode) {
		s := b.sample(r)
		off := float64(m.Cost(&s.kernel).Time)/s.time - 1
		limits := many[r.Shape.Batch]
		if r.Shape.Experts == 8 {
			limits = few[r.Shape.Batch]
		}
		if off < limits[0] || off > limits[1] {
			t.Errorf("%v: %.1f %% off", r.Point(), 100*off)
		}
	}
}

// missed are the errors of an equation that is fitted to samples, as shares of their times, in order.
func missed(e equation, samples []sample, start []float64) []float64 {
	f := solve(e, samples, start)
	return slices.Sorted(slices.Values(f.errorsOf(f.value, samples)))
}

// TestSkinnyRows checks that what each row adds is seen in the products of few rows that
// the native engine does by skinny GEMM, and not in what is left over: without it, shares
// and a fixed time miss them by more.
func TestSkinnyRows(t *testing.T) {
	b := &builder{gpu: board(t, "h200"), rows: nativeRows(t).Rows}
	median := func(skinny int, start float64, keys ...roofline.Constant) float64 {
		var samples []sample
		for _, r := range b.of(GEMM) {
			if p := r.Point(); p.Shape.M <= engine.SkinnyRows {
				samples = append(samples, sample{time: r.Median, kernel: p.kernel(b.gpu, skinny)})
			}
		}
		return stats.Percentile(missed(ofH200(t, keys...), samples, []float64{0.8, start, 3e-6}), 50)
	}
	with := median(engine.SkinnyRows, skinnyRow, roofline.SkinnyGEMMMemory, roofline.SkinnyGEMMRow, roofline.SkinnyGEMMFixed)
	without := median(0, 0.8, roofline.GEMMMemory, roofline.GEMMCompute, roofline.GEMMFixed)
	t.Logf("median error %.1f %%, %.1f %% without skinny_gemm.row", 100*with, 100*without)
	if with > 0.045 || without < 1.3*with {
		t.Error("skinny_gemm.row does not distinguish them")
	}
}

// TestFormOfExperts checks what docs/log/h200-calibration.md says of the law of a prompt's experts:
// rows of an H200 are nearer to the root of the squares of arithmetic and memory than to
// their sum or the greater, and nearer with weights that come again where the L2 cache
// does not hold them.
func TestFormOfExperts(t *testing.T) {
	b := &builder{file: &hardware.CalibrationFile{Engine: Native}, gpu: board(t, "h200"), rows: nativeRows(t).Rows}
	rows := b.of(GateUpPrefill, DownPrefill)
	if len(rows) == 0 {
		t.Fatal("the rows that are kept have none")
	}
	keys := []roofline.Constant{roofline.MoEPrefillMemory, roofline.MoEPrefillCompute, roofline.MoEPrefillPermute,
		roofline.MoEPrefillUnpermute}
	miss := func(again bool, power float64) float64 {
		var samples []sample
		for _, r := range rows {
			s := b.sample(r)
			if !again {
				s.kernel.Reread = 0
			}
			samples = append(samples, s)
		}
		e := equation{keys: keys, time: func(p []float64, s *sample, slopes []float64) float64 {
			k := &s.kernel
			memory, compute := float64(k.Work.Weights+k.Reread)/(p[0]*h200Bandwidth), float64(k.Work.FLOPs)/(p[1]*h200Peak)
			permute, unpermute := p[2]*float64(k.Permuted)/h200Bandwidth, p[3]*float64(k.Unpermuted)/h200Bandwidth
			most := max(memory, compute)
			both := most * math.Pow(math.Pow(memory/most, power)+math.Pow(compute/most, power), 1/power)
			if slopes != nil {
				slopes[0], slopes[1] = both*math.Pow(memory/both, power), both*math.Pow(compute/both, power)
				slopes[2], slopes[3] = permute, unpermute
			}
			return 3.9e-6 + both + permute + unpermute
		}}
		errs := missed(e, samples, []float64{0.85, 0.7, 2, 3})
		median, p90 := stats.Percentile(errs, 50), stats.Percentile(errs, 90)
		t.Logf("weights again %v, power %v: %.1f %%, %.1f %% for nine in ten", again, power, 100*median, 100*p90)
		return p90
	}
	const sum, root, greater = 1, 2, 100
	if best := miss(true, root); best > min(miss(true, sum), miss(true, greater), miss(false, root)) {
		t.Error("another form is nearer")
	}
}
