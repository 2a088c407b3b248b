package serving

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"sync"

	"llmprof/analytic/engine"
	"llmprof/unit"
)

// A scheduler that admits a sequence with room for less than its whole answer fills the KV cache where requests always wait: sequences
// outgrow it, and the youngest are preempted and computed again. Such a replica answers less than one whose sequences are never preempted,
// and its rate is the largest stable one: at a rate between the two a server runs well until its cache is full for the first time, and the
// queue grows from then on.

// saturated is the rate of answers where requests always wait: the steps are those of a part of a replica, each of whose sequences stands
// for several.
func (f *flow) saturated() float64 {
	part, scale := f.part()
	b := part.steps(f.ctx)
	if b == nil || len(b.steps) == 0 {
		return 0 // its context has ended, or no request can begin
	}
	lead := 0.0
	if f.server.Scheduler.Async { // a step is formed when one that only decodes begins
		c := f.decode(f.most)
		t := newKind(&c, 0)
		length, late := t.run(float64(c.Time))
		lead = length - late
	}
	time := 0.0
	for _, x := range b.steps {
		n := int(math.Round(float64(x.decodes) * scale))
		c := f.graphStep(n)
		if x.chunks > 0 {
			c = f.level(n).all(x.tokens*scale, 0)
		}
		t := newKind(&c, 0)
		length, _ := t.run(lead)
		time += x.times * length
	}
	return b.answers * scale / time
}

// followed is how many sequences of a saturated replica are followed at most.
const followed = 64

// part is the part of a replica that is followed, and how many sequences of all replicas that share experts each of its own stands for.
func (f *flow) part() (p part, scale float64) {
	s := f.server
	room := s.room()
	n := 1 / (f.held * f.peers)
	alike := min(n, followed)
	if alike > 8 { // deployments with nearly as many are followed once
		alike = min(math.Pow(1.05, math.Round(math.Log(alike)/math.Log(1.05))), followed)
	}
	scale = n / alike
	p = part{rules: s.Scheduler, prompt: f.prompts, gen: f.answers, hit: s.HitRate, drafts: s.Drafts, acceptance: s.Acceptance,
		handed: f.handed, room: room}
	p.blocks = max(int(math.Round(float64(room.blocks)/scale)), room.of(f.prompts.Longest()+1))
	if alike > 8 {
		p.blocks = max(int(math.Round(alike*float64(room.of(int(f.context))))), room.of(f.prompts.Longest()+1))
	}
	if p.rules.MaxSeqs = int(math.Ceil(float64(p.rules.MaxSeqs) / scale)); float64(p.rules.MaxSeqs) > 1.5*alike {
		p.rules.MaxSeqs = 2 * int(math.Ceil(alike)) // which are never so many
	}
	least := max(min(p.rules.Budget, f.prompts.Longest()), 2*p.rules.MaxSeqs*(1+s.Drafts))
	for scaled := float64(p.rules.Budget) / scale; p.rules.Budget/2 > least && float64(p.rules.Budget) > 1.5*scaled; {
		p.rules.Budget /= 2
	}
	return p, scale * f.peers
}

// A part is what the steps of a saturated replica follow from, but for their times.
type part struct {
	rules       engine.Scheduler
	prompt, gen Lengths
	hit         float64
	drafts      int
	acceptance  float64
	handed      bool // the cache of prompts comes with them
	blocks      int
	room        *room
}

// followedParts are the steps of parts that were followed, for deployments that are compared have many alike. A sweep over lengths has a
// part for each, so that no more than mostFollowed are kept.
var followedParts = struct {
	sync.Mutex
	steps map[string]*saturatedSteps
}{steps: map[string]*saturatedSteps{}}

const mostFollowed = 256

// steps are those of the part, which is followed once; nil if the context ends before.
func (p *part) steps(ctx context.Context) *saturatedSteps {
	key := fmt.Sprint(p.rules, p.prompt.key(), p.gen.key(), p.hit, p.drafts, p.acceptance, p.handed, p.blocks)
	for context := p.rules.Block; context < maxLength/2; context *= 2 { // what a sequence holds
		key += fmt.Sprint(" ", p.room.of(context))
	}
	all := &followedParts
	all.Lock()
	b := all.steps[key]
	all.Unlock()
	if b != nil {
		return b
	}
	if b = p.follow(ctx); b == nil {
		return nil
	}
	all.Lock()
	defer all.Unlock()
	if len(all.steps) >= mostFollowed {
		clear(all.steps)
	}
	all.steps[key] = b
	return b
}

// A saturatedSteps is the steps of a part of a saturated replica, and the answers that end with them.
type saturatedSteps struct {
	steps   []saturatedStep
	answers float64
}

// A saturatedStep is steps of so many sequences that decode, and tokens of prompts.
type saturatedStep struct {
	decodes int
	chunks  int // tokens of prompts in parts of a mean prompt; 0 for none
	tokens  float64
	times   float64
}

// Generations of sequences over which a part is followed: those after which groups that began together have formed, and those that are
// counted.
const (
	fillingGenerations = 12
	countedGenerations = 8
)

// follow runs the scheduler of the simulation on the part, for which requests always wait. It is nil if the context ends before.
func (p *part) follow(ctx context.Context) *saturatedSteps {
	w := &saturation{part: p, random: rand.New(rand.NewPCG(1, 2)), counts: map[[2]int]*saturatedStep{}}
	w.begin()
	each := float64(len(w.replica.running))
	w.until(ctx, fillingGenerations*each)
	filled, tokens := w.answers, w.tokens()
	clear(w.counts)
	w.until(ctx, filled+countedGenerations*each)
	if ctx.Err() != nil {
		return nil
	}
	b := &saturatedSteps{answers: (w.tokens() - tokens) / p.gen.MeanLength()}
	for _, x := range w.counts {
		x.tokens /= x.times
		b.steps = append(b.steps, *x)
	}
	slices.SortFunc(b.steps, func(x, y saturatedStep) int {
		return cmp.Or(cmp.Compare(x.decodes, y.decodes), cmp.Compare(x.chunks, y.chunks))
	})
	return b
}

// mostSteps bounds the steps of each of the two spans, where steps that are alike are one: long answers with drafts, of which no two steps
// are, end after it with what was counted.
const mostSteps = 1 << 18

// until runs steps until so many answers were given, no step is left that does anything, or the context ends.
func (w *saturation) until(ctx context.Context, answers float64) {
	for range mostSteps {
		if w.answers >= answers || ctx.Err() != nil || !w.step() {
			return
		}
	}
}

// A saturation is a part of a replica for which requests always wait.
type saturation struct {
	part    *part
	replica *replica
	random  *rand.Rand
	longest int         // tokens of a request that fits, prompt and answer
	waits   int         // requests that wait at least: as many as a step may begin
	ended   []*sequence // sequences whose last token comes with the step that was formed last
	answers float64
	ends    int                       // tokens of answers that ended
	counts  map[[2]int]*saturatedStep // steps by their decodes and chunks
}

func (w *saturation) request() *sequence {
	p := w.part
	q := &sequence{Record: Record{Request: Request{Prompt: p.prompt.draw(w.random), Gen: p.gen.draw(w.random)}}}
	q.Request.Prompt = min(q.Request.Prompt, w.longest-1)
	q.Request.Gen = min(q.Request.Gen, w.longest-q.Request.Prompt)
	q.goal = q.Request.Prompt
	if p.handed {
		q.generated, q.computed, q.goal = 1, q.Request.Prompt, q.Request.Prompt+1
	}
	return q
}

// immediately is the rate of the link to the host: what goes over it takes no time of a step.
var immediately = unit.BytesPerSec(math.Inf(1))

// begin fills the part with sequences whose ages are those of a stationary process: each answer is met in proportion to its length, at any
// of its tokens.
func (w *saturation) begin() {
	p := w.part
	r := &replica{
		server: &Server{Scheduler: p.rules, HitRate: p.hit, Drafts: p.drafts, Acceptance: p.acceptance, ToHost: immediately}, rules: &p.rules,
		prices: &prices{}, expect: expectLeast,
		pool: newPool(p.blocks, 0), random: w.random, room: p.room, unsent: true,
	}
	w.replica = r
	w.longest = max(sort.Search(p.prompt.Longest()+p.gen.Longest()+1, func(n int) bool { return p.room.of(n) > p.blocks })-1, 2)
	r.longest = w.longest
	w.waits = 2 + p.rules.Budget/max(p.prompt.Quantiles()[0], 1)
	longest := float64(p.gen.Longest())
	for len(r.running) < p.rules.MaxSeqs {
		q := w.request()
		if w.random.Float64()*longest > float64(q.Request.Gen) {
			continue
		}
		if age := w.random.IntN(q.Request.Gen); age > 0 {
			q.generated, q.goal, q.computed = age, q.Request.Prompt+age, q.Request.Prompt+age-1
		}
		if r.more(q, q.goal) > r.pool.free {
			return
		}
		q.blocks = r.pool.must(r.more(q, q.goal))
		r.due += q.Request.Gen - q.generated
		r.planned += r.room.of(q.Request.Prompt + q.Request.Gen)
		r.running = append(r.running, q)
	}
}

// tokens is how many were generated. They say how many answers are given in the mean: the number of answers depends on where counting
// begins and ends, for sequences that began together end together, and on their lengths.
func (w *saturation) tokens() float64 {
	sum := w.ends
	for _, q := range w.replica.running {
		sum += q.generated
	}
	for i := range w.replica.waiting.n { // those that were preempted among them
		sum += w.replica.waiting.at(i).generated
	}
	return float64(sum)
}

// step runs a step, and those after it that are alike but for a token more of each sequence. It reports whether there was anything to do.
func (w *saturation) step() bool {
	r := w.replica
	for r.waiting.n < w.waits {
		r.waiting.pushBack(w.request())
	}
	preempted, freed := r.preempted, w.ended
	r.refused = r.refused[:0] // others come in their place
	if !r.form(0, 0) && len(freed) == 0 && preempted == r.preempted {
		return len(r.refused) > 0
	}
	w.ended = slices.Clone(r.ending)
	if !r.rules.Async {
		freed = w.ended
	}
	r.free(freed)
	w.answers += float64(len(w.ended))
	for _, q := range w.ended {
		w.ends += q.Request.Gen
	}
	n := 0
	if len(r.batch.chunks)+len(w.ended)+len(freed) == 0 && preempted == r.preempted && r.server.Drafts == 0 {
		n = w.alike()
	}
	w.count(1 + n)
	return true
}

// alike passes over the steps that are alike but for a token more of each sequence, and gives their number.
func (w *saturation) alike() int {
	r, most := w.replica, mostAhead
	if r.rules.Admission == engine.ForExpected { // a request may begin as the share falls that is reserved
		most = 4
	}
	n := r.alike(most, 0)
	r.pass(n)
	for range n {
		r.settles()
	}
	return n
}

// count enters the step that was formed, n times.
func (w *saturation) count(n int) {
	b, tokens := &w.replica.batch, 0.0
	for i := range b.chunks {
		tokens += b.chunks[i].Batch * b.chunks[i].New
	}
	key := [2]int{b.decodes, int(math.Ceil(4 * tokens / w.part.prompt.MeanLength()))}
	x := w.counts[key]
	if x == nil {
		x = &saturatedStep{decodes: key[0], chunks: key[1]}
		w.counts[key] = x
	}
	x.times += float64(n)
	x.tokens += float64(n) * tokens
}
