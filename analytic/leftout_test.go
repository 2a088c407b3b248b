package analytic_test

import (
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"llmprof/analytic"
	"llmprof/hardware"
	"llmprof/internal/testkit"
	"llmprof/internal/testkit/casetest"
	"llmprof/roofline"
	"llmprof/unit"
)

// A tableRow is a row of analytic/engine/operators.csv.
type tableRow struct {
	engine, gpu, generation string
	constant                roofline.Constant
	value                   float64
}

func (r *tableRow) section() string {
	s, _, _ := strings.Cut(r.constant.String(), ".")
	return s
}

// operatorTables are the rows that have a value.
func operatorTables(t *testing.T) (rows []tableRow) {
	t.Helper()
	text, err := os.ReadFile("engine/operators.csv")
	testkit.Must(t, err)
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSpace(line), ",")
		if len(f) != 6 || f[4] == "" || strings.ContainsAny(f[0], "#@+") || f[0] == "transformers" || f[0] == "engine" {
			continue
		}
		rows = append(rows, tableRow{f[0], f[1], f[2], roofline.ConstantOf(f[3]), number(t, f[4])})
	}
	return rows
}

func number(t *testing.T, text string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(text, 64)
	testkit.Must(t, err)
	return v
}

// machineOf is a GPU with the tables of an engine, but for those of a section.
func machineOf(t *testing.T, g *hardware.GPU, rows []tableRow, engine, without string) *roofline.Machine {
	t.Helper()
	c := hardware.DefaultCalibration(g)
	own := map[string]bool{}
	for i := range rows {
		own[rows[i].section()] = own[rows[i].section()] || rows[i].engine == engine && rows[i].gpu == g.Key
	}
	for i := range rows {
		r := &rows[i]
		of := r.gpu == g.Key || r.generation == g.Generation && !own[r.section()]
		if r.engine == engine && of && r.section() != without {
			c.Constants[r.constant] = r.value
		}
	}
	peaks, err := g.Peaks()
	testkit.Must(t, err)
	return roofline.NewMachine(peaks, &c.Constants)
}

// TestLeftOutTables leaves each section of each engine's tables out: the kernels of its number format are then priced as any format is that
// nobody measured, and the interval of such kernels holds at least 85 % of their times by the table, of each kind.
func TestLeftOutTables(t *testing.T) {
	rows := operatorTables(t)
	type family struct{ engine, gpu, section string }
	seen, inside, all := map[family]bool{}, map[roofline.Class]int{}, map[roofline.Class]int{}
	for i := range rows {
		f := family{rows[i].engine, rows[i].gpu, rows[i].section()}
		if seen[f] {
			continue
		}
		seen[f] = true
		g := casetest.GPU(t, f.gpu)
		table, without := machineOf(t, g, rows, f.engine, ""), machineOf(t, g, rows, f.engine, f.section)
		for _, k := range kernelsOf(f.section) {
			got, want := without.Time(&k), table.Time(&k)
			if got == want {
				continue
			}
			low, high := analytic.UnmeasuredFormat(k.Class)
			if all[k.Class]++; want >= got.Times(1-low) && want <= got.Times(1+high) {
				inside[k.Class]++
			}
		}
	}
	for class, n := range all {
		if share := float64(inside[class]) / float64(n); n < 15 || share < 0.85 || share > 0.97 {
			t.Errorf("class %v: %.0f %% of %d kernels lie inside the interval", class, 100*share, n)
		}
	}
}

// kernelsOf are kernels of the sizes that models have, of a section of a table.
func kernelsOf(section string) (all []roofline.Kernel) {
	scheme := roofline.Unquantized
	for s := roofline.FP8; s < roofline.NumSchemes; s++ {
		if strings.HasSuffix(section, "_"+s.String()) {
			scheme = s
		}
	}
	bits := map[roofline.Scheme]float64{
		roofline.FP8: 1, roofline.FP8Block: 1, roofline.WeightINT4: 0.53, roofline.WeightMXFP4: 0.53, roofline.MXFP4: 0.53, roofline.NVFP4: 0.56,
	}[scheme]
	if bits == 0 {
		bits = 2
	}
	format := map[roofline.Scheme]unit.Format{
		roofline.Unquantized: unit.BF16, roofline.FP8: unit.FP8, roofline.FP8Block: unit.FP8, roofline.NVFP4: unit.NVFP4,
		roofline.MXFP4: unit.MXFP4,
	}[scheme]
	if format == unit.NoFormat {
		format = unit.BF16
	}
	base := roofline.Kernel{Format: format, Scheme: scheme, Launches: 1, Count: 1}
	switch {
	case strings.HasPrefix(section, "gemm"):
		return gemmsOf(base, bits)
	case strings.HasPrefix(section, "grouped_gemm"):
		return groupedOf(base, bits)
	case strings.HasPrefix(section, "attention"), strings.HasPrefix(section, "latent_attention"):
		base.Format = unit.BF16
		return attentionsOf(base, strings.HasPrefix(section, "latent"))
	}
	return nil
}

var tokens = []float64{1, 8, 32, 128, 512, 2048, 8192}

func gemmsOf(k roofline.Kernel, bytes float64) (all []roofline.Kernel) {
	for _, m := range tokens {
		for _, x := range [][2]float64{{4096, 4096}, {28672, 4096}, {4096, 14336}, {6144, 4096}, {2048, 7168}, {18432, 7168}} {
			k.Class, k.Quantized, k.Shape = roofline.GEMM, m, roofline.Shape{M: m, N: x[0], K: x[1], Matrices: 1}
			k.Work = roofline.Work{
				FLOPs: unit.FLOPs(2 * m * x[0] * x[1]), Weights: unit.Bytes(x[0] * x[1] * bytes), Acts: unit.Bytes(2 * m * (x[0] + x[1])),
			}
			all = append(all, k)
		}
	}
	return all
}

func groupedOf(k roofline.Kernel, bytes float64) (all []roofline.Kernel) {
	for _, m := range tokens {
		for _, x := range []struct{ experts, topK, hidden, width float64 }{{128, 8, 2048, 768}, {256, 8, 7168, 2048}, {32, 4, 2880, 2880},
			{8, 2, 4096, 14336}} {
			hit, pairs := x.experts*(1-math.Pow(1-x.topK/x.experts, m)), m*x.topK
			k.Class, k.Permuted = roofline.GroupedGEMM, unit.Bytes(2*pairs*x.hidden)
			k.Shape = roofline.Shape{M: pairs, N: 2 * x.width, K: x.hidden, Matrices: 1, Experts: x.experts, TopK: x.topK, Hit: hit, Pairs: pairs,
				Tokens: m, Ranks: 1}
			k.Work = roofline.Work{
				FLOPs: unit.FLOPs(4 * pairs * x.width * x.hidden), Weights: unit.Bytes(2 * hit * x.width * x.hidden * bytes),
				Acts: unit.Bytes(2 * pairs * (x.hidden + 2*x.width)),
			}
			all = append(all, k)
		}
	}
	return all
}

func attentionsOf(k roofline.Kernel, latent bool) (all []roofline.Kernel) {
	decode, prefill := roofline.AttentionDecode, roofline.AttentionPrefill
	if latent {
		decode, prefill = roofline.LatentDecode, roofline.LatentPrefill
	}
	const width = 32 * 256
	for _, c := range []float64{512, 4096, 32768} {
		for _, b := range []float64{1, 8, 64} {
			k.Class, k.Shape = decode, roofline.Shape{M: b, K: width, Tiles: 8 * b}
			k.Work = roofline.Work{FLOPs: unit.FLOPs(2 * width * b * c), KV: unit.Bytes(b * c * 8 * 256 * 2), Acts: unit.Bytes(2 * b * width)}
			all = append(all, k)
		}
		k.Class, k.Shape = prefill, roofline.Shape{M: c, K: width, Tiles: c / 16}
		k.Work = roofline.Work{FLOPs: unit.FLOPs(width * c * c), KV: unit.Bytes(c * 8 * 256 * 2), Acts: unit.Bytes(2 * c * width)}
		all = append(all, k)
	}
	return all
}
