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
			"roofline":  func() (*Figure, error) { return Roofline(c, r) },
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
