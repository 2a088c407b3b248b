//go:build unix

package sweep_test

import (
	"io"
	"syscall"
	"testing"
	"time"

	"llmprof/plan/sweep"
)

// BenchmarkSweep is a point of a grid of batches and generated lengths, written as CSV. The
// processor time of a point (cpu-ns) says what it takes where other programs run too.
func BenchmarkSweep(b *testing.B) {
	for _, x := range []struct {
		name string
		gens []int
	}{{"batch", []int{128}}, {"gen", count(1, 512)}} {
		b.Run(x.name, func(b *testing.B) {
			g := &sweep.Grid{Workload: [sweep.NumNumbers][]int{count(1, 256), count(1024, 1024+b.N/256/len(x.gens)), {0}, {0}, x.gens}}
			points, _, err := g.Points()
			if err != nil {
				b.Fatal(err)
			}
			begin := processorTime(b)
			b.ResetTimer()
			if _, err := sweep.Run(b.Context(), g, sweep.Options{Format: sweep.CSV, Keep: true, Source: settingOf(
				b, "llama3.1-8b", "a100", "vllm", 1), Out: io.Discard}); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(points)/b.Elapsed().Seconds(), "points/s")
			b.ReportMetric(float64((processorTime(b)-begin).Nanoseconds())/float64(points), "cpu-ns/point")
		})
	}
}

// processorTime is what this process has taken of all processors.
func processorTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
