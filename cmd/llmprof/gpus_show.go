package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"llmprof"
	"llmprof/cmd/llmprof/internal/render"
	"llmprof/hardware"
	"llmprof/roofline"
	"llmprof/unit"
)

func (a *app) gpusShow() *cobra.Command {
	o := &output{}
	var file string
	cmd := &cobra.Command{
		Use:     "show GPU",
		Short:   "Show what a GPU can do, and what it does in practice",
		Example: "  llmprof gpus show h200\n  llmprof gpus show a100 --format json",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			g, err := a.gpu(args[0], file)
			if err != nil {
				return err
			}
			return o.write(a, result{
				page:  func() *render.Document { return gpuPage(g, args[0]) },
				table: func() *render.Table { t := peakTable(g); return &t },
				data:  func() any { return sheetOf(g) },
			})
		},
		ValidArgsFunction: completeGPUs,
	}
	o.flags(cmd)
	hardwareFlag(cmd, &file)
	return cmd
}

// completeGPUs offers the names of the built-in GPUs.
func completeGPUs(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	table, err := hardware.Load(llmprof.HardwareTOML)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return table.Names(), cobra.ShellCompDirectiveNoFileComp
}

func gpuPage(g *hardware.GPU, name string) *render.Document {
	title := g.Name
	if name != g.Name {
		title = name + " = " + g.Name
	}
	or := func(q any) string {
		if q == nil {
			return "n/a: no source gives it"
		}
		return fmt.Sprint(q)
	}
	node := fmt.Sprintf("%d GPUs", g.GPUsPerNode)
	if g.NIC > 0 {
		node += fmt.Sprintf(", a network of %v for each, each way", g.NIC)
	}
	link := "none"
	if g.Link > 0 {
		link = fmt.Sprintf("%v each way", g.Link)
	}
	pcie := "none: on the host's die"
	if g.PCIe > 0 {
		pcie = fmt.Sprintf("%v each way", g.PCIe)
	}
	f := render.Fields{Rows: []render.Field{
		{Name: "Key", Lines: []string{strings.Join(append([]string{g.Key}, g.Aliases...), ", ")}},
		{Name: "Chip", Lines: []string{fmt.Sprintf("%s %s, %s, %d SMs at up to %v", g.Vendor, g.Generation, g.ComputeCapability, g.SMs, g.Clock)}},
		{Name: "Memory", Lines: []string{fmt.Sprintf("%v at %v, L2 cache of %v", g.Memory, g.Bandwidth, g.L2)}},
		{Name: "Link", Lines: []string{link}},
		{Name: "PCIe", Lines: []string{pcie}},
		{Name: "Node", Lines: []string{node}},
		{Name: "Power", Lines: []string{fmt.Sprintf("%v, idle %s", g.TDP, or(known(g.Idle())))}},
		{Name: "Price", Lines: []string{priceText(g)}},
		{Name: "Source", Lines: []string{g.Source}},
	}}
	return &render.Document{Title: title, Blocks: []render.Block{
		f, peakTable(g), calibrationFields(g),
		render.Notes{Title: "Notes", Items: g.Notes}, render.Notes{Title: "Traps", Items: g.Traps},
	}}
}

func priceText(g *hardware.GPU) string {
	p, ok := g.Price()
	if !ok {
		return "n/a: no source gives it"
	}
	return fmt.Sprintf("%v (%s)", p, g.PriceSource)
}

func peakTable(g *hardware.GPU) render.Table {
	t := render.Table{Title: "Dense peaks", Columns: []render.Column{
		{Title: "format", Key: "format", Left: true}, {Title: "peak", Key: "peak_flop_per_s"}, {Title: "ridge, FLOP/B", Key: "ridge_flop_per_byte"},
	}}
	for _, f := range g.Formats() {
		rate, _ := g.Peak(f)
		ridge, _ := g.Ridge(f)
		t.Rows = append(t.Rows, render.Row{Cells: []any{f, rate, render.Tenths(ridge)}})
	}
	return t
}

// calibrationFields is what estimates take the GPU to reach.
func calibrationFields(g *hardware.GPU) render.Fields {
	c := hardware.DefaultCalibration(g)
	if f, err := hardware.BuiltIn(llmprof.Calibrations, g, "native"); err == nil && f != nil {
		c, _ = f.Apply(g, "native") // BuiltIn checked it
	}
	k := &c.Constants
	kernel := func(compute, memory, fixed roofline.Constant) []string {
		return []string{fmt.Sprintf("%.0f %% of the peak, %.0f %% of the bandwidth, after %v", 100*k[compute], 100*k[memory], unit.Seconds(k[fixed]))}
	}
	return render.Fields{Title: "In practice", Rows: []render.Field{
		{Name: "Calibration", Lines: []string{c.Name + ": " + c.Source}},
		{Name: "GEMM", Lines: kernel(roofline.GEMMCompute, roofline.GEMMMemory, roofline.GEMMFixed)},
		{Name: "Skinny GEMM", Lines: []string{fmt.Sprintf("of few rows: %.0f %% of the bandwidth, after %v; %.1f %% of the weights' time more for each row",
			100*k[roofline.SkinnyGEMMMemory], unit.Seconds(k[roofline.SkinnyGEMMFixed]), 100*k[roofline.SkinnyGEMMRow])}},
		{Name: "Power limit", Lines: []string{limitText(g, k)}},
		{Name: "Attention", Lines: kernel(roofline.AttentionCompute, roofline.AttentionMemory, roofline.AttentionFixed)},
		{Name: "Element-wise", Lines: kernel(roofline.ElementwiseCompute, roofline.ElementwiseMemory, roofline.ElementwiseFixed)},
		{Name: "Links", Lines: []string{fmt.Sprintf("%.0f %% of the rate, after %v and %v a GPU", 100*k[roofline.LinkShare],
			unit.Seconds(k[roofline.LinkBase]), unit.Seconds(k[roofline.LinkPerGPU]))}},
		{Name: "Error", Lines: []string{fmt.Sprintf("±%.0f %% in prefill, ±%.0f %% in decode, of the generation's defaults", 100*c.PrefillError, 100*c.DecodeError)}},
	}}
}

// limitText is what the power limit leaves of the rate of products, and what waiting draws.
func limitText(g *hardware.GPU, k *roofline.Constants) string {
	limit := "one rate of products is known, whatever throttles it"
	if k[roofline.GEMMSustained] < k[roofline.GEMMCompute] {
		limit = fmt.Sprintf("throttles large products to %.1f %% of the peak", 100*k[roofline.GEMMSustained])
	}
	return fmt.Sprintf("%s; a GPU that waits for its host draws %.1f %% of what lies between idle power and the %v", limit, 100*k[roofline.PowerWaiting], g.TDP)
}

// A sheetJSON is a GPU for programs.
type sheetJSON struct {
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

func sheetOf(g *hardware.GPU) sheetJSON {
	j := sheetJSON{
		Key: g.Key, Name: g.Name, Aliases: append([]string{}, g.Aliases...), Vendor: g.Vendor, Generation: g.Generation,
		Capability: g.ComputeCapability, SMs: g.SMs, Clock: g.Clock, Peaks: map[string]unit.FLOPsPerSec{},
		Memory: g.Memory, Bandwidth: g.Bandwidth, L2: g.L2, Link: orNull(g.Link), PCIe: orNull(g.PCIe), NIC: orNull(g.NIC),
		GPUsPerNode: g.GPUsPerNode, TDP: g.TDP, PriceSource: orNull(g.PriceSource), Source: g.Source,
		Notes: append([]string{}, g.Notes...), Traps: append([]string{}, g.Traps...),
	}
	for _, f := range g.Formats() {
		j.Peaks[f.String()], _ = g.Peak(f)
	}
	if w, ok := g.Idle(); ok {
		j.Idle = &w
	}
	if p, ok := g.Price(); ok {
		j.Price = &p
	}
	return j
}
