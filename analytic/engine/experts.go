package engine

import (
	"math"

	"llmprof/unit"
)

// Groups is the expected number of groups of up to size tokens, each of one expert,
// where every one of so many tokens takes k of count experts at random: an expert
// that n tokens take has ⌈n/size⌉, and n is binomial. A fractional number of tokens
// lies on the line between those on either side.
func Groups(count, k, tokens float64, size int) float64 {
	low := math.Floor(tokens)
	sum := wholeGroups(count, k, int(low), size)
	if tokens > low {
		sum += (tokens - low) * (wholeGroups(count, k, int(low)+1, size) - sum)
	}
	return sum
}

func wholeGroups(count, k float64, tokens, size int) float64 {
	if k >= count {
		return count * float64((tokens+size-1)/size)
	}
	odds := k / (count - k)
	p := math.Exp(float64(tokens) * math.Log1p(-k/count)) // that no token takes the expert
	sum := 0.0
	for n := 1; n <= tokens; n++ {
		p *= odds * float64(tokens-n+1) / float64(n)
		sum += p * float64((n+size-1)/size)
	}
	return count * sum
}

// Tiles is how often the weights of an expert are read from memory by a product
// whose tiles have so many pairs: what the L2 cache does not hold of them comes again
// for every tile. A GPU whose L2 size is not known reads them once.
func Tiles(l2, expert unit.Bytes, pairs, tile float64) float64 {
	if l2 == 0 {
		return 1
	}
	return 1 + (max(1, pairs/tile)-1)*max(0, 1-float64(l2/expert))
}
