package hardware_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"llmprof"
	"llmprof/hardware"
	"llmprof/internal/testkit"
	"llmprof/unit"
)

func TestOverlayChangesAnEntry(t *testing.T) {
	table := load(t)
	mine, err := table.Overlay("mine.toml", `
[gpu.h200-sxm-141gb]
price = "1.99 $/h"
price_source = "our contract"
peak.bf16 = "900 TFLOP/s"
`)
	testkit.Must(t, err)
	g, err := mine.GPU("h200")
	testkit.Must(t, err)
	if p, _ := g.Price(); p != 1.99 {
		t.Errorf("price %v", p)
	}
	if r, _ := g.Peak(unit.BF16); r != 900e12 {
		t.Errorf("bf16 %v", r)
	}
	if r, _ := g.Peak(unit.FP8); r != 1978.9e12 || g.Bandwidth != 4.8e12 {
		t.Errorf("what was not named changed: fp8 %v, %v", r, g.Bandwidth)
	}
	if old := gpu(t, "h200"); old.PriceSource == "our contract" {
		t.Error("the table underneath changed")
	}
	if m, err := mine.Match("NVIDIA H200", 0); err != nil || m.PriceSource != "our contract" {
		t.Errorf("Match does not see the change: %v", err)
	}
}

// TestOverlayKeepsItsBase checks that lists of a user's table are not written into those of the table underneath.
func TestOverlayKeepsItsBase(t *testing.T) {
	was := slices.Clone(gpu(t, "h200").Aliases)
	mine, err := load(t).Overlay("mine.toml", "[gpu.h200-sxm-141gb]\naliases = [\"mine\"]\nnotes = [\"a note\"]\n")
	testkit.Must(t, err)
	if g, err := mine.GPU("mine"); err != nil || !slices.Equal(g.Aliases, []string{"mine"}) {
		t.Errorf("aliases %q, %v", g.Aliases, err)
	}
	if g := gpu(t, "h200"); !slices.Equal(g.Aliases, was) || slices.Contains(g.Notes, "a note") {
		t.Errorf("the table underneath has aliases %q, had %q, and notes %q", g.Aliases, was, g.Notes)
	}
}

func TestOverlayAddsAnEntryFromABase(t *testing.T) {
	mine, err := load(t).Overlay("mine.toml", `
[gpu.h200-capped]
base = "h200"
aliases = ["capped"]
tdp = "500 W"
`)
	testkit.Must(t, err)
	g, err := mine.GPU("capped")
	if err != nil || g.PowerLimit != 500 || g.TDP != 700 || g.Key != "h200-capped" || g.Name != "h200-capped" || g.Memory != 141e9 {
		t.Errorf("got %+v, %v", g, err)
	}
	if h, err := mine.GPU("h200"); err != nil || h.TDP != 700 {
		t.Errorf("the base: %v, %v", h.TDP, err)
	}
}

// The power and the clock of a known board are limits that it is set to: its constants refer to those that it is shipped with. A clock
// above the board's is none, and another chip has a power and a clock of its own.
func TestOverlayLimitsAKnownBoard(t *testing.T) {
	for _, x := range []struct {
		text, gpu         string
		tdp, limit        unit.Watts
		clock, clockLimit unit.Hertz
	}{
		{"[gpu.h200-sxm-141gb]\ntdp = \"400 W\"\nclock = \"1200 MHz\"\n", "h200", 700, 400, 1980e6, 1200e6},
		{"[gpu.h200-sxm-141gb]\ntdp = \"700 W\"\nclock = \"2100 MHz\"\n", "h200", 700, 0, 1980e6, 0},
		{"[gpu.mine]\nbase = \"h200\"\ntdp = \"600 W\"\nsms = 120\nclock = \"1500 MHz\"\npeak.bf16 = \"700 TFLOP/s\"\n" +
			"peak.fp16 = \"700 TFLOP/s\"\n", "mine", 600, 0, 1500e6, 0},
	} {
		table, err := load(t).Overlay("mine.toml", x.text)
		testkit.Must(t, err)
		g, err := table.GPU(x.gpu)
		testkit.Must(t, err)
		if g.TDP != x.tdp || g.PowerLimit != x.limit || g.Clock != x.clock || g.ClockLimit != x.clockLimit {
			t.Errorf("%s: %v limited to %v, %v limited to %v", x.text, g.TDP, g.PowerLimit, g.Clock, g.ClockLimit)
		}
	}
}

func TestOverlayFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "none.toml")
	if _, err := load(t).OverlayFile(path); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("a file that is not there: %v", err)
	}
	path = filepath.Join(dir, "bad.toml")
	testkit.Must(t, os.WriteFile(path, []byte("[gpu.l4-24gb]\ntdp = \"72 V\"\n"), 0o600))
	if _, err := load(t).OverlayFile(path); err == nil || !strings.HasPrefix(err.Error(), path+":2:8: ") {
		t.Errorf("a mistake does not name file, line and column: %v", err)
	}
}

func TestOverlayFileIsNotEndless(t *testing.T) {
	path := filepath.Join(t.TempDir(), "long.toml")
	testkit.Must(t, os.WriteFile(path, make([]byte, 5<<20), 0o600))
	if _, err := load(t).OverlayFile(path); err == nil || !strings.Contains(err.Error(), "is larger than 4.2 MB") {
		t.Errorf("a file of 5 MiB: %v", err)
	}
}

// complete is an entry that loads.
const complete = `[gpu.x1]
vendor = "nvidia"
generation = "hopper"
compute_capability = "9.0"
sms = 132
clock = "1980 MHz"
peak.fp32 = "66.9 TFLOP/s"
peak.fp16 = "989.4 TFLOP/s"
memory = "80 GB"
bandwidth = "3.35 TB/s"
l2 = "50 MB"
pcie = "64 GB/s"
gpus_per_node = 8
tdp = "700 W"
source = "a data sheet"
`

func TestMistakes(t *testing.T) {
	if _, err := hardware.Load(complete); err != nil {
		t.Fatalf("the example itself: %v", err)
	}
	for _, tt := range []struct{ name, old, new, want string }{
		{"wrong unit", `bandwidth = "3.35 TB/s"`, `bandwidth = "3.35 TFLOP/s"`,
			"hardware.toml:10:14: bandwidth: \"3.35 TFLOP/s\" is not a data rate: \"TFLOP/s\" is not a unit of it; write it as in \"3.35 TB/s or " +
				"400 Gb/s\"\n" +
				"    bandwidth = \"3.35 TFLOP/s\"\n" +
				"                 ^^^^^^^^^^^^"},
		{"bits for bytes", `"80 GB"`, `"80 Gb"`, `hardware.toml:9:11: memory: "80 Gb" is not an amount of memory`},
		{"negative", `"700 W"`, `"-700 W"`, `tdp: "-700 W" is not a power: it is negative`},
		{"misspelt key", `bandwidth =`, `bandwith =`, `hardware.toml:10:12: "bandwith" is not a key here; did you mean "bandwidth"?`},
		{"unknown key", `tdp =`, "colour = \"red\"\ntdp =", "hardware.toml:14:10: \"colour\" is not a key here; did you mean \"clock\"?"},
		{"far unknown key", `tdp =`, "wolverhampton = 1\ntdp =", "is not a key here; known are aliases, bandwidth, base"},
		{"unknown table", `[gpu.x1]`, "[gpus.y]\na = 1\n[gpu.x1]", `hardware.toml:1:2: "gpus" is not a key here; did you mean "gpu"?`},
		{"unknown format", `peak.fp16`, "peak.fp12 = \"1 TFLOP/s\"\npeak.fp16", `hardware.toml:8:13: "fp12" is not a number format`},
		{"zero peak", `peak.fp16`, "peak.fp8 = \"0\"\npeak.fp16", "hardware.toml:8:12: a rate of 0: leave out a format that has no unit"},
		{"sparse peak", `"989.4 TFLOP/s"`, `"1979 TFLOP/s"`,
			"hardware.toml:8:13: 1.979 PFLOP/s is more than 132 SMs can do at 1.980 GHz (1.071 PFLOP/s): is it a figure with sparsity?"},
		{"slow fp8", `peak.fp16`, "peak.fp8 = \"100 TFLOP/s\"\npeak.fp16",
			"hardware.toml:8:12: fp8 at 100.0 TFLOP/s is slower than fp16 at 989.4 TFLOP/s"},
		{"bare number", `"3.35 TB/s"`, `3.35`, "hardware.toml:10:13: gpu.x1.bandwidth is 3.350 B/s: want 1.000 GB/s to 1.000 PB/s"},
		{"missing", `memory = "80 GB"`, ``, "hardware.toml:1:2: there is no gpu.x1.memory: want 1.000 GB to 100.0 TB"},
		{"no source", `source = "a data sheet"`, ``, "there is no gpu.x1.source: want the document"},
		{"fraction of an SM", `sms = 132`, `sms = 1.5`, "hardware.toml:5:7: "},
		{"no SM", `sms = 132`, `sms = -1`, "gpu.x1.sms is -1: want 1 to 100000"},
		{"price without source", `tdp =`, "price = \"2 $/h\"\ntdp =", "there is no gpu.x1.price_source: want who offers that price, and when"},
		{"idle above TDP", `tdp =`, "idle = \"900 W\"\ntdp =", "gpu.x1.idle is 900.0 W: want 10.00 mW to 700.0 W"},
		{"link_gpus without link", `tdp =`, "link_gpus = 2\ntdp =", "gpu.x1.link_gpus is 2: want none without a link"},
		{"bridge without link", `tdp =`, "bridge = true\ntdp =", "gpu.x1.bridge is true: want none without a link"},
		{"in two spellings", `tdp =`, "TDP = \"600 W\"\ntdp =", `hardware.toml:15:7: "gpu.x1.TDP" and "gpu.x1.tdp" are one name: leave one out`},
		{"format in two spellings", `peak.fp16`, "peak.FP16 = \"1 TFLOP/s\"\npeak.fp16", `are one name`},
		{"twice", complete, complete + complete, "hardware.toml:16:"},
		{"alias taken", complete, complete + strings.Replace(complete, "[gpu.x1]", "[gpu.x2]\naliases = [\"X-1\"]", 1),
			`hardware.toml:17:11: "X-1" already stands for x1`},
		{"upper case", `[gpu.x1]`, `[gpu.X1]`, `"X1" cannot be the key of a GPU: write it in lower case`},
		{"unknown base", `[gpu.x1]`, "[gpu.x1]\nbase = \"h100\"", `hardware.toml:2:8: GPU "h100" is not known`},
		{"not TOML", `[gpu.x1]`, `[gpu.x1`, "hardware.toml:2:8: expected"},
		{"unknown vendor", `vendor = "nvidia"`, `vendor = "nvidai"`, `hardware.toml:2:10: vendor "nvidai" is not known; did you mean "nvidia"?`},
		{"unknown generation", `generation = "hopper"`, `generation = "hoper"`, `generation "hoper" is not known; did you mean "hopper"?`},
		{"wrong type", `vendor = "nvidia"`, `vendor = 3`, "hardware.toml:2:10: incompatible types"},
		{"gpu is no table", complete, `gpu = 3`, "hardware.toml"},
		{"peak is no table", "peak.fp32 = \"66.9 TFLOP/s\"\npeak.fp16 = \"989.4 TFLOP/s\"", "peak = 3",
			"hardware.toml:7:8: peak has to name formats"},
		{"entry is no table", complete, "[gpu]\nx1 = 3", "hardware.toml"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table, err := hardware.Load(strings.Replace(complete, tt.old, tt.new, 1))
			if err == nil {
				t.Fatalf("loaded: %+v", table.All())
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got\n%v\nwant\n%s", err, tt.want)
			}
		})
	}
}

// A processor of another vendor, or of a generation to come, may be described.
func TestOtherProcessors(t *testing.T) {
	for _, other := range []string{`vendor = "none"`, `vendor = "nvidia"`} {
		text := strings.NewReplacer(`vendor = "nvidia"`, other, `"hopper"`, `"processor"`).Replace(complete)
		if _, err := hardware.Load(text); err != nil {
			t.Errorf("%s: %v", other, err)
		}
	}
}

// A table that nothing reads is refused, not passed over.
func TestForeignTable(t *testing.T) {
	_, err := hardware.Load(complete + "[calibration.x1]\nmemory = 0.8\n")
	if err == nil || !strings.Contains(err.Error(), `"calibration" is not a key here; known are gpu`) {
		t.Errorf("a table of calibrations: %v", err)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(complete)
	f.Add(strings.Replace(complete, "[gpu.x1]", "[gpu.x1]\nbase = \"h200\"\npeak = {fp8 = \"1 PFLOP/s\"}", 1))
	f.Add("gpu = 3")
	f.Add("[[gpu]]\nx = 1")
	f.Add("[gpu.\"\"]\nbase = 3")
	f.Add("[gpu.h200-sxm-141gb]\nsms = 140\n[calibration.a]\nb = 1")
	base, err := hardware.Load(llmprof.HardwareTOML)
	testkit.Must(f, err)
	f.Fuzz(func(t *testing.T, text string) {
		table, err := base.Overlay("fuzz.toml", text)
		if err != nil {
			return
		}
		for _, g := range table.All() {
			if _, rate := g.Runs(unit.BF16); !(rate > 0) || !(g.Bandwidth > 0) || !(g.Memory > 0) || g.SMs < 1 || g.Source == "" {
				t.Errorf("loaded %+v", g)
			}
		}
	})
}
