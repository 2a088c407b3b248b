package view

import (
	"cmp"
	"fmt"
	"strings"

	"llmprof/hardware"
	"llmprof/plots/render"
	"llmprof/roofline"
	"llmprof/unit"
)

// GPUsTable lists GPUs, one a row.
func GPUsTable(all []hardware.GPU) render.Table {
	t := render.Table{Columns: []render.Column{
		{Title: "name", Key: "key", Left: true}, {Title: "generation", Key: "generation", Left: true, Drop: 2},
		{Title: "memory", Key: "memory_bytes", Unit: "GB", Fixed: true, By: 1e9},
		{Title: "speed", Key: "bandwidth_bytes_per_s", Unit: "GB/s", Fixed: true, By: 1e9},
	}}
	for _, f := range unit.Formats() {
		drop := 4
		switch f {
		case unit.BF16, unit.FP8:
			drop = 0
		case unit.FP16:
			drop = 3
		}
		t.Columns = append(t.Columns, render.Column{Title: f.String(), Key: f.String() + "_flop_per_s", Unit: "TFLOP/s", Fixed: true, By: 1e12,
			Drop: drop})
	}
	t.Columns = append(t.Columns,
		render.Column{Title: "link", Key: "link_bytes_per_s", Unit: "GB/s", Fixed: true, By: 1e9, Drop: 1},
		render.Column{Title: "power", Key: "tdp_w", Unit: "W", Fixed: true},
		render.Column{Title: "price", Key: "price_usd_per_hour", Unit: "$/h", Fixed: true, Places: 2, Drop: 1})
	for _, g := range all {
		cells := []any{g.Key, g.Generation, g.Capacity(), g.Bandwidth}
		for _, f := range unit.Formats() {
			cells = append(cells, Known(g.Peak(f)))
		}
		cells = append(cells, Known(g.Link, g.Link > 0), cmp.Or(g.PowerLimit, g.TDP), Known(g.Price()))
		t.Add(cells...)
	}
	return t
}

// GPUPage is a GPU for people. Name is the one that it was asked for by.
func GPUPage(g *hardware.GPU, name string, c *hardware.Calibration) *render.Document {
	or := func(q any) string {
		if q == nil {
			return "n/a: no source gives it"
		}
		return fmt.Sprint(q)
	}
	node := fmt.Sprintf("%d GPUs", g.GPUsPerNode)
	if g.NIC > 0 {
		node += fmt.Sprintf(", each with %v to the network, each way", g.NIC)
	}
	link := "none"
	if g.Link > 0 {
		link = fmt.Sprintf("%v each way", g.Link)
	}
	if g.Bridge {
		link += fmt.Sprintf(" among %d, by a bridge sold apart (--nvlink)", g.LinkGPUs)
	}
	pcie := "none: the GPU is on the host's die"
	if g.PCIe > 0 {
		pcie = fmt.Sprintf("%v each way", g.PCIe)
	}
	if g.NoP2P {
		pcie += "; the driver refuses peer access (--p2p)"
	}
	memory := fmt.Sprintf("%v as sold, no source gives what its driver reports,", g.Memory)
	if m, ok := g.DriverMemory(); ok {
		memory = fmt.Sprintf("%v by its driver, sold as %v,", m, g.Memory)
	}
	price := or(nil)
	if p, ok := g.Price(); ok {
		price = fmt.Sprintf("%v (%s)", p, g.PriceSource)
	}
	f := render.Fields{Rows: []render.Field{
		{Name: "Key", Lines: []string{strings.Join(append([]string{g.Key}, g.Aliases...), ", ")}},
		{Name: "Chip", Lines: []string{fmt.Sprintf("%s %s, %s, %d SMs at up to %v", g.Vendor, g.Generation, g.ComputeCapability, g.SMs,
			cmp.Or(g.ClockLimit, g.Clock))}},
		{Name: "Memory", Lines: []string{fmt.Sprintf("%v at %v, L2 cache of %v", memory, g.Bandwidth, g.L2)}},
		{Name: "Link", Lines: []string{link}},
		{Name: "PCIe", Lines: []string{pcie}},
		{Name: "Node", Lines: []string{node}},
		{Name: "Power", Lines: []string{fmt.Sprintf("%v, idle %s", cmp.Or(g.PowerLimit, g.TDP), or(Known(g.Idle())))}},
		{Name: "Price", Lines: []string{price}},
		{Name: "Source", Lines: []string{g.Source}},
	}}
	return &render.Document{Title: asked(name, g.Name) + g.Name, Blocks: []render.Block{
		f, PeaksTable(g), calibrationFields(g, c),
		render.Notes{Title: "Notes", Items: g.Notes}, render.Notes{Title: "Traps", Items: g.Traps},
	}}
}

// PeaksTable lists what a GPU computes at most in each format.
func PeaksTable(g *hardware.GPU) render.Table {
	t := render.Table{Title: "Dense peaks", Columns: []render.Column{
		{Title: "format", Key: "format", Left: true}, {Title: "peak", Key: "peak_flop_per_s"},
		{Title: "ridge, FLOP/B", Key: "ridge_flop_per_byte"},
	}}
	for _, f := range g.Formats() {
		rate, _ := g.Peak(f)
		ridge, _ := g.Ridge(f)
		t.Add(f, f.Rate(rate), render.Tenths(ridge))
	}
	return t
}

// calibrationFields are the shares of its peaks that the GPU reaches in an estimate.
func calibrationFields(g *hardware.GPU, c *hardware.Calibration) render.Fields {
	k := &c.Constants
	kernel := func(compute, memory, fixed roofline.Constant) []string {
		return []string{fmt.Sprintf("%.0f %% of the peak, %.0f %% of the bandwidth, plus %v per kernel", 100*k[compute], 100*k[memory],
			unit.Seconds(k[fixed]))}
	}
	limit := "one GEMM rate is known, throttled or not"
	if k[roofline.GEMMSustained] < k[roofline.GEMMCompute] {
		limit = fmt.Sprintf("throttles large GEMMs to %.1f %% of the peak", 100*k[roofline.GEMMSustained])
	}
	return render.Fields{Title: "In practice", Rows: []render.Field{
		{Name: "Calibration", Lines: []string{c.Name + ": " + c.Source}},
		{Name: "GEMM", Lines: kernel(roofline.GEMMCompute, roofline.GEMMMemory, roofline.GEMMFixed)},
		{Name: "Skinny GEMM", Lines: []string{fmt.Sprintf("%.0f %% of the bandwidth, plus %v per kernel; each row adds %.1f %% of the time to "+
			"read the weights",
			100*k[k.Effective(roofline.SkinnyGEMMMemory)], unit.Seconds(k[k.Effective(roofline.SkinnyGEMMFixed)]),
			100*k[roofline.SkinnyGEMMRow])}},
		{Name: "Power limit", Lines: []string{fmt.Sprintf("%s; a GPU that waits for its host draws idle power plus %.1f %% of the rest up to %v",
			limit, 100*k[roofline.PowerWaiting], g.TDP)}},
		{Name: "Attention", Lines: kernel(roofline.AttentionCompute, roofline.AttentionMemory, roofline.AttentionFixed)},
		{Name: "Element-wise", Lines: kernel(roofline.ElementwiseCompute, roofline.ElementwiseMemory, roofline.ElementwiseFixed)},
		{Name: "Links", Lines: []string{fmt.Sprintf("%.0f %% of the peak rate, plus %v and %v for each GPU", 100*k[roofline.LinkShare],
			unit.Seconds(k[roofline.LinkBase]), unit.Seconds(k[roofline.LinkPerGPU]))}},
		{Name: "Error", Lines: []string{fmt.Sprintf("±%.0f %% in prefill, ±%.0f %% in decode, of the generation's defaults", 100*c.PrefillError,
			100*c.DecodeError)}},
	}}
}

// A GPUDocument is a GPU for programs.
type GPUDocument struct {
	Key         string                      `json:"key"`
	Name        string                      `json:"name"`
	Aliases     []string                    `json:"aliases"`
	Vendor      string                      `json:"vendor"`
	Generation  string                      `json:"generation"`
	Capability  string                      `json:"compute_capability"`
	SMs         int                         `json:"sms"`
	Clock       unit.Hertz                  `json:"clock_hz"`
	Peaks       map[string]unit.FLOPsPerSec `json:"peak_flop_per_s"`
	Memory      unit.Bytes                  `json:"memory_bytes"`
	Driver      *unit.Bytes                 `json:"driver_memory_bytes"`
	Bandwidth   unit.BytesPerSec            `json:"bandwidth_bytes_per_s"`
	L2          unit.Bytes                  `json:"l2_bytes"`
	Link        *unit.BytesPerSec           `json:"link_bytes_per_s"`
	PCIe        *unit.BytesPerSec           `json:"pcie_bytes_per_s"`
	NIC         *unit.BytesPerSec           `json:"nic_bytes_per_s"`
	GPUsPerNode int                         `json:"gpus_per_node"`
	TDP         unit.Watts                  `json:"tdp_w"`
	Idle        *unit.Watts                 `json:"idle_w"`
	Price       *unit.DollarsPerHour        `json:"price_usd_per_hour"`
	PriceSource *string                     `json:"price_source"`
	Source      string                      `json:"source"`
	Notes       []string                    `json:"notes"`
	Traps       []string                    `json:"traps"`
}

// DocumentGPU is the document of a GPU.
func DocumentGPU(g *hardware.GPU) GPUDocument {
	j := GPUDocument{
		Key: g.Key, Name: g.Name, Aliases: append([]string{}, g.Aliases...), Vendor: g.Vendor, Generation: g.Generation,
		Capability: g.ComputeCapability, SMs: g.SMs, Clock: cmp.Or(g.ClockLimit, g.Clock), Peaks: map[string]unit.FLOPsPerSec{},
		Memory: g.Memory, Bandwidth: g.Bandwidth, L2: g.L2, Link: unit.OrNull(g.Link), PCIe: unit.OrNull(g.PCIe), NIC: unit.OrNull(g.NIC),
		GPUsPerNode: g.GPUsPerNode, TDP: cmp.Or(g.PowerLimit, g.TDP), PriceSource: unit.OrNull(g.PriceSource), Source: g.Source,
		Notes: append([]string{}, g.Notes...), Traps: append([]string{}, g.Traps...),
	}
	for _, f := range g.Formats() {
		j.Peaks[f.String()], _ = g.Peak(f)
	}
	if m, ok := g.DriverMemory(); ok {
		j.Driver = &m
	}
	if w, ok := g.Idle(); ok {
		j.Idle = &w
	}
	if p, ok := g.Price(); ok {
		j.Price = &p
	}
	return j
}

// A HardwareCheck is what was found in one hardware file.
type HardwareCheck struct {
	File  string   `json:"file"`
	OK    bool     `json:"ok"`
	Error *string  `json:"error"`
	Added []string `json:"added"` // keys that the built-in table lacks
	GPUs  *int     `json:"gpus"`  // number of GPUs, with the built-in ones
	wrong []string // the error, one line for all that is wrong with one figure
}

// CheckHardware lays a file over a table of GPUs.
func CheckHardware(table *hardware.Table, file string) HardwareCheck {
	t, err := table.OverlayFile(file)
	if err != nil {
		c, all := HardwareCheck{File: file, Error: new(err.Error())}, []error{err}
		if several, ok := err.(interface{ Unwrap() []error }); ok {
			all = several.Unwrap()
		}
		for _, one := range all {
			c.wrong = append(c.wrong, one.Error())
		}
		return c
	}
	names := t.Names()
	return HardwareCheck{File: file, OK: true, Added: append([]string{}, names[len(table.Names()):]...), GPUs: new(len(names))}
}

// HardwareChecksTable lists checks of hardware files, one a row.
func HardwareChecksTable(checks []HardwareCheck) *render.Table {
	t := &render.Table{Columns: []render.Column{
		{Title: "file", Key: "file", Left: true}, {Title: "ok", Key: "ok", Left: true},
		{Title: "added", Key: "added"}, {Title: "GPUs in all", Key: "gpus"}, {Title: "error", Key: "error", Left: true},
	}}
	for i := range checks {
		c := &checks[i]
		t.Add(c.File, judged(c.OK, "yes", "no"), Known(len(c.Added), c.OK), Cell(c.GPUs), Cell(c.Error))
	}
	return t
}

// HardwareChecksPage puts the errors under the table, where they have room.
func HardwareChecksPage(checks []HardwareCheck) *render.Document {
	t := HardwareChecksTable(checks)
	t.LeaveOut(len(t.Columns) - 1)
	var failed []string
	for i := range checks {
		failed = append(failed, checks[i].wrong...)
	}
	return &render.Document{Blocks: []render.Block{*t, render.Notes{Title: "Not read", Items: failed}}}
}
