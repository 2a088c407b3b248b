package experiment

import (
	"strings"
	"testing"
)

// Numbers below 0 are refused however they were given: files cannot have them, flags can.
func TestNegativeNumbers(t *testing.T) {
	for key, spoil := range map[string]func(*Point){
		"carbon_intensity_g_kwh": func(p *Point) { p.CarbonIntensity = -5 },
		"warmup":                 func(p *Point) { p.Warmup = -1 },
		"repeats":                func(p *Point) { p.Repeats = -1 },
		"batch":                  func(p *Point) { p.Batch = -1 },
	} {
		p := Default()
		p.Model = "llama3.1-8b"
		if err := p.Check(); err != nil {
			t.Fatal(err)
		}
		spoil(&p)
		err := p.Check()
		if err == nil || !strings.Contains(err.Error(), key+": ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", key, err)
		}
	}
}
