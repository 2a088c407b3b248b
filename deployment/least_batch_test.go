package deployment

import (
	"testing"

	"llmprof/internal/testkit"
)

// TestLeastBatchFits checks that the batch that a load is left with is none that the scheduler forbids, however many stages a pipeline has.
func TestLeastBatchFits(t *testing.T) {
	for stages := 1; stages <= 4; stages++ {
		for most := 1; most <= testkit.Cases(2, 5); most++ {
			ans, err := Within(nil).Answer(t.Context(), &Request{Model: "gemma3-1b", GPU: "h100", PP: &stages, MaxSeqs: &most, Rate: new(Rate(1))})
			testkit.Must(t, err)
			if !ans.Memory.Fits() || ans.Memory.MaxBatch < ans.Workload.Batch {
				t.Errorf("%d stages and %d sequences: fits %t, a batch of %d, at most %d", stages, most, ans.Memory.Fits(), ans.Workload.Batch,
					ans.Memory.MaxBatch)
			}
		}
	}
}
