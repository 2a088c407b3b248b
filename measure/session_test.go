package measure

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"llmprof/analytic/operator"
	"llmprof/internal/testkit"
	"llmprof/measure/result"
	"llmprof/measure/worker"
)

// A clockwork is a worker whose steps take the times that it is told, on a clock
// of its own, so that what a session makes of them is known to the digit.
type clockwork struct {
	load    worker.Load
	now     int64
	prefill int64
	decode  func(context int) int64
	slow    int // passes that take twice as long, before it settles
	passes  int
	stopped bool
	fail    error // instead of the tenth pass
}

func (c *clockwork) Hello() worker.Hello {
	return worker.Hello{Protocol: worker.Protocol, Engine: "clockwork", Version: "1"}
}

func (c *clockwork) Load(_ context.Context, l worker.Load) (*worker.Ready, error) {
	c.load = l
	return &worker.Ready{LoadS: 0.5, Timer: "everything", Params: 1000}, nil
}

func (c *clockwork) Stop() error { c.stopped = true; return nil }

func (c *clockwork) Size(context.Context) (*worker.Sizes, error) {
	return &worker.Sizes{ParamsBytes: 2000, KVBytes: 640}, nil
}

func (c *clockwork) Run(ctx context.Context, r worker.Run, each func(worker.Pass)) (*worker.Done, error) {
	c.stopped = false
	begin := c.now
	n := 0
	for ; n < r.Passes && !c.stopped; n++ {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		if c.fail != nil && n == 9 {
			return nil, c.fail
		}
		each(c.pass(r.Phase, n))
	}
	return &worker.Done{Passes: n, BeginNS: begin, EndNS: c.now}, nil
}

func (c *clockwork) pass(p worker.Phase, n int) worker.Pass {
	out := worker.Pass{Index: n, BeginNS: c.now}
	c.passes++
	factor := int64(1)
	if c.passes <= c.slow {
		factor = 2
	}
	first, last := 0, c.load.GenLen-1
	switch p {
	case worker.Prefill:
		last = 0
	case worker.Decode:
		first = 1
	}
	for i := first; i <= last; i++ {
		took := c.prefill
		if i > 0 {
			took = c.decode(c.load.PromptLen + i)
		}
		s := worker.Step{Phase: p, Pass: n, Index: i, StartNS: c.now, EndNS: c.now + factor*took}
		c.now = s.EndNS
		out.Steps = append(out.Steps, s)
	}
	out.EndNS = c.now
	return out
}

func (c *clockwork) Prepare(context.Context, worker.Phase) error { return nil }

func settings() *Settings {
	return &Settings{
		Model: result.Model{Name: "a model", ParamsTotal: 1000},
		Load:  worker.Load{Workload: operator.Workload{Batch: 4, PromptLen: 16, GenLen: 9}, TP: 1},
		Workload: result.Workload{
			Workload: operator.Workload{Batch: 4, PromptLen: 16, GenLen: 9},
		},
		Size: true, TTFT: true, TPOT: true, TTLT: true,
		Repeats: 7, Warmup: steady, WarmupLimit: time.Minute,
	}
}

func newClockwork() *clockwork {
	return &clockwork{prefill: 40e6, decode: func(context int) int64 { return int64(1e6 + 1e4*float64(context)) }}
}

// measureOne measures one replica.
func measureOne(t *testing.T, set *Settings, w Worker, meter Meter, say func(string)) (*result.Result, error) {
	t.Helper()
	all, err := runReplicas(t.Context(), set, []Worker{w}, []Meter{meter}, say)
	if len(all) != 1 {
		return nil, err
	}
	return all[0], err
}

func run(t *testing.T, set *Settings, w Worker) *result.Result {
	t.Helper()
	r, err := measureOne(t, set, w, nil, func(string) {})
	testkit.Must(t, err)
	keepsSchema(t, r)
	return r
}

func TestFiguresOfAKnownClock(t *testing.T) {
	r := run(t, settings(), newClockwork())
	// Steps at contexts 17 to 24: 1 ms + 10 us a token, 1.205 ms on the mean.
	for _, c := range []struct {
		name string
		got  *result.Times
		want float64
	}{{"TTFT", r.TTFT, 0.040}, {"TPOT", r.TPOT, 0.001205}, {"TTLT", r.TTLT, 0.040 + 8*0.001205}} {
		if c.got == nil || math.Abs(c.got.Median-c.want) > 1e-12 {
			t.Errorf("%s = %+v, want %v", c.name, c.got, c.want)
			continue
		}
		if c.got.N < 7 || len(c.got.Samples) != c.got.N || !c.got.Steady {
			t.Errorf("%s: %d samples of %d, steady %v; want 7 or more, steady", c.name, len(c.got.Samples), c.got.N, c.got.Steady)
		}
	}
	if got, want := *r.Throughput.Generated, 4*9/(0.040+8*0.001205); math.Abs(float64(got)/want-1) > 1e-12 {
		t.Errorf("throughput = %v tok/s, want %v", got, want)
	}
	if len(r.Closure) != 1 || !r.Closure[0].Passed || math.Abs(r.Closure[0].Off) > 1e-12 {
		t.Errorf("closure = %+v, want TTLT to be its parts", r.Closure)
	}
	if n := r.StepTime.N; n < 7*8 {
		t.Errorf("%d steps were kept, want all of 7 passes or more of 8", n)
	}
}

func TestSlowStartIsNoSample(t *testing.T) {
	w := newClockwork()
	w.slow = 8
	r := run(t, settings(), w)
	if r.TTFT.Max > 0.0401 {
		t.Errorf("the longest TTFT is %v, want 40 ms: the first passes took 80", r.TTFT.Max)
	}
	if r.TTFT.Warmups <= 8 {
		t.Errorf("%d warm-ups, of which 8 were slow", r.TTFT.Warmups)
	}
}

// A stall in the phases that TTFT and TPOT come from, but not in whole requests,
// is what made ELANA's Thor figures 35 to 62 % too long.
func TestPartsThatExceedTheWholeAreMarked(t *testing.T) {
	w := newClockwork()
	decode := w.decode
	w.decode = func(context int) int64 {
		if w.passes < 40 {
			return 2 * decode(context)
		}
		return decode(context)
	}
	set := settings()
	set.Warmup = 3
	r := run(t, set, w)
	if len(r.Closure) != 1 {
		t.Fatalf("closure = %+v", r.Closure)
	}
	if r.Closure[0].Passed != (math.Abs(r.Closure[0].Off) <= timeClosure) {
		t.Errorf("closure %+v contradicts itself", r.Closure[0])
	}
}

// A processor that is slow while prefills are measured and fast afterwards makes
// a doubtful result, but no error: it is kept, and marked.
func TestRequestsFasterThanPrefillsAreMarked(t *testing.T) {
	w := newClockwork()
	set := settings()
	set.Warmup, set.TPOT = 1, false
	w.slow, w.prefill = 8, 40e6
	w.decode = func(int) int64 { return 1e3 }
	r := run(t, set, w)
	if !slices.Contains(r.Marks, "closure") || !strings.Contains(strings.Join(r.Warnings, "\n"), "slower while prefills were measured") {
		t.Errorf("TTFT %v, TTLT %v, marks %v, warnings %v", r.TTFT.Min, r.TTLT.Max, r.Marks, r.Warnings)
	}
}

func TestTimesThatNeverSettleAreMarked(t *testing.T) {
	w := newClockwork()
	w.decode = func(int) int64 { return 1e6 * int64(1+w.passes) }
	set := settings()
	set.TTFT, set.TTLT, set.Size, set.WarmupLimit = false, false, false, time.Nanosecond
	r := run(t, set, w)
	if len(r.Marks) == 0 || r.Marks[0] != "unsteady" || r.TPOT.Steady {
		t.Errorf("marks %v, steady %v; want the result marked unsteady", r.Marks, r.TPOT.Steady)
	}
}

// A machine without a sensor measures as many passes as it is asked to, and waits
// for no window of energy.
func TestNoSensorNoWindow(t *testing.T) {
	set := settings()
	set.Energy, set.Window, set.Warmup = true, time.Hour, 2
	if r := run(t, set, newClockwork()); r.TTFT.N != set.Repeats || r.Energy != nil {
		t.Errorf("%d passes, energy %+v, want %d and none", r.TTFT.N, r.Energy, set.Repeats)
	}
}

func TestWorkersFailureIsTheError(t *testing.T) {
	w := newClockwork()
	w.fail = errors.New("out of memory: 80 GB needed, 3 GB free")
	_, err := measureOne(t, settings(), w, nil, func(string) {})
	if err == nil || !strings.Contains(err.Error(), "prefill: out of memory: 80 GB needed") {
		t.Errorf("got %v, want the worker's own words, and the phase", err)
	}
}

func TestSettingsThatCannotBeMeasured(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Settings)
		want   string
	}{
		{"no batch", func(s *Settings) { s.Load.Batch = 0 }, "batch is 0"},
		{"no prompt", func(s *Settings) { s.Load.PromptLen = -1 }, "prompt length is -1"},
		{"no repeats", func(s *Settings) { s.Repeats = 0 }, "repeats is 0"},
		{"one token", func(s *Settings) { s.Load.GenLen = 1 }, "no TPOT"},
		{"nothing", func(s *Settings) { s.Size, s.TTFT, s.TPOT, s.TTLT = false, false, false, false }, "nothing to measure"},
	} {
		t.Run(c.name, func(t *testing.T) {
			set := settings()
			c.change(set)
			_, err := measureOne(t, set, newClockwork(), nil, func(string) {})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

// Replicas that need different times for what is asked end together, and a
// failure of one is the failure of all, by its name.
// A phase of replicas goes on until the last has what it needs: else that one would be measured on a machine that is half idle.
func TestPhaseIsOverWhenAllReplicasHaveWhatTheyNeed(t *testing.T) {
	g := newGroup(2)
	for i, want := range []bool{false, false, true} {
		if got := g.over(worker.Decode); got != want {
			t.Errorf("%d of 2 replicas are done: over is %v", i, got)
		}
		g.leave(worker.Decode)
	}
}

func TestReplicas(t *testing.T) {
	quick, slow := newClockwork(), newClockwork()
	slow.slow = 8
	results, err := runReplicas(t.Context(), settings(), []Worker{quick, slow}, nil, func(string) {})
	testkit.Must(t, err)
	for i, r := range results {
		keepsSchema(t, r)
		if r.Process != i || r.Processes != 2 || r.TTFT == nil || math.Abs(r.TTFT.Median-0.040) > 1e-12 {
			t.Errorf("replica %d: process %d of %d, TTFT %+v", i, r.Process, r.Processes, r.TTFT)
		}
	}
	slow.fail = errors.New("its GPU fell off the bus")
	_, err = runReplicas(t.Context(), settings(), []Worker{newClockwork(), slow}, nil, func(string) {})
	if err == nil || !strings.Contains(err.Error(), "replica 1: prefill: its GPU fell off the bus") {
		t.Errorf("got %v, want what happened to replica 1", err)
	}
}
