package serving

// vllm is the scheduler of vLLM V1 (vllm/v1/core/sched/scheduler.py): sequences that run go first, in the order in which they began, and
// requests that wait begin with the tokens that are left, if the blocks of their prompts are free. Where blocks run out the youngest is
// preempted, and no request begins in that step.
type vllm struct{}

func (vllm) form(s former) {
	if !s.continues(true) {
		s.admit()
	}
}

func (vllm) admits(o *occupancy, c claim) bool { return c.need <= o.freeBlocks }

func (vllm) sooner(*sequence, *sequence) bool { return false }

func (vllm) behind() bool { return false }

func (vllm) preempted(*occupancy) {}

func (vllm) decoded(*occupancy, float64) {}

func (vllm) waits() bool { return false }
