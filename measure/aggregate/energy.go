package aggregate

import (
	"slices"
	"strings"

	"llmprof/measure/result"
)

// energy sums a process's energy while it ran requests, by kind of domain. A
// domain that is a part of another is left out of every sum.
func energy(r *result.Result, tokens *float64) EnergyMetrics {
	m := EnergyMetrics{devices: map[string]float64{}}
	if r.Energy == nil || r.Energy.Request == nil {
		return m
	}
	w := r.Energy.Request
	m.DurationS = &w.Seconds
	var all []*float64
	byKind := map[string]*float64{}
	for i := range w.Domains {
		d := &w.Domains[i]
		if !d.Summed {
			continue
		}
		all = append(all, &d.EnergyJ)
		if byKind[d.Kind] == nil {
			byKind[d.Kind] = new(0.)
		}
		*byKind[d.Kind] += d.EnergyJ
		m.devices[device(d)] += d.EnergyJ
	}
	m.Total = total(all)
	m.GPU, m.CPU, m.RAM = byKind["gpu"], byKind["cpu"], byKind["dram"]
	m.GPUPower, m.CPUPower, m.RAMPower = over(m.GPU, m.DurationS), over(m.CPU, m.DurationS), over(m.RAM, m.DurationS)
	m.PerToken = over(m.Total, tokens)
	if c := r.Energy.CO2; c != nil {
		m.EmissionsKg = times(m.Total, new(c.GramsPerKWh/1000/result.JoulesPerKWh))
	}
	m.baseline = baseline(r.Energy, w)
	return m
}

// device names a domain so that it is the same in every process's file.
func device(d *result.Domain) string {
	if d.ID != "" {
		return d.ID
	}
	return d.Name
}

// baseline is the power of the same domains while nothing was run, with the
// weights resident where that was measured.
func baseline(e *result.Energy, w *result.Window) *float64 {
	idle := e.IdleLoaded
	if idle == nil {
		idle = e.Idle
	}
	if idle == nil {
		return nil
	}
	var watts []*float64
	for i := range w.Domains {
		d := &w.Domains[i]
		if !d.Summed {
			continue
		}
		at := slices.IndexFunc(idle.Domains, func(o result.Domain) bool { return o.Kind == d.Kind && device(&o) == device(d) })
		if at < 0 {
			return nil
		}
		watts = append(watts, &idle.Domains[at].MeanW)
	}
	return total(watts)
}

// gpusOf lists the GPUs that a process's energy is of, else those that it names.
func gpusOf(r *result.Result) []string {
	ids := []string{}
	if r.Energy != nil && r.Energy.Request != nil {
		for i := range r.Energy.Request.Domains {
			if d := &r.Energy.Request.Domains[i]; d.Kind == "gpu" && d.Summed && d.ID != "" {
				ids = append(ids, d.ID)
			}
		}
	}
	if len(ids) == 0 {
		for i := range r.Machine.GPUs {
			if id := r.Machine.GPUs[i].UUID; id != "" {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// breakdown is the energy of all processes less what they would have idled away.
func (b *builder) breakdown() {
	e, t := &b.out.Breakdown, &b.out.Totals
	e.PerDevice = map[string]float64{}
	e.RawJ = t.EnergyJ
	var watts, idle []*float64
	for i := range b.out.Processes {
		m := &b.out.Processes[i].Energy
		for id, j := range m.devices {
			e.PerDevice[id] += j
		}
		watts = append(watts, m.baseline)
		idle = append(idle, times(m.baseline, m.DurationS))
	}
	if b.attributed() {
		e.BaselinePowerW = total(watts)
	} else {
		e.PerDevice = map[string]float64{}
	}
	if used := total(idle); used != nil && e.RawJ != nil {
		e.AdjustedJ = new(*e.RawJ - *used)
	}
	if e.BaselinePowerW != nil {
		e.BaselineMethod = new("idle, weights resident")
		if b.first().Energy.IdleLoaded == nil {
			e.BaselineMethod = new("idle, before the engine started")
		}
	}
	b.why("energy_breakdown", e.AdjustedJ == nil || e.BaselinePowerW == nil, b.energyReason("no power of idling was measured of every domain"))
}

// throttle adds up how long clocks were held back, in the phases that count.
func (b *builder) throttle() {
	t := &b.out.Throttle
	t.ByReasonS = map[string]float64{}
	duration, seen := 0., false
	for _, r := range b.results {
		for i := range r.Conditions {
			c := &r.Conditions[i]
			if c.Phase == "idle" || c.Phase == "idle_loaded" {
				continue
			}
			seen = true
			longest := 0.
			for reason, s := range c.ThrottledS {
				t.ByReasonS[reason] += s
				longest = max(longest, s)
			}
			duration += longest // reasons overlap
			if c.Temperature != nil {
				t.MaxTempC = greater(t.MaxTempC, c.Temperature.Max)
				t.Temperature = greater(t.Temperature, c.Temperature.Max-c.Temperature.Min)
			}
		}
	}
	if seen {
		t.DurationS = &duration
		t.Thermal, t.Power = new(t.held("thermal", "temperature")), new(t.held("power"))
	}
	b.why("thermal_throttle", !seen || t.MaxTempC == nil, "clocks or temperatures were not read")
}

// held reports whether clocks were held back for a reason with one of the words.
func (t *Throttle) held(words ...string) bool {
	for reason, s := range t.ByReasonS {
		if s > 0 && slices.ContainsFunc(words, func(w string) bool { return strings.Contains(reason, w) }) {
			return true
		}
	}
	return false
}

func greater(a *float64, b float64) *float64 {
	if a == nil || b > *a {
		return &b
	}
	return a
}
