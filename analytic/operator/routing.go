package operator

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"llmprof/models"
)

// A Popularity is how unevenly a router chooses its experts: by a Zipf law, as for the tokens of a text, or by given loads.
type Popularity struct {
	Zipf  float64   // exponent: the i-th most popular expert is chosen in proportion to 1/i^Zipf
	Text  bool      // loads of a text (textDecay)
	Loads []float64 // relative load of each expert, in the order of the ranks; nil for a law
}

// Uniform reports whether all experts are chosen equally often, as without a popularity.
func (p *Popularity) Uniform() bool { return p == nil || p.Zipf == 0 && !p.Text && p.Loads == nil }

// Check says why a model cannot have the popularity.
func (p *Popularity) Check(m *models.Model) error {
	if p == nil {
		return nil
	}
	if !m.HasExperts() {
		return fmt.Errorf("expert skew: %s has no experts", m.Name)
	}
	if !(p.Zipf >= 0 && p.Zipf <= 10) {
		return fmt.Errorf("expert skew: an exponent of %g: want from 0, which is even, to 10", p.Zipf)
	}
	for i, v := range p.Loads {
		if !(v >= 0 && v <= 1e18) {
			return fmt.Errorf("expert skew: the load of expert %d is %g: want 0 or more", i, v)
		}
	}
	for _, e := range expertsOf(m) {
		if n := len(p.Loads); n > 0 && n != e.Count {
			return fmt.Errorf("expert skew: %d loads for the %d experts of %s: want one of each", n, e.Count, m.Name)
		}
		busy := e.TopK
		if used := len(slices.DeleteFunc(slices.Clone(p.Loads), func(v float64) bool { return v == 0 })); len(p.Loads) > 0 && used < busy {
			return fmt.Errorf("expert skew: %d experts have a load, and every token takes %d", used, busy)
		}
	}
	return nil
}

// expertsOf are the mixtures of a model, each kind once.
func expertsOf(m *models.Model) (all []*models.Experts) {
	for _, b := range m.Blocks() {
		if e := b.Experts; e != nil && !slices.ContainsFunc(all, func(o *models.Experts) bool {
			return e.Count == o.Count && e.TopK == o.TopK && e.Idle == o.Idle
		}) {
			all = append(all, e)
		}
	}
	return all
}

// A Routing is a popularity over the experts of a mixture. With loads w a token takes expert i with the
// probability π = min(1, λ·w), where λ makes the probabilities sum to the experts of a token: an
// expert that every token takes leaves the rest to the others. T tokens are sent to
//
//	Σ 1 − (1 − π)^T
//
// distinct experts. A rank of EP has consecutive experts; a law deals them to the ranks in turn, most popular
// first, as a balanced placement does. The step takes as long as the rank with the most token-expert pairs.
type Routing struct {
	Pairs     float64 // token-expert pairs of a token on the busiest rank
	Imbalance float64 // Pairs over the pairs of a mean rank

	of   *models.Experts
	logs []float64 // log(1 − π) of the experts of the busiest rank
}

// routings are the routings of a model's mixtures over ranks of EP; nil if all experts are chosen equally often.
func (p *Popularity) routings(m *models.Model, ranks int) (all []Routing) {
	if p.Uniform() {
		return nil
	}
	for _, e := range expertsOf(m) {
		all = append(all, p.routing(e, ranks))
	}
	return all
}

func (p *Popularity) routing(e *models.Experts, ranks int) Routing {
	chance := inclusion(p.weights(e.Count, ranks), e.Busy())
	each := e.Count / ranks
	r := Routing{of: e}
	var busiest []float64
	for rank := range ranks {
		own, sum := chance[rank*each:(rank+1)*each], 0.0
		for _, v := range own {
			sum += v
		}
		if sum > r.Pairs || busiest == nil {
			r.Pairs, busiest = sum, own
		}
	}
	for _, v := range busiest {
		r.logs = append(r.logs, math.Log1p(-min(v, 1-1e-12)))
	}
	r.Imbalance = r.Pairs * float64(ranks) / e.Busy()
	return r
}

// weights are the relative loads of experts, in the order of the ranks.
func (p *Popularity) weights(count, ranks int) []float64 {
	if p.Loads != nil {
		return p.Loads
	}
	w := make([]float64, count)
	each := count / ranks
	// The i-th most popular expert is on rank i mod ranks. Unlike Pow, Expm1 and Log1p give the same digits on every
	// kind of processor, and in a browser.
	for i := range w {
		load := 1 / (1 + math.Expm1(p.Zipf*math.Log1p(float64(i))))
		if p.Text {
			load = textLoad((float64(i) + 0.5) / float64(count))
		}
		w[i%ranks*each+i/ranks] = load
	}
	return w
}

// inclusion is the probability of each expert to be among the k of a token.
func inclusion(weights []float64, k float64) []float64 {
	chance := make([]float64, len(weights))
	full := 0.0 // experts that every token takes
	for {
		rest := 0.0
		for i, w := range weights {
			if chance[i] < 1 {
				rest += w
			}
		}
		more := false
		for i, w := range weights {
			if chance[i] == 1 || w == 0 {
				continue
			}
			if chance[i] = (k - full) * w / rest; chance[i] >= 1 {
				chance[i], more = 1, true
			}
		}
		if !more {
			return chance
		}
		full = 0
		for _, v := range chance {
			if v == 1 {
				full++
			}
		}
	}
}

// Hit is the expected number of distinct experts of the busiest rank that tokens are sent to.
func (r *Routing) Hit(tokens float64) (sum float64) {
	for _, l := range r.logs {
		sum -= math.Expm1(tokens * l)
	}
	return sum
}

// Tiles is the expected number of tiles of so many rows that a grouped GEMM of the busiest rank has.
func (r *Routing) Tiles(tokens, rows float64) (sum float64) {
	for _, l := range r.logs {
		chance := -math.Expm1(l)
		sum += ExpertTiles(tokens*chance, chance, rows)
	}
	return sum
}

// routing is how the experts of a mixture with so many are chosen; nil if all are chosen equally often.
func (r *Rank) routing(experts float64) *Routing {
	for i := range r.routings {
		if float64(r.routings[i].of.Count) == experts {
			return &r.routings[i]
		}
	}
	return nil
}

// ReachedExperts is the probability that a token, which takes k of count experts at random, takes at least one of some of them:
// 1 − Π (count − some − i)/(count − i), i from 0 to k − 1.
func ReachedExperts(count, k, some float64) float64 {
	missed := 1.0
	for i := 0.0; i < k; i++ {
		missed *= max(count-some-i, 0) / (count - i)
	}
	return 1 - missed
}

// ReachedExpertsOf is the probability that a token takes at least one of some experts of a mixture, which follow each other. A
// router that limits the groups of a token's experts takes each group as likely as another. It takes those with the best
// experts, so each of them has about as many of the token's.
func ReachedExpertsOf(e *models.Experts, some float64) float64 {
	if e.Groups == 0 {
		return ReachedExperts(float64(e.Count+e.Idle), float64(e.TopK), some)
	}
	groups, top := float64(e.Groups), float64(e.TopGroups)
	each := float64(e.Count+e.Idle) / groups
	if some > each {
		return ReachedExperts(groups, top, some/each)
	}
	own, part := math.Modf(float64(e.TopK) / top)
	return top / groups * ((1-part)*ReachedExperts(each, own, some) + part*ReachedExperts(each, own+1, some))
}

// DistinctExperts is the expected number of distinct experts among count that tokens are sent to
// when each takes k at random: E·(1 − (1 − k/E)^T).
func DistinctExperts(count, k, tokens float64) float64 {
	if k >= count {
		return count
	}
	return -count * math.Expm1(tokens*math.Log1p(-k/count))
}

// BusiestRank is how many experts, and how many pairs of a token and an expert, the busiest of the
// ranks of EP is expected to have, where each token takes k of count experts at random. Ranks
// wait for each other in every layer, so a step takes as long as the busiest, and the fewer tokens it
// has, the farther that is from the mean.
//
//	pairs = mean + z·√(mean·(count − k)/(count − 1)), mean = tokens·k/ranks
//	experts = count/ranks·(1 − (1 − k/count)^(tokens·pairs/mean))
//
// The root is the deviation of one rank's pairs from another's. The largest of n normal deviates, z, is at the
// quantile (n − 3/8)/(n + 1/4) (Blom, 1958). The experts are those of as many tokens as give every rank so many pairs.
func BusiestRank(count, k, tokens float64, ranks int) (experts, pairs float64) {
	n := float64(ranks)
	each, mean := count/n, tokens*k/n
	if k >= count || ranks == 1 {
		return DistinctExperts(count, k, tokens) / n, mean
	}
	z := math.Sqrt2 * math.Erfinv(2*(n-0.375)/(n+0.25)-1)
	pairs = min(mean+z*math.Sqrt(mean*(count-k)/(count-1)), tokens*min(k, each))
	return DistinctExperts(count, k, tokens*pairs/mean) / n, pairs
}

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

// DistinctInText is the number of distinct experts among count that tokens of a text are sent to, k each, as a share of
// those that they are sent to where all are chosen equally often.
func DistinctInText(count, k, tokens float64) float64 {
	if k >= count {
		return 1
	}
	key := [3]float64{count, k, tokens}
	known := &texts[int(count+31*k+997*tokens)&(len(texts)-1)]
	if t := known.Load(); t != nil && t.key == key {
		return t.share
	}
	sum := 0.0
	for _, chance := range inclusion(textLoads[:], k/count*textGroups) {
		sum -= math.Expm1(tokens * math.Log1p(-min(chance, 1-1e-12)))
	}
	t := &textShare{key, sum / textGroups * count / DistinctExperts(count, k, tokens)}
	known.Store(t)
	return t.share
}

// A textShare is a result of DistinctInText.
type textShare struct {
	key   [3]float64
	share float64
}

// texts are the latest results of DistinctInText, without which an estimate of a mixture of experts takes half as long again.
var texts [1 << 12]atomic.Pointer[textShare]

// ExpertTiles is the expected number of tiles of so many rows that hold the tokens of one expert: a router sends it the
// given mean of tokens, each with the same chance, so that their number n is binomial.
//
//	E⌈n/rows⌉ = P(n > 0) + P(n > rows) + P(n > 2·rows) + ...
//
// The first probability is exact, and the others are those of a normal distribution.
func ExpertTiles(mean, chance, rows float64) float64 {
	if mean <= 0 {
		return 0
	}
	deviation := math.Sqrt(mean * max(0, 1-chance))
	if deviation < 1e-6 {
		return math.Ceil(mean/rows - 1e-9)
	}
	sum := -math.Expm1(mean / chance * math.Log1p(-chance))
	const far = 6 // deviations from the mean beyond which a probability is 0 or 1
	first := max(1, math.Floor((mean-far*deviation)/rows))
	sum *= first // the tiles before it are full whenever there is a token
	for j := first; j*rows < mean+far*deviation; j++ {
		sum += above((j*rows + 0.5 - mean) / deviation)
	}
	return max(sum, mean/rows)
}

// above is the probability that a normal deviate is above z, within 2·10⁻⁴ (Page, 1977). Unlike Erfc, Expm1 gives the
// same digits on every kind of processor.
func above(z float64) float64 {
	return 1 / (2 + math.Expm1(z*(1.5976+0.07056*z*z)))
}
