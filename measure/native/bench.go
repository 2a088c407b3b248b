package native

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"llmprof/measure/native/cuda"
)

// A Query asks for the time of a single operator.
type Query struct {
	Kind    string         // one of BenchKinds
	Shape   map[string]int // sizes by name
	Rotate  int            // Buffers are rotated over so many bytes, so that none is in the L2 cache.
	Samples int            // the least number of samples
	Seconds float64        // the least duration, in addition to Samples
	TP      int            // GPUs of an all-reduce; 0 is 1
	Rest    float64        // seconds of idling before the operator
}

func (q *Query) engine() (o Options, ok bool) {
	var err error
	switch _, operator := operatorKinds[q.Kind]; {
	case operator:
		o, _, err = operatorOptions(q)
	case strings.HasPrefix(q.Kind, "attention_"):
		o, _, err = attentionOptions(q)
	case q.Kind == "mixture_decode":
		o, _, err = moeOptions(q)
	case q.Kind == "all_reduce":
		o, _, err = allReduceOptions(q)
	case q.Kind == "launch_prefill":
		o, err = launchOptions(q)
	default:
		return o, false
	}
	return o, err == nil
}

// compilers is how many compilers run while operators are timed.
const compilers = 3

// Ahead starts to compile the kernels that later queries need, while other operators are timed, so
// that the cache has them. An error of the compiler is reported when its query comes.
func (b *Bencher) Ahead(queries []Query) {
	if b.cache.Folder == "" {
		return
	}
	programs, seen := make(chan *Engine, len(queries)), map[string]bool{}
	for i := range queries {
		o, ok := queries[i].engine()
		if !ok || queries[i].Check() != nil {
			continue
		}
		e, err := newEngine(o, 0)
		if err != nil {
			continue
		}
		e.fitTo(&b.dev.Properties)
		all := append(defines(&e.shape, e.opt.rings()), definesFor(&b.dev.Properties, &e.shape)...)
		if key := strings.Join(all, " "); !seen[key] {
			seen[key] = true
			programs <- e
		}
	}
	close(programs)
	properties := b.dev.Properties
	for range min(compilers, len(programs)) {
		go func() {
			c, err := cuda.OpenCompiler(b.libraries)
			if err != nil {
				return
			}
			for e := range programs {
				if text, err := source(&properties, &e.shape, fitted(e.opt.rings(), properties.SharedOptIn), e.opt.defines...); err == nil {
					_, _ = b.cache.Compile(c, text)
				}
			}
		}()
	}
}

// Times are the answer to a Query, by the GPU's events.
type Times struct {
	Seconds []float64 // samples, each of one call
	Cold    bool      // Every buffer was rotated over Query.Rotate bytes.
}

// A Bencher times single operators on one GPU, and all-reduces over several, in CUDA
// graphs. It belongs to the goroutine that opened it.
type Bencher struct {
	libraries  string
	cache      cuda.Cache
	dev        *cuda.Device
	s          *cuda.Stream
	p          *program
	open       func(Options) (*Engine, error) // opens an engine with the libraries and the cache; another one in tests
	openTeam   func(Options) (*Team, error)   // opens a team likewise
	allReduces int                            // calls of a graph of small all-reduces; minAllReduceCalls except in tests
	moeCalls   int                            // calls of a graph of MoE layers; moeCalls except in tests
	opened     *benchEngine                   // the engine whose operators are timed; nil for none
}

// OpenBencher prepares the first visible GPU.
func OpenBencher(libraries string, cache cuda.Cache) (*Bencher, error) {
	dev, err := cuda.Open(0, libraries)
	if err != nil {
		return nil, err
	}
	b := &Bencher{libraries: libraries, cache: cache, dev: dev, allReduces: minAllReduceCalls, moeCalls: moeCalls}
	b.open = func(o Options) (*Engine, error) {
		o.Libraries, o.Cache = libraries, cache
		return Open(o)
	}
	b.openTeam = func(o Options) (*Team, error) {
		o.Libraries, o.Cache = libraries, cache
		return OpenTeam(o)
	}
	if err := b.load(); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

func (b *Bencher) load() (err error) {
	if b.dev.Major < 8 {
		return unsupported("%s has compute capability %d.%d; bf16 needs 8.0 or newer", b.dev.Name, b.dev.Major, b.dev.Minor)
	}
	if b.s, err = b.dev.NewStream(); err != nil {
		return err
	}
	c, err := cuda.OpenCompiler(b.libraries)
	if err != nil {
		return err
	}
	b.p, err = compile(b.dev, c, b.cache, benchShape(), skinnyGEMMs())
	return err
}

// benchShape is the shape for which kernels are compiled that are timed without an Engine. It matters
// only to attention, which an Engine times.
func benchShape() *shape { return &shape{heads: 4, kvHeads: 1, headDim: 128} }

// Close releases the GPU.
func (b *Bencher) Close() error {
	err := b.release()
	if b.s != nil {
		err = errors.Join(err, b.s.Close())
	}
	return errors.Join(err, b.dev.Close())
}

// Device is the GPU that is timed.
func (b *Bencher) Device() cuda.Properties { return b.dev.Properties }

// An operation is what is timed: so many calls, queued on a stream.
type operation struct {
	s        *cuda.Stream
	queue    func() error
	calls    int
	cold     bool
	free     func() error
	overhead func() error // It queues what the calls do beyond what is asked for, whose time is subtracted; nil for nothing.
}

// benchSizes are the sizes that the shape of each kind has to have.
var benchSizes = map[string][]string{
	"gemm":              {"m", "n", "k"},
	"gemm_sustained":    {"m", "n", "k"},
	"attention_prefill": {"tokens", "heads", "kv_heads", "head_dim"},
	"attention_decode":  {"batch", "context", "heads", "kv_heads", "head_dim"},
	"mixture_decode":    {"batch", "experts", "top_k", "hidden", "width"},
	"launch_prefill":    denseSizes[1:],
	"activation":        {"tokens", "width"},
	"read":              {"bytes"},
	"copy":              {"bytes"},
	"graph_node":        {"launches"},
	"all_reduce":        {"bytes"},
}

// denseSizes are the sizes of a dense model's decode steps, where n is the vocabulary; moeSizes
// are those of a MoE prefill.
var (
	denseSizes = []string{"batch", "hidden", "width", "heads", "kv_heads", "head_dim", "n"}
	moeSizes   = []string{"tokens", "experts", "top_k", "hidden", "width"}
)

// sizesOf are the sizes that a kind needs; ok is false for an unknown kind.
func sizesOf(kind string) (names []string, ok bool) {
	if o, is := operatorKinds[kind]; is {
		if o.decode {
			return denseSizes, true
		}
		return moeSizes, true
	}
	names, ok = benchSizes[kind]
	return names, ok
}

// Check returns why a query cannot be answered, as far as that is known without a GPU.
func (q *Query) Check() error {
	names, ok := sizesOf(q.Kind)
	switch {
	case q.Kind == "rms_norm":
		return unsupported("its norms read a stream in float32, so they say nothing about norms in bf16")
	case !ok:
		return unsupported("it has no operator %q to be timed by itself", q.Kind)
	case q.Kind == "all_reduce" && q.TP < 2 || q.Kind != "all_reduce" && q.TP > 1:
		return fmt.Errorf("native: %s over %d GPUs", q.Kind, max(q.TP, 1))
	case q.Samples < 1 || q.Samples > 1e6 || !(q.Seconds >= 0 && q.Seconds <= 600) || !(q.Rest >= 0 && q.Rest <= 60) || q.Rotate < 0:
		return fmt.Errorf("native: %s with %d samples, %v s, rest %v s, %d bytes to rotate over", q.Kind, q.Samples, q.Seconds, q.Rest, q.Rotate)
	}
	for _, name := range names {
		if n := q.Shape[name]; n < 1 || n > 1<<40 {
			return fmt.Errorf("native: %s of %v: %s has to be 1 or more", q.Kind, q.Shape, name)
		}
	}
	m, n, k := q.Shape["m"], q.Shape["n"], q.Shape["k"]
	switch {
	case m > 0 && (n%64 != 0 || k%64 != 0 || max(m, n, k) > math.MaxInt32):
		return unsupported("a GEMM of %d×%d×%d: outputs and inputs have to be multiples of 64", m, n, k)
	case q.Kind == "activation" && (q.Shape["width"]%8 != 0 || q.Shape["tokens"] > maxGridY):
		return unsupported("an activation of %v: the width has to be a multiple of 8, and there can be %d rows", q.Shape, maxGridY)
	}
	return nil
}

// Time answers a query.
func (b *Bencher) Time(q *Query) (t Times, err error) {
	if err := q.Check(); err != nil {
		return t, err
	}
	if q.Kind == "all_reduce" || q.Kind == "launch_prefill" {
		if err := b.release(); err != nil {
			return t, err
		}
		if q.Kind == "all_reduce" {
			return b.timeAllReduce(q)
		}
		return b.launched(q)
	}
	op, err := b.operation(q)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, op.free()) }()
	t.Cold = op.cold
	if t.Seconds, err = op.time(q, op.queue); err != nil {
		return t, err
	}
	overhead := 0.0
	if op.overhead != nil {
		times, err := op.time(q, op.overhead)
		if err != nil {
			return t, err
		}
		overhead = medianOf(times)
	}
	if !t.perCall(op.calls, overhead) {
		return Times{}, unsupported("%s of %v takes no longer than what is done beside it: time it again", q.Kind, q.Shape)
	}
	return t, nil
}

// perCall makes times of one call out of those of so many, less an overhead that each sample has. It reports false if
// nothing is left of a sample.
func (t *Times) perCall(calls int, overhead float64) bool {
	for i := range t.Seconds {
		if t.Seconds[i] -= overhead; t.Seconds[i] <= 0 {
			return false
		}
		t.Seconds[i] /= float64(calls)
	}
	return true
}

// medianOf sorts times and returns the one in the middle, the greater of two.
func medianOf(times []float64) float64 {
	slices.Sort(times)
	return times[len(times)/2]
}

func (op *operation) time(q *Query, queue func() error) (seconds []float64, err error) {
	g, err := op.s.Record(queue)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	if err := op.s.Sync(); err != nil {
		return nil, err
	}
	time.Sleep(time.Duration(q.Rest * float64(time.Second)))
	return repeat(op.s, g, q)
}

func (b *Bencher) operation(q *Query) (*operation, error) {
	if _, ok := operatorKinds[q.Kind]; ok {
		return b.operator(q)
	}
	if err := b.release(); err != nil {
		return nil, err
	}
	switch q.Kind {
	case "gemm", "gemm_sustained":
		return b.gemm(q)
	case "attention_prefill", "attention_decode":
		return b.attention(q)
	case "mixture_decode":
		return b.moeDecode(q)
	case "activation":
		return b.activation(q)
	case "graph_node":
		return b.nodes(q)
	}
	return b.moves(q)
}

// The rules of repeating.
const (
	benchSteady = 0.02 // the most that the medians of two blocks of three may differ
	maxSamples  = 200  // the last so many samples are kept
	benchLong   = 1    // From so many seconds on a query asks for a duration, not for samples.

	benchPatience = 5 // After so many seconds, or ten times the query's, three samples are enough.

	// Replays of one sample take so many seconds together where a query asks for a duration. Its power is
	// measured, and the GPU waits for the host between two samples, some 25 µs.
	benchBusy = 0.02
)

// replaysOf is how many replays of a graph that takes t seconds make a sample of a query that asks for a duration.
func replaysOf(t float64) int { return 1 + int(benchBusy/max(t, 1e-6)) }

// timeReplays is the mean time of so many launches of a graph.
func timeReplays(s *cuda.Stream, g *cuda.Graph, replays int) (float64, error) {
	t, err := s.Once(func() (err error) {
		for i := 0; i < replays && err == nil; i++ {
			err = g.Launch(s)
		}
		return err
	})
	return float64(t) / float64(replays), err
}

// enough reports whether a query has enough samples, so long after it began.
func (q *Query) enough(samples int, since time.Duration) bool {
	s := since.Seconds()
	return samples >= q.Samples && s >= q.Seconds ||
		samples == maxSamples && q.Seconds < benchLong ||
		samples >= 3 && s > max(benchPatience, 10*q.Seconds)
}

// repeat launches a graph until its time is steady, for half of the query's time at most, and then for
// the samples.
func repeat(s *cuda.Stream, g *cuda.Graph, q *Query) ([]float64, error) {
	begin, replays := time.Now(), 1
	if q.Seconds >= benchLong {
		first, err := timeReplays(s, g, replays)
		if err != nil {
			return nil, err
		}
		replays = replaysOf(first)
	}
	for before := math.Inf(1); ; {
		var block [3]float64
		for i := range block {
			var err error
			if block[i], err = timeReplays(s, g, replays); err != nil {
				return nil, err
			}
		}
		now := medianOf(block[:])
		if math.Abs(now/before-1) <= benchSteady || time.Since(begin).Seconds() > q.Seconds/2 {
			break
		}
		before = now
	}
	var out []float64
	for !q.enough(len(out), time.Since(begin)) {
		t, err := timeReplays(s, g, replays)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out[max(len(out)-maxSamples, 0):], nil
}

// maxRotatedBytes bounds the memory of buffers that are rotated.
const maxRotatedBytes = 8 << 30

// sets is how many buffers of so many bytes exceed every cache together.
func sets(bytes, rotate int) (n int, cold bool) {
	n = min(1+(rotate+bytes-1)/bytes, max(maxRotatedBytes/bytes, 1))
	return n, n*bytes > rotate
}

// A graph holds as many calls as a model has layers. Fewer would make its start part of their time,
// and give weight to the first call, which cannot overlap with a kernel before it. Fewer are enough if
// they work for half a millisecond or more on any GPU, in which a start of some microseconds is lost.
const (
	leastCalls  = 32
	enoughFLOPs = 1 << 40
	enoughBytes = 32 << 30
)

// rounds is how often a graph goes through so many buffers, by the work of one call. Rounds are
// complete, so that each buffer is used again only after all others, in the next replay too.
func rounds(copies, flops, bytes int) int {
	calls := leastCalls
	if flops > 0 {
		calls = min(calls, 1+(enoughFLOPs-1)/flops)
	}
	if bytes > 0 {
		calls = min(calls, 1+(enoughBytes-1)/bytes)
	}
	return 1 + (calls-1)/copies
}

// inTurn is the operation that queues the same call for each of so many buffers; flops and bytes are
// those of one call.
func inTurn(copies, flops, bytes int, cold bool, queue func(i int) error) *operation {
	calls := copies * rounds(copies, flops, bytes)
	return &operation{calls: calls, cold: cold, queue: func() error {
		for i := range calls {
			if err := queue(i % copies); err != nil {
				return err
			}
		}
		return nil
	}}
}
