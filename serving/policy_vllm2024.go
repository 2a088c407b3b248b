package serving

// vllm2024 is the scheduler of vLLM V0 (vllm/core/scheduler.py): prompts go first, in steps of their own, and sequences decode in steps
// that have none.
type vllm2024 struct{ vllm }

func (vllm2024) form(s former) { apart(s) }

// apart forms a step of prompts, or one that decodes where there are none.
func apart(s former) {
	if !s.continues(false) {
		s.admit()
	}
	if s.empty() {
		s.continues(true)
	}
}
