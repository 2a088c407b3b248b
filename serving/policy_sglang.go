package serving

// sglang is the scheduler of SGLang (python/sglang/srt/managers/scheduler.py and schedule_policy.py): prompts go first, in steps of their
// own, and a request begins where there is room for its prompt and for a share of all tokens that are to come. That share, its new token
// ratio (new_token_ratio_tracker.py), falls with each step that only decodes (update_running_batch), begins anew after the server was idle
// (on_idle), and is estimated when a sequence is retracted.
type sglang struct{ sglangMixed }

func (sglang) form(s former) { apart(s) }

// The new token ratio begins at 0.7 and falls to 0.14 of that within 600 steps without a retraction.
const (
	expectFirst = 0.7
	expectLeast = 0.098
	expectFalls = (expectFirst - expectLeast) / 600
	expectSteps = 20   // steps that a retraction makes room for
	expectClip  = 4096 // tokens of its own answer that a request has to have room for
)

// Requests that ignore the end of an answer are admitted as others are, since the radix cache is on (add_one_req).

func (sglangMixed) admits(o *occupancy, c claim) bool {
	if c.need > o.freeBlocks {
		return false
	}
	return o.running == 0 || c.need+o.of(float64(int(max(o.due, 0)*o.expect))+min(c.left, expectClip)) <= o.freeBlocks
}

// The sequence is retracted that has the shortest answer so far, of several the one with the longest prompt (retract_decode).
func (sglangMixed) sooner(q, than *sequence) bool {
	return q.generated < than.generated || q.generated == than.generated && q.Request.Prompt > than.Request.Prompt
}

// It joins the queue as a request that comes (_add_request_to_queue).
func (sglangMixed) behind() bool { return true }

// A retraction sets the share to that of the answers of the sequences that stay which they have, and so many steps more
// (estimate_new_token_ratio_after_retract).
func (sglangMixed) preempted(o *occupancy) {
	o.expect = min((o.outputs-o.due+expectSteps*float64(o.running))/(o.outputs+1), 1)
}

func (sglangMixed) decoded(o *occupancy, steps float64) {
	o.expect = max(o.expect-steps*expectFalls, expectLeast)
}

// A request may begin as the share falls.
func (sglangMixed) waits() bool { return true }
