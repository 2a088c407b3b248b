package power

import (
	"context"
	"errors"
	"fmt"
	"time"

	"llmprof/internal/concurrent"
	"llmprof/measure/result"
)

// A board is a GPU, through NVML or nvidia-smi. Its methods may be called from
// several goroutines.
type board interface {
	clocked
	sensor() string           // name of the sensor, for the result
	joules() (float64, error) // total energy; errNoCounter where there is none
	watts() (float64, error)  // power at the moment
	coarse() bool             // reports whether power is averaged, or seldom read
}

// A state is what a board says of itself at a moment; what it does not say is nil.
type state struct {
	smHz, memoryHz, celsius *float64
	smMaxHz, memoryMaxHz    *float64
	limit, limitDefault     *float64 // watts
	busy, memoryBusy        *float64 // shares of time
	used                    *int64   // bytes of memory
	reasons                 []string // reasons for which clocks are held down
}

var (
	errNoCounter = errors.New("the board has no energy counter")
	errNoDriver  = errors.New("no driver of NVIDIA GPUs")
)

// Times of looking for the tick of a counter. A read takes 4 ms on an H200 and
// the counter ticks each 100 ms.
const (
	edgePause   = 2 * time.Millisecond
	edgeLimit   = 3 * time.Second
	statePeriod = 200 * time.Millisecond
)

// A gpuSensor watches one board.
type gpuSensor struct {
	board  board
	name   string // name of the domain
	period time.Duration
}

// A gpuWatch is a board inside of a window.
type gpuWatch struct {
	*gpuSensor
	loop
	samples []Sample
	states  []state
	looked  time.Time // time of the last state
	begin   time.Time
	from    float64 // joules at the first edge
	held0   map[string]float64
	first   error // why it has no counter
}

func (s *gpuSensor) begin(ctx context.Context) (watch, error) {
	w := &gpuWatch{gpuSensor: s}
	w.run(ctx, atOnce(s.period), w.sample)
	w.begin, w.from, w.first = w.edge(ctx, 0)
	if w.first != nil && !errors.Is(w.first, errNoCounter) {
		return nil, errors.Join(w.first, w.finish())
	}
	w.held0 = s.board.held()
	return w, nil
}

// sample reads the power, and the state where that is due.
func (w *gpuWatch) sample() error {
	at, watts, err := w.timed(w.board.watts) // the sample's time is the middle of the read
	if err != nil {
		return err
	}
	w.samples = append(w.samples, Sample{Time: at, Domain: w.name, Watts: watts})
	if time.Since(w.looked) < statePeriod {
		return nil
	}
	w.looked = time.Now()
	st, err := w.board.state()
	if err == nil {
		w.states = append(w.states, *st)
	}
	return err
}

// edge is the next tick of the counter, or now where there is none. The counter
// has been at least at so many joules before.
func (w *gpuWatch) edge(ctx context.Context, least float64) (at time.Time, joules float64, err error) {
	before, joules, err := w.timed(w.board.joules)
	switch {
	case err != nil:
		return before, 0, err
	case joules < least:
		return before, 0, w.wentBack(least, joules)
	}
	for limit := before.Add(edgeLimit); before.Before(limit); {
		if err := concurrent.Wait(ctx, edgePause); err != nil {
			return before, 0, err
		}
		now, got, err := w.timed(w.board.joules)
		switch {
		case err != nil:
			return now, 0, err
		case got < joules:
			return now, 0, w.wentBack(joules, got)
		case got > joules:
			return before.Add(now.Sub(before) / 2), got, nil
		}
		before = now
	}
	return before, 0, fmt.Errorf("%s: its energy counter did not move from %v J in %v", w.board.id(), joules, edgeLimit)
}

func (s *gpuSensor) wentBack(from, to float64) error {
	return fmt.Errorf("%s: its energy counter went back from %v to %v J: was the driver loaded anew?", s.board.id(), from, to)
}

func (w *gpuWatch) end(ctx context.Context) (*reading, error) {
	end, to, err := w.edge(ctx, w.from)
	if errors.Is(err, errNoCounter) {
		err = nil
		end = time.Now()
	}
	if err := errors.Join(err, w.finish()); err != nil {
		return nil, err
	}
	r := &reading{begin: w.begin, end: end, samples: w.samples, readS: w.slowest.Seconds(), notes: w.notes(w.board.id())}
	seconds := end.Sub(w.begin).Seconds()
	if seconds <= 0 {
		return nil, fmt.Errorf("%s: a window of %v s", w.board.id(), seconds)
	}
	joules, err := integral(w.samples, w.begin, end)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", w.board.id(), err)
	}
	d := result.Domain{
		Name: w.name, Kind: "gpu", ID: w.board.id(), Sensor: w.board.sensor(), Includes: []string{}, Summed: true, Seconds: seconds,
		EnergyJ: joules, IntegralJ: &joules, Samples: len(w.samples), Coarse: w.board.coarse(),
	}
	if w.first == nil {
		counted := to - w.from
		d.CounterJ, d.EnergyJ = &counted, counted
	}
	d.MeanW = d.EnergyJ / seconds
	r.domains = []result.Domain{d}
	r.condition, err = condition(w.board, w.states, w.held0, seconds)
	return r, err
}

// reasons names the bits for which clocks are held down, of
// nvmlClocksEventReasons in nvml.h and of nvidia-smi's clocks_event_reasons.active.
// What is wanted by the user (idle 1, application clocks 2, display clocks 0x100)
// holds nothing down.
var reasons = []struct {
	bit  uint64
	name string
}{
	{0x4, "sw_power_cap"},
	{0x8, "hw_slowdown"},
	{0x10, "sync_boost"},
	{0x20, "sw_thermal"},
	{0x40, "hw_thermal"},
	{0x80, "hw_power_brake"},
}

func reasonsOf(mask uint64) []string {
	var names []string
	for _, r := range reasons {
		if mask&r.bit != 0 {
			names = append(names, r.name)
		}
	}
	return names
}
