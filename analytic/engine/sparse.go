package engine

import (
	"llmprof/analytic"
	"llmprof/models"
	"llmprof/roofline"
	"llmprof/unit"
)

// sparse reports whether attention reads keys that were chosen, or compressed entries.
func sparse(a *models.Attention) bool { return a != nil && (a.Indexer != nil || a.Compress > 0) }

// sparseClasses are the classes of the choice and of attention: to latent vectors, to compressed entries, and to blocks of keys.
func sparseClasses(a *models.Attention) (index, attend roofline.Class) {
	switch {
	case a.Latent != nil:
		return roofline.Index, roofline.SparseAttention
	case a.Compress > 0:
		return roofline.IndexEntries, roofline.SparseEntries
	}
	return roofline.IndexBlocks, roofline.SparseBlocks
}

// choose makes the kernels that score keys and choose among them: scores are written in 32 bits, and read to choose.
func choose(l *analytic.Lowering, i int) {
	o := &l.Ops[i]
	index, _ := sparseClasses(o.Block.Attention)
	k := l.Launch(i, index, 1)
	k.Scheme = roofline.Unquantized
	k.Work.Acts += unit.FP32.Bytes(float64(o.Work.FLOPs) / o.Shape.K) // 2·K FLOPs a score
}

// sparseHeads and sparseBlock are the heads and the keys of a tile of FlashMLA's sparse kernels, which pad the heads of a rank.
const sparseHeads, sparseBlock = 64, 64

// sparsely lets attend make the kernel of attention, and makes it one of sparse attention where keys are chosen. Kernels of latent vectors
// pad heads. Over prompts, and in decode steps with a cache in FP8 on Hopper, they read as many keys as can be chosen, whether there are as
// many or not; engines that are dense have other kernels for prompts no longer than that.
func sparsely(attend lowering, dense bool) lowering {
	return func(l *analytic.Lowering, i int) {
		attend(l, i)
		k, a, keys := &l.Kernels[len(l.Kernels)-1], l.Ops[i].Block.Attention, l.Step.Past+l.Step.New
		prompt := l.Step.New > 1
		if !sparse(a) || prompt && dense && a.Latent != nil && keys <= float64(a.Indexer.TopK) {
			return
		}
		if _, k.Class = sparseClasses(a); a.Indexer != nil {
			keys = min(keys, float64(a.Indexer.TopK))
		}
		if a.Latent != nil {
			slots, width := float64(a.Indexer.TopK), float64(2*a.Latent.Rank+a.Latent.RopeDim)
			switch {
			case prompt:
				keys = slots
			case hopper(l.GPU) && k.Scheme == roofline.FP8:
				k.Work.KV, keys = k.Work.KV.Times(slots/keys), slots
			}
			heads := max(float64(a.Heads)/float64(l.Step.Par.TP), sparseHeads)
			k.Work.FLOPs = unit.FLOPs(2 * heads * width * keys * l.Step.Tokens())
		}
		k.Shape.Tiles = keys / sparseBlock
	}
}
