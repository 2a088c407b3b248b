package power

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"llmprof/internal/procfs"
	"llmprof/measure/result"
)

// A driver is a way to the boards of a machine.
type driver struct {
	boards        []board
	gpus          []result.GPU // GPUs in the order of boards
	version, cuda string
	shut          func() error
}

// openGPUs finds the boards that are asked for: by NVML, or by nvidia-smi where
// there is no NVML.
func (m *Monitor) openGPUs(ctx context.Context, o *Options) error {
	d, err := openNVML(ctx, o)
	if errors.Is(err, errNoDriver) {
		smi, again := openSMI(ctx, o)
		if again != nil {
			return errors.Join(err, again)
		}
		d, err = smi, nil
		m.warnings = append(m.warnings, "power comes from nvidia-smi, which is asked a few times a second: a window has to be long")
	}
	if err != nil {
		return err
	}
	if err := m.choose(d, o); err != nil {
		return errors.Join(err, d.shut())
	}
	m.driver, m.cuda, m.shut = d.version, d.cuda, d.shut
	return nil
}

// choose keeps the boards that are visible and asked for.
func (m *Monitor) choose(d *driver, o *Options) error {
	if len(d.gpus) == 0 {
		return fmt.Errorf("%w: the driver knows no GPU", errNoDriver)
	}
	there := make([]string, len(d.gpus))
	for i := range d.gpus {
		there[i] = d.gpus[i].UUID
	}
	environment := o.Env("CUDA_VISIBLE_DEVICES")
	uuids, err := visible(there, environment, environment != "", o.GPUs)
	if err != nil {
		return err
	}
	for i, uuid := range uuids {
		at := slices.Index(there, uuid)
		b := d.boards[at]
		if _, err := b.watts(); err != nil {
			return fmt.Errorf("GPU %s (%s) says nothing of its power: %w", d.gpus[at].Name, uuid, err)
		}
		if g := &d.gpus[at]; g.MIG != nil && *g.MIG {
			m.warnings = append(m.warnings, fmt.Sprintf("GPU %s is cut into MIG slices: its energy is that of all of them", uuid))
		}
		if b.coarse() {
			m.warnings = append(m.warnings, fmt.Sprintf("GPU %s (%s) has no energy counter: its energy is the integral of its power",
				d.gpus[at].Name, uuid))
		}
		m.boards, m.gpus = append(m.boards, b), append(m.gpus, d.gpus[at])
		m.sensors = append(m.sensors, &gpuSensor{board: b, name: fmt.Sprintf("GPU %d", i), period: b.period()})
	}
	m.scope = append(m.scope, "GPU boards ("+strings.Fields(m.boards[0].sensor())[0]+")")
	return nil
}

// visible picks GPUs of those that are there, by UUID in the driver's order. What
// is asked for (numbers, UUIDs, beginnings of UUIDs) counts among those that
// CUDA_VISIBLE_DEVICES leaves, as it does for CUDA itself.
func visible(there []string, environment string, set bool, asked []string) ([]string, error) {
	left := there
	if set {
		var err error
		if left, err = masked(there, environment); err != nil {
			return nil, err
		}
	}
	if len(asked) == 0 {
		if len(left) == 0 {
			return nil, fmt.Errorf("CUDA_VISIBLE_DEVICES=%q leaves none of %d GPUs", environment, len(there))
		}
		return left, nil
	}
	var picked []string
	for _, name := range asked {
		uuid, err := pick(left, strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		if slices.Contains(picked, uuid) {
			return nil, fmt.Errorf("GPU %q is asked for twice", name)
		}
		picked = append(picked, uuid)
	}
	return picked, nil
}

// masked is what CUDA_VISIBLE_DEVICES leaves. As in CUDA, the list ends at the
// first entry that is none, such as -1.
// https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#env-vars
func masked(there []string, environment string) ([]string, error) {
	var left []string
	for name := range strings.SplitSeq(environment, ",") {
		name = strings.TrimSpace(name)
		if strings.HasPrefix(name, "MIG-") {
			return nil, fmt.Errorf("CUDA_VISIBLE_DEVICES names the MIG slice %s: a board has one sensor for all of its slices", name)
		}
		uuid, err := pick(there, name)
		if err != nil {
			break
		}
		if slices.Contains(left, uuid) {
			return nil, fmt.Errorf("CUDA_VISIBLE_DEVICES=%q names GPU %s twice: CUDA then sees none", environment, name)
		}
		left = append(left, uuid)
	}
	return left, nil
}

// pick finds a GPU by its number or the beginning of its UUID.
func pick(there []string, name string) (string, error) {
	if n, err := strconv.Atoi(name); err == nil {
		if n < 0 || n >= len(there) {
			return "", fmt.Errorf("no GPU %d: there are %d, from 0", n, len(there))
		}
		return there[n], nil
	}
	if strings.HasPrefix(name, "MIG-") {
		return "", fmt.Errorf("GPU %s: a board has one sensor for all of its MIG slices; name the board", name)
	}
	found := ""
	for _, uuid := range there {
		if name == "" || !strings.HasPrefix(uuid, name) {
			continue
		}
		if found != "" {
			return "", fmt.Errorf("GPU %q: more than one UUID begins so", name)
		}
		found = uuid
	}
	if found == "" {
		return "", fmt.Errorf("no GPU %q: want a number from 0 to %d or the beginning of a UUID: %s", name, len(there)-1,
			strings.Join(there, ", "))
	}
	return found, nil
}

// ours reports whether a process is one that was named, or descends from one. One that
// cannot be looked at, such as that of another container, is not.
func (m *Monitor) ours(pid int) bool {
	for range 64 { // generations, against a loop of numbers that are reused
		if m.own[pid] {
			return true
		}
		s, err := procfs.StatOf(m.root, pid)
		if err != nil || s.Parent <= 1 {
			return false
		}
		pid = s.Parent
	}
	return false
}
