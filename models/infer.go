package models

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// errUnknownFamily is of a model_type that is not known, whose tensors may say what it is.
var errUnknownFamily = errors.New("is not known")

// An inferred model is built from the names and shapes of its tensors, with the heads, windows and experts of a token that its
// config states. What is concluded is listed in its notes; what belongs to nothing that is understood is refused.
type inferred struct {
	fields
	hidden  int
	tensors map[int]map[string][]int64 // shapes by layer, -1 for none, and by the name within it
	left    map[string]bool            // tensors of the layer at hand of which no part is accounted for
	said    []string
}

// infer reads a decoder of an unknown family.
func (c *Checkpoint) infer(object map[string]any) (*Model, error) {
	d, err := findDecoder(object)
	if err != nil {
		return nil, err
	}
	r, err := newReader(family{types: []string{d.modelType}}, d)
	if err != nil {
		return nil, err
	}
	x := &inferred{fields: r.fields, tensors: make(map[int]map[string][]int64)}
	m := &Model{Family: d.modelType, TiedHead: true, MaxContext: r.context()}
	x.hidden, m.Hidden = x.size("hidden_size"), x.size("hidden_size")
	layers := x.size("num_hidden_layers")
	if x.err != nil || layers > maxLayers {
		return nil, cmp.Or(x.err, fmt.Errorf("num_hidden_layers is %d", layers))
	}
	m.Order = make([]int, layers) // so that tensors of draft layers are told apart
	m.Layers = []Layer{{Count: layers}}
	x.sort(m, c.Tensors)
	m.Layers, m.Order = x.layers(layers)
	x.ends(m)
	if x.err != nil {
		return nil, x.failure()
	}
	r.stored(m)
	if r.err != nil {
		return nil, r.failure()
	}
	m.Rotary = r.rotaries(m)
	x.note("its family is not known: its shape is concluded from its tensors")
	if unread := x.unread(r.lookedUp); len(unread) > 0 {
		x.note("of these fields of its config nothing was concluded: %s", strings.Join(unread, ", "))
	}
	m.Notes = append(append(d.notes, x.said...), r.left...)
	return m, check(m)
}

func (x *inferred) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(x.said, text) {
		x.said = append(x.said, text)
	}
}

// unread lists the fields that neither it nor another reader asked for, and that are not known to do no harm.
func (x *inferred) unread(others map[string]bool) (fields []string) {
	for _, field := range slices.Sorted(maps.Keys(x.config)) {
		if !x.lookedUp[field] && !others[field] && !isEmpty(x.config[field]) && !fieldTable().ignored[field] && len(fields) < 20 {
			fields = append(fields, short(field))
		}
	}
	return fields
}

// sort puts the decoder's tensors where they stand.
func (x *inferred) sort(m *Model, all Tensors) {
	for name, e := range all {
		s := m.whereIs(name)
		if s.part != decoderTensor {
			continue
		}
		key := name
		if found := layerNumber().FindStringIndex(name); found != nil {
			key = name[found[1]:]
		}
		if x.tensors[s.layer] == nil {
			x.tensors[s.layer] = make(map[string][]int64)
		}
		x.tensors[s.layer][key] = e.Shape
	}
}

// layers builds the kinds of layers, those with the same tensors and the same type being one.
func (x *inferred) layers(n int) (kinds []Layer, order []int) {
	types := x.texts("layer_types")
	seen := make(map[string]int)
	for i := range n {
		kind := ""
		if i < len(types) {
			kind = oldLayerTypes(types[i])
		}
		key := kind
		for _, name := range slices.Sorted(maps.Keys(x.tensors[i])) {
			key += fmt.Sprint(" ", name, x.tensors[i][name])
		}
		at, known := seen[key]
		if !known {
			at = len(kinds)
			seen[key] = at
			blocks := x.layer(i, kind)
			kinds = append(kinds, Layer{Name: layerName(blocks), Blocks: blocks})
		}
		if x.err != nil {
			return nil, nil
		}
		kinds[at].Count++
		order = append(order, at)
	}
	return kinds, order
}

// matrix takes the tensor of a matrix whose module has one of the names, in any owner that fits.
func (x *inferred) matrix(layer int, owner func(string) bool, names ...string) (l Linear, found bool) {
	for _, name := range slices.Sorted(maps.Keys(x.left)) {
		module, ok := strings.CutSuffix(name, ".weight")
		shape := x.tensors[layer][name]
		own, last := "", module
		if at := strings.LastIndexByte(module, '.'); at >= 0 {
			own, last = module[:at], module[at+1:]
		}
		if !ok || len(shape) != 2 || !owner(own) || !slices.Contains(names, last) {
			continue
		}
		delete(x.left, name)
		l = Linear{Name: names[0], In: int(min(shape[1], maxSide)), Out: int(min(shape[0], maxSide))}
		if x.left[module+".bias"] {
			l.Bias = true
			delete(x.left, module+".bias")
		}
		return l, true
	}
	return l, false
}

// vector takes a tensor of one dimension, or one whose other dimensions are 1, and returns its values, 0 where it is not there.
func (x *inferred) vector(layer int, ends string) int {
	for _, name := range slices.Sorted(maps.Keys(x.left)) {
		shape := x.tensors[layer][name]
		if !strings.HasSuffix(name, ends) || len(shape) == 0 || slices.Max(shape) != elements(shape) {
			continue
		}
		delete(x.left, name)
		return int(min(slices.Max(shape), maxSide))
	}
	return 0
}

func elements(shape []int64) int64 {
	n := int64(1)
	for _, d := range shape {
		n *= max(min(d, maxSide), 1)
		if n > maxParams {
			return maxParams
		}
	}
	return n
}

// layer builds the blocks of a layer of a type, "" where the config names none.
func (x *inferred) layer(i int, kind string) []Block {
	x.left = make(map[string]bool, len(x.tensors[i]))
	for name := range x.tensors[i] {
		x.left[name] = true
	}
	var blocks []Block
	if b, ok := x.scan(i); ok {
		blocks = append(blocks, b)
	} else if b, ok := x.attention(i, kind); ok {
		blocks = append(blocks, b)
	}
	if b, ok := x.experts(i); ok {
		blocks = append(blocks, b)
	} else if b, ok := x.dense(i); ok {
		blocks = append(blocks, b)
	}
	if len(blocks) == 0 && x.err == nil {
		x.fail("layer %d has neither attention nor a feed-forward that its tensors tell", i)
	}
	if x.err == nil {
		x.rest(i, blocks)
	}
	return blocks
}

// rest gives the norms and further vectors to the blocks, and refuses matrices that belong to none.
func (x *inferred) rest(i int, blocks []Block) {
	for _, name := range slices.Sorted(maps.Keys(x.left)) {
		shape := x.tensors[i][name]
		n := elements(shape)
		at := &blocks[0]
		if words := strings.Split(name, "."); len(blocks) > 1 && (strings.Contains(words[0], "mlp") || strings.Contains(words[0], "ffn") ||
			strings.Contains(words[0], "feed") || strings.Contains(words[0], "post_attention") || strings.Contains(words[0], "moe")) {
			at = &blocks[len(blocks)-1]
		}
		switch {
		case n == int64(x.hidden) && strings.Contains(name, "norm") && strings.HasSuffix(name, ".weight"):
			norm := Norm{Name: strings.TrimSuffix(name, ".weight"), Width: x.hidden, Params: n}
			if x.left[norm.Name+".bias"] {
				norm.Params *= 2
				delete(x.left, norm.Name+".bias")
			}
			at.Norms = append(at.Norms, norm)
		case len(shape) == 3 && shape[1] == 1, len(shape) > 0 && slices.Max(shape) == n, n <= int64(8*x.hidden): // a convolution, a vector
			if x.left[name] {
				at.Extra += n
			}
		default:
			x.fail("the tensor %s of layer %d (%v) belongs to nothing that is understood of an unknown family", short(name), i, shape)
		}
		delete(x.left, name)
	}
}

func in(words ...string) func(string) bool {
	return func(owner string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(owner, w) })
	}
}

// attention builds softmax attention with queries, keys and values of their own or in one matrix, or latent attention.
func (x *inferred) attention(i int, kind string) (b Block, ok bool) {
	owner := in("attn", "attention")
	heads := x.size("num_attention_heads")
	a := &Attention{Heads: heads, KVHeads: x.sizeOr("num_key_value_heads", heads)}
	b = Block{Name: "attention", Attention: a}
	if down, found := x.matrix(i, owner, "kv_a_proj", "kv_a_proj_with_mqa"); found {
		return x.latent(i, b, down), true
	}
	out, found := x.matrix(i, owner, "o_proj", "out_proj", "wo", "dense", "c_proj")
	if !found {
		return b, false
	}
	q, separate := x.matrix(i, owner, "q_proj", "wq")
	k, hasKeys := x.matrix(i, owner, "k_proj", "wk")
	v, hasValues := x.matrix(i, owner, "v_proj", "wv")
	if fused, found := x.matrix(i, owner, "qkv_proj", "query_key_value", "c_attn", "Wqkv", "W_pack", "wqkv"); found && !separate {
		dim := fused.Out / (heads + 2*a.KVHeads)
		q, k, v = fused, fused, fused
		q.Out, k.Out, v.Out = heads*dim, a.KVHeads*dim, a.KVHeads*dim
		separate, hasKeys, hasValues = fused.Out == (heads+2*a.KVHeads)*dim, true, true
	}
	if !separate || !hasKeys || !hasValues {
		x.fail("the attention of layer %d cannot be told by its tensors: it has no queries, keys and values of their own or in one matrix", i)
		return b, true
	}
	a.KeyDim = x.sizeOr("head_dim", max(q.Out/heads, 1))
	a.ValueDim = max(v.Out/a.KVHeads, 1)
	q.Name, k.Name, v.Name, out.Name = "q_proj", "k_proj", "v_proj", "o_proj"
	q.Heads, k.Heads, v.Heads, out.Heads, out.Split = heads, a.KVHeads, a.KVHeads, heads, Rows
	b.In, b.Out = []Linear{q, k, v}, []Linear{out}
	if q.Out == 2*heads*a.KeyDim { // queries and gates in one matrix, as Qwen3-Next has them
		b.In[0].Out = heads * a.KeyDim
		gate := b.In[0]
		gate.Name = "gate_proj"
		b.In = append(b.In, gate)
		x.note("the queries of its attention come with gates of their output")
	} else if gate, found := x.matrix(i, owner, "gate_proj", "g_proj"); found && (gate.Out == heads || gate.Out == heads*a.ValueDim) {
		gate.Heads = heads
		b.In = append(b.In, gate)
	}
	if b.In[0].Out != heads*a.KeyDim || k.Out != a.KVHeads*a.KeyDim || v.Out != a.KVHeads*a.ValueDim || out.In != heads*a.ValueDim {
		x.fail("the attention of layer %d cannot be told by its tensors: queries of %d, keys of %d and values of %d do not make %d heads of %d "+
			"with %d of keys", i, q.Out, k.Out, v.Out, heads, a.KeyDim, a.KVHeads)
	}
	x.headNorms(i, &b)
	x.positions(a, kind)
	return b, true
}

// headNorms are norms of queries and keys: of each head, or of all together.
func (x *inferred) headNorms(i int, b *Block) {
	a := b.Attention
	for _, n := range []struct {
		name  string
		heads int
	}{{"q_norm", a.Heads}, {"k_norm", a.KVHeads}} {
		for _, spelled := range []string{n.name, strings.Replace(n.name, "_norm", "_layernorm", 1)} {
			width := x.vector(i, "."+spelled+".weight")
			if width == 0 {
				continue
			}
			norm := Norm{Name: n.name, Width: width, Heads: 1, Params: int64(width)}
			if width == a.KeyDim {
				norm.Heads, norm.PerHead = n.heads, true
			}
			norm.Params += int64(x.vector(i, "."+spelled+".bias"))
			b.Norms = append(b.Norms, norm)
		}
	}
}

// positions reads the window and the rotary positions.
func (x *inferred) positions(a *Attention, kind string) {
	a.RotaryDim = share(a.KeyDim, x.ratio("partial_rotary_factor"))
	if v, ok := x.dig("rope_parameters.partial_rotary_factor"); ok && v != nil {
		a.RotaryDim = share(a.KeyDim, x.ratio("rope_parameters.partial_rotary_factor"))
	}
	switch kind {
	case sliding:
		a.Window = x.size("sliding_window")
	case "":
		if window := x.countOr("sliding_window", 0); window > 0 && x.value("use_sliding_window") != false {
			a.Window = window
			x.note("all of its layers are taken to have the window of sliding_window, since it lists no layer_types")
		}
	case full:
	default:
		x.fail("layer type %s cannot be told by tensors", quote(kind))
	}
}

// latent builds multi-head latent attention around the projection that makes the compressed cache.
func (x *inferred) latent(i int, b Block, down Linear) Block {
	owner, a := in("attn", "attention"), b.Attention
	heads := a.Heads
	up, hasUp := x.matrix(i, owner, "kv_b_proj")
	out, hasOut := x.matrix(i, owner, "o_proj")
	q, hasQ := x.matrix(i, owner, "q_proj", "q_b_proj")
	if !hasUp || !hasOut || !hasQ {
		x.fail("the attention of layer %d cannot be told by its tensors: it compresses keys and values and does not expand them", i)
		return b
	}
	l := Latent{Rank: up.In, RopeDim: down.Out - up.In}
	a.KeyDim, a.ValueDim = q.Out/heads, out.In/heads
	l.NopeDim = up.Out/heads - a.ValueDim
	if l.RopeDim < 0 || l.NopeDim < 1 || l.NopeDim+l.RopeDim != a.KeyDim || q.Out%heads != 0 || up.Out%heads != 0 {
		x.fail("the attention of layer %d cannot be told by its tensors: latent vectors of %d with %d rotated do not make heads of %d", i, l.Rank,
			l.RopeDim, a.KeyDim)
		return b
	}
	a.KVHeads, a.RotaryDim, a.Latent = heads, l.RopeDim, &l
	down.Split, q.Heads, up.Heads, out.Heads, out.Split = Replicated, heads, heads, heads, Rows
	l.Expand, b.Out = up, []Linear{out}
	if low, found := x.matrix(i, owner, "q_a_proj"); found {
		low.Split, q.Name = Replicated, "q_b_proj"
		b.In = append(b.In, low)
		b.Norms = append(b.Norms, scaleOnly.norm("q_a_layernorm", x.vector(i, "q_a_layernorm.weight"), 1))
	}
	b.In = append(b.In, q, down)
	b.Norms = append(b.Norms, scaleOnly.norm("kv_a_layernorm", x.vector(i, "kv_a_layernorm.weight"), 1))
	return b
}

// dense builds a feed-forward with or without a gate.
func (x *inferred) dense(i int) (b Block, ok bool) {
	owner := in("mlp", "ffn", "feed_forward")
	in, out, act, ok := x.projections(i, owner)
	return Block{Name: "mlp", In: in, Out: out, Activation: act}, ok
}

func (x *inferred) projections(i int, owner func(string) bool) (in, out []Linear, act Activation, ok bool) {
	down, hasDown := x.matrix(i, owner, "down_proj", "w2", "fc2", "c_proj", "dense_4h_to_h")
	if !hasDown {
		return nil, nil, act, false
	}
	act.Width, down.Split = down.In, Rows
	if both, found := x.matrix(i, owner, "gate_up_proj"); found {
		act.Gated = true
		both.Name, both.Out = "gate_proj", both.Out/2
		up := both
		up.Name = "up_proj"
		in = []Linear{both, up}
	} else if gate, found := x.matrix(i, owner, "gate_proj", "w1"); found {
		act.Gated = true
		in = append(in, gate)
	}
	if up, found := x.matrix(i, owner, "up_proj", "w3", "fc1", "c_fc", "dense_h_to_4h"); found {
		in = append(in, up)
	}
	if len(in) == 0 {
		x.fail("the feed-forward of layer %d cannot be told by its tensors: nothing leads into %d values", i, act.Width)
	}
	return in, []Linear{down}, act, true
}

// experts builds a MoE block whose experts have tensors of their own, or are all in one.
func (x *inferred) experts(i int) (b Block, ok bool) {
	e := &Experts{}
	shared := func(owner string) bool {
		return strings.Contains(owner, "shared_expert") || strings.Contains(owner, "shared_mlp")
	}
	one := func(owner string) bool { return strings.HasSuffix(owner, "experts.0") && !shared(owner) }
	in, out, act, ok := x.projections(i, one)
	if !ok {
		in, out, act, e.Count = x.stackedExperts(i)
	}
	for name := range x.tensors[i] { // the others are as the first
		if _, rest, found := strings.Cut(name, "experts."); found && ok && !shared(name) {
			number, _, _ := strings.Cut(rest, ".")
			if n, err := strconv.Atoi(number); err == nil {
				e.Count = max(e.Count, n+1)
				delete(x.left, name)
			}
		}
	}
	if e.Count == 0 {
		return b, false
	}
	e.In, e.Out, e.Activation, e.TopK = in, out, act, x.size("num_experts_per_tok")
	router, found := x.matrix(i, func(owner string) bool { return !shared(owner) && !strings.Contains(owner, "attn") }, "gate", "router", "wg",
		"layer", "classifier")
	if !found || router.Out != e.Count || e.TopK > e.Count {
		x.fail("the experts of layer %d cannot be told by its tensors: no router chooses %d of %d", i, e.TopK, e.Count)
		return b, true
	}
	router.Name, router.Split = "router", Replicated
	e.Router = []Linear{router}
	if in, out, act, ok := x.projections(i, shared); ok {
		e.Shared = &Shared{In: in, Out: out, Activation: act}
		if gate, found := x.matrix(i, func(string) bool { return true }, "shared_expert_gate"); found {
			gate.Split = Replicated
			e.Shared.In = append(e.Shared.In, gate)
		}
	}
	return Block{Name: "moe", Experts: e}, true
}

// stackedExperts reads experts that are all in one tensor: [experts, outputs, inputs], or the latter two turned round.
func (x *inferred) stackedExperts(i int) (in, out []Linear, act Activation, count int) {
	take := func(ends string) (a, b int, bias bool) {
		for _, name := range slices.Sorted(maps.Keys(x.left)) {
			shape := x.tensors[i][name]
			if len(shape) != 3 || !strings.HasSuffix(name, ends) || slices.Max(shape) > maxSide {
				continue
			}
			delete(x.left, name)
			if x.left[name+"_bias"] {
				delete(x.left, name+"_bias")
				bias = true
			}
			count, a, b = int(shape[0]), int(shape[1]), int(shape[2])
			if ends != "experts.down_proj" && b != x.hidden || ends == "experts.down_proj" && a != x.hidden {
				a, b = b, a
			}
			return a, b, bias
		}
		return 0, 0, false
	}
	up, width, bias := take("experts.gate_up_proj")
	hidden, down, downBias := take("experts.down_proj")
	if count == 0 || up != 2*down || width != x.hidden || hidden != x.hidden {
		return nil, nil, act, 0
	}
	for _, name := range []string{"gate_proj", "up_proj"} {
		in = append(in, Linear{Name: name, In: width, Out: down, Bias: bias})
	}
	return in, []Linear{{Name: "down_proj", In: down, Out: hidden, Bias: downBias, Split: Rows}}, Activation{Width: down, Gated: true}, count
}

// ends builds what comes before the first layer and after the last.
func (x *inferred) ends(m *Model) {
	x.left = make(map[string]bool)
	for name := range x.tensors[-1] {
		x.left[name] = true
	}
	anywhere := func(string) bool { return true }
	table, found := x.matrix(-1, anywhere, tableNames...)
	if !found || table.In != x.hidden {
		x.fail("no tensor is the embedding of %d values", x.hidden)
		return
	}
	m.Vocab, m.Embedding.Width = table.Out, table.In
	m.Head = Linear{Name: "lm_head", In: table.In, Out: table.Out}
	if head, found := x.matrix(-1, anywhere, headNames...); found {
		m.TiedHead, m.Head = false, head
	}
	for _, name := range slices.Sorted(maps.Keys(x.left)) {
		shape := x.tensors[-1][name]
		switch n := elements(shape); {
		case n == int64(x.hidden) && strings.Contains(name, "norm"):
			m.FinalNorms = append(m.FinalNorms, Norm{Name: name, Width: x.hidden, Params: n})
		case len(shape) > 0 && slices.Max(shape) == n:
			m.Embedding.Extra += n
		default:
			x.fail("the tensor %s (%v) belongs to nothing that is understood of an unknown family", short(name), shape)
		}
	}
}
