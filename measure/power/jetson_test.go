package power

import (
	"encoding/csv"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"llmprof/internal/testkit"
	"llmprof/measure/result"
)

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text + "\n")} }

// A chip writes the files of an INA3221 under hwmon: label, mV and mA of each
// channel.
func chip(tree fstest.MapFS, number int, channels ...any) {
	dir := fmt.Sprintf("sys/class/hwmon/hwmon%d/", number)
	tree[dir+"name"] = file("ina3221")
	for i := 0; i < len(channels); i += 3 {
		n := i/3 + 1
		tree[fmt.Sprintf("%sin%d_label", dir, n)] = file(fmt.Sprint(channels[i]))
		if channels[i] != "NC" { // reading one that is not connected fails
			tree[fmt.Sprintf("%sin%d_input", dir, n)] = file(fmt.Sprint(channels[i+1]))
			tree[fmt.Sprintf("%scurr%d_input", dir, n)] = file(fmt.Sprint(channels[i+2]))
		}
	}
}

// boards are the modules of the Jetson Linux developer guides, with made-up
// powers: 5 V and as many mA.
func jetsons() map[string]struct {
	tree   fstest.MapFS
	scope  string
	watts  float64
	summed []string
} {
	boards := map[string]struct {
		tree   fstest.MapFS
		scope  string
		watts  float64
		summed []string
	}{}
	add := func(name, scope string, watts float64, summed []string, fill func(fstest.MapFS)) {
		tree := fstest.MapFS{"proc/device-tree/model": {Data: []byte("NVIDIA Jetson " + name + "\x00")}}
		fill(tree)
		b := boards[name]
		b.tree, b.scope, b.watts, b.summed = tree, scope, watts, summed
		boards[name] = b
	}
	add("Orin Nano", "module (VDD_IN)", 12.5, []string{"VDD_IN"}, func(t fstest.MapFS) {
		chip(t, 1, "VDD_IN", 5000, 2500, "VDD_CPU_GPU_CV", 5000, 940, "VDD_SOC", 5000, 560)
	})
	add("AGX Orin", "module without its carrier board (VDD_GPU_SOC + VDD_CPU_CV + VIN_SYS_5V0)", 15,
		[]string{"VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0"}, func(t fstest.MapFS) {
			chip(t, 2, "VDD_GPU_SOC", 5000, 1000, "VDD_CPU_CV", 5000, 1000, "VIN_SYS_5V0", 5000, 1000)
			chip(t, 3, "NC", 0, 0, "VDDQ_VDD2_1V8AO", 5000, 200, "NC", 0, 0)
		})
	add("AGX Xavier", "module without its carrier board (GPU + CPU + SOC + CV + VDDRQ + SYS5V)", 30,
		[]string{"GPU", "CPU", "SOC", "CV", "VDDRQ", "SYS5V"}, func(t fstest.MapFS) {
			chip(t, 4, "GPU", 5000, 1000, "CPU", 5000, 1000, "SOC", 5000, 1000)
			chip(t, 5, "CV", 5000, 1000, "VDDRQ", 5000, 1000, "SYS5V", 5000, 1000)
		})
	add("AGX Thor", "board (VIN)", 87.426, []string{"VIN"}, func(t fstest.MapFS) {
		chip(t, 1, "VDD_GPU", 5000, 7500, "VDD_CPU_SOC_MSS", 5000, 3800, "VIN_SYS_5V0", 5000, 3600)
		t["sys/class/hwmon/hwmon2/name"], t["sys/class/hwmon/hwmon2/power1_input"] = file("ina238"), file("87426000")
	})
	add("TX2", "module (VDD_IN)", 3.056, []string{"VDD_IN"}, func(t fstest.MapFS) { // JetPack 4
		for dev, rails := range map[string][]string{"0-0040": {"VDD_SYS_GPU 152", "VDD_SYS_SOC 687", "VDD_4V0_WIFI 0"},
			"0-0041": {"VDD_IN 3056", "VDD_SYS_CPU 152", "VDD_SYS_DDR 883"}} {
			for n, rail := range rails {
				name, mw, _ := strings.Cut(rail, " ")
				dir := "sys/bus/i2c/drivers/ina3221x/" + dev + "/iio:device0/"
				t[fmt.Sprintf("%srail_name_%d", dir, n)], t[fmt.Sprintf("%sin_power%d_input", dir, n)] = file(name), file(mw)
			}
		}
	})
	return boards
}

func TestJetsonRails(t *testing.T) {
	for name, board := range jetsons() {
		synctest.Test(t, func(t *testing.T) {
			m, err := Open(t.Context(), Options{Root: board.tree})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			mark, err := m.Begin(t.Context())
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			time.Sleep(5 * time.Second)
			w, err := m.End(t.Context(), mark)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if got := energyOf(w) / w.End.Sub(w.Begin).Seconds(); math.Abs(got/board.watts-1) > 1e-9 {
				t.Errorf("%s: %v W, want %v", name, got, board.watts)
			}
			var summed []string
			for _, d := range w.Domains {
				if d.Summed {
					summed = append(summed, d.Name)
				}
				if d.Name == "NC" || !d.Coarse || d.Samples < 50 {
					t.Errorf("%s: domain %+v", name, d)
				}
			}
			slices.Sort(summed)
			want := slices.Sorted(slices.Values(board.summed))
			if diff := cmp.Diff([]any{want, board.scope}, []any{summed, m.Scope()}); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
			if g := m.GPUs(); len(g) != 1 || g[0].Name != "NVIDIA Jetson "+name {
				t.Errorf("%s: GPUs %+v", name, g)
			}
		})
	}
}

func TestRailThatFails(t *testing.T) {
	tree := maps.Clone(jetsons()["Orin Nano"].tree)
	tree["sys/class/hwmon/hwmon1/curr2_input"] = file("many")
	t.Setenv("PATH", t.TempDir())
	_, err := Open(t.Context(), Options{Root: tree})
	if err == nil || !strings.Contains(err.Error(), `VDD_CPU_GPU_CV: /sys/class/hwmon/hwmon1/curr2_input says "many"`) {
		t.Errorf("got %v", err)
	}
}

// The rails of every published line, none missed and none made up; what counts
// was told by hand from the lines.
func TestTegrastatsLines(t *testing.T) {
	f, err := os.Open("testdata/tegrastats_lines.tsv")
	testkit.Must(t, err)
	defer f.Close()
	r := csv.NewReader(f)
	r.Comma, r.LazyQuotes = '\t', true
	rows, err := r.ReadAll()
	testkit.Must(t, err)
	if len(rows) != 22 {
		t.Fatalf("%d lines, want 21 and a head", len(rows))
	}
	var got []string
	for _, row := range rows[1:] {
		var names []string
		for _, p := range parseTegrastats(row[3]) {
			names = append(names, fmt.Sprintf("%s %g", p.rail, p.watts))
		}
		got = append(got, row[0]+": "+strings.Join(names, ", "))
	}
	testkit.Golden(t, filepath.Join("testdata", "tegrastats_rails.txt"), strings.Join(got, "\n")+"\n")
}

// The program itself, as a script that prints a Thor's line.
func TestTegrastatsRuns(t *testing.T) {
	dir := t.TempDir()
	script := "#!/bin/sh\nwhile :; do echo 'GR3D_FREQ @[314,314] VDD_GPU 2000mW/1mW VIN_SYS_5V0 5000mW/1mW VIN 20000mW/1mW'; sleep 0.02; " +
		"done\n"
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "tegrastats"), []byte(script), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	m, err := Open(t.Context(), Options{Root: fstest.MapFS{"proc/device-tree/model": file("NVIDIA Jetson AGX Thor")}})
	testkit.Must(t, err)
	mark, err := m.Begin(t.Context())
	testkit.Must(t, err)
	time.Sleep(time.Second) // for lines enough on a busy machine
	w, err := m.End(t.Context(), mark)
	testkit.Must(t, err)
	if watts := energyOf(w) / w.End.Sub(w.Begin).Seconds(); math.Abs(watts-20) > 1e-6 || m.Scope() != "board (VIN) by tegrastats" ||
		len(m.Warnings()) != 1 {
		t.Errorf("%v W of %s, warnings %v", watts, m.Scope(), m.Warnings())
	}
}

// A program that prints without a pause, or whose child holds its pipe, neither fills the memory nor is waited for.
func TestTegrastatsMisbehaves(t *testing.T) {
	const line = "'VDD_GPU 2000mW/1mW VIN 20000mW/1mW'"
	for name, script := range map[string]string{
		"no pause":       "exec yes " + line,
		"a child":        "sleep 60 & while :; do echo " + line + "; sleep 0.02; done",
		"an endless one": "echo " + line + "; exec cat /dev/zero",
	} {
		dir := t.TempDir()
		testkit.Must(t, os.WriteFile(filepath.Join(dir, "tegrastats"), []byte("#!/bin/sh\n"+script+"\n"), 0o755))
		t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
		begun := time.Now()
		m, err := Open(t.Context(), Options{Root: fstest.MapFS{"proc/device-tree/model": file("NVIDIA Jetson AGX Thor")}})
		testkit.Must(t, err)
		mark, err := m.Begin(t.Context())
		testkit.Must(t, err)
		time.Sleep(300 * time.Millisecond)
		w, err := m.End(t.Context(), mark)
		if (err == nil) != (name != "an endless one") || err == nil && len(w.Samples) > 1000 {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(begun); took > 20*time.Second {
			t.Errorf("%s: it took %v", name, took)
		}
	}
}

func FuzzTegrastats(f *testing.F) {
	f.Add("VDD_IN 2532/2698 VDD_CPU 76/178 NC 0mW/0mW VDD_GPU -392mW/-392mW VIN 87426mW/43713mW/87426mW")
	f.Fuzz(func(t *testing.T, line string) {
		for _, p := range parseTegrastats(line) {
			if p.rail == "" || p.rail == "NC" || math.IsNaN(p.watts) || math.IsInf(p.watts, 0) {
				t.Errorf("%+v of %q", p, line)
			}
		}
	})
}

// domain finds one by its name.
func domain(t *testing.T, w *Window, name string) result.Domain {
	t.Helper()
	for _, d := range w.Domains {
		if d.Name == name {
			return d
		}
	}
	t.Fatalf("no domain %q in %+v", name, w.Domains)
	return result.Domain{}
}
