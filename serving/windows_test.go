package serving

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// A step whose sequences are on both sides of a window takes the mean of steps whose sequences are on one side: in time within 0.02 % of
// the evaluator's in the mean and 1 % at the most, in energy within 4 %, which is less straight where the power limit is near.
func TestDecodesOnBothSidesOfWindows(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 29))
	for _, x := range []struct {
		model, gpu string
		gpus       int
	}{
		{"gemma3-12b", "h100", 1}, {"gemma2-9b", "rtx-4090", 2}, {"gpt-oss-20b", "b200", 1}, {"step-3.5-flash", "h200", 4},
		{"mistral-7b-v0.1", "l4", 1}, {"llama4-scout", "h200", 8},
	} {
		p := server(t, x.model, x.gpu, x.gpus, "vllm").prices()
		const draws = 200
		mean := 0.0
		for range draws {
			var b batch
			b.reset(len(p.windows))
			n, context := int(math.Exp2(9*random.Float64())), p.windows[0]*math.Exp2(2*random.Float64()-1)
			for range n {
				b.decode(p.windows, int(context*math.Exp(0.5*random.NormFloat64())))
			}
			c, want := p.decodes(&b, 1), p.mixed(p.groupsOf(&b, 0), 0)
			mean += math.Abs(float64(c.Time/want.Time)-1) / draws
			what := fmt.Sprintf("%s on %s, %d sequences: ", x.model, x.gpu, n)
			agree(t, what+"time", float64(c.Time), float64(want.Time), 0.01)
			agree(t, what+"energy", float64(c.Energy), float64(want.Energy), 0.04)
		}
		if mean > 2e-4 {
			t.Errorf("%s on %s: times are off by %.4f %% in the mean", x.model, x.gpu, 100*mean)
		}
	}
}
