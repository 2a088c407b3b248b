package page

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"llmprof"
	"llmprof/analytic/engine"
	"llmprof/cmd/llmprof/internal/settings"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/deployment"
	"llmprof/hardware"
	"llmprof/plots/colors"
	"llmprof/roofline"
	"llmprof/unit"
)

// A Catalog is what the page offers to choose from.
type Catalog struct {
	Version string              `json:"version"`
	Models  []catalogModel      `json:"models"`
	GPUs    []catalogGPU        `json:"gpus"`
	Choices map[string][]string `json:"choices"` // values that flags take
	Flags   map[string]flagInfo `json:"flags"`
}

// A catalogModel has what the page shows of a model before it is estimated: its sources and layers are in
// "llmprof models show", and would be a fifth of what the page transfers beside its program.
type catalogModel struct {
	Name         string   `json:"name"`
	Aliases      []string `json:"aliases"`
	ParamsTotal  int64    `json:"params_total"`
	ParamsActive int64    `json:"params_active"`
	Layers       int      `json:"layers"`
	MaxContext   *int     `json:"max_context"`
}

type catalogGPU struct {
	Key       string               `json:"key"`
	Name      string               `json:"name"`
	Vendor    string               `json:"vendor"`
	Memory    unit.Bytes           `json:"memory_bytes"` // the driver's figure where it is known, else the data sheet's
	Bandwidth unit.BytesPerSec     `json:"bandwidth_bytes_per_s"`
	Price     *unit.DollarsPerHour `json:"price_usd_per_hour"`
	TDP       unit.Watts           `json:"tdp_w"`
	Clock     unit.Hertz           `json:"clock_hz"`
	Measured  []string             `json:"measured"` // engines for which constants were measured on it
}

type flagInfo struct {
	Default string `json:"default"`
	Usage   string `json:"usage"`
}

// NewCatalog lists the models, the GPUs and the flags.
func NewCatalog(version string) (*Catalog, error) {
	c := &Catalog{Version: version, Flags: map[string]flagInfo{}}
	table := deployment.BuiltInModels()
	all, err := table.All()
	if err != nil {
		return nil, err
	}
	for _, m := range all {
		s := view.SummarizeModel(m)
		c.Models = append(c.Models, catalogModel{s.Name, table.Aliases(s.Name), s.ParamsTotal, s.ParamsActive, s.Layers, s.MaxContext})
	}
	for _, g := range deployment.BuiltInGPUs().All() {
		one := newCatalogGPU(&g)
		for _, name := range engine.Names() {
			file, err := hardware.BuiltIn(llmprof.Calibrations, &g, name)
			if err != nil {
				return nil, err
			}
			if file != nil {
				one.Measured = append(one.Measured, name)
			}
		}
		c.GPUs = append(c.GPUs, one)
	}
	c.Choices = map[string][]string{}
	for _, key := range []string{"engine", "weights", "kv", "act"} {
		c.Choices[key] = deployment.Words(key)
	}
	for _, h := range hardware.Hosts() {
		c.Choices["host"] = append(c.Choices["host"], h.Key)
	}
	settings.Flags(&deployment.Request{}).VisitAll(func(f *pflag.Flag) {
		_, usage := pflag.UnquoteUsage(f)
		c.Flags[f.Name] = flagInfo{f.DefValue, usage}
	})
	return c, nil
}

func newCatalogGPU(g *hardware.GPU) catalogGPU {
	d := view.DocumentGPU(g)
	one := catalogGPU{Key: d.Key, Name: d.Name, Vendor: d.Vendor, Memory: d.Memory, Bandwidth: d.Bandwidth, Price: d.Price,
		TDP: d.TDP, Clock: d.Clock, Measured: []string{}}
	if d.Driver != nil {
		one.Memory = *d.Driver
	}
	return one
}

// Colors are the colours of the program's pictures as a style sheet, on light ground and
// on dark.
func Colors() string {
	var b strings.Builder
	b.WriteString(":root {\n")
	add := func(name string, c colors.Color) {
		fmt.Fprintf(&b, "  --%s: light-dark(%s, %s);\n", name, colors.Hex(c.Light), colors.Hex(c.Dark))
	}
	add("paper", colors.Paper())
	add("ink", colors.Ink())
	add("faint", colors.Faint())
	add("rule", colors.Rule())
	add("panel", colors.Panel())
	add("alarm", colors.Alarm())
	for bound := roofline.ByCompute; bound <= roofline.ByLaunch; bound++ {
		add(bound.String(), colors.Bound(bound))
		add("on-"+bound.String(), colors.Bound(bound).On())
	}
	for i := range colors.NumSeries {
		add(fmt.Sprintf("series-%d", i), colors.Series(i))
	}
	for i := range colors.NumStack {
		add(fmt.Sprintf("stack-%d", i), colors.Stack(i))
	}
	b.WriteString("}\n")
	return b.String()
}
