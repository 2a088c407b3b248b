package native

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"llmprof"
	"llmprof/analytic/operator"
	"llmprof/internal/testkit"
	"llmprof/measure/native/cuda"
	"llmprof/models"
	"llmprof/models/safetensors"
)

// The test compares the numbers of parts of split attention with the measured ones. Every other
// workload has a number that the kernel accepts.
func TestSplits(t *testing.T) {
	s := &shape{heads: 32, kvHeads: 8, headDim: 128}
	for _, c := range []struct{ batch, capacity, want int }{
		{1, 1056, 8}, {1, 4096, 16}, {1, 16448, 32}, {2, 16448, 16}, {8, 1056, 4}, {16, 1056, 2}, {32, 1056, 1}, {64, 1056, 1}, {1000, 100000, 1},
		{1, 1, 1},
	} {
		if got := splits(s, c.batch, c.capacity, 132); got != c.want {
			t.Errorf("batch %d, %d tokens: %d parts, want %d", c.batch, c.capacity, got, c.want)
		}
	}
	for _, c := range []struct{ batch, capacity, want int }{{17, 1056, 2}, {32, 1056, 2}, {33, 1056, 2}, {34, 1056, 1}, {32, 255, 1},
		{64, 1056, 1}} {
		if got := splitsBesideWgmma(s, c.batch, c.capacity, 132); got != c.want {
			t.Errorf("beside wgmma GEMMs, batch %d, %d tokens: %d parts, want %d", c.batch, c.capacity, got, c.want)
		}
	}
	for _, sms := range []int{1, 16, 108, 132, 188} {
		for _, kv := range []int{1, 2, 8, 40} {
			for _, batch := range []int{1, 7, 64, 65535} {
				for _, capacity := range []int{1, 1000, 1 << 20} {
					if n := splits(&shape{heads: 8 * kv, kvHeads: kv}, batch, capacity, sms); n < 1 || n > maxSplits {
						t.Errorf("%d SMs, %d heads, batch %d, %d tokens: %d parts", sms, kv, batch, capacity, n)
					}
				}
			}
		}
	}
}

// The parts of a head form a cluster if the GPU has clusters and the parts divide the output
// evenly. All head sizes but the largest have rings of one size.
func TestDecodeLaunch(t *testing.T) {
	s := &shape{heads: 32, kvHeads: 8, headDim: 128}
	for _, c := range []struct{ major, splits, cluster int }{
		{8, 4, 0}, {9, 1, 1}, {9, 2, 2}, {9, 16, 16}, {9, 3, 0}, {9, 32, 0}, {10, 16, 16}, {12, 8, 8}, {12, 16, 0},
	} {
		d := decodeFor(c.major, s)
		l := d.launch(c.splits, s.kvHeads, 5)
		if want := (cuda.Dim{X: c.splits, Y: 8, Z: 5}); l.Grid != want || l.Cluster != c.cluster {
			t.Errorf("compute capability %d, %d parts: %+v, want clusters of %d in %+v", c.major, c.splits, l, c.cluster, want)
		}
	}
	for dim, want := range map[int]int{64: 48 << 10, 128: 48 << 10, 256: 64 << 10} {
		s.headDim = dim
		if d := decodeFor(9, s); d.shared != want || d.threads != 128 {
			t.Errorf("heads of %d: %+v, want 128 threads and %d bytes", dim, d, want)
		}
	}
}

// The GEMMs of llama3.1-8b are split by tiles alone if these fill an H200's 132 multiprocessors,
// and else along k too. For any GEMM every part has work, and there are no more blocks than
// multiprocessors.
func TestCuts(t *testing.T) {
	rings := skinnyGEMMs()
	for _, c := range []struct {
		batch, out, in int
		epilogue       epilogue
		want           splitK
	}{
		{1, 6144, 4096, storeEpilogue, splitK{384, 1}}, {1, 4096, 14336, residualEpilogue, splitK{256, 1}},
		{1, 14336, 4096, swigluEpilogue, splitK{1792, 1}},
		{16, 6144, 4096, storeEpilogue, splitK{384, 1}}, {16, 1024, 4096, residualEpilogue, splitK{64, 2}},
		{16, 512, 14336, residualEpilogue, splitK{32, 4}},
		{16, 14336, 4096, swigluEpilogue, splitK{1792, 1}}, {8, 1024, 8192, residualEpilogue, splitK{64, 2}},
		{1, 256, 512, storeEpilogue, splitK{16, 1}},
	} {
		if got := gemmFor(rings, Unquantized, c.batch).splitKFor(c.out, c.in, c.epilogue, 132); got != c.want {
			t.Errorf("batch %d, %d of %d: %+v, want %+v", c.batch, c.out, c.in, got, c.want)
		}
	}
	rings = slices.Concat(rings, quantizedGEMMs(FP8), quantizedGEMMs(INT4))
	for _, c := range []struct {
		batch, out, in int
		epilogue       epilogue
		want           splitK
	}{
		{1, 4096, 14336, residualEpilogue, splitK{256, 1}}, {32, 4096, 14336, residualEpilogue, splitK{32, 4}},
		{32, 6144, 4096, storeEpilogue, splitK{384, 1}},
		{32, 14336, 4096, swigluEpilogue, splitK{1792, 1}}, {8, 512, 14336, residualEpilogue, splitK{16, 7}},
	} {
		if got := gemmFor(rings, INT4, c.batch).splitKFor(c.out, c.in, c.epilogue, 132); got != c.want {
			t.Errorf("int4, batch %d, %d of %d: %+v, want %+v", c.batch, c.out, c.in, got, c.want)
		}
	}
	for i := range rings {
		for _, out := range []int{1, 8, 100, 4096, 128256} {
			for _, in := range []int{64, 1000, 4096, 53248} {
				c := rings[i].splitKFor(out, in, storeEpilogue, 132)
				if stages := (in + rings[i].depth - 1) / rings[i].depth; c.tiles < 1 || c.parts < 1 || c.parts > stages ||
					c.parts > 1 && c.tiles*c.parts > 132 {
					t.Errorf("%d of %d: %+v of %d stages", out, in, c, stages)
				}
			}
		}
	}
}

// A multiprocessor of Hopper has 228 KiB of shared memory, of which each block costs 1 KiB in
// addition. There is room for a block of each kind of GEMM, and never for two that add to the
// stream. With 9 to 16 sequences the block of gate_up_proj is alone.
func TestRingsLieEvenly(t *testing.T) {
	const all, barriers = 228 << 10, 512
	for _, l := range fitted(slices.Concat(skinnyGEMMs(), quantizedGEMMs(FP8), quantizedGEMMs(INT4)), 227<<10) {
		if l.consumers() > 8 { // a block has all registers of a multiprocessor
			continue
		}
		block := func(u epilogue) int { return l.shared(l.of(u)) + l.staticShared(l.of(u)) }
		one, gated, deep := block(storeEpilogue), block(swigluEpilogue), block(residualEpilogue)
		if oneBlockPerSM := l.rows == 16 && l.quant == Unquantized; oneBlockPerSM != (gated+deep+2*barriers > all) || gated+barriers > all {
			t.Errorf("batch %d, weights %q: gate_up_proj's block of %d bytes beside one of %d", l.rows, l.quant, gated, deep)
		}
		if one+deep+2*barriers > all || 2*deep <= all {
			t.Errorf("batch %d, weights %q: blocks of %d and %d bytes", l.rows, l.quant, one, deep)
		}
	}
}

// GPUs of compute capability 8.6, 8.9 and 12.0 give a block 99 KiB of shared memory. Their rings
// are as long as fits beside the sums; on other GPUs rings have the measured lengths. No step needs
// more.
func TestRingsFit(t *testing.T) {
	for memory, want := range map[int][][2]int{227 << 10: {{5, 7}, {3, 6}, {3, 4}}, 163 << 10: {{5, 7}, {3, 6}, {3, 4}},
		99 << 10: {{5, 5}, {3, 4}, {2, 3}}} {
		for i, l := range fitted(skinnyGEMMs(), memory) {
			if got := [2]int{l.stages, l.residualRing.stages}; got != want[i] {
				t.Errorf("batch %d with %d bytes: rings of %v stages, want %v", l.rows, memory, got, want[i])
			}
		}
	}
	for _, l := range fitted(slices.Concat(skinnyGEMMs(), quantizedGEMMs(FP8), quantizedGEMMs(INT4)), 99<<10) {
		for _, u := range []epilogue{storeEpilogue, swigluEpilogue, residualEpilogue} {
			if r := l.of(u); r.stages < 2 || r.tiles < 1 || l.shared(r)+l.staticShared(r) > 99<<10 {
				t.Errorf("batch %d, weights %q, use %d: a ring of %+v, %d bytes", l.rows, l.quant, u, r, l.shared(r))
			}
		}
	}
	for _, batch := range []int{1, 8, 16} {
		s := cuda.NewStandIn()
		s.Device.Major, s.Device.Minor, s.Device.SharedOptIn = 8, 9, 99<<10
		e := ready(t, modelOf(t, tinyLlama, Options{Workload: operator.Workload{Batch: batch, PromptLen: 30, GenLen: 2}}),
			func(o Options) (*Engine, error) { return OnStandIn(o, s) })
		if err := e.queueStep(); err != nil {
			t.Errorf("batch %d: %v", batch, err)
		}
	}
}

// Heads for which attention has no room on a GPU are refused before weights are loaded; 99 KiB are
// enough for all.
func TestNoRoomForHeads(t *testing.T) {
	for kib, want := range map[int]string{99: "", 64: "takes 69 KiB of shared memory for heads of 256 values; a block of stand-in has 64"} {
		s := cuda.NewStandIn()
		s.Device.Major, s.Device.Minor, s.Device.SharedOptIn = 8, 9, kib<<10
		for _, heads := range []string{"2", "8"} {
			opt := modelOf(t, strings.NewReplacer(`"head_dim":64`, `"head_dim":256`, `heads":2`, `heads":1`, `heads":8`, `heads":`+heads).Replace(
				tinyLlama), Options{Workload: operator.Workload{Batch: 1, PromptLen: 30, GenLen: 2}})
			e, err := OnStandIn(opt, s)
			if err == nil {
				err = e.Prepare()
			}
			var no *UnsupportedError
			if want == "" && err != nil || want != "" && !errors.As(err, &no) {
				t.Errorf("%d KiB, %s heads: %v", kib, heads, err)
			}
			if heads == "2" && want != "" && !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
	}
}

// Every model of the table either runs or is refused with a reason. The parameters that the engine
// lays out are the model's.
func TestTable(t *testing.T) {
	table, err := models.Load(llmprof.ModelsJSON)
	testkit.Must(t, err)
	run := 0
	for _, name := range table.Names() {
		m, err := table.Model(name)
		testkit.Must(t, err)
		config, err := table.Config(name)
		testkit.Must(t, err)
		s, err := readShape(m, config)
		var no *UnsupportedError
		switch {
		case errors.As(err, &no) && strings.Contains(err.Error(), m.Name):
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case paramsOf(layout(&s)) != m.Params():
			t.Errorf("%s: the engine has %d parameters, the model %d", name, paramsOf(layout(&s)), m.Params())
		default:
			run++
		}
	}
	if run < 40 {
		t.Errorf("%d models of the table are run, want 40 and more", run)
	}
}

// Numbers that no model can have are refused, and missing numbers have transformers' defaults.
func TestNumbers(t *testing.T) {
	const base = `{"model_type":"llama","hidden_size":256,"intermediate_size":128,"num_hidden_layers":2,"num_attention_heads":4,
		"num_key_value_heads":2,"vocab_size":256`
	read := func(more string) (shape, error) {
		config := []byte(base + more + "}")
		m, err := models.Read("m", config)
		if err != nil {
			t.Fatalf("%s: %v", more, err)
		}
		return readShape(m, config)
	}
	s, err := read("")
	if err != nil || s.eps != 1e-6 || s.rope.Theta != 10000 || s.rope.Type != "default" {
		t.Errorf("defaults %+v, %v", s, err)
	}
	if s, err = read(`,"rope_parameters":{"rope_theta":5e5,"rope_type":"default"},"rms_norm_eps":1e-5`); err != nil || s.rope.Theta != 5e5 ||
		s.eps != 1e-5 {
		t.Errorf("%+v, %v", s, err)
	}
	for more, want := range map[string]string{
		`,"rms_norm_eps":-1`:   "rms_norm_eps is -1",
		`,"rms_norm_eps":0`:    "rms_norm_eps is 0",
		`,"rope_theta":-5`:     "rope_theta is -5",
		`,"hidden_act":"relu"`: `hidden_act is "relu"`,
		`,"mlp_bias":true`:     "mlp_bias",
		`,"rope_scaling":{"rope_type":"dynamic","factor":2.0}`: `"dynamic"`,
		`,"rope_scaling":{"type":"linear","factor":0.5}`:       "factor of 1 or more",
		`,"rope_scaling":{"rope_type":"llama3","factor":8.0}`:  "low_freq_factor",
		`,"attention_bias":true`:                               "output projection",
	} {
		var no *UnsupportedError
		if _, err := read(more); !errors.As(err, &no) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", more, err, want)
		}
	}
}

// The frequencies of Llama 3.1: short wavelengths stay, long ones are stretched
// eightfold. (transformers 5.17, _compute_llama3_parameters.)
func TestFrequencies(t *testing.T) {
	r := rope{Theta: 500000, Type: "llama3", Factor: 8, Low: 1, High: 4, Original: 8192}
	plain := rope{Theta: 500000, Type: "default"}
	f, p := r.frequencies(128), plain.frequencies(128)
	if f[0] != 1 || f[10] != p[10] || math.Abs(float64(f[63]*8/p[63])-1) > 1e-6 {
		t.Errorf("first %v, tenth %v of %v, last %v of %v", f[0], f[10], p[10], f[63], p[63])
	}
	for i := 1; i < len(f); i++ {
		if !(f[i] < f[i-1] && f[i] > 0) {
			t.Errorf("frequency %d is %v after %v", i, f[i], f[i-1])
		}
	}
}

// Random weights are a function of the seed, the tensor's name and the element:
// other seeds and names give others, and their deviation is 0.02.
func TestRandomWeights(t *testing.T) {
	if tensorSeed(1, "a") == tensorSeed(2, "a") || tensorSeed(1, "a") == tensorSeed(1, "b") ||
		tensorSeed(7, "lm_head.weight") != 0xab67eb515e1b6f0a {
		t.Errorf("seed of lm_head.weight %#x", tensorSeed(7, "lm_head.weight"))
	}
	sum, squares, n := 0.0, 0.0, 100000
	for i := range n {
		v := randomWeight(safetensors.BFloat16, tensorSeed(7, "lm_head.weight"), uint64(i), randomScale)
		sum, squares = sum+v, squares+v*v
		if math.Abs(v) > float64(randomScale)*1.01 {
			t.Fatalf("element %d is %v", i, v)
		}
	}
	if mean, deviation := sum/float64(n), math.Sqrt(squares/float64(n)); math.Abs(mean) > 3e-4 || math.Abs(deviation-0.02) > 2e-4 {
		t.Errorf("mean %v, deviation %v, want 0 and 0.02", mean, deviation)
	}
}

// paramsOf counts the parameters of all tensors.
func paramsOf(w *weights) (n int64) {
	for i := range w.tensors {
		n += int64(w.tensors[i].elements())
	}
	return n
}
