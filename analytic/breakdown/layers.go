package breakdown

import (
	"llmprof/roofline"
	"llmprof/unit"
)

// A Layer is the sum of the operators of all layers of one kind in a phase.
type Layer struct {
	Name  string // "" outside of the layers: embedding, head, host
	Count float64
	roofline.Work
	Floor, Expected unit.Seconds // sums over the operators
	Share           float64
}

// Layers sums operators by the kind of layer that they belong to, in order of appearance.
func Layers(ops []Operator) []Layer {
	var all []Layer
	for i := range ops {
		l := &ops[i]
		s := layerOf(&all, l.Layer)
		s.Count = max(s.Count, l.Layers)
		s.Add(&l.Work, 1)
		s.Floor += l.Floor
		s.Expected += l.Expected
		s.Share += l.Share
	}
	return all
}

func layerOf(all *[]Layer, name string) *Layer {
	for i := range *all {
		if s := &(*all)[i]; s.Name == name {
			return s
		}
	}
	*all = append(*all, Layer{Name: name})
	return &(*all)[len(*all)-1]
}
