package measure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"time"

	"llmprof/internal/procfs"
	"llmprof/measure/experiment"
	"llmprof/measure/power"
	"llmprof/measure/result"
	"llmprof/measure/worker"
	"llmprof/unit"
)

// meters are the sensors of a bench: one monitor for each replica, of the GPUs
// that are its own.
type meters struct {
	monitors []*power.Monitor // none where the machine has no sensors
	idle     *result.Window   // before the engine was started; nil if energy is not wanted
	why      error            // there are none
}

// of is the monitor of a replica, nil where there is none.
func (m *meters) of(replica int) *power.Monitor {
	if replica >= len(m.monitors) {
		return nil
	}
	return m.monitors[replica]
}

func (m *meters) close() (err error) {
	for _, p := range m.monitors {
		err = errors.Join(err, p.Close())
	}
	return err
}

// openMeters finds the sensors of the GPUs that the point is to run on, sees that
// nobody else uses them, and measures what they draw before an engine runs.
func (l *Lab) openMeters(ctx context.Context, p *experiment.Point) (*meters, error) {
	m := &meters{}
	all, err := power.Open(ctx, power.Options{GPUs: p.GPUs, NoGPUs: p.Device == "cpu", Root: l.Root, Env: l.Env})
	if err != nil {
		if !errors.Is(err, power.ErrNoSensor) || l.NeedEnergy && p.Energy {
			return nil, err
		}
		m.why = err
		return m, nil
	}
	groups, err := split(all.GPUs(), p)
	if err = errors.Join(err, all.Close()); err != nil {
		return nil, err
	}
	for _, uuids := range groups {
		one, err := power.Open(ctx, power.Options{GPUs: uuids, NoGPUs: len(uuids) == 0, Root: l.Root, Env: l.Env})
		if err != nil {
			return nil, errors.Join(err, m.close())
		}
		m.monitors = append(m.monitors, one)
		if err := l.unused(ctx, one); err != nil {
			return nil, errors.Join(err, m.close())
		}
		l.sayClocks(one)
	}
	if !p.Energy {
		return m, nil
	}
	l.say("idle before the engine is started")
	if m.idle, err = idling(ctx, m.monitors[0], l.idleTime(p)); err != nil {
		return nil, errors.Join(err, m.close())
	}
	return m, nil
}

// split deals the GPUs out to the replicas, as many to each as it has ranks on
// this node. Without GPUs each gets none.
func split(gpus []result.GPU, p *experiment.Point) ([][]string, error) {
	ranks := max(p.TP, 1) / max(p.Nodes, 1)
	groups := make([][]string, max(p.Replicas, 1))
	if len(gpus) == 0 {
		return groups, nil
	}
	if want := ranks * len(groups); want > len(gpus) {
		return nil, fmt.Errorf("%d replicas of TP %d need %d GPUs on this node: %d are visible", len(groups), p.TP, want, len(gpus))
	}
	for i := range groups {
		for _, g := range gpus[i*ranks : (i+1)*ranks] {
			groups[i] = append(groups[i], g.UUID)
		}
	}
	return groups, nil
}

// shares are the GPUs that each replica's worker gets: nil for all that this
// program sees.
func (m *meters) shares(p *experiment.Point) [][]string {
	shares := make([][]string, max(p.Replicas, 1))
	for i := range shares {
		if one := m.of(i); one != nil {
			for _, g := range one.GPUs() {
				shares[i] = append(shares[i], g.UUID)
			}
		} else if n := len(p.GPUs) / len(shares); n > 0 {
			shares[i] = p.GPUs[i*n : (i+1)*n]
		}
	}
	return shares
}

// unused refuses GPUs that others compute on, unless that is meant.
func (l *Lab) unused(ctx context.Context, m *power.Monitor) error {
	if l.Shared {
		return nil
	}
	busy, err := m.Busy(ctx)
	if err != nil || len(busy) == 0 {
		return err
	}
	var who []string
	for _, b := range busy {
		who = append(who, b.String())
	}
	return fmt.Errorf("the GPU is busy: %s; choose others with --gpus, or measure all the same with --shared", strings.Join(who, "; "))
}

// describe says what a replica ran on, and why it has no energy where it has none.
func (l *Lab) describe(r *result.Result, m *meters, replica int) {
	reported := r.Machine.GPUs
	r.Machine = host(l.Root)
	r.Machine.GPUs = append(r.Machine.GPUs, reported...)
	one := m.of(replica)
	if one != nil {
		r.Machine.Driver, r.Machine.CUDA = one.Driver()
		if seen := one.GPUs(); len(seen) > 0 {
			r.Machine.GPUs = seen
		}
	}
	l.nameGPUs(r.Machine.GPUs)
	if len(r.Conditions) == 0 && r.Reasons["conditions"] == "" {
		r.Reasons["conditions"] = unseen
		if one == nil {
			r.Reasons["conditions"] = m.why.Error()
		}
	}
	if one == nil {
		if r.Reasons["energy"] != notWanted {
			r.Reasons["energy"], r.Reasons["meter"] = m.why.Error(), m.why.Error()
		}
		return
	}
	r.Warnings = append(r.Warnings, one.Warnings()...)
	if r.Energy == nil {
		r.Reasons["energy"] = cmp.Or(r.Reasons["energy"], notWanted)
		r.Reasons["meter"] = r.Reasons["energy"]
	}
}

// gpusOf are the GPUs that an engine reports, which are all that is known of them where
// there is no sensor.
func gpusOf(devices []worker.Device) []result.GPU {
	var gpus []result.GPU
	for _, d := range devices {
		if d.Name != "cpu" {
			gpus = append(gpus, result.GPU{Name: d.Name, UUID: d.UUID})
		}
	}
	return gpus
}

func (l *Lab) nameGPUs(gpus []result.GPU) {
	for i := range gpus {
		g := &gpus[i]
		var memory unit.Bytes
		if g.MemoryBytes != nil {
			memory = unit.Bytes(*g.MemoryBytes)
		}
		if known, err := l.GPUs.Match(g.Name, memory); err == nil {
			g.Key = known.Key
		}
	}
}

// idleTime is how long idling is measured.
func (l *Lab) idleTime(p *experiment.Point) time.Duration {
	return cmp.Or(p.Idle.Duration(), l.Idle, defaultIdle)
}

// host describes the machine from what the kernel says under root ("/" as an
// fs.FS): its processor, its memory, its driver. Names of the machine and of its
// users are left out.
func host(root fs.FS) result.Machine {
	return result.Machine{OS: runtime.GOOS + "/" + runtime.GOARCH, CPU: procfs.Processor(root), Cores: runtime.NumCPU(),
		MemoryBytes: procfs.Memory(root), GPUs: []result.GPU{}}
}
