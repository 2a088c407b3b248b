package plots

import (
	"fmt"
	"slices"
	"strings"

	"llmprof/analytic"
	"llmprof/analytic/operator"
	"llmprof/models"
)

// layerCluster is one layer of a kind: blocks that each read the stream and add
// to it.
func layerCluster(c *analytic.Case, l *models.Layer, ops []op) cluster {
	cl := cluster{title: l.Name, count: l.Count}
	ops = resolveNorms(l, ops)
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
			n.More = expertsText(c, o.in(l).Experts)
			folded = n
		}
		b := o.in(l)
		n.Shape = shapeOf(c, b, n)
		if a := b.Attention; a != nil && a.Window > 0 && o.kind == operator.Attention {
			n.More = fmt.Sprintf("looks back on %d positions at most", a.Window)
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

// in is the block that an operator belongs to, an empty one where the report is of other layers than the model's.
func (o *op) in(l *models.Layer) *models.Block {
	if o.block < len(l.Blocks) {
		return &l.Blocks[o.block]
	}
	return &models.Block{}
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
func expertsText(c *analytic.Case, e *models.Experts) string {
	if e == nil {
		return ""
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

// distinctExperts is the expected number of a layer's experts that tokens touch, where the
// router also sends tokens to experts that compute nothing.
func distinctExperts(e *models.Experts, tokens float64) float64 {
	all := float64(e.Count + e.Idle)
	return float64(e.Count) / all * operator.DistinctExperts(all, float64(e.TopK), tokens)
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
	starts, before := cl.starts(l), 0
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
		if l.Blocks[j].Parallel && s > 0 {
			cl.fork(s, before, end, !leads(&l.Blocks[j]))
		} else {
			cl.residual = append(cl.residual, span{s, end})
		}
		before = s
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

// starts are the first nodes of the blocks, -1 for one whose operators are all in lines of earlier blocks.
func (cl *cluster) starts(l *models.Layer) []int {
	starts := make([]int, len(l.Blocks))
	for j := range starts {
		starts[j] = slices.IndexFunc(cl.nodes, func(n *GraphNode) bool { return n.block == j })
	}
	return starts
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

// leads reports whether a block has a norm by which it reads the stream.
func leads(b *models.Block) bool {
	if len(b.Norms) == 0 {
		return false
	}
	_, inside := maker(b, 0)
	return !inside
}

// resolveNorms moves the norms that read what their block has made right behind what
// makes it, or behind the collective that sums that.
func resolveNorms(l *models.Layer, ops []op) []op {
	settled := slices.Clone(ops)
	for _, o := range slices.Backward(ops) {
		b := o.in(l)
		by, inside := "", false
		for k := range b.Norms {
			if b.Norms[k].Name == o.name {
				if by, inside = maker(b, k); !inside {
					break // The line is of a norm that reads the stream, too.
				}
			}
		}
		if !inside {
			continue
		}
		from := slices.IndexFunc(settled, func(x op) bool { return x.name == o.name })
		to := madeAt(settled, from, by)
		switch {
		case to > from:
			settled = slices.Insert(slices.Delete(settled, from, from+1), to, o)
		case to >= 0 && to < from:
			settled = slices.Insert(slices.Delete(settled, from, from+1), to+1, o)
		}
	}
	return settled
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

// shapeOf returns the shape of a node of a block, with the dimension that tensor parallelism splits
// as "8192 to 28672/8". It is empty for a node without a shape.
func shapeOf(c *analytic.Case, b *models.Block, n *GraphNode) string {
	if n.Wire {
		return wireShape(n.Name, c)
	}
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
	return coreShape(c, b, n.Name)
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
		if ls[i].Name == name || operator.FusedName(ls[i:j]) == name {
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
