package native

import (
	"fmt"
	"strings"
)

// maxRanks is the most GPUs of one host that share a model.
const maxRanks = 8

// scoreRows divides the first row of each rank's vocabulary. It is the rows of a tile, so every rank's
// rows begin at a multiple of 256 bytes, as cuBLASLt wants.
const scoreRows = 16

// maxGroup is the most query heads that share a key head: the rows of a tile of attention_decode.cu.
const maxGroup = 8

// shard is one rank's part of a model (Megatron-LM, arXiv:1909.08053): some of the heads with their
// keys and values, some of the feed-forward, some of the vocabulary, and all norms. If there are fewer
// key heads than ranks, each rank has the one that its query heads share, and so do its neighbours.
func (s *shape) shard(rank, ranks int) shape {
	out := *s
	out.rank, out.ranks = rank, ranks
	out.keyCopies = max(1, ranks/s.kvHeads)
	out.heads, out.kvHeads, out.inner = s.heads/ranks, s.kvHeads*out.keyCopies/ranks, s.inner/ranks
	each := s.tokensEach(ranks)
	out.firstToken = min(rank*each, s.vocab)
	out.tokens = min(each, s.vocab-out.firstToken)
	return out
}

// tokensEach is how many tokens of the vocabulary each rank has; the last rank has the rest.
func (s *shape) tokensEach(ranks int) int {
	each := (s.vocab + ranks - 1) / ranks
	if ranks == 1 {
		return each
	}
	return (each + scoreRows - 1) / scoreRows * scoreRows
}

// indivisible returns why so many ranks cannot share a model, or "".
func (s *shape) indivisible(ranks int) string {
	switch {
	case ranks < 1 || ranks > maxRanks:
		return fmt.Sprintf("tp %d: 1 to %d GPUs of one host can share a model", ranks, maxRanks)
	case s.heads%ranks != 0:
		return fmt.Sprintf("tp %d does not divide the %d query heads", ranks, s.heads)
	case s.kvHeads%ranks != 0 && ranks%s.kvHeads != 0:
		return fmt.Sprintf("tp %d neither divides the %d key heads nor is a multiple of them", ranks, s.kvHeads)
	case s.heads/s.kvHeads > maxGroup*max(1, ranks/s.kvHeads):
		return fmt.Sprintf("%d query heads share a key head on a GPU, and this engine has groups of up to %d",
			s.heads/s.kvHeads/max(1, ranks/s.kvHeads), maxGroup)
	case s.inner%(gemmInputs*ranks) != 0:
		return fmt.Sprintf("tp %d cuts the feed-forward of %d into parts that are no multiples of %d", ranks, s.inner, gemmInputs)
	case (ranks-1)*s.tokensEach(ranks) >= s.vocab:
		return fmt.Sprintf("tp %d leaves the last rank nothing of a vocabulary of %d", ranks, s.vocab)
	}
	return ""
}

// divide is a rank's part of the model called name, or an error that says how many GPUs can share it.
func (s *shape) divide(name string, rank, ranks int) (shape, error) {
	why := s.indivisible(ranks)
	if why == "" {
		return s.shard(rank, ranks), nil
	}
	var fit []string
	for n := 1; n <= maxRanks; n++ {
		if s.indivisible(n) == "" {
			fit = append(fit, fmt.Sprint(n))
		}
	}
	if len(fit) == 0 {
		return shape{}, unsupported("%s: %s", name, why)
	}
	return shape{}, unsupported("%s: %s; it can be shared by %s", name, why, strings.Join(fit, ", "))
}
