package models

import (
	"fmt"
	"slices"
	"strings"

	"llmprof/unit"
)

// A quantization is what a checkpoint states of its formats: which modules are kept how.
type quantization struct {
	method   string
	rules    []quantRule         // the first that names a module holds
	patterns []quantRule         // rules whose order is not known
	named    map[string]*Storage // storage of modules by path, where each is named; nil for 16 bits
	general  *Storage            // storage of modules that no rule names; nil for none
	ignored  pathSet
	routed   *Storage // storage of the experts, where they have a format of their own
	experts  bool     // only the experts are quantized, whatever is ignored
	head     bool     // the LM head is quantized as other modules are
	table    bool     // so is the embedding
	kv       unit.Format
}

// A quantRule keeps the modules of a set in a storage, nil for 16 bits.
type quantRule struct {
	targets pathSet
	storage *Storage
}

// stored reads how the published checkpoint is stored, and sets the storage of each matrix.
func (r *reader) stored(m *Model) {
	plain := r.dtype()
	m.Stored = Stored{Weights: plain, Plain: plain}
	mlx := r.mlx()
	if mlx == nil && !r.has("quantization_config") {
		return
	}
	lenient := r.lenient
	r.lenient = lenient || r.beside.measured
	var q *quantization
	if mlx != nil {
		q = r.readMLX(mlx)
	} else {
		q = r.quantization()
	}
	r.lenient = lenient
	if r.err != nil || q == nil {
		m.Stored.unknown = r.beside.measured
		return
	}
	m.Stored.Method, m.Stored.KV = q.method, q.kv
	if m.Stored.Plain == unit.NoFormat {
		m.Stored.Plain = unit.BF16
	}
	if err := m.store(func(at place, l *Linear) (*Storage, error) { return q.storageOf(m.Family, at, l) }); err != nil {
		r.fail("%w", err)
		return
	}
	if !m.TiedHead {
		head, err := q.headStorage()
		if err != nil {
			r.fail("%w", err)
		}
		m.Head.Stored = head
	}
	if q.table {
		m.Embedding.Stored = q.general
		if s, found := q.namedStorage([]string{"embed_tokens"}); found {
			m.Embedding.Stored = s
		}
	}
	m.summarize()
}

// mlx is the object in which MLX says how it quantized a model, nil where it did not: "quantization", or a
// quantization_config that names no method.
func (r *reader) mlx() map[string]any {
	for _, field := range []string{"quantization", "quantization_config"} {
		object, _ := r.value(field).(map[string]any)
		if object["bits"] != nil && object["group_size"] != nil && object["quant_method"] == nil && object["quant_algo"] == nil {
			return object
		}
	}
	return nil
}

// storageOf is how a matrix is kept, nil for one that is not quantized. Routers and gates of one
// value are not, whether the checkpoint says so or not: engines load them in 16 bits.
func (q *quantization) storageOf(family string, at place, l *Linear) (*Storage, error) {
	if at.part == routerPart || l.Out == 1 || l.Name == "shared_expert_gate" || l.Name == "indexer.weights_proj" || neverQuantized(l.Name) {
		return nil, nil
	}
	if q.experts {
		if at.part == expertPart {
			return q.general, nil
		}
		return nil, nil
	}
	if q.uniform() {
		return q.defaultStorage(at), nil
	}
	paths := modules(family, at, l)
	if s, found := q.namedStorage(paths); found {
		return s, nil
	}
	if q.ignored.has(paths) {
		return nil, nil
	}
	if s, found, err := q.ruled(paths); found || err != nil {
		return s, err
	}
	return q.defaultStorage(at), nil
}

// uniform reports whether no path of a module says how it is kept.
func (q *quantization) uniform() bool {
	return len(q.named) == 0 && len(q.rules) == 0 && len(q.patterns) == 0 && q.ignored.empty()
}

// defaultStorage is the storage of a matrix that nothing names.
func (q *quantization) defaultStorage(at place) *Storage {
	if at.part == expertPart && q.routed != nil {
		return q.routed
	}
	return q.general
}

// ruled looks a module up in the rules and patterns.
func (q *quantization) ruled(paths []string) (s *Storage, found bool, err error) {
	for i := range q.rules {
		if q.rules[i].targets.has(paths) {
			return q.rules[i].storage, true, nil
		}
	}
	for i := range q.patterns {
		p := &q.patterns[i]
		if !p.targets.has(paths) {
			continue
		}
		if found && s != p.storage && (s == nil || p.storage == nil || *s != *p.storage) {
			return nil, false, fmt.Errorf("two patterns of quantization_config.dynamic or extra_config differ in the format of %s, and the first "+
				"holds: give one of them", paths[0])
		}
		s, found = p.storage, true
	}
	return s, found, nil
}

// namedStorage looks a module up, or the one that it is part of: all experts may be named at once.
func (q *quantization) namedStorage(paths []string) (s *Storage, found bool) {
	if len(q.named) == 0 {
		return nil, false
	}
	for _, path := range paths {
		for path != "" {
			if s, found = q.named[path]; found {
				return s, true
			}
			path = path[:max(strings.LastIndexByte(path, '.'), 0)]
		}
	}
	return nil, false
}

// neverQuantized lists matrices that are parameters and not linear layers of their checkpoints.
func neverQuantized(name string) bool {
	return slices.Contains([]string{"altup_projections", "altup_router", "altup_unembed_projections", "hyper_connection", "hyper_head",
		"gates"}, name)
}

// headStorage is how the LM head is kept, nil in the plain format: a checkpoint has to say expressly that it is quantized.
func (q *quantization) headStorage() (*Storage, error) {
	path := []string{"lm_head"}
	if s, found := q.namedStorage(path); found {
		return s, nil
	}
	if len(q.patterns) > 0 && !q.head {
		return nil, nil // patterns may differ from a head's format, but do not quantize it
	}
	s, found, err := q.ruled(path)
	if !found && q.head {
		s = q.general
	}
	return s, err
}

// summarize says of the whole checkpoint what most of its quantized weights are kept in.
func (m *Model) summarize() {
	values := make(map[Storage]float64)
	dense := false
	for l, b := range m.Blocks() {
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
	var most Storage
	for s, n := range values {
		if n > values[most] || n == values[most] && s.Name < most.Name {
			most = s
		}
	}
	if most.Format == unit.NoFormat && m.Stored.unknown {
		return
	}
	if most.Format == unit.NoFormat {
		m.Stored.Method = ""
		m.Notes = append(m.Notes, "the checkpoint names a quantization and excludes every matrix from it")
		return
	}
	m.Stored.Weights, m.Stored.Act, m.Stored.Group, m.Stored.Experts = most.Format, most.Act, max(most.BlockIn, 1)*max(most.BlockOut, 1),
		!dense
	if most.BlockIn == 0 && most.BlockOut <= 1 {
		m.Stored.Group = 0
	}
	if n := len(values); n > 1 {
		m.Stored.Method += fmt.Sprintf(", %d formats", n)
	}
}
