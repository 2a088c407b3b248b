package measure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"

	"llmprof/measure/experiment"
	"llmprof/measure/power"
)

// here are the addresses of a host name if all of them are this machine's.
func here(ctx context.Context, host string) ([]netip.Addr, bool) {
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	own, failed := net.InterfaceAddrs()
	if err != nil || failed != nil || len(addresses) == 0 {
		return nil, false
	}
	for i, a := range addresses {
		a = a.Unmap().WithZone("")
		addresses[i] = a
		same := func(o net.Addr) bool {
			n, is := o.(*net.IPNet)
			return is && n.IP.String() == a.String()
		}
		if !a.IsLoopback() && !a.IsUnspecified() && !slices.ContainsFunc(own, same) {
			return nil, false
		}
	}
	return addresses, true
}

// besideServer finds the sensors of the GPUs that a server runs on which was started on this machine: those that
// the point names, or the only one. What uses them now is taken for the server.
func (l *Lab) besideServer(ctx context.Context, p *experiment.Point) (*meters, error) {
	why := otherHost(ctx, p.BaseURL, false)
	var m *power.Monitor
	if why == nil {
		m, why = power.Open(ctx, power.Options{GPUs: p.GPUs, NoGPUs: p.Device == "cpu", Root: l.Root, Env: l.Env})
		if why != nil && !errors.Is(why, power.ErrNoSensor) {
			return nil, why
		}
	}
	if why == nil && len(m.GPUs()) > 0 {
		why = otherHost(ctx, p.BaseURL, true)
	}
	if why == nil && len(p.GPUs) == 0 && len(m.GPUs()) > 1 {
		why = fmt.Errorf("nothing ties any of the %d GPUs of this machine to a server that was started elsewhere: name them (gpus, --gpus), "+
			"or have it started around the run (engine_cmd, --engine-cmd)", len(m.GPUs()))
	}
	if why != nil {
		if m != nil {
			if err := m.Close(); err != nil {
				return nil, err
			}
		}
		if l.NeedEnergy {
			return nil, why
		}
		return &meters{why: why}, nil
	}
	server, err := m.Busy(ctx)
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	for _, process := range server {
		m.Own(process.PID)
	}
	l.sayClocks(m)
	return &meters{monitors: []*power.Monitor{m}}, nil
}

// otherHost is why this machine's sensors say nothing of the server at a URL; nil if it runs here. gpus says that
// they are of GPUs, which the server has to use: its port may be forwarded to another host.
func otherHost(ctx context.Context, base string, gpus bool) error {
	at, err := url.Parse(base)
	if err != nil {
		return errors.New("the base URL has no host")
	}
	host := at.Hostname()
	addresses, ok := here(ctx, host)
	if !ok {
		return fmt.Errorf("the sensors of this machine say nothing of a server at %s: measure on that host, with a URL of the loopback, or "+
			"have it started around the run (engine_cmd, --engine-cmd)", host)
	}
	if !gpus {
		return nil
	}
	port := cmp.Or(at.Port(), map[string]string{"http": "80", "https": "443"}[at.Scheme])
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return fmt.Errorf("the base URL has no port: %w", err)
	}
	return usesGPU(addresses, uint16(n), gpuDevice)
}
