package routing

import "math"

// Routers choose experts unevenly for the tokens of a text, whatever training balanced. Of Qwen3-30B-A3B on 1,000 tokens
// of prose, code and mathematics, 65 of 128 experts of a layer take 90 % of the token-expert pairs, and 1 less the
// normalized entropy of the loads is 0.11 (https://github.com/mcp-tool-shop-org/gpu-container,
// docs/derisk-concentration.md). Loads that fall exponentially over the experts,
//
//	w(x) = e^(−decay·x), x = rank of the expert / experts,
//
// have both figures at a decay of 4.35. Texts of one kind are more uneven: 64 sequences that Qwen3-30B-A3B decoded together
// went to 60 experts of layer 12, where even choice makes 126 and this law 95
// (https://github.com/stanford-ppl/step_artifact, dyn_tiling/expert_routing/qwen_b64).
const textDecay = 4.35

// textLoad is the relative load of an expert at a rank, as a share of the experts.
func textLoad(x float64) float64 { return 1 + math.Expm1(-textDecay*x) }

// textGroups are groups of experts of equal size, by which their loads are summed.
const textGroups = 32

// textLoads are the loads of the groups, most popular first.
var textLoads = func() (w [textGroups]float64) {
	for i := range w {
		w[i] = textLoad((float64(i) + 0.5) / textGroups)
	}
	return w
}()

// OfText is the number of distinct experts among count that tokens of a text are sent to, k each, as a share of
// those that they are sent to where all are chosen equally often.
func OfText(count, k, tokens float64) float64 {
	if k >= count {
		return 1
	}
	sum := 0.0
	for _, chance := range inclusion(textLoads[:], k/count*textGroups) {
		sum -= math.Expm1(tokens * math.Log1p(-min(chance, 1-1e-12)))
	}
	return sum / textGroups * count / Distinct(count, k, tokens)
}
