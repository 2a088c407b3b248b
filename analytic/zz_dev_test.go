package analytic

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"llmprof/hardware"
	"llmprof/models"
)

func devModel(t testing.TB, name string) *models.Model {
	data, err := os.ReadFile("../models.json")
	if err != nil {
		t.Fatal(err)
	}
	var es []struct {
		Name   string
		Config json.RawMessage
	}
	if err := json.Unmarshal(data, &es); err != nil {
		t.Fatal(err)
	}
	for _, e := range es {
		if e.Name == name {
			m, err := models.Read(name, e.Config)
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
	}
	t.Fatal("no", name)
	return nil
}

func dev(t testing.TB, model, gpu, engine string, tp, batch int) *Case {
	g := hardware.Dev(gpu)
	e, err := ParseEngine(engine)
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewMachine(g, hardware.DefaultCalibration(g), e)
	if err != nil {
		t.Fatal(err)
	}
	mod := devModel(t, model)
	return &Case{Model: mod, Machine: m, Workload: Workload{Batch: batch, Prompt: 1024, Gen: 128}, Parallel: Parallelism{TP: tp, GPUsPerNode: 8}, Scheme: StoredScheme(mod).For(g)}
}

func TestDev(t *testing.T) {
	for _, x := range []struct {
		m, g, e string
		tp, b   int
	}{
		{"llama2-70b", "a100", "native", 8, 32}, {"llama3.1-8b", "h200", "native", 1, 1}, {"llama3.1-8b", "h200", "native", 1, 32},
		{"llama3.1-8b", "h200", "transformers", 1, 1}, {"llama3.1-8b", "h200", "transformers-graph", 1, 1}, {"llama3.1-8b", "h200", "vllm", 1, 1}, {"llama3.1-8b", "h200", "native", 2, 1},
		{"qwen3-30b-a3b", "a100", "native", 1, 1},
	} {
		c := dev(t, x.m, x.g, x.e, x.tp, x.b)
		r, err := Explain(c)
		if err != nil {
			t.Error(err)
			continue
		}
		fmt.Println(x, r.TTFT, r.TPOT, r.MFU, r.MBU, r.Memory, r.Energy, r.Warnings)
		if x.e == "native" {
			for _, ls := range [][]Line{r.PrefillOps, r.DecodeOps} {
				fmt.Println("--")
				for _, l := range ls {
					fmt.Printf("%-28s %-20s x%3.0f %10.4g F %10.4g w %10.4g kv %10.4g a %10.4g wire AI %7.1f %-8v fl %9.3fus ex %9.3fus %5.1f%% %6.2fJ\n", l.Name, l.Layer, l.Layers, float64(l.FLOPs), float64(l.Weights), float64(l.KV+l.State), float64(l.Acts), float64(l.Wire), l.Intensity(), l.Bound, l.Floor*1e6, l.Expected*1e6, l.Share*100, float64(l.Energy))
				}
			}
		}
	}
}

func BenchmarkDev(b *testing.B) {
	c := dev(b, "llama3.1-8b", "h200", "native", 1, 1)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Predict(c); err != nil {
			b.Fatal(err)
		}
	}
}
func BenchmarkDevExplain(b *testing.B) {
	c := dev(b, "llama3.1-8b", "h200", "native", 1, 1)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Explain(c); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPre(b *testing.B) {
	c := dev(b, "llama3.1-8b", "h200", "native", 1, 1)
	p, err := NewPredictor(c)
	if err != nil { b.Fatal(err) }
	w := c.Workload
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Predict(&w); err != nil { b.Fatal(err) }
	}
}
