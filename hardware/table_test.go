package hardware_test

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"llmprof"
	"llmprof/hardware"
	"llmprof/internal/testkit"
	"llmprof/roofline"
	"llmprof/unit"
)

// builtIn is read once: a table does not change once it is loaded.
var builtIn = sync.OnceValues(func() (*hardware.Table, error) { return hardware.Load(llmprof.HardwareTOML) })

func load(t testing.TB) *hardware.Table {
	t.Helper()
	table, err := builtIn()
	testkit.Must(t, err)
	return table
}

func gpu(t testing.TB, name string) hardware.GPU {
	t.Helper()
	g, err := load(t).GPU(name)
	testkit.Must(t, err)
	return g
}

func TestTableIsComplete(t *testing.T) {
	table := load(t)
	if n := len(table.All()); n < 176 {
		t.Errorf("%d GPUs, want at least 176", n)
	}
	for _, g := range table.All() {
		if len(g.Source) < 10 {
			t.Errorf("%s: source is %q", g.Key, g.Source)
		}
		if len(g.Traps) == 0 {
			t.Errorf("%s: no trap is written down", g.Key)
		}
		if len(g.Aliases) == 0 {
			t.Errorf("%s: no short name finds it", g.Key)
		}
		for _, name := range append([]string{g.Key, g.Name, strings.ToUpper(g.Key)}, g.Aliases...) {
			if found, err := table.GPU(name); err != nil || found.Key != g.Key {
				t.Errorf("%q finds %q, %v; want %s", name, found.Key, err, g.Key)
			}
		}
	}
}

// TestPricesCompare holds every price to the rule that hardware.toml states: on demand, of a date, from a list.
func TestPricesCompare(t *testing.T) {
	form := regexp.MustCompile(`^[A-Z].*, on demand, .*\b20[0-9]{2}-[0-9]{2}(-[0-9]{2})?, read (by|from) .+: https://\S+$`)
	other := regexp.MustCompile(`(?i)spot|serverless|reserved|interruptible`)
	priced := 0
	for _, g := range load(t).All() {
		if g.PriceSource == "" {
			continue
		}
		priced++
		if !form.MatchString(g.PriceSource) || other.MatchString(g.PriceSource) {
			t.Errorf("%s: price_source is %q; want PROVIDER, KIND, on demand, DATE, read by WHOM: URL", g.Key, g.PriceSource)
		}
	}
	if priced < 60 {
		t.Errorf("%d GPUs have a price, want at least 60", priced)
	}
}

func TestAliases(t *testing.T) {
	for name, want := range map[string]string{
		"a100": "a100-sxm-80gb", "h100": "h100-sxm-80gb", "h200": "h200-sxm-141gb", "v100": "v100-sxm2-32gb",
		"a6000": "rtx-a6000-48gb", "4090": "rtx-4090-24gb", "orin-nano": "orin-nano-8gb", "thor": "agx-thor-128gb",
		"mi300x": "mi300x-192gb", "l40s": "l40s-48gb", "H100_PCIe": "h100-pcie-80gb", "B200": "b200-sxm-180gb",
		"GeForce RTX 4090": "rtx-4090-24gb", "jetson orin nano super": "orin-nano-8gb-super",
		// As LLM-Viewer, llm_profiler and llm-analysis call them.
		"nvidia_V100": "v100-sxm2-32gb", "nvidia_A100_40G": "a100-sxm-40gb", "nvidia_A100_80G": "a100-sxm-80gb",
		"nvidia_A800_80G_SXM": "a800-sxm-80gb", "nvidia_H100_SXM": "h100-sxm-80gb", "nvidia_H100_PCIe": "h100-pcie-80gb",
		"nvidia_L40": "l40-48gb", "t4-pcie-15gb": "t4", "v100-sxm-32gb": "v100-sxm2-32gb", "v100-pcie-32gb": "v100-pcie-32gb",
		"a10-pcie-24gb": "a10-24gb", "a10g-pcie-24gb": "a10g-24gb", "a30-pcie-24gb": "a30-24gb", "a40-pcie-48gb": "a40-48gb",
		"a6000-48gb": "rtx-a6000-48gb", "h100-pcie-80gb": "h100-pcie-80gb", "mi210-64gb": "mi210-64gb",
	} {
		if g := gpu(t, name); g.Key != want {
			t.Errorf("%q finds %s, want %s", name, g.Key, want)
		}
	}
}

// What a driver reports finds the entry, and where it may mean several names them.
func TestNamesOfDrivers(t *testing.T) {
	devices := regexp.MustCompile(`(?m)^\[gpu\.(.*)\]\nname = .*\naliases = .*\ndevices = \[([^\]]*)\]`)
	table, of := load(t), map[string][]string{}
	for _, section := range devices.FindAllStringSubmatch(llmprof.HardwareTOML, -1) {
		for i, name := range strings.Split(section[2], `"`) {
			if i%2 == 1 {
				of[name] = append(of[name], section[1])
			}
		}
	}
	if n := len(devices.FindAllString(llmprof.HardwareTOML, -1)); n != len(table.All()) {
		t.Errorf("%d of %d entries have devices after their aliases", n, len(table.All()))
	}
	for name, keys := range of {
		g, err := table.GPU(name)
		found, findErr := hardware.Find(llmprof.HardwareTOML, name)
		switch {
		case len(keys) == 1 && (err != nil || g.Key != keys[0] || findErr != nil || found.Key != keys[0]):
			t.Errorf("%q finds %q, %v and %q, %v; want %s", name, g.Key, err, found.Key, findErr, keys[0])
		case len(keys) > 1 && err == nil && !slices.Contains(g.Aliases, fold(name)):
			t.Errorf("%q finds %q, but is what the drivers of %v report", name, g.Key, keys)
		case len(keys) > 1 && err != nil && (!strings.Contains(err.Error(), keys[1]) || findErr == nil):
			t.Errorf("%q: %v, %v; want an error that names %v", name, err, findErr, keys)
		}
	}
}

// fold is a driver's name as an alias is written.
func fold(name string) string {
	name = strings.ToLower(name)
	for _, brand := range []string{"nvidia ", "geforce ", "amd ", "radeon ", "apple ", "jetson "} {
		name = strings.TrimPrefix(name, brand)
	}
	return strings.ReplaceAll(name, " ", "-")
}

// Totals that nvidia-smi and amd-smi print, in MiB, as public reports have them.
func TestCapacity(t *testing.T) {
	for name, mib := range map[string]float64{
		"h100": 81559, "h200": 143771, "a100": 81920, "a100-40gb": 40960, "h100-nvl": 95830, "h20": 97871, "b200": 183359, "gb200": 189471,
		"b300": 275040, "gb300": 284208, "l40s": 46068, "l40": 46068, "l20": 46068, "l4": 23034, "a40": 46068, "a10": 23028, "a10g": 23028,
		"p40": 23040, "p100": 16384, "v100s": 32768, "3080-ti-laptop": 16384, "4090-laptop": 16376, "4080-laptop": 12282, "5090-laptop": 24463,
		"5080-laptop": 16303,
		"a2":          15356, "t4": 15360, "a6000": 49140, "a5000": 24564, "a4000": 16376, "rtx-6000-ada": 49140, "rtx-4000-ada": 20475,
		"3060": 12288, "3080": 10240, "3090": 24576, "4060": 8188, "4060-ti": 16380, "4070": 12282, "4080": 16376, "4090": 24564,
		"5060-ti": 16311, "5070": 12227, "5070-ti": 16303, "5080": 16303, "5090": 32607, "pro-6000-server": 97887, "pro-5000": 48935,
		"mi300x": 196592, "mi325x": 262128, "mi355x": 294896, "7900-xtx": 24560, "r9700": 32624, "thor": 125772, "orin-nano": 7620,
		"gb10": 122502,
	} {
		g := gpu(t, name)
		if got := float64(g.Capacity()) / (1 << 20); math.Abs(got-mib) > 0.5 {
			t.Errorf("%s: %.1f MiB, want %.0f", g.Key, got, mib)
		}
	}
	if g := gpu(t, "h100"); !near(float64(g.Capacity()), 85.52e9, 1e-4) {
		t.Errorf("an H100 has %v, want 85.52 GB", g.Capacity())
	}
	mine, err := load(t).Overlay("mine.toml", "[gpu.mine]\nbase = \"4090\"\nmemory = \"48 GB\"\n")
	testkit.Must(t, err)
	if g, err := mine.GPU("mine"); err != nil || g.Capacity() != 48e9 {
		t.Errorf("a 4090 with 48 GB has %v, %v", g.Capacity(), err)
	}
	if g := gpu(t, "tpu-v5e"); g.Capacity() != g.Memory {
		t.Errorf("no driver's figure is known of a TPU v5e, but it has %v of %v", g.Capacity(), g.Memory)
	}
}

// Names in sheets and shops, with the vendor before them.
func TestMarketingNames(t *testing.T) {
	for name, want := range map[string]string{
		"Intel Arc B580": "arc-b580-12gb", "Intel Gaudi 3": "gaudi3-128gb", "Intel Arc Pro B60": "arc-pro-b60-24gb",
		"Google TPU v6e": "tpu-v6e-32gb",
		"NVIDIA Rubin":   "vr200-288gb", "NVIDIA Vera Rubin": "vr200-288gb", "Google Ironwood": "tpu-v7x-192gb", "TPU v7": "tpu-v7x-192gb",
	} {
		if g, err := load(t).GPU(name); err != nil || g.Key != want {
			t.Errorf("%q finds %q, %v; want %s", name, g.Key, err, want)
		}
	}
}

func TestUnknownNamesListNearMisses(t *testing.T) {
	table := load(t)
	for name, want := range map[string]string{
		"h10":                   "h100",
		"a1000":                 "a100",
		"4099":                  "4090",
		"orin n":                "orin-nano",
		"NVIDIA H100 96GB HBM3": "did you mean h100?", // and no Apple M3
		"zzzzzz":                `that are known, of amd, apple, google, intel, nvidia, are listed by "llmprof gpus list"`,
		"jetson":                "orin-nx-8gb-super, agx-orin-industrial-64gb, thor-t4000-64gb",
		"AMD Instinct":          "mi350x-288gb",
		"":                      "nor any like it",
	} {
		g, err := table.GPU(name)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %s, %v; want an error with %q", name, g.Key, err, want)
		}
	}
}

// Cards talk over PCIe unless they are said to have a bridge, and GeForce through the host's memory unless said otherwise. A choice
// that is not the GPU's changes nothing.
func TestLinks(t *testing.T) {
	p2p, noP2P, bridge := hardware.Links{P2P: true}, hardware.Links{NoP2P: true}, hardware.Links{NVLink: true}
	const host = "over PCIe through the host's memory"
	for _, x := range []struct {
		gpu   string
		links hardware.Links
		n     int
		route string
		rate  unit.BytesPerSec
	}{
		{"h100-pcie", hardware.Links{}, 2, "over PCIe", 64e9},
		{"h100-pcie", bridge, 2, "over a bridge", 300e9},
		{"h100-pcie", bridge, 4, "over PCIe", 64e9},
		{"h100-pcie", noP2P, 2, host, 64e9},
		{"h100-pcie", p2p, 2, "over PCIe", 64e9},
		{"rtx-3090", hardware.Links{}, 2, host, 32e9},
		{"rtx-3090", noP2P, 2, host, 32e9},
		{"rtx-3090", p2p, 2, "over PCIe", 32e9},
		{"rtx-3090", bridge, 2, "over a bridge", 56.25e9},
		{"rtx-3090", bridge, 4, host, 32e9},
		{"rtx-4090", bridge, 2, host, 32e9},
		{"titan-rtx-24gb", hardware.Links{}, 2, host, 16e9},
		{"rtx-4000-ada-20gb", hardware.Links{}, 2, "over PCIe", 32e9},
		{"mi50-32gb", hardware.Links{}, 4, "over PCIe", 32e9},
		{"mi50-32gb", bridge, 4, "over a bridge", 92e9},
		{"mi210", hardware.Links{}, 4, "over PCIe", 32e9},
		{"h100", noP2P, 8, "over the link", 450e9},
	} {
		g := gpu(t, x.gpu)
		on := g.Linked(x.links)
		if route, rate := on.Route(x.n), on.LinkAmong(x.n); route != x.route || rate != x.rate {
			t.Errorf("%d × %s, %+v: %s at %v, want %s at %v", x.n, x.gpu, x.links, route, rate, x.route, x.rate)
		}
		if same := on.SameRoutes(&g, []int{1, x.n}); same != (g.Route(x.n) == x.route) {
			t.Errorf("%d × %s, %+v: as usual is %v", x.n, x.gpu, x.links, same)
		}
	}
}

// Without peer access all-reduces over PCIe are slower, and copies to the host are not.
func TestWithoutPeerAccess(t *testing.T) {
	g := gpu(t, "rtx-4090")
	without, with := hardware.DefaultCalibration(&g).Constants, hardware.DefaultCalibration(g.Linked(hardware.Links{P2P: true})).Constants
	if share, usual := without[roofline.PCIeShare], with[roofline.PCIeShare]; share != 0.238 || usual != 0.6 {
		t.Errorf("all-reduces reach %v of PCIe, and %v with peer access", share, usual)
	}
	if share, usual := without[roofline.HostCopyShare], with[roofline.HostCopyShare]; share != usual || share != 0.6 {
		t.Errorf("copies to the host reach %v of PCIe, and %v with peer access", share, usual)
	}
}

// The tensor peak by a second route: SMs, operations that one completes in a
// clock, and the clock. Only GeForce and cut-down parts do less than their
// generation's SM can.
func TestPeaksFollowFromTheSilicon(t *testing.T) {
	perClock := map[string]float64{
		"7.0": 1024, "7.2": 1024, "7.5": 1024, "8.0": 2048, "8.6": 1024, "8.7": 2048, "8.9": 1024, "9.0": 4096,
		"10.0": 8192, "10.3": 8192, "10.7": 8192, "11.0": 8192, "12.0": 1024, "12.1": 1024, "gfx90a": 1024, "gfx942": 2048, "gfx950": 4096,
		"5.3": 512, "6.0": 256, "6.1": 256, "6.2": 512, "gfx1100": 512, "gfx1101": 512, "gfx1102": 512, "gfx1151": 512, "gfx1200": 1024,
		"gfx1201": 1024, "xe2": 2048, "xe-hpg": 2048,
		"gfx906": 256, "gfx908": 512, "gfx1030": 256, "gfx1031": 256, // bf16 of gfx908
		"gaudi3": 16384, "apple7": 256, "apple8": 256, "apple9": 256, "apple10": 1024, "v5e": 4 * 2 * 128 * 128, "v5p": 4 * 2 * 128 * 128,
		"v6e": 4 * 2 * 256 * 256, "v7x": 4 * 2 * 256 * 256,
	}
	share := map[string]float64{"a10g-24gb": 0.5, "l40-48gb": 0.5, "l20-48gb": 0.5, "h20-96gb": 0.25, "h20-141gb": 0.25}
	for _, g := range load(t).All() {
		per, ok := perClock[g.ComputeCapability]
		if !ok {
			t.Errorf("%s: what an SM of %s does is not known", g.Key, g.ComputeCapability)
			continue
		}
		if s, ok := share[g.Key]; ok {
			per *= s
		}
		if strings.HasPrefix(g.Name, "GeForce") {
			per *= 0.5
		}
		want := float64(g.SMs) * per * float64(g.TensorClock)
		if _, got := g.Runs(unit.BF16); !near(float64(got), want, 0.03) {
			t.Errorf("%s: %v in 16 bits, but %d SMs at %v make %v", g.Key, got, g.SMs, g.TensorClock, unit.FLOPsPerSec(want))
		}
	}
}

// The vector peak by a second route: cores, two operations, the clock.
func TestVectorPeaksFollowFromTheCores(t *testing.T) {
	for _, g := range load(t).All() {
		cores := 128.0
		switch {
		case slices.Contains([]string{"6.0", "7.0", "7.2", "7.5", "8.0"}, g.ComputeCapability),
			slices.Contains([]string{"vega20", "cdna", "cdna2", "rdna2", "gaudi3"}, g.Generation):
			cores = 64
		case g.Generation == "tpu": // a vector unit of 8 × 128 lanes with four ALUs each, of one operation
			cores = 2048
		case g.Generation == "cdna3", g.Generation == "cdna4":
			cores = 128
		}
		want := float64(g.SMs) * cores * 2 * float64(g.Clock)
		got, _ := g.Peak(unit.FP32)
		// Data sheets of NVL, H20 and the Blackwell modules round, or use a clock of their own.
		if !near(float64(got), want, 0.13) {
			t.Errorf("%s: %v in fp32, but %d SMs at %v make %v", g.Key, got, g.SMs, g.Clock, unit.FLOPsPerSec(want))
		}
	}
}

func near(a, b, tolerance float64) bool { return math.Abs(a-b) <= tolerance*math.Abs(b) }

func TestAbsentIsNotZero(t *testing.T) {
	g := gpu(t, "v100")
	if _, ok := g.Idle(); ok {
		t.Error("the idle power of a V100 has no source")
	}
	if _, ok := g.Price(); ok {
		t.Error("the price of a V100 has no source")
	}
	if _, ok := g.Ridge(unit.FP8); ok {
		t.Error("a V100 has no ridge point in fp8")
	}
	if _, ok := g.Peak(unit.NumFormats); ok {
		t.Error("a format that does not exist has a rate")
	}
	if got := g.Formats(); !slices.Equal(got, []unit.Format{unit.FP32, unit.FP16}) {
		t.Errorf("V100 has %v", got)
	}
	h := gpu(t, "h200")
	if w, ok := h.Idle(); !ok || w != 79 {
		t.Errorf("idle H200: %v, %v", w, ok)
	}
	if r, ok := h.Ridge(unit.BF16); !ok || !near(r, 206.1, 0.001) {
		t.Errorf("ridge of an H200 in bf16: %v FLOP/byte, want 989.4/4.8", r)
	}
}
