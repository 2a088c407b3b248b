package sensitivity_test

import (
	"fmt"
	"slices"
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/analytic/sensitivity"
	"llmprof/internal/testkit"
	"llmprof/internal/testkit/casetest"
	"llmprof/models"
	"llmprof/roofline"
)

// TestResources checks that a faster resource lengthens nothing, that none gives more than
// its share, and that the one that bounds a phase comes first.
func TestResources(t *testing.T) {
	for _, test := range []struct {
		model, gpu string
		gen        int
		first      string
	}{
		{"llama3.1-8b", "h200", 512, "memory bandwidth"},
		{"llama3.1-8b", "l40s", 512, "memory bandwidth"},
		{"llama3.1-8b", "h100", 1, "compute"},
	} {
		c := casetest.Case(t, test.model, test.gpu, 1, 1)
		c.Workload = analytic.Workload{Batch: 1, PromptLen: 4096, GenLen: test.gen}
		base := casetest.Predict(t, c)
		all := sensitivity.Resources(&base)
		if len(all) != 6 {
			t.Fatalf("%s on %s: %d resources", test.model, test.gpu, len(all))
		}
		for _, r := range all {
			if ratio := float64(r.TTLT.Expected / base.TTLT.Expected); ratio > 1+1e-12 || ratio < 1/(1+sensitivity.Step)-1e-9 {
				t.Errorf("%s on %s: 10 %% more %s makes a request %.4f times as long", test.model, test.gpu, r.Name, ratio)
			}
		}
		if all[0].Name != test.first {
			t.Errorf("%s on %s, %d generated: %s comes first", test.model, test.gpu, test.gen, all[0].Name)
		}
	}
}

// TestScaledTogether checks that a machine of which everything is faster by one factor is
// faster by that factor: no resource is left out of the list.
func TestScaledTogether(t *testing.T) {
	const factor = 1.1
	c := casetest.Case(t, "llama2-70b", "a100", 1, 1)
	c.Parallel.TP = 8
	base := casetest.Predict(t, c)
	cal := c.Machine.Cal
	for _, k := range roofline.All() {
		if k.Info().Quantity.Timed() {
			cal.Constants[k] /= factor
		}
	}
	g := c.Machine.GPU
	figures := map[string]float64{"bandwidth": float64(g.Bandwidth), "link": float64(g.Link), "pcie": float64(g.PCIe), "nic": float64(g.NIC),
		"tdp": float64(g.TDP), "tensor_clock": float64(g.TensorClock)}
	for _, f := range g.Formats() {
		rate, _ := g.Peak(f)
		figures["peak."+f.String()] = float64(rate)
	}
	text := "[gpu." + g.Key + "]\n"
	for key, v := range figures {
		text += fmt.Sprintf("%s = %f\n", key, v*factor)
	}
	_, gpus := casetest.Tables(t)
	faster, err := gpus.Overlay("faster.toml", text)
	testkit.Must(t, err)
	fastGPU, err := faster.GPU(g.Key)
	testkit.Must(t, err)
	m, err := analytic.NewMachine(&fastGPU, cal, c.Machine.Engine)
	testkit.Must(t, err)
	c.Machine = m
	fast := casetest.Predict(t, c)
	casetest.Near(t, "TTLT", fast.TTLT.Expected*factor, base.TTLT.Expected, 1e-6)
	casetest.Near(t, "TTFT floor", fast.TTFT.Floor*factor, base.TTFT.Floor, 1e-9)
}

// TestChoices checks that every choice fits, that the best comes first, and that what cannot
// be chosen is left out.
func TestChoices(t *testing.T) {
	c := casetest.Case(t, "llama3.1-8b", "h100", 1, 1)
	c.Machine = casetest.Machine(t, "h100", "vllm")
	all := sensitivity.Choices(c)
	names := map[string]bool{}
	for i := range all {
		names[all[i].By.String()] = true
		if !all[i].Memory.Fits() {
			t.Errorf("%s does not fit", all[i].Name)
		}
		if i > 0 && all[i].PerGPU() > all[i-1].PerGPU() {
			t.Errorf("%s is better than %s before it", all[i].Name, all[i-1].Name)
		}
	}
	for _, want := range []string{"batch 2", "weights fp8", "weights w4a16-g128", "kv fp8", "tp 2"} {
		if !names[want] {
			t.Errorf("%s is no choice; there are %v", want, names)
		}
	}
	if names["weights nvfp4"] {
		t.Error("an H100 has no unit for nvfp4")
	}
	if a100 := sensitivity.Choices(casetest.Case(t, "llama2-70b", "a100", 1, 1)); len(a100) == 0 {
		t.Error("llama2-70b does not fit one A100; --tp 2 does")
	} else {
		for _, choice := range a100 {
			if choice.By.String() == "batch 2" {
				t.Error("a larger batch of what does not fit is no choice")
			}
		}
	}
}

// TestChoicesRun checks that the engine runs each choice, and that its flags do not lead to another engine.
func TestChoicesRun(t *testing.T) {
	quantized := func(mix string) *models.Model {
		m, err := models.Quantize(casetest.Model(t, "llama3.1-8b"), mix)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	for _, x := range []struct {
		model     *models.Model
		gpu       string
		want, not string
	}{
		{quantized("q8_0"), "h100", "weights q4_k_m", "weights w4a16-g128"},
		{quantized("q8_0"), "rtx-4090", "kv int8", "kv fp8"},
		{quantized("q4_k_m"), "h100", "kv int8", "weights q4_k_m"},
		{casetest.Model(t, "llama3.1-8b"), "v100", "weights q4_k_m", "kv fp8"},
		{casetest.Model(t, "llama3.1-8b"), "h100", "kv fp8", "weights q4_k_m"},
	} {
		c := casetest.Case(t, "llama3.1-8b", x.gpu, 1, 1)
		c.Model, c.Scheme = x.model, models.StoredScheme(x.model).For(c.Machine.GPU)
		e, _ := engine.Default(c.Model, c.Machine.GPU, &c.Scheme)
		c.Machine = casetest.Machine(t, x.gpu, e.Profile().Name)
		var flags []string
		for _, choice := range sensitivity.Choices(c) {
			flags = append(flags, choice.By.String())
		}
		if !slices.Contains(flags, x.want) || slices.Contains(flags, x.not) {
			t.Errorf("%s on %s by %s: %v; want %s and not %s", x.model.Stored.Method, x.gpu, e.Profile().Name, flags, x.want, x.not)
		}
	}
}
