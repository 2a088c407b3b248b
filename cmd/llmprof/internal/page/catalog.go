package page

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"llmprof"
	"llmprof/analytic/engine"
	"llmprof/cmd/llmprof/internal/ask"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/hardware"
	"llmprof/models"
	"llmprof/plots/colors"
	"llmprof/roofline"
)

// A Catalog is what the page offers to choose from.
type Catalog struct {
	Version string              `json:"version"`
	Models  []catalogModel      `json:"models"`
	GPUs    []catalogGPU        `json:"gpus"`
	Choices map[string][]string `json:"choices"` // of flags
	Flags   map[string]flagInfo `json:"flags"`
}

type catalogModel struct {
	view.ModelSummary
	Aliases []string `json:"aliases"`
}

type catalogGPU struct {
	view.GPUDocument
	Measured []string `json:"measured"` // engines for which constants were measured on it
}

type flagInfo struct {
	Default string `json:"default"`
	Usage   string `json:"usage"`
}

// NewCatalog lists the models, the GPUs and the flags.
func NewCatalog(version string) (*Catalog, error) {
	c := &Catalog{Version: version, Flags: map[string]flagInfo{}}
	table, err := models.Load(llmprof.ModelsJSON)
	if err != nil {
		return nil, err
	}
	all, err := table.All()
	if err != nil {
		return nil, err
	}
	for _, m := range all {
		c.Models = append(c.Models, catalogModel{view.SummarizeModel(m), table.Aliases(m.Name)})
	}
	gpus, err := hardware.Load(llmprof.HardwareTOML)
	if err != nil {
		return nil, err
	}
	for _, g := range gpus.All() {
		one := catalogGPU{GPUDocument: view.DocumentGPU(&g), Measured: []string{}}
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
	c.Choices = map[string][]string{
		"engine": engine.Names(), "weights": append(models.SchemeNames(), models.Mixes()...), "kv": ask.FormatNames(), "act": ask.FormatNames(),
	}
	f := ask.Flags(&ask.Question{})
	new(ask.SteadyLoad).Flags(f)
	f.VisitAll(func(f *pflag.Flag) {
		_, usage := pflag.UnquoteUsage(f)
		c.Flags[f.Name] = flagInfo{f.DefValue, usage}
	})
	return c, nil
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
