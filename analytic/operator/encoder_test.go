package operator_test

import (
	"math"
	"testing"

	"llmprof/analytic/operator"
	"llmprof/internal/testkit/casetest"
	"llmprof/models"
)

// The encoder does its FLOPs once for each prompt, however the prompt is cut into chunks and the encoder over GPUs, and none in decode.
func TestEncoder(t *testing.T) {
	m := casetest.Model(t, "llama3.1-8b")
	tower := operator.Encoder{Name: "vision_encoder", Params: 1e9, Prompt: 600,
		Media: models.Media{Tokens: 100, Rows: 400, FLOPs: 8e11, Layers: 10, Width: 1000}}
	for _, tp := range []int{1, 4} {
		for _, chunk := range []int{0, 128, 600} {
			r := operator.NewRank(m, operator.Parallelism{TP: tp}, models.StoredScheme(m), nil)
			r.Encoders = []operator.Encoder{tower}
			w := &operator.Workload{Batch: 2, PromptLen: 600, GenLen: 8, Chunk: chunk}
			var sum operator.Sum
			for _, run := range r.Prefill(w, 0) {
				for n := range run.Steps {
					step := run.At(float64(n))
					for _, o := range step.AppendOps(nil) {
						if o.Type == operator.Encode {
							sum.AddOp(&o)
						}
					}
				}
			}
			if math.Abs(float64(sum.Model)-2*8e11) > 1 || math.Abs(float64(sum.Work.FLOPs)-2*8e11/float64(tp)) > 1 {
				t.Errorf("TP %d, chunks of %d: %v of the model, %v of the rank", tp, chunk, sum.Model, sum.Work.FLOPs)
			}
			decode := r.FirstDecode(w)
			for _, o := range decode.AppendOps(nil) {
				if o.Type == operator.Encode {
					t.Error("a decode step encodes")
				}
			}
		}
	}
	r := operator.NewRank(m, operator.Parallelism{}, models.StoredScheme(m), nil)
	r.Encoders = []operator.Encoder{tower}
	mixed := r.Mixed([]operator.Group{{Batch: 8, New: 1, Past: 500, Logits: 1}, {Batch: 1, New: 300, Logits: 1}})
	if mixed.Encoded != 0.5 {
		t.Errorf("half a prompt encodes for %g requests", mixed.Encoded)
	}
}
