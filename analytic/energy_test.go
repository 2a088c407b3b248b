package analytic_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"llmprof/analytic/casetest"
	"llmprof/roofline"
	"llmprof/unit"
)

// The power model gives back the power that an H200 drew under products of
// several shapes, two of which its shares come from.
func TestPowerOnH200(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "hardware", "testdata", "h200_operators.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Rows []struct {
			Op    string
			M     float64
			N, K  float64
			Watts unit.Watts       `json:"power_w"`
			FLOPs unit.FLOPsPerSec `json:"flops_per_s"`
			Bytes unit.BytesPerSec `json:"bytes_per_s"`
		}
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	m := casetest.Machine(t, "h200", "native")
	_, peak := m.Runs(unit.BF16)
	k := &m.Cal.Constants
	seen := 0
	for _, r := range file.Rows {
		if r.Op != "gemm_power" {
			continue
		}
		seen++
		got := m.Draws(
			unit.Seconds(float64(r.FLOPs)/float64(peak.Times(k[roofline.GEMMCompute]))),
			unit.Seconds(float64(r.Bytes)/float64(m.GPU.Bandwidth.Times(k[roofline.GEMMMemory]))),
			unit.Seconds(k[roofline.GEMMFixed]*float64(r.FLOPs)/(2*r.M*r.N*r.K)), // of each product
		)
		t.Logf("%.0f rows: %.0f W, measured %.0f", r.M, float64(got), float64(r.Watts))
		near(t, "power", got, r.Watts, 0.04)
	}
	if seen < 4 {
		t.Errorf("%d measured powers", seen)
	}
}
