package view

import (
	"fmt"

	"llmprof/models"
	"llmprof/unit"
)

// modelLine is a model in one line.
func modelLine(m *models.Model) string {
	total, active := m.Params(), m.ActiveParams()
	s := fmt.Sprintf("%s (%s): %s parameters", m.Name, m.Family, unit.Count(float64(total)))
	if active != total {
		s += fmt.Sprintf(", %s active", unit.Count(float64(active)))
	}
	s += fmt.Sprintf(", %d layers", m.NumLayers())
	if m.MaxContext > 0 {
		s += fmt.Sprintf(", context up to %d", m.MaxContext)
	}
	return s
}

// layerLines are the kinds of layers, one a line.
func layerLines(m *models.Model) []string {
	var lines []string
	for i := range m.Layers {
		l := &m.Layers[i]
		lines = append(lines, fmt.Sprintf("%d × %s", l.Count, layerText(l)))
	}
	return lines
}

// layerText is a kind of layer with its sizes.
func layerText(l *models.Layer) string {
	s := l.Name
	for i := range l.Blocks {
		if t := blockText(&l.Blocks[i]); t != "" {
			s += "; " + t
		}
	}
	return s
}

// blockText is what one block is made of.
func blockText(b *models.Block) string {
	switch {
	case b.Attention != nil:
		return attentionText(b.Attention)
	case b.Scan != nil:
		return fmt.Sprintf("%d heads of %d with %d states", b.Scan.Heads, b.Scan.HeadDim, b.Scan.StateDim)
	case b.Experts != nil:
		e := b.Experts
		s := fmt.Sprintf("%d of %d experts of %d", e.TopK, e.Count, e.Activation.Width)
		if e.Shared != nil {
			s += fmt.Sprintf(" and a shared one of %d", e.Shared.Activation.Width)
		}
		return s
	case b.Activation.Width > 0:
		return fmt.Sprintf("hidden %d", b.Activation.Width)
	}
	return ""
}

func attentionText(a *models.Attention) string {
	if a.Latent != nil {
		return fmt.Sprintf("%d heads over a latent of %d+%d", a.Heads, a.Latent.Rank, a.Latent.RopeDim)
	}
	s := fmt.Sprintf("%d heads of %d, %d KV heads", a.Heads, a.KeyDim, a.KVHeads)
	if a.Window > 0 {
		s += fmt.Sprintf(", window %d", a.Window)
	}
	return s
}
