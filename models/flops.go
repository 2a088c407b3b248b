package models

// FLOPCount says how FLOPs were counted and how far the count is to be trusted.
type FLOPCount struct {
	Method     string `json:"method"`
	Confidence string `json:"confidence"` // "high", "medium" or "low"
	Reason     string `json:"reason"`
}

// FLOPCount says how far a count of the model's FLOPs can be trusted.
func (m *Model) FLOPCount() FLOPCount {
	f := FLOPCount{
		Method:     "analytic: 2·m·n·k of every matrix product, the causal half of attention, experts taken; element-wise operations counted apart",
		Confidence: "high", Reason: "every product is a matrix of the model's own shape",
	}
	for i := range m.Layers {
		for j := range m.Layers[i].Blocks {
			b := &m.Layers[i].Blocks[j]
			switch {
			case b.Scan != nil:
				f.Confidence, f.Reason = "medium", "scans: their FLOPs depend on the kernel's chunk length and algorithm"
				return f
			case b.Experts != nil && b.Experts.Idle > 0:
				f.Confidence, f.Reason = "medium", "experts that do nothing are taken as chosen at random"
			case b.Attention != nil && b.Attention.Indexer != nil:
				f.Confidence, f.Reason = "medium", "sparse attention: the indexer's kernels differ between engines"
			}
		}
	}
	return f
}
