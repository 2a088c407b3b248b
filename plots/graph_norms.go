package plots

import (
	"slices"
	"strings"

	"llmprof/models"
	"llmprof/operator"
)

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
