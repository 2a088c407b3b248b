// Package sensitivity says what would change an estimate most.
//
//	faster := sensitivity.Resources(&e)
package sensitivity

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/models"
	"llmprof/unit"
)

// Step is the share by which a resource is made faster.
const Step = 0.1

// A Change is a case with one thing changed, and its estimate.
type Change struct {
	Name string    // thing that is changed: "memory bandwidth", "TP 2"
	By   unit.Said // settings that ask for the change; empty if there are none
	analytic.Estimate
}

// names are those of the levers.
var names = [analytic.NumLevers]string{
	analytic.Compute: "compute", analytic.MemoryBandwidth: "memory bandwidth", analytic.NetworkBandwidth: "network",
	analytic.PowerLimit: "power limit", analytic.LaunchLatency: "launch latency", analytic.HostSpeed: "host",
	analytic.HostBandwidth: "memory of the host", analytic.HostCores: "cores of the host", analytic.HostLink: "PCIe to the host",
}

// Resources is what an estimate would be with each resource of the machine faster by Step, from the derivatives of its times. The
// change that shortens a request most comes first.
func Resources(e *analytic.Estimate) []Change {
	var all []Change
	for lever, name := range names {
		c := Change{Name: name, Estimate: *e}
		prefill, decode := saved(e.Prefill.Depends[lever]), saved(e.Decode.Depends[lever])
		if lever >= int(analytic.HostBandwidth) && prefill+decode == 0 {
			continue // all of the model lies on the GPU
		}
		c.TTFT.Expected -= prefill
		c.TPOT.Expected -= decode
		c.TTLT.Expected -= prefill + decode.Times(float64(e.Tokens))
		c.Throughput *= float64(e.TTLT.Expected / c.TTLT.Expected)
		all = append(all, c)
	}
	slices.SortStableFunc(all, func(a, b Change) int { return cmp.Compare(a.TTLT.Expected, b.TTLT.Expected) })
	return all
}

// saved is what a resource that is faster by Step saves of the time that it accounts for.
func saved(t unit.Seconds) unit.Seconds { return t.Times(1 - 1/(1+Step)) }

// Choices are the estimates of a case with each choice that a user has on this kind of GPU and that
// fits: a larger batch, narrower formats, more GPUs. Choices with most tokens a second for
// each GPU come first.
func Choices(c *analytic.Case) []Change {
	var all []Change
	if c.Offload != nil {
		return nil // What lies on the host was chosen for this case alone.
	}
	add := func(name string, by unit.Said, changed analytic.Case) {
		if runs(&changed) {
			if e, err := analytic.Predict(&changed); err == nil && e.Memory.Fits() {
				all = append(all, Change{name, by, e})
			}
		}
	}
	twice := *c
	twice.Workload.Batch *= 2
	add(fmt.Sprintf("batch %d", twice.Workload.Batch), unit.Say("{batch} %d", twice.Workload.Batch), twice)
	for name, changed := range Narrowed(c) {
		add("weights in "+changed.Scheme.Weights.String(), unit.Say("{weights} %s", name), changed)
	}
	for _, f := range []unit.Format{unit.FP8, unit.INT8} {
		changed := *c
		if changed.Scheme.KV = f; c.Scheme.KV.Bits() > f.Bits() && runs(&changed) {
			add("KV cache in "+f.String(), unit.Say("{kv} %v", f), changed)
			break
		}
	}
	if split := *c; split.Parallel.TP*2 <= max(split.Parallel.GPUsPerNode, 1) {
		split.Parallel.TP = max(split.Parallel.TP, 1) * 2
		add(fmt.Sprintf("TP %d", split.Parallel.TP), unit.Say("{tp} %d", split.Parallel.TP), split)
	}
	slices.SortStableFunc(all, func(a, b Change) int { return -cmp.Compare(a.PerGPU(), b.PerGPU()) })
	return all
}

// PerGPU is the number of tokens a second that each GPU generates.
func (c *Change) PerGPU() float64 { return c.Throughput / float64(c.GPUs) }

func runs(c *analytic.Case) bool {
	return c.Check() == nil && engine.Runs(c.Machine.Engine, c.Model, c.Machine.GPU, &c.Scheme) == nil
}

// Narrowed yields the case in each narrower scheme of weights that the engine and the GPU run, by its name, the widest first.
// An engine with packed weights of its own has those.
func Narrowed(c *analytic.Case) iter.Seq2[string, analytic.Case] {
	names := []string{"fp8", "nvfp4", "w4a16-g128"}
	if c.Machine.Engine.Profile().Support.GGUF == analytic.OnlyGGUF {
		names = []string{"q8_0", "q4_k_m"}
	}
	return func(yield func(string, analytic.Case) bool) {
		for _, name := range names {
			if changed, ok := narrowed(c, name); ok && !yield(name, changed) {
				return
			}
		}
	}
}

func narrowed(c *analytic.Case, name string) (analytic.Case, bool) {
	changed := *c
	s, err := models.ParseScheme(name)
	if models.IsFileType(name) {
		if changed.Model, err = models.Quantize(c.Model, name); err == nil {
			s = models.StoredScheme(changed.Model)
		}
	}
	s.KV = c.Scheme.KV
	changed.Scheme = s.For(c.Machine.GPU)
	smaller := s.Weights.Bits() < c.Scheme.Weights.Bits() && c.Machine.GPU.Has(changed.Scheme.Act)
	return changed, err == nil && smaller && runs(&changed)
}
