package hardware_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"llmprof"
	"llmprof/hardware"
	"llmprof/internal/fileerror"
	"llmprof/internal/testkit"
	"llmprof/roofline"
	"llmprof/unit"
)

func board(t testing.TB, name string) *hardware.GPU {
	g := gpu(t, name)
	return &g
}

// measured is a file of an H200 in which the GEMMs were fitted.
func measured(t testing.TB) *hardware.CalibrationFile {
	t.Helper()
	f, err := hardware.NewCalibrationFile(board(t, "h200"), unit.BF16)
	testkit.Must(t, err)
	f.File, f.Name, f.Engine, f.Kernels, f.Version = "mine.toml", "mine", "native", "cuBLASLt 13.1", "v0.1.0"
	f.Made = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	f.TP, f.Tools = []int{1, 2}, map[string]string{"driver": "580.1", "driver's CUDA": "13.0"}
	f.Notes = []string{"a \"quoted\" \\ note\twith a tab"}
	f.Device.Name, f.Device.Memory, f.Device.PowerLimit, f.Device.Clock = "NVIDIA H200", 150.8e9, 700, 1.98e9
	f.Values["gemm.compute"] = hardware.Value{Value: 0.81, Uncertainty: 0.02, N: 20, From: "products"}
	f.Values["gemm.memory"] = hardware.Value{Value: 0.83, Uncertainty: 0.01, N: 18, From: "products"}
	f.Values["gemm.sustained"] = hardware.Value{Value: 0.68, N: 1, From: "one product for 6 s"}
	f.Values["gemm.fixed"] = hardware.Value{Value: 3.25e-6, Uncertainty: 0.2e-6, N: 9, From: "products"}
	f.Values["host.step"] = hardware.Value{Value: 18e-6, Uncertainty: 1e-6, N: 3, From: "steps of a tiny model"}
	f.HeldOut["gemm.compute"] = hardware.Residual{N: 20, Median: 0.03, P90: 0.08}
	f.HeldOut["gemm.memory"] = hardware.Residual{N: 18, Median: 0.04, P90: 0.09}
	return f
}

func TestCalibrationRoundTrip(t *testing.T) {
	f := measured(t)
	text := f.Text()
	back, err := hardware.ParseCalibration(f.File, text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if d := cmp.Diff(f, back, cmpopts.EquateApprox(1e-12, 0)); d != "" {
		t.Errorf("what was written and what was read differ:\n%s", d)
	}
	if again := back.Text(); again != text {
		t.Errorf("written twice:\n%s", cmp.Diff(text, again))
	}
	path := filepath.Join(t.TempDir(), "mine.toml")
	testkit.Must(t, os.WriteFile(path, []byte(text), 0o600))
	if back, err := hardware.ReadCalibration(path); err != nil || back.File != path {
		t.Errorf("%+v, %v", back, err)
	}
	if _, err := hardware.ReadCalibration(path + "x"); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), path+"x") {
		t.Errorf("a file that is not there: %v", err)
	}
}

// A section whose constants make one equation is there as a whole, or not.
func TestCalibrationSectionsAreWhole(t *testing.T) {
	for _, section := range []string{"wgmma_gemm", "moe_prefill", "moe_routing"} {
		f := measured(t)
		for _, c := range roofline.All() {
			if strings.HasPrefix(c.String(), section+".") {
				f.Values[c.String()] = hardware.Value{Value: 1e-3, N: 0, From: "default for hopper"}
			}
		}
		if _, err := hardware.ParseCalibration("mine.toml", f.Text()); err != nil {
			t.Errorf("%s: %v", section, err)
		}
		for _, c := range roofline.All() {
			v, ok := f.Values[c.String()]
			if !ok || !strings.HasPrefix(c.String(), section+".") {
				continue
			}
			delete(f.Values, c.String())
			_, err := hardware.ParseCalibration("mine.toml", f.Text())
			if err == nil || !strings.Contains(err.Error(), "has no "+c.String()) {
				t.Errorf("without %s: %v", c, err)
			}
			f.Values[c.String()] = v
		}
	}
}

func TestCalibrationApplies(t *testing.T) {
	f, g := measured(t), board(t, "h200")
	c, err := f.Apply(g, "native")
	testkit.Must(t, err)
	k, d := &c.Constants, hardware.DefaultCalibration(g)
	if k[roofline.GEMMCompute] != 0.81 || k[roofline.GEMMMemory] != 0.83 || k[roofline.GEMMFixed] != 3.25e-6 ||
		k[roofline.HostStep] != 18e-6 || c.Name != "mine" {
		t.Errorf("%+v", c)
	}
	measured := []string{"gemm.compute", "gemm.memory", "gemm.sustained", "gemm.fixed", "host.step"}
	for _, x := range roofline.All() {
		if !slices.Contains(measured, x.String()) && k[x] != d.Constants[x] {
			t.Errorf("%s was not measured and is %v, by default %v", x, k[x], d.Constants[x])
		}
	}
	memory, fixed := k.Effective(roofline.SkinnyGEMMMemory), k.Effective(roofline.SkinnyGEMMFixed)
	if memory != roofline.GEMMMemory || fixed != roofline.GEMMFixed || c.DecodeError != d.DecodeError {
		t.Errorf("skinny GEMMs go with %v and %v, and not with all others: %+v", memory, fixed, c)
	}
	if !strings.Contains(c.Source, "measured on NVIDIA H200, 2026-11-21, cuBLASLt 13.1; 13 of 18 constants are defaults") {
		t.Error(c.Source)
	}
	if k[roofline.GEMMSustained] != 0.68 {
		t.Errorf("sustained %v", k[roofline.GEMMSustained])
	}
	delete(f.Values, "gemm.sustained")
	c, err = f.Apply(g, "native")
	if got, was := c.Constants[roofline.GEMMSustained], d.Constants[roofline.GEMMSustained]; err != nil || got != was ||
		was >= d.Constants[roofline.GEMMCompute] {
		t.Errorf("not measured: sustained %v, by default %v", got, was)
	}
	if c, err := f.Apply(g, "vllm"); err != nil || c.Constants[roofline.HostStep] != 0 {
		t.Errorf("the host of another engine: %+v, %v", c, err)
	}
	if !f.Serves("native") || f.Serves("native2") || f.Serves("") {
		t.Error("Serves")
	}
}

// An interval is made of what is uncertain: each constant moves alone, by more
// the less is known of it.
func TestCalibrationMoves(t *testing.T) {
	f, g := measured(t), board(t, "h200")
	base, err := f.Apply(g, "native")
	testkit.Must(t, err)
	all := f.SlowEnds(g, "native", &base.Constants)
	unknown := base.Board // This is how far constants that are defaults may be off.
	longer := map[string]float64{}
	for _, end := range all {
		section, _, _ := strings.Cut(end[0].Constant.String(), ".")
		for _, x := range end {
			if longer[x.Constant.String()] = x.By; len(end) > 1 && !strings.HasPrefix(x.Constant.String(), section) {
				t.Errorf("%s moves %s too", section, x.Constant)
			}
		}
	}
	if len(all) != 21 || len(longer) != 24 {
		t.Errorf("%d constants moved, at %d times", len(longer), len(all))
	}
	for _, x := range []struct {
		key         string
		least, most float64
	}{
		{"gemm.sustained", 1/(1-unknown) - 1, 1/(1-unknown) - 1}, {"attention.memory", 1/(1-unknown) - 1, 1/(1-unknown) - 1},
		{"gemm.compute", 1/0.99 - 1, 1/0.97 - 1}, {"host.step", 1e-6, 1.0 / 18},
	} {
		if by := longer[x.key]; by < x.least*(1-1e-9) || by > x.most*(1+1e-9) {
			t.Errorf("%s takes %v longer, want %v to %v", x.key, by, x.least, x.most)
		}
	}
	base.Constants[roofline.HostStep] *= 2
	if n := len(f.SlowEnds(g, "native", &base.Constants)); n != len(all)-1 {
		t.Errorf("%d constants moved of an engine that has another time of a step, %d of the file's", n, len(all))
	}
}

func TestCalibrationOfAnotherGPU(t *testing.T) {
	f := measured(t)
	_, err := f.Apply(board(t, "a100"), "native")
	if err == nil || !strings.Contains(err.Error(), `mine.toml: the calibration "mine" is of h200-sxm-141gb, not of a100-sxm-80gb`) {
		t.Error(err)
	}
	table, err := load(t).Overlay("o.toml", "[gpu.h200-sxm-141gb]\nbandwidth = \"4 TB/s\"\n")
	testkit.Must(t, err)
	g, err := table.GPU("h200")
	testkit.Must(t, err)
	if err := f.Check(&g); err == nil || !strings.Contains(err.Error(),
		"of 4.800 TB/s, but h200-sxm-141gb has 989.4 TFLOP/s and 4.000 TB/s: fit it again") {
		t.Error(err)
	}
}

func TestBuiltInCalibrations(t *testing.T) {
	plain, native := measured(t), measured(t)
	plain.Name, plain.Engine = "plain", ""
	delete(plain.Values, "host.step")
	files := fstest.MapFS{
		"hardware/calibrations/h200-sxm-141gb.toml":        {Data: []byte(plain.Text())},
		"hardware/calibrations/h200-sxm-141gb.native.toml": {Data: []byte(native.Text())},
		"hardware/calibrations/a100-sxm-80gb.toml":         {Data: []byte("nonsense")},
	}
	for engine, want := range map[string]string{"native": "mine", "vllm": "plain", "transformers-graph": "plain"} {
		f, err := hardware.BuiltIn(files, board(t, "h200"), engine)
		if err != nil || f == nil || f.Name != want {
			t.Errorf("%s: %+v, %v", engine, f, err)
		}
	}
	if f, err := hardware.BuiltIn(files, board(t, "h100"), "native"); f != nil || err != nil {
		t.Errorf("a GPU without one: %+v, %v", f, err)
	}
	if _, err := hardware.BuiltIn(files, board(t, "a100"), "native"); err == nil {
		t.Error("nonsense was read")
	}
}

// Every mistake is named with its place, and with what would be right.
func TestCalibrationMistakes(t *testing.T) {
	good := measured(t).Text()
	for _, c := range []struct{ old, new, says string }{
		{`schema = "llmprof.calibration/v1"`, `schema = "llmprof.estimate/v1"`, `mine.toml:3:10: the schema is "llmprof.estimate/v1": want ` +
			`schema = "llmprof.calibration/v1"`},
		{`schema = "llmprof.calibration/v1"`, ``, `want schema = "llmprof.calibration/v1"`},
		{`gpu = "h200-sxm-141gb"`, ``, `there is no gpu: want gpu = "h200-sxm-141gb"`},
		{`name = "mine"`, `nama = "mine"`, `"nama" is not a key here; did you mean "name"?`},
		{`name = "mine"`, "Name = \"yours\"\nname = \"mine\"", `"Name" and "name" are one name: leave one out`},
		{`power_limit = `, `power_limits = `, `"power_limits" is not a key here; did you mean "power_limit"?`},
		{`dtype = "bf16"`, `dtype = "bf17"`, "dtype"},
		{`tp = [1, 2]`, `tp = []`, "want the numbers of GPUs"},
		{`tp = [1, 2]`, `tp = [2, 1]`, "rising"},
		{`made = 2026-11-21T12:00:00Z`, ``, "when it was made"},
		{`compute = {value = 0.81`, `compute = {value = 1.81`,
			"gemm.compute.value is 1.81: want a share of the data-sheet peak, above 1e-6 and at most 1"},
		{`compute = {value = 0.81`, `compute = {value = 1e-320`,
			"gemm.compute.value is 1e-320: want a share of the data-sheet peak, above 1e-6 and at most 1"},
		{`compute = {value = 0.81`, `compute = {value = nan`, "gemm.compute.value is NaN: want a share"},
		{`compute = {value = 0.81`, `compute = {value = "0.81 s"`, "gemm.compute.value is 0.81 s: want a share"},
		{`compute = {value = 0.81`, `compote = {value = 0.81`, `"compote" is not a constant of gemm; did you mean "compute"?`},
		{`uncertainty = 0.02, n = 20, from = "products"`, `n = 20, from = "products"`,
			"there is no gemm.compute.uncertainty: want half of the 95 % interval, which 2 rows and more give"},
		{`uncertainty = 0.02, n = 20`, `uncertainty = inf, n = 20`, "gemm.compute.uncertainty is +Inf: want half of the 95 % interval"},
		{`uncertainty = 0.02, n = 20`, `uncertainty = 0.02, n = 1`, "gemm.compute.uncertainty is 0.02: want none where n is below 2"},
		{`uncertainty = 0.02, n = 20`, `uncertainty = 0.02, m = 20`, `"m" is not a key here`},
		{`uncertainty = 0.02, n = 20`, `uncertainty = 0.02`, "there is no gemm.compute.n: want the number of rows"},
		{`fixed = {value = "3.250 µs"`, `fixed = {value = 3.25`,
			`gemm.fixed.value is 3.25: want a time above 0 and at most 100 ms, with its unit`},
		{`fixed = {value = "3.250 µs"`, `fixed = {value = "3.250 W"`, "gemm.fixed.value is 3.250 W: want a time"},
		{`fixed = {value = "3.250 µs"`, `fixed = {value = "3.250 ks"`, "gemm.fixed.value is 3.250 ks: want a time"},
		{`n = 0, from = "default for hopper"`, `n = 0, from = "my guess"`,
			`attention.compute.from is my guess: want "default for hopper" where n = 0`},
		{`n = 0, from = "default for hopper"`, `n = 0, from = ""`, "there is no attention.compute.from: want where the constant is from"},
		{"[graph]\nnode", "[graph]\nnoda", `"noda" is not a constant of graph; did you mean "node"?`},
		{`"gemm.memory" = {n = 18, median = 0.04, p90 = 0.09}`, ``, `held_out has no "gemm.memory", which was fitted`},
		{`"gemm.memory" = {n = 18, median = 0.04`, `"gemm.memory" = {n = 18, median = 0.4`, "the median no more than the p90"},
		{`"gemm.memory" = {`, `"link.share" = {`, "held_out.link.share is {18 0.04 0.09}: want none, for no row was left out"},
		{`"gemm.memory" = {`, `"gemm.memoro" = {`, `did you mean "gemm.memory"?`},
		{`engine = "native"`, ``, "host.step is an engine's and the file names none"},
		{`peak = "989.4 TFLOP/s"`, `peak = "989.4 GB/s"`, "rate of operations"},
		{`bandwidth = "4.800 TB/s"`, ``, "want the data-sheet bandwidth"},
		{"[device]", "[[device]]", "device"},
		{"[gemm]", "[gemm", "mine.toml:"},
		{"[gemm]", "gemm = 3 \n[gemm]", "mine.toml:"},
		{"[gemm]", "[[gemm]]", "gemm has to be a table, [gemm]"},
		{"[held_out]", "[former]\nshare = 1\n[held_out]",
			`"former" is not a key here; did you mean "power"? A file of another release is fitted again`},
	} {
		text := strings.Replace(good, c.old, c.new, 1)
		if text == good {
			t.Errorf("%q is not in the file", c.old)
			continue
		}
		_, err := hardware.ParseCalibration("mine.toml", text)
		var place *fileerror.Error
		if err == nil || !strings.Contains(err.Error(), c.says) || !errors.As(err, &place) {
			t.Errorf("%q for %q: got %v, want %q", c.new, c.old, err, c.says)
		}
	}
}

func FuzzParseCalibration(f *testing.F) {
	good := measured(f).Text()
	f.Add(good)
	f.Add(strings.Replace(good, "0.81", "nan", 1))
	f.Add("schema = \"llmprof.calibration/v1\"\n[gemm]\ncompute = 1\n")
	f.Add("schema = \"llmprof.calibration/v1\"\ngemm.compute.value.x = 1\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := hardware.ParseCalibration("f.toml", text)
		if err != nil {
			return
		}
		for key, v := range c.Values {
			if !(v.Value >= 0 && v.Uncertainty >= 0 && v.Value <= 1e5) {
				t.Errorf("%s is %+v", key, v)
			}
		}
		written := c.Text()
		back, err := hardware.ParseCalibration("f.toml", written)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, written)
		}
		if again := back.Text(); again != written {
			t.Errorf("written twice:\n%s", cmp.Diff(written, again))
		}
	})
}

// The calibrations that come with the program are named for their GPU and
// engine, and are of the table's figures.
func TestShippedCalibrations(t *testing.T) {
	files, err := fs.Glob(llmprof.Calibrations, "hardware/calibrations/*.toml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		text, err := llmprof.Calibrations.ReadFile(name)
		testkit.Must(t, err)
		f, err := hardware.ParseCalibration(name, string(text))
		testkit.Must(t, err)
		want := "hardware/calibrations/" + f.GPU + ".toml"
		if f.Engine != "" {
			want = "hardware/calibrations/" + f.GPU + "." + f.Engine + ".toml"
		}
		if name != want {
			t.Errorf("%s holds what %s should", name, want)
		}
		if err := f.Check(board(t, f.GPU)); err != nil {
			t.Error(err)
		}
		if back := f.Text(); back != string(text) {
			t.Errorf("%s is not as it would be written", name)
		}
	}
}
