package analytic

import (
	"math"
	"testing"

	"llmprof"
	"llmprof/hardware"
	"llmprof/models"
)

// testModel returns a model of the built-in table.
func testModel(t testing.TB, name string) *models.Model {
	t.Helper()
	table, err := models.Load(llmprof.ModelsJSON)
	if err != nil {
		t.Fatal(err)
	}
	m, err := table.Model(name)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// testGPU returns a GPU of the built-in table.
func testGPU(t testing.TB, name string) *hardware.GPU {
	t.Helper()
	table, err := hardware.Load(llmprof.HardwareTOML)
	if err != nil {
		t.Fatal(err)
	}
	g, err := table.GPU(name)
	if err != nil {
		t.Fatal(err)
	}
	return &g
}

// testMachine is a GPU with its default calibration and the native engine.
func testMachine(t testing.TB, name string) *Machine {
	t.Helper()
	g := testGPU(t, name)
	return machineOf(t, g, hardware.DefaultCalibration(g), "native")
}

func machineOf(t testing.TB, g *hardware.GPU, c hardware.Calibration, engine string) *Machine {
	t.Helper()
	e, err := ParseEngine(engine)
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewMachine(g, c, e)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// testCase is a model in 16 bits on a GPU, prompts of 1024 and answers of 128.
func testCase(t testing.TB, model, gpu string, batch, tp int) *Case {
	t.Helper()
	m := testMachine(t, gpu)
	return &Case{
		Model: testModel(t, model), Machine: m, Scheme: scheme(t, "w16a16", m.GPU),
		Workload: Workload{Batch: batch, Prompt: 1024, Gen: 128},
		Parallel: Parallelism{TP: tp, GPUsPerNode: 8},
	}
}

func scheme(t testing.TB, name string, g *hardware.GPU) Scheme {
	t.Helper()
	s, err := ParseScheme(name)
	if err != nil {
		t.Fatal(err)
	}
	return s.For(g)
}

func explain(t testing.TB, c *Case) Report {
	t.Helper()
	r, err := Explain(c)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// op returns the line of that name, the sum over all kinds of layers.
func op(t testing.TB, lines []Line, name string) (sum Line) {
	t.Helper()
	found := false
	for _, l := range lines {
		if l.Name != name {
			continue
		}
		found = true
		sum.Name, sum.Bound = name, l.Bound
		sum.Layers += l.Layers
		sum.FLOPs += l.FLOPs
		sum.Weights += l.Weights
		sum.KV += l.KV
		sum.State += l.State
		sum.Wire += l.Wire
		sum.Floor += l.Floor
		sum.Expected += l.Expected
	}
	if !found {
		t.Fatalf("no operator %q", name)
	}
	return sum
}

// near fails unless got is within rel of want.
func near[T ~float64](t testing.TB, what string, got, want T, rel float64) {
	t.Helper()
	if d := math.Abs(float64(got - want)); !(d <= rel*math.Abs(float64(want))) {
		t.Errorf("%s: got %.10g, want %.10g (off by %.3g)", what, float64(got), float64(want), float64(got)/float64(want)-1)
	}
}
