package plots

import (
	"os"
	"testing"
)

func TestLook(t *testing.T) {
	for _, s := range subjects() {
		c := testCase(t, s.model, s.gpu, s.batch, s.tp)
		r := explain(t, c)
		for name, f := range map[string]func() (*Figure, error){
			"roofline": func() (*Figure, error) { return Roofline(c, r) },
			"memory": func() (*Figure, error) {
				m, err := MemorySweep(c, ByBatch)
				if err != nil {
					return nil, err
				}
				return Memory(c, ByBatch, m)
			},
			"memctx": func() (*Figure, error) {
				m, err := MemorySweep(c, ByContext)
				if err != nil {
					return nil, err
				}
				return Memory(c, ByContext, m)
			},
			"sweep": func() (*Figure, error) {
				m, err := Sweep(c, ByBatch, Doublings(1, 512), "a")
				if err != nil {
					return nil, err
				}
				return Latency(SweepCaption(c, ByBatch), ByBatch, []Curve{m})
			},
			"multi": func() (*Figure, error) {
				var cs []Curve
				for _, g := range []string{"a100", "h100", "h200"} {
					d := testCase(t, "llama3.1-8b", g, 1, 1)
					m, err := Sweep(d, ByBatch, Doublings(1, 512), g)
					if err != nil {
						return nil, err
					}
					cs = append(cs, m)
				}
				return Latency("llama3.1-8b", ByBatch, cs)
			},
			"breakdown": func() (*Figure, error) { return Breakdown(c, r) },
		} {
			fig, err := f()
			if err != nil {
				t.Fatal(err)
			}
			o, _ := os.Create("/tmp/look/" + s.model + "-" + name + ".png")
			if err := fig.Write(o, "png"); err != nil {
				t.Fatal(err)
			}
			o.Close()
		}
	}
}
