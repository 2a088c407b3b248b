//go:build !js

package view

import (
	"llmprof/cmd/llmprof/internal/render"
	"llmprof/measure/result"
	"llmprof/validate"
)

// ProcessPage shows each process of an experiment by itself.
func ProcessPage(all []*result.Result, s *validate.Scorer) *render.Document {
	d := &render.Document{Title: all[0].ID}
	for i, r := range all {
		d.Blocks = append(append(d.Blocks, ProcessBlocks(r)...), OperatorBlocks(s, all[i:i+1])...)
	}
	return d
}

// A durations is the samples of one duration, with its name.
type durations struct {
	key, title string
	times      *result.Times
}

func durationsOf(r *result.Result) []durations {
	list := []durations{
		{"ttft_s", "TTFT", r.TTFT}, {"tpot_s", "TPOT", r.TPOT}, {"ttlt_s", "TTLT", r.TTLT}, {"step_s", "step", r.StepTime},
	}
	if s := r.Serving; s != nil {
		list = append(list, durations{"first_chunk_s", "first chunk", s.FirstChunk}, durations{"ttfo_s", "TTFO", s.TTFO}, durations{"chunk_gap_s", "chunk gap", s.ChunkGap})
	}
	return list
}

// SampleTable has a row for every sample of every process.
func SampleTable(all []*result.Result) *render.Table {
	t := render.Keyed("id", "process", "metric", "sample", "value")
	for _, r := range all {
		for _, d := range durationsOf(r) {
			if d.times == nil {
				continue
			}
			for i, v := range d.times.Samples {
				t.Add(r.ID, r.Process, d.key, i, v)
			}
		}
		operatorSamples(t, r)
	}
	return t
}

// operatorSamples adds every sample of each operator, under "operators", the
// phase and its name, and of the whole step under "step_s".
func operatorSamples(t *render.Table, r *result.Result) {
	if r.Operators == nil {
		return
	}
	for _, p := range []struct {
		name string
		*result.OperatorPhase
	}{{"prefill", r.Operators.Prefill}, {"decode", r.Operators.Decode}} {
		if p.OperatorPhase == nil {
			continue
		}
		add := func(name string, samples []float64) {
			for i, v := range samples {
				t.Add(r.ID, r.Process, "operators."+p.name+"."+name, i, v)
			}
		}
		for i := range p.Ops {
			add(p.Ops[i].Name, p.Ops[i].Time.Samples)
		}
		add("step_s", p.Step.Samples)
	}
}
