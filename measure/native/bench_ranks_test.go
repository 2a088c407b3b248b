package native

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"llmprof/internal/testkit"
	"llmprof/measure/native/cuda"
	"llmprof/measure/native/internal/emulate"
)

// The options of a timed all-reduce follow from the number of GPUs and the rows of its message.
func TestAllReduceOptions(t *testing.T) {
	for _, c := range []struct{ bytes, tp, rows, batch, prompt, width int }{
		{1 << 10, 2, 1, 1, 1, 512}, {8 << 10, 2, 1, 1, 1, 4096}, {64 << 10, 4, 8, 8, 1, 4096}, {512 << 10, 8, 64, 1, 64, 4096},
		{1 << 30, 8, 1 << 17, 1, 1 << 17, 4096},
	} {
		o, rows, err := allReduceOptions(&Query{Kind: "all_reduce", Shape: map[string]int{"bytes": c.bytes}, TP: c.tp})
		if err != nil || rows != c.rows || o.Batch != c.batch || o.PromptLen != c.prompt || o.TP != c.tp || o.Model.Hidden != c.width {
			t.Errorf("%+v: %d rows, %+v, %v", c, rows, o, err)
		}
		sh, err := o.shape(0)
		testkit.Must(t, err)
		b := measureBuffers(&sh, &o, 132)
		for _, want := range b.want {
			if want.what == "the attention's sums" && want.bytes != 2*c.bytes { // float32
				t.Errorf("%+v: %d bytes of sums", c, want.bytes)
			}
			if want.what == "the norms' sums" && skinnyNext(rows) && want.bytes < 4*rows*c.width/16 {
				t.Errorf("%+v: %d bytes of squares", c, want.bytes)
			}
		}
	}
	for _, bytes := range []int{1, 100, 8<<10 + 2} {
		var lacks *UnsupportedError
		if _, _, err := allReduceOptions(&Query{Shape: map[string]int{"bytes": bytes}, TP: 2}); !errors.As(err, &lacks) {
			t.Errorf("%d bytes: %v", bytes, err)
		}
	}
	var lacks *UnsupportedError
	if _, _, err := allReduceOptions(&Query{Shape: map[string]int{"bytes": 8 << 10}, TP: 3}); !errors.As(err, &lacks) {
		t.Errorf("over 3: %v", err)
	}
}

// The test times all-reduces in one shot and in two on GPUs, and checks that they release their
// memory.
func TestSharedBencher(t *testing.T) {
	emulate.Long(t)
	folder := emulate.Device(t)
	if n, err := cuda.Count(folder); err != nil || n < 2 {
		t.Skipf("%d GPUs here, %v", n, err)
	}
	b, err := OpenBencher(folder, cuda.Cache{Folder: os.TempDir() + "/llmprof-test-kernels"})
	testkit.Must(t, err)
	defer b.Close()
	if emulate.RealGPU() != nil {
		b.allReduces = 4 // the processor takes its time
	}
	for _, c := range []struct{ tp, bytes int }{{2, 8 << 10}, {2, 256 << 10}, {4, 1 << 10}, {4, 1 << 20}} {
		if n, err := cuda.Count(folder); err != nil || n < c.tp {
			continue
		}
		q := Query{Kind: "all_reduce", Shape: map[string]int{"bytes": c.bytes}, TP: c.tp, Samples: 3, Seconds: 0.01}
		got, err := b.Time(&q)
		var none *UnsupportedError
		if emulate.RealGPU() != nil && errors.As(err, &none) && strings.Contains(err.Error(), "fused into a GEMM") {
			continue // the processor's times are noise
		}
		if err != nil || len(got.Seconds) < 3 || slices.Min(got.Seconds) <= 0 {
			t.Errorf("%+v: %+v, %v", c, got, err)
		}
	}
	q := Query{Kind: "all_reduce", Shape: map[string]int{"bytes": 8 << 10}, TP: 8, Samples: 3}
	if n, err := cuda.Count(folder); err == nil && n < 8 {
		if _, err := b.Time(&q); err == nil || !strings.Contains(err.Error(), "tp 8 needs the GPUs 0 to 7") {
			t.Errorf("more GPUs than there are: %v", err)
		}
	}
}

// The test checks the launches of an all-reduce on two GPUs that compute nothing. The
// all-reduces of both blocks alternate, with many calls of a small message and few of a large one.
// The smallest messages are summed within GEMMs, whose own time is the same on these GPUs.
func TestSharedBencherQueues(t *testing.T) {
	for _, c := range []struct{ bytes, calls, grid int }{{8 << 10, 256, 0}, {256 << 10, 256, 64}, {64 << 20, 58, 64}, {1 << 30, 2, 64}} {
		b, _, _ := onStandIn(t)
		b.allReduces = minAllReduceCalls
		var stands [2]*cuda.StandIn
		b.openTeam = func(o Options) (*Team, error) {
			return openTeam(o, func(rank int) (*cuda.Device, error) {
				stands[rank] = cuda.NewStandIn()
				return stands[rank].Device, nil
			}, (*Engine).compileNothing)
		}
		q := Query{Kind: "all_reduce", Shape: map[string]int{"bytes": c.bytes}, TP: 2, Samples: 3}
		got, err := b.Time(&q)
		if c.grid == 0 {
			const replays = 5 + 3
			for rank, s := range stands {
				with, without := 0, 0
				for _, l := range s.Queued {
					if strings.HasPrefix(l, "kernel skinny_all_reduce") {
						with++
					} else if strings.HasPrefix(l, "kernel skinny_residual") {
						without++
					}
				}
				if err == nil || !strings.Contains(err.Error(), "no longer with it than without") || with != replays*c.calls || without != with {
					t.Errorf("rank %d: %d GEMMs with all-reduces and %d without, want %d: %v", rank, with, without, replays*c.calls, err)
				}
			}
			continue
		}
		if err != nil || len(got.Seconds) != 3 || math.Abs(got.Seconds[0]*1e6-1) > 1e-3 {
			t.Fatalf("%d bytes: %+v, %v", c.bytes, got, err)
		}
		for rank, s := range stands {
			var calls []string
			for _, l := range s.Queued {
				if strings.HasPrefix(l, "kernel all_reduce ") {
					calls = append(calls, l)
				}
			}
			const replays = 5 + 3
			if len(calls) != replays*c.calls || !strings.HasPrefix(calls[0], fmt.Sprintf("kernel all_reduce [%d 1 1]", c.grid)) {
				t.Errorf("%d bytes, rank %d: %d calls, %.60s; want %d of grids of %d", c.bytes, rank, len(calls), calls[0], replays*c.calls, c.grid)
				continue
			}
			for i := range calls[2:] {
				if calls[i] != calls[i+2] || calls[i] == calls[i+1] {
					t.Errorf("%d bytes: the sums are not of two buffers in turn:\n%s\n%s\n%s", c.bytes, calls[i], calls[i+1], calls[i+2])
					break
				}
			}
		}
	}
}
