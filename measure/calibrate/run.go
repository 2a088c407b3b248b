package calibrate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"llmprof/hardware"
	"llmprof/internal/concurrent"
	"llmprof/internal/procfs"
	"llmprof/internal/stats"
	"llmprof/measure/internal/transformers"
	"llmprof/measure/native/process"
	"llmprof/measure/power"
	"llmprof/measure/worker"
	"llmprof/unit"
)

// Options say what is measured, and with what.
type Options struct {
	GPU     *hardware.GPU // GPU whose peaks the shares refer to
	Engine  string        // Native or Transformers
	Device  string        // "cuda", "cpu", or "" for a GPU where there is one
	DType   unit.Format
	TP      int // most GPUs that all-reduces run over
	Quick   bool
	Limit   time.Duration // after which nothing more is begun; 0 for none
	File    string        // file of rows that new rows are added to; "" for none
	Version string        // version of llmprof

	Python    string   // Python of the transformers engine
	Native    []string // the command of the native worker
	Libraries string   // folder of the CUDA libraries
	Root      fs.FS    // "/" of the machine

	Monitor *power.Monitor // sensors of the GPUs; nil where there are none
	Say     func(string)   // a line of progress
}

// Run measures what is planned and not in the file yet. Rows that were finished
// are returned, and are in the file, whatever happens after them.
func Run(ctx context.Context, o Options) (*Rows, error) {
	r := &run{o: &o, begun: time.Now()}
	defer func() { _ = r.close() }() // the rows measured are saved by then
	if err := r.worker(ctx, 1); err != nil {
		return nil, err
	}
	m := r.machine()
	points := plan(o.GPU, o.DType, o.Engine, o.TP, o.Quick)
	r.clocks(ctx, &m, points)
	var err error
	if r.rows, err = OpenRows[Machine, Row](o.File, m); err != nil {
		return nil, err
	}
	defer r.rows.Close()
	if len(o.Monitor.GPUs()) == 0 {
		points = slices.DeleteFunc(points, func(p Point) bool { return p.Kind.power() })
		r.say("no sensor of a GPU's power is there: what it draws stays the default of its generation")
	}
	return r.rows, r.all(ctx, points)
}

// A run is a worker with the rows that came of it.
type run struct {
	o     *Options
	begun time.Time
	w     *worker.Worker
	ranks int // ranks of the worker
	hello worker.Hello
	rows  *Rows

	crashes int
}

func (r *run) close() error {
	if r.w == nil {
		return nil
	}
	err := r.w.Close()
	r.w = nil
	return err
}

// worker starts a worker over so many ranks, unless it is there. One of the native engine is
// over all GPUs that are planned for from the beginning, and takes as many of them as a point asks for.
func (r *run) worker(ctx context.Context, ranks int) (err error) {
	var uuids []string
	for _, g := range r.o.Monitor.GPUs() {
		uuids = append(uuids, g.UUID)
	}
	if len(uuids) > 0 {
		if len(uuids) < ranks {
			return fmt.Errorf("%d GPUs for all-reduces over %d: %w", len(uuids), ranks, errFew)
		}
		if r.o.Engine == Native {
			ranks = max(ranks, min(r.o.TP, len(uuids)))
		}
		uuids = uuids[:ranks]
	}
	if r.w != nil && (r.ranks == ranks || r.o.Engine == Native) {
		return nil
	}
	if err := r.close(); err != nil {
		return err
	}
	if r.o.Engine == Native {
		r.w, err = process.Start(ctx, process.Options{Command: r.o.Native, GPUs: uuids})
	} else {
		o := transformers.Options{Python: r.o.Python, GPUs: uuids, TP: ranks}
		if r.o.Quick { // tiny shapes wait for threads longer than they compute
			o.Env = []string{"OMP_NUM_THREADS=1"}
		}
		r.w, err = transformers.Start(ctx, o)
	}
	if err != nil {
		return err
	}
	r.ranks, r.hello = ranks, r.w.Hello()
	if r.o.Monitor != nil {
		r.o.Monitor.Own(r.hello.PID)
	}
	return nil
}

// errFew says that there is no such number of GPUs to run over.
var errFew = errors.New("too few GPUs")

// machine says on what the rows are measured.
func (r *run) machine() Machine {
	m := Machine{
		Schema: RowSchema, Kind: machineKind, GPU: r.o.GPU.Key,
		Device: cmp.Or(procfs.Processor(r.o.Root), "a processor that /proc does not name"), Engine: r.o.Engine, DType: r.o.DType,
		Tools: maps.Clone(r.hello.Versions), Version: r.o.Version, When: time.Now().UTC().Truncate(time.Second),
	}
	if m.Tools == nil {
		m.Tools = map[string]string{}
	}
	m.Kernels = "llmprof's own kernels and cuBLASLt"
	if r.o.Engine == Transformers {
		m.Kernels = "torch " + m.Tools["torch"]
	}
	if len(r.o.Monitor.GPUs()) == 0 {
		return m
	}
	g := r.o.Monitor.GPUs()[0]
	m.Device = g.Name
	if g.MemoryBytes != nil {
		m.Memory = new(unit.Bytes(*g.MemoryBytes))
	}
	if g.PowerLimitW != nil {
		m.PowerLimit = new(unit.Watts(*g.PowerLimitW))
	}
	driver, cuda := r.o.Monitor.Driver()
	for name, version := range map[string]string{"driver": driver, "cuda": cuda} {
		if version != "" {
			m.Tools[name] = version
		}
	}
	return m
}

// clocks notes the highest clocks that the GPU runs at while it reads its memory,
// which is below its power limit. The native engine compiles beside it what is planned.
func (r *run) clocks(ctx context.Context, m *Machine, plan []Point) {
	if len(r.o.Monitor.GPUs()) == 0 {
		return
	}
	mark, err := r.o.Monitor.Begin(ctx)
	if err != nil {
		r.say("clocks are not known: %v", err)
		return
	}
	b := worker.Bench{
		Kind: string(Read), Shape: map[string]int{"bytes": 256 << 20}, DType: r.o.DType.String(), Device: r.o.Device,
		Samples: leastRuns, Seconds: 1, Libraries: r.o.Libraries,
	}
	if r.o.Engine == Native {
		b.Ahead = r.ahead(plan)
	}
	_, err = r.w.Bench(ctx, b)
	w, werr := r.o.Monitor.End(ctx, mark)
	if err := errors.Join(err, werr); err != nil {
		r.say("clocks are not known: %v", err)
		return
	}
	if len(w.Conditions) == 0 {
		return
	}
	if s := w.Conditions[0].SMClockHz; s != nil {
		m.Clock = new(unit.Hertz(s.Max))
	}
	if s := w.Conditions[0].MemClockHz; s != nil {
		m.MemoryClock = new(unit.Hertz(s.Max))
	}
}

// ahead is what is left of a plan that may have to be compiled.
func (r *run) ahead(plan []Point) (all []worker.Bench) {
	had := &Rows{}
	if rows, err := ReadRows[Machine, Row](r.o.File); err == nil { // if there are some; what is wrong with them is said when they are added to
		had = rows
	}
	for i := range plan {
		p := &plan[i]
		if p.Kind.power() || p.Kind == GEMM || measured(had, *p) {
			continue
		}
		b := worker.Bench{Kind: string(p.Kind), Shape: sizes(&p.Shape)}
		if p.Ranks > 1 {
			b.TP = p.Ranks
		}
		all = append(all, b)
	}
	return all
}

// measured reports whether a file has the point.
func measured(rows *Rows, p Point) bool {
	return slices.ContainsFunc(rows.Rows, func(r Row) bool { return r.Point() == p })
}

func (r *run) all(ctx context.Context, plan []Point) error {
	for i, p := range plan {
		if measured(r.rows, p) {
			continue
		}
		if err := context.Cause(ctx); err != nil {
			return r.stopped(len(plan), err)
		}
		if r.o.Limit > 0 && time.Since(r.begun) > r.o.Limit {
			r.say("%v have passed: %d of %d points are left out", r.o.Limit, len(plan)-i, len(plan))
			return nil
		}
		row, err := r.point(ctx, &p)
		switch {
		case context.Cause(ctx) != nil:
			return r.stopped(len(plan), context.Cause(ctx))
		case leftOut(err):
			r.say("[%d/%d] %v is left out: %v", i+1, len(plan), p, err)
			if err := r.again(err); err != nil {
				return fmt.Errorf("%v: %w", p, err)
			}
			continue
		case err != nil:
			return fmt.Errorf("%v: %w", p, err)
		}
		if err := r.rows.Add(*row); err != nil {
			return err
		}
		r.say("[%d/%d] %v: %v%s", i+1, len(plan), p, unit.Seconds(row.Median), r.left(i+1, len(plan)))
	}
	return nil
}

// left estimates how much time is left from the points of a plan that are done.
func (r *run) left(done, of int) string {
	took := time.Since(r.begun)
	rest := time.Duration(float64(took) / float64(done) * float64(of-done))
	if r.o.Limit > 0 {
		rest = min(rest, r.o.Limit-took)
	}
	if rest < time.Second {
		return ""
	}
	return fmt.Sprintf(", %v left", rest.Round(time.Second))
}

// leftOut reports whether one point could not be measured, and others may be.
func leftOut(err error) bool {
	var f *worker.Failure
	var c *worker.Crash
	var h *worker.Hang
	return errors.Is(err, errFew) || errors.As(err, &c) || errors.As(err, &h) ||
		errors.As(err, &f) && f.Kind != worker.Missing && f.Kind != worker.Internal
}

// mostCrashes is how often a worker may end by itself before the run does.
const mostCrashes = 3

// again lets go of a worker that has ended, so that the next point starts another,
// unless that is of no use.
func (r *run) again(err error) error {
	var f *worker.Failure
	if errors.Is(err, errFew) || errors.As(err, &f) && !f.Fatal {
		return nil
	}
	if r.crashes++; r.crashes == mostCrashes {
		return err
	}
	return r.close()
}

// stopped says what is kept of a run that was stopped.
func (r *run) stopped(all int, why error) error {
	if r.o.File == "" {
		r.say("stopped after %d of %d points, of which nothing is kept without --rows", len(r.rows.Rows), all)
	} else {
		r.say("stopped: %s has %d of %d points, and the same command with --engine %s goes on there", r.o.File, len(r.rows.Rows), all, r.o.Engine)
	}
	return why
}

func (r *run) say(format string, args ...any) {
	if r.o.Say != nil {
		r.o.Say(fmt.Sprintf(format, args...))
	}
}

// How long and how often a point is timed.
const (
	usual       = 0.12 // seconds
	long        = 6.0  // seconds of a run at the power limit
	watched     = 2.0  // seconds of a run for its power: some 20 ticks of an H200's energy counter
	leastRuns   = 10
	rest        = 0.2 // before what is bound by arithmetic, so that the clocks are those of a burst
	cacheRotate = 4   // times the L2 cache, that buffers are rotated over
)

func (r *run) point(ctx context.Context, p *Point) (*Row, error) {
	if err := r.worker(ctx, p.Ranks); err != nil {
		return nil, err
	}
	seen, w, err := r.metered(ctx, p)
	if err != nil {
		return nil, err
	}
	row, err := newRow(p, seen.Seconds)
	if err != nil {
		return nil, err
	}
	row.Engine, row.Graph, row.Cold, row.When = r.o.Engine, seen.Graph, seen.Cold, time.Now().UTC().Truncate(time.Second)
	for _, n := range seen.Notes {
		r.say("%v: %s", p, n)
	}
	row.saw(w)
	return &row, row.check(nil)
}

// metered times a point, with sensors beside it where it runs for seconds. What
// they cannot measure is said, and the row is kept.
func (r *run) metered(ctx context.Context, p *Point) (*worker.Timed, *power.Window, error) {
	if r.o.Monitor == nil || p.Kind != Sustained && !p.Kind.power() {
		seen, err := r.time(ctx, p)
		return seen, nil, err
	}
	mark, merr := r.o.Monitor.Begin(ctx)
	seen, err := r.time(ctx, p)
	var w *power.Window
	if merr == nil {
		w, merr = r.o.Monitor.End(ctx, mark)
	}
	if merr != nil && ctx.Err() == nil {
		r.say("%v: power and clock are not known: %v", p, merr)
	}
	return seen, w, err
}

// atWork is how far below the greatest a sample of a GPU's power may lie that does the same all the time.
const atWork = 0.75

// saw takes in what the sensors of the first GPU saw. Its power is that of the last
// half of the time, when the clocks are those of the power limit, less what was seen when the run
// had ended: a busy host takes a while to say so.
func (r *Row) saw(w *power.Window) {
	if w == nil {
		return
	}
	var watts []float64
	for _, s := range w.Samples {
		if s.Domain == "GPU 0" && s.Time.After(w.Begin.Add(w.End.Sub(w.Begin)/2)) {
			watts = append(watts, s.Watts)
		}
	}
	if len(watts) > 0 {
		least := atWork * slices.Max(watts)
		watts = slices.DeleteFunc(watts, func(w float64) bool { return w < least })
	}
	if sum, err := stats.Summarize(watts); err == nil && sum.Median > 0 {
		r.Power = &sum.Median
	}
	if len(w.Conditions) == 0 {
		return
	}
	c := &w.Conditions[0]
	if c.SMClockHz != nil && c.SMClockHz.Median > 0 {
		r.Clock = &c.SMClockHz.Median
	}
	for reason, s := range c.ThrottledS {
		if s > 0.1*w.End.Sub(w.Begin).Seconds() {
			r.Limited = append(r.Limited, reason)
		}
	}
	slices.Sort(r.Limited)
}

func (r *run) time(ctx context.Context, p *Point) (*worker.Timed, error) {
	if p.Kind == HostStep || p.Kind == EagerStep {
		if r.o.Device == "cpu" && p.Kind == HostStep {
			return nil, &worker.Failure{Kind: worker.Unsupported, Message: "on a processor nothing runs beside the host"}
		}
		return steps(ctx, r.w, p, r.o)
	}
	if p.Kind == Idle {
		return r.idle(ctx)
	}
	b := worker.Bench{
		Kind: string(p.Kind.times()), Shape: sizes(&p.Shape), DType: p.DType.String(), Device: r.o.Device, Rotate: cacheRotate * int(r.o.GPU.L2),
		Samples: leastRuns, Seconds: usual, Libraries: r.o.Libraries,
	}
	switch {
	case p.Kind == Sustained:
		b.Seconds = long
	case p.Kind.power():
		b.Seconds = watched
	}
	if p.Ranks > 1 {
		b.TP = p.Ranks
	}
	w := p.Work()
	if peak, ok := r.o.GPU.Peak(p.DType); ok && b.Seconds < watched && w.FLOPs.Over(peak) > w.Traffic().Over(r.o.GPU.Bandwidth) {
		b.Rest = rest
	}
	if r.o.Quick {
		b.Samples, b.Seconds, b.Rest, b.Rotate = 3, 0.01, 0, int(r.o.GPU.L2)
	}
	return r.w.Bench(ctx, b)
}

// idle lets the GPU do nothing, with the worker's context on it.
func (r *run) idle(ctx context.Context) (*worker.Timed, error) {
	seconds := watched
	if r.o.Quick {
		seconds = 0.5
	}
	begin := time.Now()
	err := concurrent.Wait(ctx, time.Duration(seconds*float64(time.Second)))
	return &worker.Timed{Seconds: []float64{time.Since(begin).Seconds()}, Cold: true}, err
}

// sizes are the sizes of a shape by their names.
func sizes(s *Shape) map[string]int {
	text, _ := json.Marshal(s) // whole numbers have a JSON
	out := map[string]int{}
	_ = json.Unmarshal(text, &out)
	return out
}
