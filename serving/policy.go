package serving

import "llmprof/analytic/engine"

// A policy is the code of an engine's scheduler. The simulation calls it with sequences, and the sample path of the steady state with
// numbers of them.
type policy interface {
	// form gives the step that is formed what it has.
	form(s former)
	// admits reports whether a request may begin.
	admits(o *occupancy, c claim) bool
	// sooner reports whether a sequence is preempted before one that begins now, which is else the first where blocks run out.
	sooner(q, than *sequence) bool
	// behind reports whether a sequence that is preempted waits behind all that wait, and not before them.
	behind() bool
	// preempted follows each sequence that is preempted.
	preempted(o *occupancy)
	// decoded follows steps that only decode, and for which no sequence was preempted.
	decoded(o *occupancy, steps float64)
	// waits reports whether a request that was not admitted may be after further steps with which no sequence ends.
	waits() bool
}

// A former is a step that is formed.
type former interface {
	// continues gives the step the next part of each prompt that was begun, and, if they decode, a token of each sequence. It reports
	// whether a sequence was preempted.
	continues(decode bool) (preempted bool)
	// admit lets requests begin that have come and fit into the step.
	admit()
	// empty reports whether the step has nothing to do yet.
	empty() bool
}

// An occupancy is what a scheduler knows of the KV cache.
type occupancy struct {
	blocks     float64 // in all
	freeBlocks float64 // blocks for a request that is to begin
	planned    float64 // blocks of all running sequences at their longest
	outputs    float64 // tokens of the answers of the running sequences
	due        float64 // tokens of outputs that they still generate
	expect     float64 // share of them that SGLang reserves room for; a scheduler that was idle begins anew
	running    int
	of         func(tokens float64) float64 // blocks of a sequence
}

// A claim is what a request asks for that is to begin.
type claim struct {
	need    float64 // blocks for the tokens that are computed next
	longest float64 // blocks of prompt and answer
	left    float64 // tokens that it generates
}

// runs enters a sequence that begins, with its blocks at its longest, the tokens of its answer and those that it still generates.
func (o *occupancy) runs(longest, asked, left float64) {
	o.planned, o.outputs, o.due = o.planned+longest, o.outputs+asked, o.due+left
}

// policyOf is the policy of a scheduler.
func policyOf(s *engine.Scheduler) policy {
	switch {
	case s.Admission == engine.ForSlot:
		return llamaCPP{}
	case s.Admission == engine.ForAll:
		return noEvict{}
	case s.Admission == engine.ForExpected && s.Mixed:
		return sglangMixed{}
	case s.Admission == engine.ForExpected:
		return sglang{}
	case s.Mixed:
		return vllm{}
	}
	return vllm2024{}
}
