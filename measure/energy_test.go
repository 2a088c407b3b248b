package measure

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"llmprof/internal/testkit"
	"llmprof/measure/power"
	"llmprof/measure/result"
	"llmprof/measure/worker"
)

// A board draws a power that is known at every moment.
type board struct {
	mu     sync.Mutex
	watts  float64
	joules float64
	since  time.Time
}

func (b *board) draw(watts float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.joules += b.watts * now.Sub(b.since).Seconds()
	b.watts, b.since = watts, now
}

func (b *board) read() float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.joules + b.watts*time.Since(b.since).Seconds()
}

// A sleeper is a worker whose steps last as long as they say, while the board
// draws what such a step does.
type sleeper struct {
	*clockwork
	board *board
	drag  float64 // by which the steps are longer while the meter looks
	meter *ticker
}

func (s *sleeper) Run(_ context.Context, r worker.Run, each func(worker.Pass)) (*worker.Done, error) {
	s.stopped = false
	n := 0
	for ; n < r.Passes && !s.stopped; n++ {
		s.now = time.Now().UnixNano()
		p := s.pass(r.Phase, n)
		at := time.Now()
		for i := range p.Steps {
			st := &p.Steps[i]
			watts, took := 300., time.Duration(st.EndNS-st.StartNS)
			if st.Index == 0 {
				watts = 700
			}
			if s.meter != nil && s.meter.looks.Load() {
				took += time.Duration(s.drag * float64(took))
			}
			s.board.draw(watts)
			st.StartNS = at.UnixNano()
			time.Sleep(took)
			at = time.Now()
			st.EndNS = at.UnixNano()
		}
		s.board.draw(120)
		p.EndNS = at.UnixNano()
		each(p)
	}
	return &worker.Done{Passes: n}, nil
}

// A ticker is a meter of the board whose counter moves each 100 ms.
type ticker struct {
	board      *board
	looks      atomic.Bool
	begun      time.Time
	from       float64
	others     []int
	throttled  map[string]float64
	limit      *float64 // of the board's power
	dead       bool
	ownedPIDs  []int
	integrates float64 // of what the counter says
}

func (m *ticker) edge() (time.Time, float64) {
	const tick = 100 * time.Millisecond
	time.Sleep(tick - time.Duration(time.Now().UnixNano())%tick)
	return time.Now(), m.board.read()
}

func (m *ticker) Begin(context.Context) (power.Mark, error) {
	m.looks.Store(true)
	m.begun, m.from = m.edge()
	return power.Mark{}, nil
}

func (m *ticker) End(context.Context, power.Mark) (*power.Window, error) {
	end, joules := m.edge()
	m.looks.Store(false)
	if m.dead {
		return nil, power.ErrNoSensor
	}
	counter, seconds := joules-m.from, end.Sub(m.begun).Seconds()
	integral := counter * m.integrates
	return &power.Window{
		Begin: m.begun, End: end,
		Domains: []result.Domain{
			{Name: "GPU 0", Kind: "gpu", ID: "GPU-0", Sensor: "a test", Summed: true, EnergyJ: counter, CounterJ: &counter, IntegralJ: &integral,
				MeanW: counter / seconds, Seconds: seconds},
			{Name: "package-0", Kind: "cpu", Sensor: "a test", Summed: true, EnergyJ: 90 * seconds, MeanW: 90, Seconds: seconds},
		},
		Conditions: []result.Condition{{UUID: "GPU-0", OtherPIDs: m.others, ThrottledS: m.throttled, Seconds: &seconds, PowerLimitW: m.limit}},
	}, nil
}

func (m *ticker) Look(context.Context) func() ([]result.Condition, error) {
	return func() ([]result.Condition, error) { return nil, nil }
}

func (m *ticker) Scope() string   { return "a board and a processor" }
func (m *ticker) Own(pids ...int) { m.ownedPIDs = append(m.ownedPIDs, pids...) }

// metered measures a sleeper in a bubble of time.
func metered(t *testing.T, change func(*Settings, *sleeper, *ticker), check func(*testing.T, *result.Result, error)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &board{watts: 120, since: time.Now()}
		m := &ticker{board: b, integrates: 1}
		w := &sleeper{clockwork: newClockwork(), board: b, meter: m}
		set := settings()
		set.Energy, set.Size = true, false
		set.defaults()
		set.Workload.GenLen = set.Load.GenLen
		if change != nil {
			change(set, w, m)
		}
		s := newSession(set, w, m, newGroup(1), func(string) {})
		s.clock = func(t time.Time) (int64, error) { return t.UnixNano(), nil }
		r, err := s.measure(t.Context())
		if err == nil {
			keepsSchema(t, r)
		}
		check(t, r, err)
	})
}

func near(t *testing.T, what string, got *float64, want, tolerance float64) {
	t.Helper()
	if got == nil {
		t.Errorf("%s is null, want %v", what, want)
	} else if math.Abs(*got/want-1) > tolerance {
		t.Errorf("%s = %v, want %v", what, *got, want)
	}
}

// The joules of a board whose power is known: a batch of 4, 40 ms of prefill at
// 700 W, 8 steps of 1.205 ms on the mean at 300 W, 120 W when idle. The processor
// is recorded and counts for nothing a token.
func TestEnergyOfAKnownBoard(t *testing.T) {
	metered(t, nil, func(t *testing.T, r *result.Result, err error) {
		testkit.Must(t, err)
		e := r.Energy
		step := 1.205e-3
		near(t, "J/prompt", e.PerPrompt, 0.040*700/4, 1e-3)
		near(t, "J/token", e.PerToken, step*300/4, 1e-3)
		near(t, "J/request", e.PerRequest, (0.040*700+8*step*300)/4, 1e-3)
		near(t, "net J/prompt", e.Net.PerPrompt, 0.040*580/4, 1e-3)
		near(t, "net J/request", e.Net.PerRequest, (0.040*580+8*step*180)/4, 1e-3)
		if w := e.Decode; w.Seconds < 5 || len(w.Domains) != 2 || w.Domains[1].Kind != "cpu" {
			t.Errorf("the window of decode: %+v", w)
		}
		near(t, "idle power", &e.IdleLoaded.Domains[0].MeanW, 120, 1e-9)
		for _, c := range r.Closure {
			if !c.Passed {
				t.Errorf("closure: %+v", c)
			}
		}
		if len(r.Closure) != 5 || len(r.Conditions) != 3 || r.Conditions[2].Phase != "request" || len(r.Marks) > 0 {
			t.Errorf("%d closures, conditions %+v, marks %v", len(r.Closure), r.Conditions, r.Marks)
		}
		if r.Meter == nil || r.Meter.Overhead == nil || math.Abs(*r.Meter.Overhead) > 1e-9 {
			t.Errorf("a meter that costs nothing: %+v", r.Meter)
		}
	})
}

// The passes of the warm-up are no samples beside a meter either.
func TestSlowStartIsNoSampleBesideAMeter(t *testing.T) {
	metered(t, func(_ *Settings, w *sleeper, _ *ticker) { w.slow = 8 }, func(t *testing.T, r *result.Result, err error) {
		testkit.Must(t, err)
		if r.TTFT.Max > 0.0401 || r.TTFT.Warmups <= 8 {
			t.Errorf("the longest TTFT is %v after %d passes of warm-up, want 40 ms: the first 8 took 80", r.TTFT.Max, r.TTFT.Warmups)
		}
	})
}

func TestMeterThatDisturbsIsFoundOut(t *testing.T) {
	metered(t, func(_ *Settings, w *sleeper, _ *ticker) { w.drag = 0.02 }, func(t *testing.T, r *result.Result, err error) {
		testkit.Must(t, err)
		near(t, "overhead", r.Meter.Overhead, 0.02, 1e-6)
	})
}

func TestConditionsMarkTheResult(t *testing.T) {
	metered(t, func(_ *Settings, _ *sleeper, m *ticker) { m.others, m.integrates = []int{4711}, 0.9 },
		func(t *testing.T, r *result.Result, err error) {
			testkit.Must(t, err)
			marks, said := strings.Join(r.Marks, " "), strings.Join(r.Warnings, "\n")
			for _, want := range []string{"contaminated", "closure"} {
				if !strings.Contains(marks, want) {
					t.Errorf("marks %q: want %q", marks, want)
				}
			}
			for _, want := range []string{"processes [4711] of others", "counter of GPU 0 = integral of its power is off by -10.0 %"} {
				if !strings.Contains(said, want) {
					t.Errorf("warnings %q: want %q", said, want)
				}
			}
		})
}

// A board draws no more than its power limit but for its sensor's accuracy: prefills draw 700 W here, decode steps 300.
func TestPowerAboveTheLimitIsMarked(t *testing.T) {
	for limit, wrong := range map[float64]bool{700: false, 680: false, 600: true} {
		metered(t, func(_ *Settings, _ *sleeper, m *ticker) { m.limit = &limit }, func(t *testing.T, r *result.Result, err error) {
			testkit.Must(t, err)
			said := strings.Join(r.Warnings, "\n")
			if got := strings.Contains(said, "prefill: GPU 0 drew 700.0 W"); got != wrong || got != slices.Contains(r.Marks, "closure") ||
				strings.Contains(said, "decode: GPU 0") {
				t.Errorf("a limit of %v W: marks %v, warnings %q", limit, r.Marks, said)
			}
		})
	}
}

// A sensor that goes away is an error with the phase, never zero joules.
func TestSensorThatIsLost(t *testing.T) {
	metered(t, func(_ *Settings, _ *sleeper, m *ticker) { m.dead = true }, func(t *testing.T, r *result.Result, err error) {
		if err == nil || r != nil || !strings.Contains(err.Error(), "prefill") {
			t.Errorf("%v, %+v; want an error that names the phase", err, r)
		}
	})
}

func TestCarbon(t *testing.T) {
	metered(t, func(s *Settings, _ *sleeper, _ *ticker) {
		s.TPOT, s.TTFT, s.Carbon = false, false, &result.CO2{GramsPerKWh: 360, Source: "given"}
	}, func(t *testing.T, r *result.Result, err error) {
		testkit.Must(t, err)
		near(t, "g/request", &r.Energy.CO2.PerRequest, *r.Energy.PerRequest/1e4, 1e-9)
		if r.Energy.PerToken != nil || r.Energy.Decode != nil || r.Meter.Overhead != nil {
			t.Errorf("phases that were not asked for: %+v", r.Energy)
		}
	})
}

// The period of the sensors is the longest that a phase saw, whichever phase comes first.
func TestMeterPeriod(t *testing.T) {
	seen := func(gap time.Duration) *phaseRun {
		at := time.Unix(0, 0)
		return &phaseRun{window: &power.Window{Samples: []power.Sample{{Domain: "gpu", Time: at}, {Domain: "gpu", Time: at.Add(gap)}}}}
	}
	s := &session{clock: func(time.Time) (int64, error) { return 0, nil }, phases: map[worker.Phase]*phaseRun{
		worker.Prefill: seen(100 * time.Millisecond), worker.Decode: seen(200 * time.Millisecond), worker.Request: seen(120 * time.Millisecond),
	}}
	for range 50 {
		if m := s.meterCost(); m.PeriodS == nil || *m.PeriodS != 0.2 {
			t.Fatalf("period %v s, want 0.2", m.PeriodS)
		}
	}
	// A counter of energy alone gives no samples of power, and so no period.
	s.phases = map[worker.Phase]*phaseRun{worker.Decode: {window: &power.Window{ReadS: 0.004}}}
	if m := s.meterCost(); m.PeriodS != nil || m.ReadS != 0.004 {
		t.Errorf("%+v without samples", m)
	}
}
