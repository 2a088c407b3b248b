package operator

import (
	"llmprof/models"
	"llmprof/unit"
)

// AppendFirst appends the encoders of a prompt, and the embedding: a gather that reads the rows of the tokens, not the
// whole table.
func (s *Step) AppendFirst(dst []Op) []Op {
	m, t, w := s.Model, s.Tokens(), float64(s.Model.Embedding.Width)
	rows := w
	if m.Embedding.Positions > 0 {
		rows += float64(m.Hidden)
	}
	dst = s.encode(dst)
	first := len(dst)
	dst, o := add(dst, "embedding", Embedding)
	o.Work.Weights, o.Work.Acts = s.Bytes(t*rows), s.Bytes(t*w)
	if len(m.Embedding.Project) > 0 {
		dst = s.linears(dst, Product, s.Plain, m.Embedding.Project[:1], t, 1)
	}
	dst = s.norms(dst, nil, m.Embedding.Norms, nil)
	if s.Par.TP > 1 {
		dst = s.allReduce(dst, "embedding_all_reduce", s.Bytes(t*w))
	}
	return once(dst, first)
}

// AppendLast appends the operators after the layers: the final norm, the LM head on Logits
// positions of each sequence, and sampling. Each rank has a part of the vocabulary.
func (s *Step) AppendLast(dst []Op) []Op {
	first := len(dst)
	dst = s.norms(dst, nil, s.Model.FinalNorms, nil)
	if s.Logits > 0 {
		dst = s.head(dst)
	}
	return once(dst, first)
}

func (s *Step) head(dst []Op) []Op {
	m, rows := s.Model, s.Batch*s.Logits
	v, tp := float64(m.Head.Out), float64(s.Par.TP)
	stream := s.Scheme.Stream()
	if len(m.Embedding.Project) > 1 {
		dst = s.linears(dst, Product, s.Plain, m.Embedding.Project[1:], rows, 1)
	}
	n := float64(m.Head.In) * v
	matrix := &m.Head
	if m.TiedHead {
		table := m.Table()
		matrix = &table
	}
	dst, o := add(dst, "lm_head", Head)
	o.Format, o.Model = s.Plain.ActOf(matrix), unit.FLOPs(2*rows*n)
	o.Shape.M, o.Shape.N, o.Shape.K, o.Shape.Matrices = rows, v/tp, float64(m.Head.In), 1
	o.Work.FLOPs, o.Work.Weights = unit.FLOPs(2*rows*n/tp), s.Plain.MatrixBytes(matrix, n/tp, v/tp)
	o.Work.Acts = stream.Bytes(rows * (float64(m.Head.In) + v/tp))
	o.Host = s.Offload != nil && s.Offload.Head
	if s.Par.TP > 1 {
		dst = s.allGather(dst, "logits_all_gather", stream.Bytes(rows*v))
	}
	dst, o = add(dst, "sampling", Sampling)
	o.Work.Vector, o.Work.Acts = unit.FLOPs(5*rows*v), stream.Bytes(rows*v)
	return dst
}

// once sets the count of the operators from first on to 1.
func once(dst []Op, first int) []Op {
	for i := first; i < len(dst); i++ {
		dst[i].Count = 1
	}
	return dst
}

// An Encoder computes on the images or the audio of a prompt. It runs once for each request, ahead of its prompt.
type Encoder struct {
	models.Media         // all images, or all audio, of a request
	Name         string  // name of the operator
	Params       float64 // parameters of the encoder
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

// productsOfLayer are the products of a layer of an encoder: queries, keys and values in one, the output, and two of the MLP.
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
