package engine

import (
	"math"
	"slices"

	"llmprof/analytic/operator"
	"llmprof/unit"
)

// A spec is the cache of one layer as vLLM describes it (vllm/v1/kv_cache_interface.py).
type spec struct {
	window int        // 0 for all of the context
	each   unit.Bytes // bytes of a token, or of a state
	state  bool
}

// vllmBlock is the tokens of a block of attention, and of latent attention, whose kernels read 64 (FlashMLA).
const vllmBlock, vllmLatentBlock = 16, 64

// vllmPages are the groups of layers that share a block table (get_kv_cache_groups of vllm/v1/core/kv_cache_utils.py), where windows hold
// so many tokens in flight. Layers of one kind are one group. Else all groups have as many layers as the rarest kind has, with layers
// that pad the last of a kind, and all share one page.
func vllmPages(r *operator.Rank, inFlight float64) []operator.Pages {
	groups := vllmLayers(r)
	if len(groups) == 0 {
		return nil
	}
	if pages := compressedPages(r, inFlight); pages != nil {
		return pages
	}
	block, drafts := blockTokens(r, groups), float64(r.Settings.Drafts)
	if uniform(groups) {
		var each unit.Bytes
		for _, s := range groups {
			each += pageOf(s.spec, block).Times(float64(s.layers))
		}
		return []operator.Pages{page(groups[0].spec, each, float64(block), inFlight, drafts)}
	}
	size := groupSize(groups)
	widest := unit.Bytes(0)
	for _, s := range groups {
		widest = max(widest, pageOf(s.spec, block))
	}
	var all []operator.Pages
	for _, s := range groups {
		tokens := float64(block)
		if !s.state {
			tokens *= math.Floor(float64(widest / pageOf(s.spec, block))) // A layer with smaller pages has more tokens in each.
		}
		one := page(s.spec, widest.Times(size), tokens, inFlight, drafts)
		for range int(math.Ceil(float64(s.layers) / size)) {
			all = append(all, one)
		}
	}
	return all
}

// vllmLayers are cachedLayers with the model's own draft layers. Convolutions keep the inputs of drafted tokens too
// (gated_delta_net_state_shape of vllm/model_executor/layers/mamba/mamba_utils.py).
func vllmLayers(r *operator.Rank) []cachedLayer {
	all := cachedLayers(r, r.Settings.Drafts)
	if d := r.Draft(); d != nil {
		for _, own := range cachedLayers(d, r.Settings.Drafts) {
			all = own.addTo(all, own.layers*r.Model.Drafts)
		}
	}
	return all
}

// A cachedLayer is layers whose caches are alike.
type cachedLayer struct {
	spec
	layers int
}

// addTo adds so many layers of a spec to a list.
func (s spec) addTo(all []cachedLayer, layers int) []cachedLayer {
	if i := slices.IndexFunc(all, func(l cachedLayer) bool { return l.spec == s }); i >= 0 {
		all[i].layers += layers
		return all
	}
	return append(all, cachedLayer{s, layers})
}

// cachedLayers are the layers of a rank with a cache, in the order of the model. Convolutions keep the inputs of so many drafted tokens.
func cachedLayers(r *operator.Rank, drafted int) (all []cachedLayer) {
	share := r.Par.StageShare(r.Model.NumLayers())
	for l, b := range r.Model.Blocks() {
		layers := int(math.Ceil(float64(l.Count)*share - 1e-9))
		switch a, c := b.Attention, b.Scan; {
		case r.CachedOnHost(l):
		case a != nil && !a.Shared:
			all = spec{window: a.Window, each: r.CachedBytes(a, r.Scheme.KV)}.addTo(all, layers)
		case c != nil:
			all = spec{each: r.ScanState(c) + r.Drafted(c, drafted), state: true}.addTo(all, layers)
		}
	}
	return all
}

// uniform reports whether one group has all layers: those of one window, whatever their heads, or states of one kind.
func uniform(groups []cachedLayer) bool {
	first := groups[0].spec
	for _, s := range groups {
		if s.window != first.window || s.state != first.state || s.state && s.spec != first {
			return false
		}
	}
	return true
}

// groupSize is the number of layers of each group (_get_kv_cache_groups_uniform_page_size): those of the rarest kind, or those of the most
// frequent where it has less than half as many more.
func groupSize(groups []cachedLayer) float64 {
	least, most := math.MaxInt, 0
	for _, g := range groups {
		least, most = min(least, g.layers), max(most, g.layers)
	}
	if float64(most) < 1.5*float64(least) {
		return float64(most)
	}
	return float64(least)
}

// blockTokens is the tokens of a block of attention. Beside states it has so many that its page is at least as large as a state
// (_align_hybrid_block_size of vllm/platforms/interface.py).
func blockTokens(r *operator.Rank, groups []cachedLayer) int {
	block, state, token := vllmBlock, unit.Bytes(0), unit.Bytes(0)
	if latent(r.Model) {
		block = vllmLatentBlock
	}
	for _, s := range groups {
		if s.state {
			state = max(state, s.each)
		} else {
			token = max(token, s.each)
		}
	}
	if state == 0 || token == 0 {
		return block
	}
	return block * max(int(math.Ceil(float64(state/token.Times(float64(block))))), 1)
}

// pageOf is a page of one layer.
func pageOf(s spec, block int) unit.Bytes {
	if s.state {
		return s.each
	}
	return s.each.Times(float64(block))
}

// page is a page of a group. A window may begin within a block, so that it takes a block more.
func page(s spec, each unit.Bytes, tokens, inFlight, drafts float64) operator.Pages {
	p := operator.Pages{Each: each, Tokens: tokens, Limit: math.Inf(1), State: s.state}
	switch {
	case s.state: // and one for each token that is drafted
		p.Fixed = 1 + drafts
	case s.window > 0:
		p.Limit, p.Fixed = float64(s.window)-1+inFlight, 1
	}
	return p
}

// DeepSeek-V4 keeps entries of 584 bytes in FP8, in pages whose sizes are multiples of 576 bytes (FlashMLA). Blocks are of 256 tokens, of
// which compressed layers keep a 4th or a 128th as entries; the windows, and the states of compressors, which are windows too, have
// blocks that fill the same pages (vllm/models/deepseek_v4: attention.py, compressor.py; v1/attention/backends/mla/sparse_swa.py).
const (
	compressedBlock = 256
	compressedEntry = 584
	compressedAlign = 576
	indexScale      = 4 // bytes of the scale of an indexer's key
)

func compressedPage(bytes float64) unit.Bytes {
	return unit.Bytes(math.Ceil(bytes/compressedAlign) * compressedAlign)
}

// compressedPages are the groups of a model with compressed attention (get_kv_cache_groups, _get_packed_kv_cache_groups): compressed
// entries and keys of indexers, windows, and the states of compressors by 4 and by 128. A block has a place for as many layers as the
// widest group has. It is nil for other models.
func compressedPages(r *operator.Rank, inFlight float64) []operator.Pages {
	var windows, by4, by128, index float64
	share := r.Par.StageShare(r.Model.NumLayers())
	window := 0.0
	for l, b := range r.Model.Blocks() {
		a := b.Attention
		if a == nil || a.Window == 0 {
			continue
		}
		layers := float64(l.Count) * share
		windows, window = windows+layers, float64(a.Window)
		switch a.Compress {
		case 4:
			by4 += layers
			if a.Indexer != nil {
				index = float64(a.Indexer.Dim)
			}
		case 128:
			by128 += layers
		}
	}
	if by4+by128 == 0 {
		return nil
	}
	size := nearestDivisor([]float64{max(by4, by128), windows, by4, by128})
	each := compressedPage(compressedBlock / 4 * compressedEntry).Times(max(size, by4))
	each += compressedPage(compressedBlock / 4 * (index + indexScale)).Times(by4)
	each += compressedPage(compressedBlock / 128 * compressedEntry).Times(by128)
	limited := func(window, tokens float64) operator.Pages {
		return operator.Pages{Each: each, Tokens: tokens, Limit: window - 1 + inFlight, Fixed: 1}
	}
	all := []operator.Pages{{Each: each, Tokens: compressedBlock, Limit: math.Inf(1)}}
	for _, g := range []struct{ layers, window, tokens float64 }{{windows, window, 64}, {by4, 8, 4}, {by128, 128, 8}} {
		for range int(math.Ceil(g.layers / size)) {
			all = append(all, limited(g.window, g.tokens))
		}
	}
	return all
}

// nearestDivisor is the number, at least the first, to whose multiples the numbers are rounded up with the least padding
// (_approximate_gcd); the largest of several.
func nearestDivisor(numbers []float64) float64 {
	best, least, most := 1.0, math.Inf(1), 0.0
	for _, n := range numbers {
		most = max(most, n)
	}
	for d := max(numbers[0], 1); d <= most; d++ {
		padding := 0.0
		for _, n := range numbers {
			padding += math.Ceil(n/d)*d - n
		}
		if padding <= least {
			best, least = d, padding
		}
	}
	return best
}
