package view

import (
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"llmprof"
	"llmprof/deployment"
	"llmprof/hardware"
	"llmprof/internal/stats"
	"llmprof/internal/testkit"
	"llmprof/models"
	"llmprof/validate"
)

// TestEvidence holds the accuracy that comes with the program to what scoring the observations gives.
func TestEvidence(t *testing.T) {
	table, err := models.Load(llmprof.ModelsJSON)
	testkit.Must(t, err)
	gpus, err := hardware.Load(llmprof.HardwareTOML)
	testkit.Must(t, err)
	constants, err := deployment.NewCalibrations("")
	testkit.Must(t, err)
	observed, err := validate.Embedded()
	testkit.Must(t, err)
	got := tally(validate.NewScorer(table, gpus, constants.Among).Score(observed).Rows)
	if testkit.Update() {
		text, err := json.MarshalIndent(got, "", "\t")
		testkit.Must(t, errors.Join(err, os.WriteFile("evidence.json", append(text, '\n'), 0o644)))
		return
	}
	if diff := cmp.Diff(evidence(), got, cmpopts.EquateApprox(1e-6, 0)); diff != "" { // Some processors fuse products and sums.
		t.Errorf("evidence.json (-) is not what the observations give (+); if the change is meant, make golden and read it:\n%s", diff)
	}
}

// tally sums up the errors of observations of times on which no constant was fitted.
func tally(rows []validate.Row) errorsOf {
	all := errorsOf{}
	of := map[*predicted][]float64{}
	for _, x := range rows {
		if x.Metric.Energy() || x.Fitted != "" {
			continue
		}
		if all[x.Engine] == nil {
			all[x.Engine] = map[string]*predicted{"": {}}
		}
		if all[x.Engine][x.GPU] == nil {
			all[x.Engine][x.GPU] = &predicted{Of: map[string]map[string]int{}}
		}
		n := all[x.Engine][x.GPU].Of
		if n[x.Weights] == nil {
			n[x.Weights] = map[string]int{}
		}
		n[x.Weights][architecture(x.Kind, x.FFN)]++
		for _, gpu := range []string{x.GPU, ""} {
			e := all[x.Engine][gpu]
			of[e] = append(of[e], max(x.Error, -x.Error))
		}
	}
	for e, off := range of {
		e.N, e.MedianAPE = len(off), stats.MedianOf(off)
	}
	return all
}
