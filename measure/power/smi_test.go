package power

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"llmprof/internal/testkit"
)

// smi answers as nvidia-smi 580 does for an H200 of which one figure is missing.
func smi(answers map[string]string) Runner {
	return func(_ context.Context, name string, args ...string) ([]byte, error) {
		if name != "nvidia-smi" {
			return nil, errors.New("not found")
		}
		for start, text := range answers {
			if strings.HasPrefix(args[0], start) {
				return []byte(text), nil
			}
		}
		return []byte("Field \"x\" is not a valid field to query.\n"), errors.New("exit status 2")
	}
}

var h200 = map[string]string{
	"--query-gpu=uuid":      "GPU-1, NVIDIA H200, 143771, 700.00, Enabled, Disabled, Enabled, 580.1\n",
	"--query-gpu=power":     "350.50, 1980, 3201, 41, 97, [N/A], 17000, 0x0000000000000004, 1980, 3201, 700.00, 700.00\n",
	"--query-compute-apps=": "4711, python, 16000\n",
}

// openedSMI monitors the board that nvidia-smi knows, by the driver of this version.
func openedSMI(t *testing.T) (m *Monitor, version string) {
	t.Helper()
	o := Options{Run: smi(h200), Root: fstest.MapFS{}}.withDefaults()
	d, err := openSMI(t.Context(), &o)
	testkit.Must(t, err)
	m = &Monitor{own: map[int]bool{}, root: o.Root}
	testkit.Must(t, m.choose(d, &o))
	return m, d.version
}

func TestSMI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, version := openedSMI(t)
		mark, err := m.Begin(t.Context())
		testkit.Must(t, err)
		time.Sleep(3 * time.Second)
		w, err := m.End(t.Context(), mark)
		testkit.Must(t, err)
		one := w.Domains[0]
		if math.Abs(one.MeanW-350.5) > 1e-9 || one.CounterJ != nil || !one.Coarse || one.Samples < 10 || one.Includes == nil {
			t.Errorf("%+v: want an empty list of what it includes, as the schema has it", one)
		}
		c := w.Conditions[0]
		if c.MemoryUtil != nil || c.Utilization.Mean != 0.97 || c.SMClockHz.Mean != 1.98e9 || len(c.OtherPIDs) != 1 ||
			len(Throttled(w.Conditions, 0.5)) != 1 {
			t.Errorf("%+v", c)
		}
		g := m.GPUs()[0]
		if *g.MemoryBytes != 143771<<20 || *g.MIG || !*g.ECC || version != "580.1" {
			t.Errorf("%+v", g)
		}
	})
}

func TestSMIFails(t *testing.T) {
	for want, answers := range map[string]map[string]string{
		"not a valid field": {},
		"printed 2 fields":  {"--query-gpu=uuid": "GPU-1, NVIDIA H200\n"},
	} {
		o := Options{Run: smi(answers)}.withDefaults()
		if _, err := openSMI(t.Context(), &o); !errors.Is(err, errNoDriver) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: want it to say %q", err, want)
		}
	}
	b := &smiBoard{uuid: "GPU-1", run: smi(map[string]string{"--query-gpu=power": "[N/A], 1, 1, 1, 1, 1, 1, 0x0, 1, 1, 1, 1\n"})}
	if w, err := b.watts(); err == nil || !strings.Contains(err.Error(), `gives "[N/A]"`) {
		t.Errorf("%v W, %v: a power that is not there is no power of 0", w, err)
	}
}

// The tool prints warnings among its rows.
func TestSMIWarns(t *testing.T) {
	const warning = "WARNING: infoROM is corrupted at gpu 0000:8B:00.0\n"
	o := Options{Run: smi(map[string]string{"--query-gpu=uuid": h200["--query-gpu=uuid"] + warning})}.withDefaults()
	d, err := openSMI(t.Context(), &o)
	if err != nil || len(d.boards) != 1 || d.version != "580.1" {
		t.Errorf("%+v, %v", d, err)
	}
	b := &smiBoard{uuid: "GPU-1", run: smi(map[string]string{"--query-gpu=power": warning})}
	if w, err := b.watts(); err == nil {
		t.Errorf("a warning is %v W", w)
	}
}

// What cannot be shown or read is refused, and figures that are none stay away.
func TestSMIPrintsNonsense(t *testing.T) {
	for _, name := range []string{"\x1b[2JEvil", "Evil\u202e H100", "\xff\xfe", strings.Repeat("x", 1<<20)} {
		o := Options{Run: smi(map[string]string{"--query-gpu=uuid": "GPU-1, " + name + ", nan, nan, nan, nan, nan, nan\n"})}.withDefaults()
		_, err := openSMI(t.Context(), &o)
		if err == nil || strings.ContainsAny(err.Error(), "\x1b\u202e") || len(err.Error()) > 1000 {
			t.Errorf("%.40q: %v", name, err)
		}
	}
	o := Options{Run: smi(map[string]string{"--query-gpu=uuid": "GPU-1, NVIDIA H200, 1e300, nan, nan, nan, nan, nan\n"})}.withDefaults()
	d, err := openSMI(t.Context(), &o)
	if err != nil || d.gpus[0].MemoryBytes != nil || d.gpus[0].PowerLimitW != nil || d.gpus[0].MIG != nil {
		t.Errorf("%+v, %v", d, err)
	}
}

// A reading that fails once is left out and noted, and a sensor that stops is an error.
func TestSMIFailsOnce(t *testing.T) {
	for name, test := range map[string]struct {
		fails func(read int) bool
		kept  bool
	}{
		"one":        {func(read int) bool { return read == 5 }, true},
		"now, then":  {func(read int) bool { return read%4 == 3 }, true},
		"from there": {func(read int) bool { return read >= 5 }, false},
		"the last":   {func(read int) bool { return read >= 15 }, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			read := 0
			flaky := func(ctx context.Context, name string, args ...string) ([]byte, error) {
				if strings.HasPrefix(args[0], "--query-gpu=power") {
					if read++; test.fails(read) {
						return []byte("nan" + strings.TrimPrefix(h200["--query-gpu=power"], "350.50")), nil
					}
				}
				return smi(h200)(ctx, name, args...)
			}
			o := Options{Run: flaky, Root: fstest.MapFS{}}.withDefaults()
			d, err := openSMI(t.Context(), &o)
			testkit.Must(t, err)
			m := &Monitor{own: map[int]bool{}, root: o.Root}
			testkit.Must(t, m.choose(d, &o))
			mark, err := m.Begin(t.Context())
			testkit.Must(t, err)
			time.Sleep(3 * time.Second)
			w, err := m.End(t.Context(), mark)
			if (err == nil) != test.kept || err == nil && math.Abs(w.Domains[0].MeanW-350.5) > 1e-9 {
				t.Errorf("%s: %+v, %v", name, w, err)
			}
			if said := strings.Join(m.Warnings(), " "); strings.Contains(said, "a reading is left out") != test.kept {
				t.Errorf("%s: %s", name, said)
			}
		})
	}
}

// A reading that hangs ends with the command.
func TestSMIEndsWithTheCommand(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	hang := func(ctx context.Context, _ string, args ...string) ([]byte, error) {
		if strings.HasPrefix(args[0], "--query-gpu=uuid") {
			return []byte(h200["--query-gpu=uuid"]), nil
		}
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	o := Options{Run: hang}.withDefaults()
	d, err := openSMI(ctx, &o)
	testkit.Must(t, err)
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := d.boards[0].watts(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func FuzzSMI(f *testing.F) {
	for _, text := range h200 {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		rows, err := parseSMI(text, len(smiSample))
		if err != nil {
			return
		}
		for _, row := range rows {
			if w, ok := quantity(row[0]); ok && (math.IsNaN(w) || math.IsInf(w, 0) || w < 0) {
				t.Errorf("%v W of %q", w, text)
			}
			smiState(row)
		}
	})
}

func TestRegion(t *testing.T) {
	if g, source, err := Region("Germany"); err != nil || g != 344 || !strings.Contains(source, "mean of 2024") {
		t.Errorf("%v, %q, %v", g, source, err)
	}
	if g, _, err := Region("us"); err != nil || g != 384 {
		t.Errorf("%v, %v", g, err)
	}
	if _, _, err := Region("germny"); err == nil || !strings.Contains(err.Error(), "germany") {
		t.Errorf("a slip: %v", err)
	}
}
