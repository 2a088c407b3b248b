package ask

import (
	"math"

	"llmprof/cmd/llmprof/internal/view"
	"llmprof/plan"
)

// A ChartRate is the steady state at a rate, or why there is none.
type ChartRate struct {
	Rate float64
	Load *view.Load
	Err  error
}

const (
	chartLow   = 1e-3 // requests a second, which any server answers
	chartSteps = 10   // most steps of a chart
	chartSpan  = 12   // the highest rate of a chart over the lowest, about
	chartStep  = 1.5  // a rate over the one before, about
	chartTop   = 0.9  // the highest rate over the most that the server answers: states close to it take long, and rise without end
)

// Chart is the steady states at rates up to almost the most that the server answers. The slow end of the interval
// at one rate has the state of a higher rate, stretched: where the chart has that rate, its state is taken.
func (r *Rates) Chart() ([]ChartRate, error) {
	layout := r.layout()
	if err := r.all.Stable(chartLow, layout); err != nil {
		return nil, err
	}
	most, err := r.all.Capacity(layout)
	if err != nil {
		return nil, err
	}
	rates, ahead := spread(most.Rate, r.slower)
	all := make([]ChartRate, len(rates))
	for i := len(all) - 1; i >= 0; i-- {
		at := &all[i]
		*at = ChartRate{Rate: rates[i], Load: &view.Load{Server: r.server, Rate: &rates[i], Prompt: r.prompt, Gen: r.gen}}
		if at.Load.Steady, at.Err = r.all.Rate(rates[i], layout); at.Err != nil {
			continue
		}
		if slow := ahead[i]; slow == 0 {
			at.Load.High, _ = plan.SlowRate(r.all, rates[i], layout, r.slower)
		} else if slow < len(all) && all[slow].Err == nil {
			at.Load.High = plan.Stretched(all[slow].Load.Steady, r.slower)
		}
	}
	return all, nil
}

// spread are rates up to almost the most that a server answers, in equal steps but for the last, which is halved as
// times rise steeply there. Rate ahead[i] is slower times rate i; 0 if none is, beyond all if that is no stable rate.
func spread(most, slower float64) (rates []float64, ahead []int) {
	step, by := chartStep, 0
	if slower > 1.15 {
		by = max(int(math.Round(math.Log(slower)/math.Log(step))), 1)
		step = math.Pow(slower, 1/float64(by))
	}
	steps := min(int(math.Ceil(math.Log(chartSpan)/math.Log(step))), chartSteps-1)
	add := func(rate float64, slow int) { rates, ahead = append(rates, rate), append(ahead, slow) }
	top := chartTop * most
	for i := range steps {
		slow := 0
		if by > 0 {
			slow = i + by
		}
		if slow >= steps { // the halved step lies between
			slow++
		}
		add(top*math.Pow(step, float64(i-steps)), slow)
	}
	beyond := 0
	if by > 0 {
		beyond = steps + 2
	}
	add(top/math.Sqrt(step), beyond)
	add(top, beyond)
	return rates, ahead
}
