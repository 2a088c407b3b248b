package footprint

import (
	"llmprof/models"
	"llmprof/unit"
)

// weights is the memory of the layers, the embedding and the head on a rank.
// Engines pad the vocabulary, so that any degree divides it.
func (r *Rank) weights() (layers, embedding, head unit.Bytes) {
	m, tp := r.Model, float64(r.Par.TP)
	for i := range m.Layers {
		l := &m.Layers[i]
		var one unit.Bytes
		for j := range l.Blocks {
			one += r.blockWeights(&l.Blocks[j])
		}
		layers += one.Times(float64(l.Count))
	}
	e := &m.Embedding
	table := m.Table()
	embedding = r.Plain.MatrixBytes(&table, float64(m.Vocab)*float64(e.Width)/tp, float64(m.Vocab)/tp)
	embedding += r.Bytes(float64(e.Extra)/tp + float64(e.Positions)*float64(m.Hidden))
	embedding += r.matrices(r.Plain, e.Project, 1) + r.normWeights(e.Norms)
	if !m.TiedHead {
		head = r.Plain.MatrixBytes(&m.Head, float64(m.Head.In)*float64(m.Head.Out)/tp, float64(m.Head.Out)/tp)
	}
	if m.Head.Bias {
		head += r.Scheme.VectorBytes(m, float64(m.Head.Out)/tp)
	}
	return layers, embedding, head + r.normWeights(m.FinalNorms)
}

// blockWeights is the memory of a block on the rank.
func (r *Rank) blockWeights(b *models.Block) unit.Bytes {
	if b.Reused {
		return 0
	}
	tp := r.Par.TP
	sum := r.matrices(r.Dense, b.In, tp) + r.matrices(r.Dense, b.Out, tp) + r.normWeights(b.Norms) + r.Scheme.VectorBytes(r.Model, float64(b.Extra))
	if a := b.Attention; a != nil && a.Latent != nil {
		sum += r.Dense.ShareBytes(r.Model, &a.Latent.Expand, tp)
	}
	e := b.Experts
	if e == nil {
		return sum
	}
	each := r.matrices(r.Scheme, e.In, r.Par.ExpertTP()) + r.matrices(r.Scheme, e.Out, r.Par.ExpertTP())
	sum += each.Times(float64(e.Count)/float64(r.Par.EP)) + r.matrices(r.Plain, e.Router, tp)
	if e.Shared != nil {
		sum += r.matrices(r.Scheme, e.Shared.In, tp) + r.matrices(r.Scheme, e.Shared.Out, tp)
	}
	return sum
}

// matrices is the memory of a rank's shares of matrices.
func (r *Rank) matrices(f *models.Scheme, ls []models.Linear, tp int) (sum unit.Bytes) {
	for i := range ls {
		sum += f.ShareBytes(r.Model, &ls[i], tp)
	}
	return sum
}

// normWeights is the memory of the weights of norms, all of which every rank has.
func (r *Rank) normWeights(norms []models.Norm) unit.Bytes {
	var n int64
	for i := range norms {
		n += norms[i].Params
	}
	return r.Scheme.VectorBytes(r.Model, float64(n))
}
