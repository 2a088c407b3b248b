package models

import (
	"fmt"
	"strings"

	"llmprof/unit"
)

// A quantization is what a checkpoint states of its formats: which modules are kept how.
type quantization struct {
	method  string
	rules   []quantRule         // the first that names a module holds
	named   map[string]*Storage // storage of modules by path, where each is named
	general *Storage            // storage of modules that no rule names; nil for none
	ignored pathSet
	routed  *Storage // storage of the experts, where they have a format of their own
	experts bool     // only the experts are quantized, whatever is ignored
	kv      unit.Format
}

// A quantRule keeps the modules of a set in a storage.
type quantRule struct {
	targets pathSet
	storage *Storage
}

// stored reads how the published checkpoint is stored, and sets the storage of each matrix.
func (r *reader) stored(m *Model) {
	m.Stored = Stored{Weights: r.format("dtype"), Plain: r.format("dtype")}
	if !r.has("quantization_config") {
		return
	}
	q := r.quantization()
	if r.err != nil || q == nil {
		return
	}
	m.Stored.Method, m.Stored.KV = q.method, q.kv
	if m.Stored.Plain == unit.NoFormat {
		m.Stored.Plain = unit.BF16
	}
	if err := m.store(func(at place, l *Linear) (*Storage, error) { return q.storageOf(m.Family, at, l), nil }); err != nil {
		r.fail("%w", err)
		return
	}
	if q.headIsQuantized() && !m.TiedHead {
		m.Head.Stored = q.general
	}
	m.summarize()
}

// storageOf is how a matrix is kept, nil for one that is not quantized. Routers and gates of one
// value are not, whether the checkpoint says so or not: engines load them in 16 bits.
func (q *quantization) storageOf(family string, at place, l *Linear) *Storage {
	if at.part == routerPart || l.Out == 1 || l.Name == "shared_expert_gate" || l.Name == "indexer.weights_proj" || neverQuantized(l.Name) {
		return nil
	}
	if q.experts {
		if at.part == expertPart {
			return q.general
		}
		return nil
	}
	paths := modules(family, at, l)
	if s := q.namedStorage(paths); s != nil {
		return s
	}
	if q.ignored.has(paths) {
		return nil
	}
	for i := range q.rules {
		if q.rules[i].targets.has(paths) {
			return q.rules[i].storage
		}
	}
	if at.part == expertPart && q.routed != nil {
		return q.routed
	}
	return q.general
}

// namedStorage looks a module up, or the one that it is part of: all experts may be named at once.
func (q *quantization) namedStorage(paths []string) *Storage {
	if len(q.named) == 0 {
		return nil
	}
	for _, path := range paths {
		for path != "" {
			if s := q.named[path]; s != nil {
				return s
			}
			path = path[:max(strings.LastIndexByte(path, '.'), 0)]
		}
	}
	return nil
}

// neverQuantized lists matrices that are parameters and not linear layers of their checkpoints.
func neverQuantized(name string) bool {
	switch name {
	case "altup_projections", "altup_router", "altup_unembed_projections", "hyper_connection", "hyper_head", "gates":
		return true
	}
	return false
}

// headIsQuantized reports whether the LM head is quantized, which a checkpoint has to say expressly.
func (q *quantization) headIsQuantized() bool {
	if s := q.named["lm_head"]; s != nil {
		q.general = s
		return true
	}
	for i := range q.rules {
		if q.rules[i].targets.has([]string{"lm_head"}) {
			q.general = q.rules[i].storage
			return true
		}
	}
	return false
}

// summarize says of the whole checkpoint what most of its quantized weights are kept in.
func (m *Model) summarize() {
	values := make(map[Storage]float64)
	dense := false
	for _, l := range m.Layers {
		for i := range l.Blocks {
			b := &l.Blocks[i]
			_ = b.visit(func(p part, linear *Linear) error {
				if s := linear.Stored; s != nil {
					n := float64(l.Count) * float64(linear.Params())
					if p == expertPart {
						n *= float64(b.Experts.Count)
					}
					values[*s] += n
					dense = dense || p != expertPart
				}
				return nil
			})
		}
	}
	var most Storage
	for s, n := range values {
		if n > values[most] || n == values[most] && s.Name < most.Name {
			most = s
		}
	}
	if most.Format == unit.NoFormat {
		m.Stored.Method = ""
		m.Notes = append(m.Notes, "the checkpoint names a quantization and excludes every matrix from it")
		return
	}
	m.Stored.Weights, m.Stored.Act, m.Stored.Group, m.Stored.Experts = most.Format, most.Act, max(most.BlockIn, 1)*max(most.BlockOut, 1), !dense
	if most.BlockIn == 0 && most.BlockOut <= 1 {
		m.Stored.Group = 0
	}
	if n := len(values); n > 1 {
		m.Stored.Method += fmt.Sprintf(", %d formats", n)
	}
}
