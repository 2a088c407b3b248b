package serving

// noEvict is TensorRT-LLM's policy "guaranteed no evict": a request begins where the blocks of all that run are enough up to their ends, so
// that none is ever preempted. Its policy "max utilization" begins requests and pauses sequences as vLLM does.
type noEvict struct{ vllm }

func (noEvict) admits(o *occupancy, c claim) bool {
	return c.need <= o.freeBlocks && o.planned+c.longest <= o.blocks
}
