package power

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"llmprof/internal/child"
	"llmprof/internal/procfs"
	"llmprof/measure/result"
	"llmprof/unit"
)

// ErrNoSensor is what Open's error is when a machine has nothing to measure with.
var ErrNoSensor = errors.New("no sensor of power or energy")

// Options say which sensors to open, and how to reach them.
type Options struct {
	GPUs   []string            // UUIDs, their unique beginnings, or numbers; none for all that CUDA_VISIBLE_DEVICES leaves
	NoGPUs bool                // leave GPUs out
	Root   fs.FS               // "/" of the machine
	Env    func(string) string // environment, which has CUDA_VISIBLE_DEVICES; nil for an empty one
	Run    Runner              // runs nvidia-smi and tegrastats; nil for os/exec
}

// A Runner runs a program and returns what it prints.
type Runner func(ctx context.Context, name string, args ...string) ([]byte, error)

// A Process computes on a GPU.
type Process struct {
	UUID        string // UUID of the GPU
	PID         int
	Name        string // "" if it cannot be read
	MemoryBytes *int64 // on the GPU
}

// String says which process it is, as far as that is known, and what it holds.
func (p Process) String() string {
	text := fmt.Sprintf("process %d", p.PID)
	if p.Name != "" {
		text += " " + p.Name
	}
	text += " on " + p.UUID
	if p.MemoryBytes != nil {
		text += fmt.Sprintf(" holds %v", unit.Bytes(*p.MemoryBytes))
	}
	return text
}

// A Monitor is a set of open sensors. It reads them between Begin and End alone.
type Monitor struct {
	sensors  []sensor
	boards   []board
	gpus     []result.GPU
	driver   string
	cuda     string
	scope    []string
	warnings []string
	own      map[int]bool
	root     fs.FS
	shut     func() error
}

// Open opens the sensors of the GPUs that are asked for, of the processor, and of
// a Jetson's module. Not to find one kind is no error while there is another,
// but GPUs that are asked for by name have to be there.
func Open(ctx context.Context, o Options) (*Monitor, error) {
	o = o.withDefaults()
	m := &Monitor{own: map[int]bool{}, root: o.Root, shut: func() error { return nil }}
	var missing []error
	if !o.NoGPUs && !isJetson(procfs.Board(o.Root)) { // a Jetson's NVML has no sensor, or sees one rail of them
		if err := m.openGPUs(ctx, &o); err != nil {
			if len(o.GPUs) > 0 && !errors.Is(err, errNoDriver) {
				return nil, err
			}
			missing = append(missing, err)
		}
	}
	for _, open := range []func(context.Context, *Options) error{m.openJetson, m.openRAPL} {
		if err := open(ctx, &o); err != nil {
			missing = append(missing, err)
		}
	}
	if len(m.sensors) == 0 {
		return nil, errors.Join(fmt.Errorf("%w: %w", ErrNoSensor, errors.Join(missing...)), m.Close())
	}
	return m, nil
}

// Periods of sampling. Boards update their power every 20 to 100 ms
// (Yang et al., table 1), so more samples than these see nothing new.
const (
	samplePeriod = 50 * time.Millisecond
	coarsePeriod = 200 * time.Millisecond // period where each sample starts a process
)

// programLimit bounds the time of a program that prints what sensors say: nvidia-smi is slow where the driver has to wake
// the GPU.
const programLimit = 10 * time.Second

func (o Options) withDefaults() Options {
	if o.Env == nil {
		o.Env = func(string) string { return "" }
	}
	if o.Run == nil {
		o.Run = func(ctx context.Context, name string, args ...string) ([]byte, error) {
			out, _, err := child.Output(ctx, programLimit, name, args...)
			return out, err
		}
	}
	return o
}

// Scope names what the energy is that of.
func (m *Monitor) Scope() string { return strings.Join(m.scope, " + ") }

// GPUs are those that are measured.
func (m *Monitor) GPUs() []result.GPU {
	if m == nil {
		return nil
	}
	return append([]result.GPU{}, m.gpus...)
}

// Driver gives the versions of the GPUs' driver and of the CUDA that it supports,
// "" where they are not known.
func (m *Monitor) Driver() (driver, cuda string) { return m.driver, m.cuda }

// Warnings say what could not be read although it is there.
func (m *Monitor) Warnings() []string { return append([]string{}, m.warnings...) }

// Own names processes whose work on the GPUs is what is measured; their
// descendants are theirs.
func (m *Monitor) Own(pids ...int) {
	for _, pid := range pids {
		m.own[pid] = true
	}
}

// Busy lists the processes of others that compute on the GPUs.
func (m *Monitor) Busy(context.Context) ([]Process, error) {
	var all []Process
	for _, b := range m.boards {
		found, err := b.processes()
		if err != nil {
			return nil, fmt.Errorf("%s: its processes: %w", b.id(), err)
		}
		all = append(all, m.otherProcesses(found)...)
	}
	return all, nil
}

// otherProcesses are the processes that are not ours.
func (m *Monitor) otherProcesses(found []Process) []Process {
	var others []Process
	for _, p := range found {
		if !m.ours(p.PID) {
			others = append(others, p)
		}
	}
	return others
}

// Close closes the sensors.
func (m *Monitor) Close() error { return m.shut() }
