package analytic

import "llmprof/unit"

// A LayerSum is what the operators of one kind of layer come to in a phase, all
// layers of the kind together.
type LayerSum struct {
	Name                     string // "" for what the model has once: embedding, head, host
	Count                    float64
	FLOPs, Vector            unit.FLOPs
	Weights, KV, State, Acts unit.Bytes
	Wire                     unit.Bytes
	Floor, Expected          unit.Seconds // sums over the operators
	Share                    float64
	Energy                   unit.Joules
}

// Layers sums lines by the kind of layer they belong to, in order of appearance.
func Layers(lines []Line) []LayerSum {
	var all []LayerSum
	for i := range lines {
		l := &lines[i]
		s := layerOf(&all, l.Layer)
		s.Count = max(s.Count, l.Layers)
		s.FLOPs += l.FLOPs
		s.Vector += l.Vector
		s.Weights += l.Weights
		s.KV += l.KV
		s.State += l.State
		s.Acts += l.Acts
		s.Wire += l.Wire
		s.Floor += l.Floor
		s.Expected += l.Expected
		s.Share += l.Share
		s.Energy += l.Energy
	}
	return all
}

func layerOf(all *[]LayerSum, name string) *LayerSum {
	for i := range *all {
		if s := &(*all)[i]; s.Name == name {
			return s
		}
	}
	*all = append(*all, LayerSum{Name: name})
	return &(*all)[len(*all)-1]
}
