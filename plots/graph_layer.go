package plots

import (
	"fmt"
	"slices"
	"strings"

	"llmprof/analytic"
	"llmprof/models"
	"llmprof/operator"
	"llmprof/routing"
)

// layerCluster is one layer of a kind: blocks that each read the stream and add
// to it.
func layerCluster(c *analytic.Case, l *models.Layer, ops []op) cluster {
	cl := cluster{title: l.Name, count: l.Count}
	ops = settleNorms(l, ops)
	var folded *GraphNode
	for i := range ops {
		o := &ops[i]
		if ofMoE(o) && folded != nil {
			folded.take(o, 1)
			continue
		}
		n := o.node(1)
		if ofMoE(o) {
			n.Name = "mixture of experts"
			n.More = expertsText(c, l)
			folded = n
		}
		n.Shape = shapeOf(c, l, n)
		if w := window(l); w > 0 && o.kind == operator.Attention {
			n.More = fmt.Sprintf("looks back on %d positions at most", w)
		}
		cl.nodes = append(cl.nodes, n)
	}
	if at := slices.Index(cl.nodes, folded); at >= 0 && at+1 < len(cl.nodes) && dispatches[cl.nodes[at+1].Name] {
		cl.nodes[at], cl.nodes[at+1] = cl.nodes[at+1], cl.nodes[at] // tokens are sent to the experts and back
	}
	cl.reduceAgain(l, ops)
	cl.connect(l)
	return cl
}

// dispatches are the exchanges that bring tokens to the experts.
var dispatches = map[string]bool{"all_to_all_dispatch": true, "all_gather_tokens": true}

// window is how far the attention of a layer looks back, 0 for all the way.
func window(l *models.Layer) int {
	for i := range l.Blocks {
		if a := l.Blocks[i].Attention; a != nil {
			return a.Window
		}
	}
	return 0
}

// ofMoE reports whether an operator is part of the folded node. What moves
// between GPUs is not.
func ofMoE(o *op) bool {
	if o.kind == operator.Collective {
		return false
	}
	return o.name == "top_k" || strings.HasPrefix(o.name, "router") || strings.HasPrefix(o.name, "gate.") ||
		strings.HasPrefix(o.name, "experts") || strings.HasPrefix(o.name, "shared_")
}

// expertsText says how many experts a token and a step take.
func expertsText(c *analytic.Case, l *models.Layer) string {
	for i := range l.Blocks {
		e := l.Blocks[i].Experts
		if e == nil {
			continue
		}
		s := fmt.Sprintf("%d of %d experts a token", e.TopK, e.Count+e.Idle)
		if e.Shared != nil {
			s += " and a shared one"
		}
		w := &c.Workload
		batch := float64(w.Batch) / float64(max(c.Parallel.MicroBatches, 1)) * float64(c.Parallel.ExpertReplicas())
		fresh := w.PromptLen - w.CachedPrefix
		if w.Chunk > 0 {
			fresh = min(fresh, w.Chunk)
		}
		s += fmt.Sprintf("; distinct in a step: %.0f in prefill", distinctExperts(e, batch*float64(fresh)))
		if w.GenLen > 1 {
			s += fmt.Sprintf(", %.0f in decode", distinctExperts(e, batch))
		}
		return s
	}
	return ""
}

// distinctExperts is the expected number of a layer's experts that tokens touch, where the
// router also sends tokens to experts that compute nothing.
func distinctExperts(e *models.Experts, tokens float64) float64 {
	all := float64(e.Count + e.Idle)
	return float64(e.Count) / all * routing.Distinct(all, float64(e.TopK), tokens)
}

// reduceAgain gives every block its own all-reduce, where the report has one line
// for all of them: they are of the same size.
func (cl *cluster) reduceAgain(l *models.Layer, ops []op) {
	times := 0
	for i := range l.Blocks {
		if i+1 == len(l.Blocks) || !l.Blocks[i+1].Joined {
			times++
		}
	}
	var reduce *op
	for i := range ops {
		switch ops[i].name {
		case "all_reduce", "reduce_scatter_all_gather":
			reduce = &ops[i]
		case "all_gather": // the all-gather of one block instead
			times--
		}
	}
	if reduce == nil || times < 2 {
		return
	}
	at := slices.IndexFunc(cl.nodes, func(n *GraphNode) bool { return n.Name == reduce.name })
	all := cl.nodes[at]
	cl.nodes = slices.Delete(cl.nodes, at, at+1)
	ends := cl.ends(l)
	if len(ends) != times { // a block is not found
		all.Shape += fmt.Sprintf(", %d times", times)
		cl.nodes = slices.Insert(cl.nodes, at, all)
		return
	}
	for _, end := range slices.Backward(ends) {
		one := reduce.node(1 / float64(times))
		one.Shape = all.Shape
		if name := cl.nodes[end-1].Name; strings.HasPrefix(name, "post_") && strings.HasSuffix(name, "norm") {
			end-- // the node reads the sum
		}
		cl.nodes = slices.Insert(cl.nodes, end, one)
	}
}

// ends are the gaps in which blocks add to the stream.
func (cl *cluster) ends(l *models.Layer) (ends []int) {
	starts := cl.starts(l)
	for j := 1; j < len(starts); j++ {
		if starts[j] > 0 && !l.Blocks[j].Joined {
			ends = append(ends, starts[j])
		}
	}
	return append(ends, len(cl.nodes))
}

// connect finds the blocks and the branches beside them.
func (cl *cluster) connect(l *models.Layer) {
	starts := cl.starts(l)
	for j, s := range starts {
		if s < 0 {
			continue
		}
		end := len(cl.nodes) - 1
		for k := j + 1; k < len(starts); k++ {
			if starts[k] >= 0 && !l.Blocks[k].Parallel {
				end = starts[k] - 1
				break
			}
		}
		if l.Blocks[j].Parallel && j > 0 && s > 0 {
			cl.fork(s, max(starts[j-1], 0), end, leadNorm(&l.Blocks[j]) == "")
			continue
		}
		cl.residual = append(cl.residual, span{s, end})
	}
	at := slices.IndexFunc(cl.nodes, func(n *GraphNode) bool { return n.Name == "kv_a_proj" })
	meet := slices.IndexFunc(cl.nodes, func(n *GraphNode) bool { return n.Name == "rotary" || strings.HasSuffix(n.Name, "attention") })
	if at > 1 && meet > at && strings.HasPrefix(cl.nodes[at-1].Name, "q_") {
		cl.branches = append(cl.branches, branch{fork: 1, from: at, to: meet - 1})
	}
}

// fork makes the block from node s on run beside that from node before on. It
// reads the stream, or what the first block's norm makes of it.
func (cl *cluster) fork(s, before, end int, afterNorm bool) {
	if afterNorm {
		before++
	}
	if cl.nodes[end].Wire && end > s { // the sum is made before it is reduced
		end--
	}
	cl.branches = append(cl.branches, branch{fork: before, from: s, to: end})
}

// starts are the first nodes of the blocks, -1 for one that is not found.
func (cl *cluster) starts(l *models.Layer) []int {
	starts := make([]int, len(l.Blocks))
	from := 0
	for j := range l.Blocks {
		starts[j] = cl.start(&l.Blocks[j], from)
		if j == 0 && starts[j] < 0 {
			starts[j] = 0
		}
		from = max(from, starts[j]+1)
	}
	return starts
}

// start is the first node of a block from node from on: its norm or, if that is
// a line with that of an earlier block or there is none, its first GEMM.
func (cl *cluster) start(b *models.Block, from int) int {
	names := []string{leadNorm(b)}
	if len(b.In) > 0 {
		names = append(names, b.In[0].Name)
	}
	if b.Experts != nil {
		names = append(names, "all_to_all_dispatch", "all_gather_tokens", "mixture of experts")
	}
	for _, name := range names {
		for i := from; i < len(cl.nodes); i++ {
			n := cl.nodes[i].Name
			if name != "" && (n == name || name == "q_proj" && n == "qkv_proj" || name == "gate_proj" && n == "gate_up_proj") {
				return i
			}
		}
	}
	return -1
}

// The report lists most norms of a block first, and those of queries, keys and low
// ranks behind all GEMMs that read the stream. Some of the former read what the block
// has made, as the gated norm behind a scan, and the latter belong each behind the
// GEMM that makes what it reads.

// maker is the operator that makes what norm k of a block reads, and whether the
// norm reads something else than the residual stream. The last operator of the
// block is "".
func maker(b *models.Block, k int) (name string, inside bool) {
	switch norm := b.Norms[k].Name; {
	case strings.HasPrefix(norm, "q_a_"):
		return "q_a_proj", true
	case strings.HasPrefix(norm, "kv_a_"):
		return "kv_a_proj", true
	case norm == "q_norm", norm == "k_norm":
		return "qkv_proj", true
	case norm == "dt_layernorm", norm == "b_layernorm", norm == "c_layernorm":
		return "x_proj", true
	case strings.HasPrefix(norm, "post_feedforward"):
		return "", true
	case strings.HasPrefix(norm, "post_attention") && (b.Attention != nil || b.Scan != nil):
		if len(b.Out) > 0 {
			return b.Out[0].Name, true
		}
		return "", true
	case norm == "norm" && b.Scan != nil && (k > 0 || b.Parallel):
		return "scan", true
	}
	return "", false
}

// leads reports whether a block of a layer has a norm of that name that reads the stream.
func leads(l *models.Layer, name string) bool {
	for i := range l.Blocks {
		b := &l.Blocks[i]
		for k := range b.Norms {
			if _, inside := maker(b, k); !inside && b.Norms[k].Name == name {
				return true
			}
		}
	}
	return false
}

// leadNorm is the norm by which a block reads the stream, "" if it has none.
func leadNorm(b *models.Block) string {
	if len(b.Norms) == 0 {
		return ""
	}
	if _, inside := maker(b, 0); inside {
		return ""
	}
	return b.Norms[0].Name
}

// settleNorms moves the norms that read what their block has made right behind what
// makes it, or behind the collective that sums that.
func settleNorms(l *models.Layer, ops []op) []op {
	ops = slices.Clone(ops)
	for i := range l.Blocks {
		b := &l.Blocks[i]
		for k := len(b.Norms) - 1; k >= 0; k-- {
			name := b.Norms[k].Name
			from := slices.IndexFunc(ops, func(o op) bool { return o.name == name })
			by, inside := maker(b, k)
			if from < 0 || !inside || leads(l, name) {
				continue
			}
			o := ops[from]
			switch to := madeAt(ops, from, by); {
			case to > from:
				ops = slices.Insert(slices.Delete(ops, from, from+1), to, o)
			case to >= 0 && to < from:
				ops = slices.Insert(slices.Delete(ops, from, from+1), to+1, o)
			}
		}
	}
	return ops
}

// madeAt is where the operator by is: the first behind operator from, else the last
// ahead of it, -1 if there is none. Collectives that sum it belong to it.
func madeAt(ops []op, from int, by string) int {
	if by == "" {
		return len(ops) - 1
	}
	made := func(o op) bool { return o.name == by || by == "scan" && strings.HasSuffix(o.name, "scan") }
	at := slices.IndexFunc(ops[from+1:], made) + from + 1
	if at == from { // there is none behind
		at = from - 1
		for at >= 0 && !made(ops[at]) {
			at--
		}
	}
	for at >= 0 && at+1 < len(ops) && ops[at+1].kind == operator.Collective {
		at++
	}
	return at
}

// shapeOf returns the shape of a node in a layer, with the dimension that tensor parallelism splits
// as "8192 to 28672/8". It is empty for a node without a shape.
func shapeOf(c *analytic.Case, l *models.Layer, n *GraphNode) string {
	if n.Wire {
		return wireShape(n.Name, c)
	}
	for j := range l.Blocks {
		b := &l.Blocks[j]
		for _, ls := range [][]models.Linear{b.In, b.Out} {
			if s := fused(ls, n.Name, c.Parallel.TP); s != "" {
				return s
			}
		}
		for _, norm := range b.Norms {
			if norm.Name == n.Name {
				return fmt.Sprint(norm.Width)
			}
		}
		if s := coreShape(c, b, n.Name); s != "" {
			return s
		}
	}
	return ""
}

// coreShape is that of what is no GEMM of the block.
func coreShape(c *analytic.Case, b *models.Block, name string) string {
	a := b.Attention
	switch {
	case name == "kv_b_proj" && a != nil && a.Latent != nil:
		return gemmShape([]models.Linear{a.Latent.Expand}, c.Parallel.TP)
	case a != nil && a.Latent != nil && strings.HasSuffix(name, "attention"):
		return fmt.Sprintf("%d heads on %d+%d", a.Heads, a.Latent.Rank, a.Latent.RopeDim)
	case a != nil && strings.HasSuffix(name, "attention"):
		return fmt.Sprintf("%d of %d, %d KV", a.Heads, a.KeyDim, a.KVHeads)
	case name == "activation" && b.Activation.Width > 0:
		return fmt.Sprint(b.Activation.Width)
	case b.Scan != nil && strings.HasSuffix(name, "conv"):
		return fmt.Sprintf("%d × %d", b.Scan.Conv, b.Scan.Kernel)
	case b.Scan != nil && strings.HasSuffix(name, "scan"):
		return fmt.Sprintf("%d of %d × %d", b.Scan.Heads, b.Scan.HeadDim, b.Scan.StateDim)
	}
	return ""
}

// fused is the shape of the GEMM of that name among ls, of which those that
// read the same input run as one.
func fused(ls []models.Linear, name string, tp int) string {
	for i := 0; i < len(ls); {
		j := i + 1
		for j < len(ls) && ls[j].In == ls[i].In && ls[j].Split == ls[i].Split {
			j++
		}
		first := ls[i].Name
		if first == name || j > i+1 && (first == "q_proj" && name == "qkv_proj" ||
			first == "gate_proj" && name == "gate_up_proj" || first == "q_a_proj" && name == "qkv_a_proj") {
			return gemmShape(ls[i:j], tp)
		}
		i = j
	}
	return ""
}

// gemmShape is the shape of one or several matrices that run as one, "/8" where
// each of 8 GPUs has that share.
func gemmShape(ls []models.Linear, tp int) string {
	out, cut := 0, max(tp, 1)
	even := true
	for _, l := range ls {
		out += l.Out * max(l.Times, 1)
		even = even && (l.Heads == 0 || l.Heads >= cut)
	}
	in, to := fmt.Sprint(ls[0].In), fmt.Sprint(out)
	if cut > 1 && even {
		switch ls[0].Split {
		case models.Columns:
			to += fmt.Sprintf("/%d", cut)
		case models.Rows:
			in += fmt.Sprintf("/%d", cut)
		}
	}
	return in + " to " + to
}
