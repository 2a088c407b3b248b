package operator

import (
	"llmprof/models"
	"llmprof/unit"
)

// An Encoder is a tower that runs once for each request, ahead of its prompt.
type Encoder struct {
	models.Media         // all images, or all audio, of a request
	Name         string  // name of the operator
	Params       float64 // parameters of the tower
	Prompt       float64 // Tokens of a prompt, over which the work of a request is spread where its prompts come in chunks.
}

// encoded is how many requests the encoders run for in a step of several groups. A prompt in chunks has a part of that in each.
func encoded(e []Encoder, groups []Group) (requests float64) {
	for i := range groups {
		if g := &groups[i]; len(e) > 0 && !g.Decodes() {
			requests += g.Batch * g.New / e[0].Prompt
		}
	}
	return requests
}

// productsOfLayer are the products of a layer of a tower: queries, keys and values in one, the output, and two of the MLP.
const productsOfLayer = 4

// encode appends the encoders, each as one operator: all products of its layers in as many equal ones, attention included. Its matrices
// are cut over the ranks.
func (s *Step) encode(dst []Op) []Op {
	for i := range s.Encoders {
		e, requests := &s.Encoders[i], s.Encoded
		if requests == 0 {
			continue
		}
		var o *Op
		dst, o = add(dst, e.Name, Encode)
		o.Count = float64(productsOfLayer * e.Layers)
		flops, tp := requests*e.FLOPs/o.Count, float64(s.Par.TP)
		o.Format, o.Model = s.Scheme.Stream(), unit.FLOPs(flops)
		o.Shape.M, o.Shape.K, o.Shape.Matrices = requests*e.Rows, float64(e.Width), 1
		o.Shape.N = flops / (2 * o.Shape.M * o.Shape.K * tp)
		o.Work.FLOPs, o.Work.Weights = unit.FLOPs(flops/tp), s.Bytes(min(requests, 1)*e.Params/o.Count/tp)
		o.Work.Acts = s.Bytes(o.Shape.M * (o.Shape.K + o.Shape.N))
	}
	return dst
}
