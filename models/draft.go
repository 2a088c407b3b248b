package models

import "slices"

// DraftModule is the model's draft (MTP) module as a model of its own: a layer like the last one with attention, the
// projection of the hidden state and the embedding side by side (eh_proj), and the embedding and the
// head of the model, which it shares. It is nil where the model has none.
func (m *Model) DraftModule() *Model {
	if m.Drafts == 0 {
		return nil
	}
	for _, kind := range slices.Backward(m.Order) {
		l := m.Layers[kind]
		if !slices.ContainsFunc(l.Blocks, func(b Block) bool { return b.Attention != nil }) {
			continue
		}
		l.Name, l.Count, l.Blocks = "draft: "+l.Name, 1, slices.Clone(l.Blocks)
		b := &l.Blocks[0]
		b.In = append(slices.Clone(b.In), Linear{Name: "eh_proj", In: 2 * m.Hidden, Out: m.Hidden, Split: Replicated})
		d := *m
		d.Name, d.Layers, d.Order, d.Drafts, d.Notes = m.Name+" (draft)", []Layer{l}, []int{0}, 0, nil
		return &d
	}
	return nil
}
