package measure

import (
	"context"
	"errors"
	"testing"

	"llmprof/measure/result"
	"llmprof/measure/worker"
)

// reporting is a worker that says which devices it has.
type reporting struct {
	*clockwork
	devices []worker.Device
}

func (r *reporting) Load(ctx context.Context, l worker.Load) (*worker.Ready, error) {
	ready, err := r.clockwork.Load(ctx, l)
	ready.Devices = r.devices
	return ready, err
}

// Without a sensor the GPUs of a result are those that the engine reports; a processor is none.
func TestGPUsWithoutSensor(t *testing.T) {
	lab := nativeLab(t)
	for name, c := range map[string]struct {
		devices []worker.Device
		want    []result.GPU
	}{
		"two GPUs": {
			[]worker.Device{{Name: "NVIDIA H200", UUID: "GPU-1", PID: 7}, {Name: "Unheard Of"}},
			[]result.GPU{{Key: "h200-sxm-141gb", Name: "NVIDIA H200", UUID: "GPU-1"}, {Name: "Unheard Of"}},
		},
		"processor": {[]worker.Device{{Name: "cpu", PID: 7}}, nil},
	} {
		r := run(t, settings(), &reporting{newClockwork(), c.devices})
		lab.describe(r, &meters{why: errors.New("there is no NVML")}, 0)
		if len(r.Machine.GPUs) != len(c.want) || r.Machine.GPUs == nil {
			t.Errorf("%s: %+v", name, r.Machine.GPUs)
			continue
		}
		for i, want := range c.want {
			if r.Machine.GPUs[i] != want {
				t.Errorf("%s: %+v, want %+v", name, r.Machine.GPUs[i], want)
			}
		}
	}
}
