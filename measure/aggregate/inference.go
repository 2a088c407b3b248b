package aggregate

import "llmprof/measure/result"

// inference counts the tokens of a process and the time they took: of a served
// run its requests; else of the window in which energy was metered, and without
// one of the timed passes.
func inference(r *result.Result) InferenceMetrics {
	if r.Serving != nil {
		return served(r)
	}
	m := InferenceMetrics{batch: float64(r.Workload.Batch), concurrently: float64(r.Workload.Batch), Source: "nothing was run from submission to last token"}
	if r.TTLT != nil {
		m.latencies = r.TTLT.Samples
	}
	switch {
	case r.Energy != nil && r.Energy.Request != nil && r.Energy.Request.Passes > 0:
		m.passes, m.TimeS = r.Energy.Request.Passes, &r.Energy.Request.Seconds
		m.Source = "the passes in the window that energy was metered in"
	case r.TTLT != nil:
		m.passes = float64(len(r.TTLT.Samples))
		seconds := 0.
		for _, s := range r.TTLT.Samples {
			seconds += s
		}
		m.TimeS, m.Source = &seconds, "the timed passes"
	default:
		return m
	}
	sequences := m.batch * m.passes
	m.Requests = &sequences
	m.Input, m.Output = new(sequences*float64(r.Workload.PromptLen)), new(sequences*float64(r.Workload.GenLen))
	m.rates(r)
	return m
}

// served counts the requests that were completed. One whose tokens the server
// did not say leaves the sums unknown.
func served(r *result.Result) InferenceMetrics {
	s := r.Serving
	m := InferenceMetrics{Source: "the completed requests", TimeS: &s.Duration, Requests: new(float64(s.Completed))}
	var input, output []*float64
	busy := 0.
	for i := range s.Records {
		q := &s.Records[i]
		if q.Failure != "" {
			continue
		}
		input, output = append(input, count(q.Prompt)), append(output, count(q.Generated))
		if q.LastTokenS != nil {
			m.latencies = append(m.latencies, *q.LastTokenS)
			busy += *q.LastTokenS
		}
	}
	if s.Duration > 0 {
		m.concurrently = busy / s.Duration // Little's law
	}
	m.Input, m.Output = total(input), total(output)
	m.rates(r)
	return m
}

func count(n *int) *float64 {
	if n == nil {
		return nil
	}
	return new(float64(*n))
}

func (m *InferenceMetrics) rates(r *result.Result) {
	m.Total = add(m.Input, m.Output)
	m.TokensPerS = over(m.Output, m.TimeS)
	if r.TPOT != nil {
		m.PerTokenMs = new(1000 * r.TPOT.Mean)
	}
}
