package plots

import (
	"fmt"
	"strings"

	"llmprof/analytic"
	"llmprof/models"
)

// shapeOf returns the shape of a node in a layer, with the dimension that tensor parallelism splits
// as "8192 to 28672/8". It is empty for a node without a shape.
func shapeOf(c *analytic.Case, l *models.Layer, n *node) string {
	if n.wire {
		return wireShape(n.name, c)
	}
	for j := range l.Blocks {
		b := &l.Blocks[j]
		for _, ls := range [][]models.Linear{b.In, b.Out} {
			if s := fused(ls, n.name, c.Parallel.TP); s != "" {
				return s
			}
		}
		for _, norm := range b.Norms {
			if norm.Name == n.name {
				return fmt.Sprint(norm.Width)
			}
		}
		if s := coreShape(c, b, n.name); s != "" {
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
