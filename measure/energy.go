package measure

import (
	"llmprof/measure/result"
	"llmprof/measure/worker"
)

// energy turns the windows of the phases into joules a prompt, token and request.
func (s *session) energy() (err error) {
	if s.meter == nil {
		return nil
	}
	e := &result.Energy{Scope: s.meter.Scope(), Idle: s.set.Unloaded, IdleLoaded: s.rest}
	for _, w := range []struct {
		to    **result.Window
		phase worker.Phase
	}{{&e.Prefill, worker.Prefill}, {&e.Decode, worker.Decode}, {&e.Request, worker.Request}} {
		if *w.to, err = s.attribute(w.phase, s.phases[w.phase]); err != nil {
			return err
		}
	}
	batch := float64(s.set.Load.Batch)
	gross := func(w *result.Window) float64 { return meanPower(w) * w.Seconds }
	e.PerPrompt, e.PerToken, e.PerRequest = each(e, batch, gross)
	if e.IdleLoaded != nil {
		idle := meanPower(e.IdleLoaded)
		net := func(w *result.Window) float64 { return (meanPower(w) - idle) * w.Seconds }
		e.Net = &result.NetEnergy{}
		e.Net.PerPrompt, e.Net.PerToken, e.Net.PerRequest = each(e, batch, net)
	}
	if e.PerRequest != nil {
		e.CO2 = emitted(s.set.Carbon, *e.PerRequest)
	}
	s.res.Energy = e
	s.res.Meter = s.meterCost()
	return nil
}

// emitted is the CO2 equivalent of a request's energy at the grid's intensity, nil
// if that is not known.
func emitted(grid *result.CO2, joules float64) *result.CO2 {
	if grid == nil {
		return nil
	}
	c := *grid
	c.PerRequest = joules / result.JoulesPerKWh * c.GramsPerKWh
	return &c
}

// each is one sequence's share of the joules of a prefill, of a decode step and
// of a request.
func each(e *result.Energy, batch float64, joules func(*result.Window) float64) (prompt, token, request *float64) {
	if w := e.Prefill; w != nil && w.Passes > 0 {
		prompt = new(joules(w) / w.Passes / batch)
	}
	if w := e.Decode; w != nil && w.Steps > 0 {
		token = new(joules(w) / w.Steps / batch)
	}
	if w := e.Request; w != nil && w.Passes > 0 {
		request = new(joules(w) / w.Passes / batch)
	}
	return prompt, token, request
}

// meanPower is the power of what the figures a token are of: of all GPUs where
// there are any, so that they compare with an estimate and with other hosts; else
// of the module, the board or the processor. Every domain has edges of its own,
// a tick or so from the others', so powers are added, not energies.
func meanPower(w *result.Window) float64 {
	var gpus, all float64
	for i := range w.Domains {
		d := &w.Domains[i]
		if !d.Summed {
			continue
		}
		all += d.MeanW
		if d.Kind == "gpu" {
			gpus += d.MeanW
		}
	}
	if gpus > 0 {
		return gpus
	}
	return all
}

// meterCost records how the sensors were read, and by how much that slowed decoding.
func (s *session) meterCost() *result.Meter {
	m := &result.Meter{Overhead: s.overhead()}
	for _, run := range s.phases {
		if run.window != nil {
			noteReads(m, run.window)
		}
	}
	return m
}
