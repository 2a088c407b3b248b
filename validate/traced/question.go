package traced

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"llmprof/analytic/engine"
	"llmprof/hardware"
	"llmprof/models"
	"llmprof/unit"
	"llmprof/validate"
)

// Overrides is what a user says of a trace. It precedes what the trace says.
type Overrides struct {
	*validate.Selection
	TP                     int
	Batch, Prompt, Context int    // 0 for what the trace says
	Weights, KV            string // "" for what the trace says, and for 16 bits
}

// Subject is what the trace is to be compared with.
func (g *Overrides) Subject(l *Timeline, by *validate.Scorer, gpus *hardware.Table) (*Subject, error) {
	note := NoteOf(l)
	q := &Subject{Config: validate.Config{
		Model: note.Model, Engine: engine.Names()[0], TP: g.TP, Batch: cmp.Or(g.Batch, note.Batch), Prompt: cmp.Or(g.Prompt, note.Prompt), Gen: 2,
		Weights: cmp.Or(g.Weights, note.Weights, "bf16"), KV: g.KV,
	}, Context: cmp.Or(g.Context, note.Context)}
	if len(g.Models) > 0 {
		q.Config.Model = g.Models[0]
	}
	if len(g.Engines) > 0 {
		q.Config.Engine = g.Engines[0]
	}
	if q.Config.Model == "" {
		return nil, unit.Errorf("{trace}: the trace does not name its model: give {model}")
	}
	m, err := by.Model(q.Config.Model)
	if err != nil {
		return nil, unit.Wrong(err)
	}
	q.Config.Model, q.Layers = m.Name, attentions(m)
	if q.Layers == 0 {
		return nil, fmt.Errorf("%s has no attention, by which the layers of a step are found", m.Name)
	}
	q.Config.GPU, err = g.gpu(l, gpus)
	return q, err
}

// attentions is how many layers of a model have attention.
func attentions(m *models.Model) (n int) {
	for i := range m.Layers {
		if slices.ContainsFunc(m.Layers[i].Blocks, func(b models.Block) bool { return b.Attention != nil }) {
			n += m.Layers[i].Count
		}
	}
	return n
}

// gpu is the key of the GPU that was given, or that the trace names.
func (g *Overrides) gpu(l *Timeline, table *hardware.Table) (string, error) {
	if g.GPU != "" {
		found, err := table.GPU(g.GPU)
		return found.Key, unit.Wrong(err)
	}
	devices := slices.Sorted(maps.Keys(l.Devices))
	if len(devices) == 0 {
		return "", unit.Errorf("{trace}: the trace does not name its GPU: give {gpu}")
	}
	found, err := table.Match(l.Devices[devices[0]], 0)
	if err != nil {
		return "", unit.Errorf("{trace}: %w; give {gpu}", err)
	}
	return found.Key, nil
}
