package power

import (
	"math"
	"os"
	"testing"
	"time"

	"llmprof/internal/testkit"
)

// TestGPU measures a real machine while it idles. LLMPROF_GPU=required makes the
// lack of one an error.
func TestGPU(t *testing.T) {
	m, err := Open(t.Context(), Options{Root: os.DirFS("/"), Env: os.Getenv})
	if err != nil || len(m.boards) == 0 {
		if os.Getenv("LLMPROF_GPU") == "required" {
			t.Fatalf("no GPU: %v", err)
		}
		t.Skipf("no GPU to measure: %v", err)
	}
	defer m.Close()
	driver, cuda := m.Driver()
	t.Logf("driver %s, CUDA %s, scope %s, warnings %v", driver, cuda, m.Scope(), m.Warnings())
	for i, b := range m.boards {
		t.Logf("GPU %d: %+v", i, m.gpus[i])
		t.Logf("held: %v", b.held())
		cost(t, "energy counter", func() error { _, err := b.joules(); return err })
		cost(t, "power", func() error { _, err := b.watts(); return err })
		cost(t, "state", func() error { _, err := b.state(); return err })
		cost(t, "processes", func() error { _, err := b.processes(); return err })
		cost(t, "held", func() error { b.held(); return nil })
	}
	busy, err := m.Busy(t.Context())
	t.Logf("busy: %+v, %v", busy, err)
	for _, d := range []time.Duration{time.Second, 5 * time.Second} {
		mark, err := m.Begin(t.Context())
		testkit.Must(t, err)
		time.Sleep(d)
		w, err := m.End(t.Context(), mark)
		testkit.Must(t, err)
		for _, one := range w.Domains {
			t.Logf("%v: %s %s: %.2f J in %.3f s, %.2f W, %d samples", d, one.Name, one.Sensor, one.EnergyJ, one.Seconds, one.MeanW, one.Samples)
			if one.CounterJ != nil && one.IntegralJ != nil {
				off := *one.IntegralJ / *one.CounterJ - 1
				t.Logf("integral over counter: %+.2f %%", 100*off)
				if math.Abs(off) > 0.05 {
					t.Errorf("%s: counter %v J, integral %v J", one.Name, *one.CounterJ, *one.IntegralJ)
				}
			}
			if one.Kind == "gpu" && (one.MeanW < 20 || one.MeanW > 1500) {
				t.Errorf("%s idles at %v W", one.Name, one.MeanW)
			}
		}
		t.Logf("conditions %+v, longest read %v s", w.Conditions, w.ReadS)
	}
}

// cost says what a read takes.
func cost(t *testing.T, what string, read func() error) {
	t.Helper()
	const n = 10
	begin := time.Now()
	for range n {
		if err := read(); err != nil {
			t.Logf("%s: %v", what, err)
			return
		}
	}
	t.Logf("%s: %v a read", what, time.Since(begin)/n)
}
