package deployment

import (
	"fmt"
	"sort"

	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/unit"
)

// onGPU reports whether the GPU has room, with a margin that stays free.
func onGPU(p *engine.Placed, margin unit.Bytes) bool {
	m := &p.Estimate.Memory
	return m.Total+margin <= m.Usable
}

// inHostMemory reports whether the host has room beside what the system takes.
func inHostMemory(p *engine.Placed) bool {
	const system = unit.Bytes(2e9)
	m := &p.Estimate.Memory
	return m.HostWeights+m.HostKV+system <= p.Case.Machine.GPU.Host.RAM
}

// passes are the sizes of a pass among which a placement is looked for. A larger one copies the same weights for more tokens, and takes
// more memory of the GPU.
var passes = []int{512, 1024, 2048, 4096}

// bestPlacement is the placement that fits and with which a request takes least. It puts all experts of a mixture on the host, or those of
// the fewest layers with which the rest fits the GPU. As many layers as fit are on the GPU for a dense model, and for a mixture that does
// not fit even so.
func bestPlacement(c *analytic.Case, pageable bool) (*engine.Placed, error) {
	var best *engine.Placed
	for _, step := range passes {
		p, err := fullest(c, engine.Placement{Step: step, Pageable: pageable}, 0)
		if err != nil {
			return nil, err
		}
		if p != nil && (best == nil || p.Estimate.TTLT.Expected < best.Estimate.TTLT.Expected) {
			best = p
		}
		if step >= c.Workload.PromptLen {
			break
		}
	}
	return best, nil
}

// fitMargin is the memory that llama.cpp's own --fit leaves free on each GPU (--fit-target).
const fitMargin = unit.Bytes(1 << 30)

// ownFit is what llama.cpp's own --fit chooses: the default pass, weights as pages of the file, and a margin on the GPU (common/fit.cpp).
func ownFit(c *analytic.Case) (*engine.Placed, error) {
	return fullest(c, engine.Placement{Pageable: true}, fitMargin)
}

// fullest is the placement that leaves least on the host; nil if neither memory has room for its part. A mixture leaves the experts of its
// first layers there, and where not even those of all layers are enough, whole layers besides.
func fullest(c *analytic.Case, base engine.Placement, margin unit.Bytes) (best *engine.Placed, failed error) {
	layers, experts := c.Model.NumLayers(), 0
	if c.Model.HasExperts() {
		experts = layers
	}
	sort.Search(experts+layers+2, func(n int) bool {
		p := base
		if p.Experts = min(n, experts); n > experts {
			p.Layers = new(experts + layers + 1 - n)
		}
		placed, err := p.At(c)
		if err != nil {
			failed = err
			return true
		}
		fits := onGPU(placed, margin)
		if fits { // Each one that fits leaves less on the host than the one before.
			best = placed
		}
		return fits
	})
	if failed != nil || best == nil || !inHostMemory(best) {
		return nil, failed
	}
	return best, nil
}

// worths are the rates that more memory of the GPU, faster memory of the host, a larger pass and pinned weights would give a placement.
// With more memory on the GPU as much more of the model lies there as fits.
func worths(c *analytic.Case, p *engine.Placed) (all []HomeRates) {
	add := func(name string, placed *engine.Placed, err error) {
		if err == nil && placed != nil {
			all = append(all, RatesOf(name, &placed.Estimate, c.Workload.Batch))
		}
	}
	const more = unit.Bytes(1e9)
	larger, m := *c, *c.Machine
	m.Utilization *= float64((m.GPU.Visible() + more) / m.GPU.Visible())
	larger.Machine = &m
	placed, err := fullest(&larger, engine.Placement{Step: p.Step, Pageable: p.Pageable}, 0)
	add("1 GB more on the GPU", placed, err)
	host := c.Machine.GPU.Host
	host.Speed, host.Read = host.Speed*1.25, host.Read.Times(1.25)
	faster := *c
	if faster.Machine, err = analytic.NewMachine(c.Machine.GPU.On(&host), c.Machine.Cal, c.Machine.Engine); err == nil {
		placed, err = p.At(&faster)
		add("memory of the host 25 % faster", placed, err)
	}
	other := p.Placement
	if other.Step = 2 * max(p.Step, passes[0]); other.Step <= passes[len(passes)-1] {
		if placed, err = other.At(c); err == nil && onGPU(placed, 0) && inHostMemory(placed) {
			add(fmt.Sprintf("--ubatch %d", other.Step), placed, nil)
		}
	}
	other = p.Placement
	other.Pageable = !p.Pageable
	placed, err = other.At(c)
	add("--load-mode "+engine.LoadMode(other.Pageable), placed, err)
	return all
}
