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

// TestTooManyRuns refuses what no list of runs is made of: within the bounds of its points and of its cycles, and beyond that of both.
func TestTooManyRuns(t *testing.T) {
	files := archive("-- m.yaml --\nmodel: m\ncycles: 10000\ngrid: {batch: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512], seed: [0, 1, 2, 3, 4, " +
		"5, 6, 7, 8, 9, 10]}\n")
	if _, err := load("m.yaml", files); err == nil || !strings.Contains(err.Error(),
		"110 points in 10000 cycles are 1100000 runs: want at most 1000000") {
		t.Errorf("%v", err)
	}
}
