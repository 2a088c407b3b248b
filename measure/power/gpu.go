package power

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"llmprof/measure/result"
)

// A driver is a way to the boards of a machine.
type driver struct {
	boards        []board
	gpus          []result.GPU // of the same order
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
			m.warnings = append(m.warnings, fmt.Sprintf("GPU %s (%s) has no energy counter: its energy is the integral of its power", d.gpus[at].Name, uuid))
		}
		m.boards, m.gpus = append(m.boards, b), append(m.gpus, d.gpus[at])
		m.sensors = append(m.sensors, &gpuSensor{board: b, name: fmt.Sprintf("GPU %d", i), period: b.pace()})
	}
	m.scope = append(m.scope, "GPU boards ("+strings.Fields(m.boards[0].sensor())[0]+")")
	return nil
}
