package models

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
)

// Checkpoints name their modules by paths such as "model.layers.3.self_attn.q_proj", of which the
// beginning differs between families and between a model and its multimodal wrapper.
// Paths are compared without it: "layers.3.self_attn.q_proj".

// bare is a path, or a pattern of paths, without what stands before the layers.
func bare(path string) string {
	for {
		rest, found := path, false
		for _, prefix := range []string{"model.", "language_model.", "text_model.", "backbone.", "transformer."} {
			if r, ok := strings.CutPrefix(rest, prefix); ok {
				rest, found = r, true
			}
		}
		if !found {
			return rest
		}
		path = rest
	}
}

// modules lists the paths that a matrix may have. An expert is the first one's.
func modules(family string, at place, l *Linear) []string {
	layer, owned, names := "layers."+strconv.Itoa(at.layer)+".", owners(family, at), partNames(family, at, l)
	out := make([]string, 0, len(owned)*len(names))
	for _, owner := range owned {
		for _, name := range names {
			out = append(out, layer+owner+"."+name)
		}
	}
	return out
}

// owners are the modules of a layer that a block's matrices may be in.
func owners(family string, at place) []string {
	if strings.HasPrefix(family, "nemotron_h") {
		return []string{"mixer"}
	}
	if strings.HasPrefix(family, "step3p") && at.part == sharedPart {
		return []string{"share_expert"} // it stands beside "moe"
	}
	switch {
	case at.part == ownPart && at.block.Attention != nil || at.part == latentPart:
		return []string{"self_attn", "attn", "attention"}
	case at.part == ownPart && at.block.Scan != nil:
		return []string{"linear_attn", "mamba", "mixer", "self_attn", "attention", "conv"}
	case strings.HasPrefix(family, "gemma4") && (at.part == expertPart || at.part == routerPart):
		return []string{"moe"} // it stands beside a dense mlp; "layers.0.experts" and "layers.0.router" are among its names
	case at.block.Experts != nil:
		return []string{"mlp", "block_sparse_moe", "feed_forward", "ffn", "moe"}
	}
	return []string{"mlp", "feed_forward", "ffn"}
}

// otherNames are all that some matrices may be called within their block or expert.
var otherNames = map[string][]string{
	"gate_proj": {"gate_proj", "w1", "gate_up_proj", "g_proj"}, "up_proj": {"up_proj", "w3", "gate_up_proj"}, "down_proj": {"down_proj", "w2"},
	"q_proj": {"q_proj", "qkv_proj", "query_key_value"}, "k_proj": {"k_proj", "qkv_proj", "query_key_value"},
	"v_proj":   {"v_proj", "qkv_proj", "query_key_value"},
	"qkv_proj": {"qkv_proj", "query_key_value", "q_proj"}, "output_gate": {"output_gate", "g_proj"}, "kv_a_proj": {"kv_a_proj_with_mqa"},
	"o_proj": {"o_proj", "out_proj", "dense"}, "out_proj": {"o_proj", "out_proj", "dense"},
	"in_proj_qkvz": {"in_proj_qkvz", "in_proj_qkv"}, "in_proj_ba": {"in_proj_ba", "in_proj_b"},
}

// partNames are what a matrix may be called within its module: those of experts come after the expert's name, but
// for families that keep all experts of a layer in one tensor.
func partNames(family string, at place, l *Linear) []string {
	names, ok := otherNames[l.Name]
	if !ok {
		names = []string{l.Name}
	}
	if strings.HasPrefix(family, "step3p") && at.part != routerPart {
		return names
	}
	switch at.part {
	case expertPart:
		return prefixed(names, "experts.0.")
	case sharedPart:
		if l.Name == "shared_expert_gate" {
			return names
		}
		return append(prefixed(names, "shared_experts."), append(prefixed(names, "shared_expert."), prefixed(names, "shared_mlp.")...)...)
	case routerPart:
		return []string{"gate", "router", "router.proj"}
	}
	return names
}

func prefixed(names []string, prefix string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = prefix + n
	}
	return out
}

// A pathSet is a list of patterns of modules: paths, paths with "*", and regular expressions
// after "re:". A path stands for all modules below it, a single word for every module of that name.
type pathSet struct {
	byLayer map[string][]string // patterns that begin with the number of a layer
	others  []string
	exprs   []expression
}

// An expression is a regular expression with texts that are in all that it matches: it is tried where they are
// there, for a checkpoint has thousands of paths.
type expression struct {
	*regexp.Regexp
	literals []string
}

// newExpression compiles an expression that begins where a path does.
func newExpression(text string) (expression, error) {
	re, err := regexp.Compile("^(?:" + text + ")")
	if err != nil {
		return expression{}, err
	}
	e := expression{Regexp: re}
	if tree, err := syntax.Parse(text, syntax.Perl); err == nil && tree.Op == syntax.OpConcat {
		for _, part := range tree.Sub {
			if part.Op == syntax.OpLiteral && part.Flags&syntax.FoldCase == 0 {
				e.literals = append(e.literals, string(part.Rune))
			}
		}
	}
	return e, nil
}

func (e *expression) matches(path string) bool {
	for _, l := range e.literals {
		if !strings.Contains(path, l) {
			return false
		}
	}
	return e.MatchString(path)
}

func newPathSet(patterns []string) (pathSet, error) {
	s := pathSet{byLayer: make(map[string][]string)}
	for _, p := range patterns {
		if expr, ok := strings.CutPrefix(p, "re:"); ok {
			re, err := newExpression(expr)
			if err != nil {
				return s, fmt.Errorf("the pattern %s is no regular expression that is understood: %w", quote(p), err)
			}
			s.exprs = append(s.exprs, re)
			continue
		}
		p = bare(p)
		if layer, ok := layerOf(p); ok {
			s.byLayer[layer] = append(s.byLayer[layer], p)
			continue
		}
		s.others = append(s.others, p)
	}
	return s, nil
}

func layerOf(pattern string) (string, bool) {
	rest, ok := strings.CutPrefix(pattern, "layers.")
	if !ok {
		return "", false
	}
	layer, _, ok := strings.Cut(rest, ".")
	return layer, ok && !strings.Contains(layer, "*")
}

func (s *pathSet) empty() bool { return len(s.byLayer) == 0 && len(s.others) == 0 && len(s.exprs) == 0 }

func (s *pathSet) has(paths []string) bool {
	for _, path := range paths {
		layer, _ := layerOf(path)
		for _, p := range s.byLayer[layer] {
			if covers(p, path) {
				return true
			}
		}
		for _, p := range s.others {
			if covers(p, path) {
				return true
			}
		}
		if s.matches(path) {
			return true
		}
	}
	return false
}

// matches reports whether an expression matches a path, as any model or wrapper begins it.
func (s *pathSet) matches(path string) bool {
	if len(s.exprs) == 0 {
		return false
	}
	for _, full := range []string{path, "model." + path, "language_model.model." + path, "model.language_model." + path} {
		for i := range s.exprs {
			if s.exprs[i].matches(full) {
				return true
			}
		}
	}
	return false
}

func covers(pattern, path string) bool {
	if pattern == path || strings.HasPrefix(path, pattern+".") {
		return true
	}
	if strings.Contains(pattern, "*") {
		return glob(pattern, path) || glob(pattern+".*", path)
	}
	return !strings.Contains(pattern, ".") && slices.Contains(strings.Split(path, "."), pattern)
}

func glob(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	if !strings.HasPrefix(text, parts[0]) {
		return false
	}
	text = text[len(parts[0]):]
	for _, p := range parts[1 : len(parts)-1] {
		i := strings.Index(text, p)
		if i < 0 {
			return false
		}
		text = text[i+len(p):]
	}
	return strings.HasSuffix(text, parts[len(parts)-1])
}
