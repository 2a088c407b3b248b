// Package casetest has the cases and the comparisons that the tests of package
// analytic and of its engines share.
package casetest

import (
	"fmt"
	"math"
	"sync"
	"testing"

	"llmprof"
	"llmprof/analytic"
	"llmprof/analytic/breakdown"
	"llmprof/analytic/engine"
	"llmprof/hardware"
	"llmprof/internal/testkit"
	"llmprof/models"
	"llmprof/roofline"
)

var (
	modelTable = sync.OnceValues(func() (*models.Table, error) { return models.Load(llmprof.ModelsJSON) })
	gpuTable   = sync.OnceValues(func() (*hardware.Table, error) { return hardware.Load(llmprof.HardwareTOML) })
)

// Tables are the built-in tables of models and GPUs.
func Tables(t testing.TB) (*models.Table, *hardware.Table) {
	t.Helper()
	m, err := modelTable()
	testkit.Must(t, err)
	g, err := gpuTable()
	testkit.Must(t, err)
	return m, g
}

// Model is a model of the built-in table.
func Model(t testing.TB, name string) *models.Model {
	t.Helper()
	table, err := modelTable()
	testkit.Must(t, err)
	m, err := table.Model(name)
	testkit.Must(t, err)
	return m
}

// Models lists all models of the built-in table.
func Models(t testing.TB) []*models.Model {
	t.Helper()
	table, err := modelTable()
	testkit.Must(t, err)
	all, err := table.All()
	testkit.Must(t, err)
	return all
}

// GPU is a GPU of the built-in table.
func GPU(t testing.TB, name string) *hardware.GPU {
	t.Helper()
	table, err := gpuTable()
	testkit.Must(t, err)
	g, err := table.GPU(name)
	testkit.Must(t, err)
	return &g
}

// GPUs names the GPUs of the built-in table.
func GPUs(t testing.TB) []string {
	t.Helper()
	table, err := gpuTable()
	testkit.Must(t, err)
	return table.Names()
}

// Upgrade is a GPU of the built-in table with some of its figures x times as large:
// "bandwidth", "peak" (of all formats), "link" (all links) or "tdp".
func Upgrade(t testing.TB, key, what string, x float64) *hardware.GPU {
	t.Helper()
	g := GPU(t, key)
	text := fmt.Sprintf("[gpu.%s]\n", key)
	set := func(field string, v float64, unit string) {
		if v > 0 {
			text += fmt.Sprintf("%s = \"%.10g %s\"\n", field, v*x, unit)
		}
	}
	switch what {
	case "bandwidth":
		set("bandwidth", float64(g.Bandwidth), "B/s")
	case "peak": // The board gets more SMs of the same rate, for no peak may be more than they can do.
		if sms := float64(g.SMs); sms > 0 {
			x = math.Ceil(sms*x) / sms
			text += fmt.Sprintf("sms = %.0f\n", sms*x)
		}
		for _, f := range g.Formats() {
			rate, _ := g.Peak(f)
			set("peak."+f.String(), float64(rate), "FLOP/s")
		}
	case "link":
		set("link", float64(g.Link), "B/s")
		set("pcie", float64(g.PCIe), "B/s")
		set("nic", float64(g.NIC), "B/s")
	case "tdp":
		set("tdp", float64(g.TDP), "W")
	default:
		t.Fatalf("%q is no figure of a GPU", what)
	}
	table, err := gpuTable()
	testkit.Must(t, err)
	table, err = table.Overlay(what+".toml", text)
	testkit.Must(t, err)
	better, err := table.GPU(key)
	testkit.Must(t, err)
	return &better
}

// Engine is an engine by its name.
func Engine(t testing.TB, name string) analytic.Engine {
	t.Helper()
	e, err := engine.Parse(name)
	testkit.Must(t, err)
	return e
}

// Machine is a GPU with the constants of its generation.
func Machine(t testing.TB, gpu, engine string) *analytic.Machine {
	t.Helper()
	return MachineOf(t, GPU(t, gpu), engine)
}

// MachineOf is a GPU, which no table needs to have, with the constants of its generation.
func MachineOf(t testing.TB, g *hardware.GPU, engine string) *analytic.Machine {
	t.Helper()
	e := Engine(t, engine)
	cal, err := analytic.Constants(g, e, nil)
	testkit.Must(t, err)
	m, err := analytic.NewMachine(g, cal, e)
	testkit.Must(t, err)
	return m
}

// Case is a model in 16 bits on GPUs with the native engine, prompts of 1024 and
// answers of 128 tokens.
func Case(t testing.TB, model, gpu string, batch, tp int) *analytic.Case {
	t.Helper()
	m := Machine(t, gpu, "native")
	return &analytic.Case{
		Model: Model(t, model), Machine: m, Scheme: Scheme(t, "w16a16", m.GPU),
		Workload: analytic.Workload{Batch: batch, PromptLen: 1024, GenLen: 128},
		Parallel: analytic.Parallelism{TP: tp, GPUsPerNode: 8},
	}
}

// Predictor is of a model on GPUs by vLLM.
func Predictor(t testing.TB, model, gpu string, tp int) *analytic.Predictor {
	t.Helper()
	c := Case(t, model, gpu, 1, tp)
	c.Machine = Machine(t, gpu, "vllm")
	p, err := analytic.NewPredictor(c)
	testkit.Must(t, err)
	return p
}

// OnEngine is a model in 16 bits on one H200 with an engine.
func OnEngine(t testing.TB, model, engine string, w analytic.Workload) *analytic.Case {
	t.Helper()
	c := Case(t, model, "h200", 1, 1)
	c.Machine, c.Workload = Machine(t, "h200", engine), w
	return c
}

// With is the case on a machine with other constants.
func With(t testing.TB, c *analytic.Case, change func(*roofline.Constants)) *analytic.Case {
	t.Helper()
	other, cal := *c, c.Machine.Cal
	change(&cal.Constants)
	m, err := analytic.NewMachine(c.Machine.GPU, cal, c.Machine.Engine)
	testkit.Must(t, err)
	other.Machine = m
	return &other
}

// Calibrated is the machine of a case on g by the constants of a calibration, or
// by the defaults of the GPU's generation if there is none.

// Cost is what a kernel costs on a machine.
func Cost(m *analytic.Machine, k *roofline.Kernel) roofline.Cost {
	return roofline.NewMachine(m.Peaks(), &m.Cal.Constants).Cost(k)
}

// Scheme is a scheme by its name, in the 16-bit formats of a GPU.
func Scheme(t testing.TB, name string, g *hardware.GPU) models.Scheme {
	t.Helper()
	s, err := models.ParseScheme(name)
	testkit.Must(t, err)
	return s.For(g)
}

// Predict is the estimate of a case.
func Predict(t testing.TB, c *analytic.Case) analytic.Estimate {
	t.Helper()
	e, err := analytic.Predict(c)
	testkit.Must(t, err)
	return e
}

// Explain is the report of a case.
func Explain(t testing.TB, c *analytic.Case) breakdown.Report {
	t.Helper()
	r, err := breakdown.Explain(c)
	testkit.Must(t, err)
	return r
}

// Line is the line of that name, the sum over all kinds of layers.
func Line(t testing.TB, lines []breakdown.Operator, name string) (sum breakdown.Operator) {
	t.Helper()
	found := false
	for i := range lines {
		l := &lines[i]
		if l.Name != name {
			continue
		}
		found = true
		sum.Name, sum.Bound, sum.In = name, l.Bound, l.In
		sum.Layers += l.Layers
		sum.Add(&l.Work, 1)
		sum.Floor += l.Floor
		sum.Expected += l.Expected
		sum.Fixed += l.Fixed
		sum.Memory += l.Memory
		sum.Energy += l.Energy
	}
	if !found {
		t.Fatalf("there is no operator %q", name)
	}
	return sum
}

// Near fails the test unless got is within rel of want.
func Near[T ~float64](t testing.TB, what string, got, want T, rel float64) {
	t.Helper()
	if d := math.Abs(float64(got - want)); !(d <= rel*math.Abs(float64(want))) {
		t.Errorf("%s: got %.10g, want %.10g (off by %.3g)", what, float64(got), float64(want), float64(got)/float64(want)-1)
	}
}

// AtHome is a case of llama.cpp on a GPU in a host.
func AtHome(t testing.TB, model, weights, gpu, host string, w analytic.Workload) *analytic.Case {
	t.Helper()
	m := Model(t, model)
	m, err := models.Quantize(m, weights)
	testkit.Must(t, err)
	h, err := hardware.HostOf(host)
	testkit.Must(t, err)
	g := GPU(t, gpu).On(&h)
	e, err := engine.Parse("llama.cpp")
	testkit.Must(t, err)
	machine, err := analytic.Calibrated(g, e, nil)
	testkit.Must(t, err)
	s := models.StoredScheme(m)
	return &analytic.Case{Model: m, Machine: machine, Scheme: s.For(g), Workload: w, Parallel: analytic.Parallelism{GPUsPerNode: 1}}
}
