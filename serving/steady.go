package serving

import (
	"context"
	"fmt"

	"llmprof/unit"
)

// A Steady is the steady state of a server under a load, without a simulation.
//
// Sequences that decode share each step, so that all of them progress at the same rate: they are a processor-sharing queue whose rate
// depends on their number. The stationary distribution of that number has a product form, which depends on the lengths of answers by their
// mean alone (Kelly, Reversibility and Stochastic Networks, 1979, section 3.3): if requests decode for s steps, n sequences have the
// weight Π rate × s × c(i) / i.
//
// The mean step with n sequences is
//
//	c(n) = d(n) + Σ P(k; rate × c(n)) × e(n, k)
//
// where d(n) is a step that only decodes, e(n, k) is what k prompts add to it, and P is the distribution of how many prompts come during a
// step. The Markov chain of steady_chain.go has the distribution of the steps besides their mean.
type Steady struct {
	Running     float64      // sequences that decode, of all replicas
	Waiting     float64      // requests without their first token
	TTFT        unit.Seconds // means
	TPOT        unit.Seconds
	E2E         unit.Seconds
	Rate        float64 // requests a second
	Throughput  float64 // generated tokens a second
	Utilization float64 // share of the time in which a replica runs a step
	Cache       float64 // share of the KV blocks
	Energy      unit.Joules
	Cost        unit.Dollars // of a request; 0 where no price is known
	Capacity    Capacity

	apiLoad     float64 // share of its time that the API server is busy with an open load, where requests are not followed through it
	otherBlocks float64 // share of a replica's KV blocks that requests hold which do not decode yet, or no more
	pipelined   bool    // several batches are on their way through the stages of a replica
	brief       bool    // answers are short
}

// nearFull is the share of the largest stable rate beyond which a KV cache that fills at times makes TTFT uncertain.
const nearFull = 0.85

// inGroups is the share of its time from which on an API server lets so many requests come in groups that a steady state without them is
// uncertain.
const inGroups = 0.5

// filledPipeline is the share of the largest stable rate beyond which batches of a pipeline often wait for each other (go test ./serving
// -run SteadyPipeline).
const filledPipeline = 0.4

// Warning says what makes a steady state uncertain; "" if nothing does.
func (st *Steady) Warning() string {
	c := &st.Capacity
	if st.apiLoad > inGroups {
		return fmt.Sprintf("the API server is busy for %.0f %% of its time, and lets requests come to the engine in groups: means may be "+
			"several times as long as simulated or as short; llmprof simulate --rate has them",
			100*min(st.apiLoad, 1))
	}
	if st.pipelined && st.brief {
		return "prompts with short answers follow each other through a pipeline sooner than counted: the mean TTFT is mostly a tenth to a " +
			"half too long, near the largest rate twice as long as simulated; llmprof simulate --rate has it"
	}
	if st.pipelined && st.Rate > filledPipeline*c.Rate {
		return "the batches of a pipeline often wait for each other: the mean TTFT is up to half as long again as simulated, TPOT a sixth; " +
			"llmprof simulate --rate has them"
	}
	if st.Rate <= nearFull*c.Rate || c.Bound != preemption && c.Bound != "KV blocks" {
		return ""
	}
	return fmt.Sprintf("%.3g requests/s are %.0f %% of the largest stable rate: the KV cache is full at times, and rare long queues are "+
		"much of the mean TTFT, which may be several times as long; llmprof simulate --rate has them",
		st.Rate, 100*st.Rate/c.Rate)
}

// SteadyRate is the steady state with Poisson arrivals at a rate. A rate that is not stable
// is an error that names the largest that is.
func (s *Server) SteadyRate(ctx context.Context, rate float64, prompt, gen Lengths) (*Steady, error) {
	all, err := s.Steadies(ctx, prompt, gen)
	if err != nil {
		return nil, err
	}
	return all.Rate(rate, Layout{s.Replicas, s.Prefillers, s.Link})
}
