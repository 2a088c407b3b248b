package analytic

import (
	"slices"

	"llmprof/analytic/operator"
	"llmprof/roofline"
	"llmprof/unit"
)

// hostConstants are the times of the host that show where no kernel hides them.
var hostConstants = [...]roofline.Constant{
	roofline.HostLaunch, roofline.HostDispatch, roofline.HostAsync, roofline.HostSequence, roofline.HostStep, roofline.HostRequest,
}

// A hostTime is time of the host, by the constants that it is made of.
type hostTime []hostTerm

// A hostTerm is the time of the host that one constant gives.
type hostTerm struct {
	by   roofline.Constant
	time unit.Seconds
}

// add adds a constant so many times.
func (h *hostTime) add(m *Machine, by roofline.Constant, times float64) {
	*h = append(*h, hostTerm{by, m.seconds(by).Times(times)})
}

// sum is the time.
func (h hostTime) sum() (t unit.Seconds) {
	for _, x := range h {
		t += x.time
	}
	return t
}

// slopes adds the derivatives of the time by its constants.
func (h hostTime) slopes(s *roofline.Slopes) {
	for _, x := range h {
		s.By[x.by] += x.time
	}
}

// launch lifts the time of a stage to the time of the host, if that is longer than the time of
// the kernels, and the derivatives with it, which are nil where nobody asks for them. A kernel outside a CUDA graph begins later than one
// within, even if the host is ahead of the GPU.
func (p *Predictor) launch(stage *timing, slopes *roofline.Slopes, s *operator.Step) {
	m := p.machine
	stage.least = stage.floor.Time()
	host := p.host(stage, s)
	stage.host = host.sum()
	if stage.host > stage.Expected {
		stage.bound = [roofline.NumBounds]unit.Seconds{roofline.ByLaunch: stage.host}
		stage.hide(stage.host - stage.Expected)
		stage.Expected = stage.host
		if slopes != nil {
			*slopes = roofline.Slopes{}
			host.slopes(slopes)
		}
	}
	if !s.Decode() || !m.Engine.Profile().Graph {
		var later hostTime
		later.add(m, roofline.StreamNode, stage.launches)
		stage.waitsForHost(later, slopes)
	}
}

// host is the time of the host for a step while the GPU works: launches and, with
// asynchronous scheduling, the other work for a decode step. That work hides behind launches where there is no CUDA graph, as in
// steps with prompts, which have it beside their launches where the next step is launched before the tokens are handed out.
func (p *Predictor) host(t *timing, s *operator.Step) (h hostTime) {
	m, e, decode := p.machine, p.machine.Engine.Profile(), s.Decode()
	if !decode || !e.Graph {
		h.add(m, roofline.HostLaunch, t.launches)
		h.add(m, roofline.HostDispatch, t.calls)
	}
	if e.Blocking || !decode && !e.Ahead {
		return h
	}
	switch async := (hostTerm{roofline.HostAsync, m.seconds(roofline.HostAsync)}); {
	case !decode:
		h = slices.Insert(h, 0, async)
	case h.sum() < async.time:
		h = hostTime{async}
	}
	h.add(m, roofline.HostSequence, s.Batch)
	return h
}

// between is the time of the host between two steps of which the second has prompts, with asynchronous scheduling: the host
// schedules, and gives out the tokens of the first. Beside it such a step takes the host no longer than its launches do
// (experiments/vllm/between.py).
func (p *Predictor) between(s *operator.Step) unit.Seconds {
	if p.machine.Engine.Profile().Blocking {
		return 0
	}
	return p.machine.seconds(roofline.HostSequence).Times(s.Batch)
}

// afterStep is the time of the host after each step, which no kernel hides.
func (p *Predictor) afterStep(s *operator.Step) (h hostTime) {
	h.add(p.machine, roofline.HostStep, 1)
	if p.machine.Engine.Profile().Blocking {
		h.add(p.machine, roofline.HostSequence, s.Batch)
	}
	return h
}

// requestTime is RequestTime by its constants.
func (p *Predictor) requestTime() (h hostTime) {
	h.add(p.machine, roofline.HostAsync, 1)
	h.add(p.machine, roofline.HostRequest, 1)
	return h
}

// waitsForHost adds time of the host that the GPU does not hide.
func (t *timing) waitsForHost(host hostTime, slopes *roofline.Slopes) {
	time := host.sum()
	t.Expected += time
	t.bound[roofline.ByLaunch] += time
	if slopes != nil {
		host.slopes(slopes)
	}
}

// hide takes from the cost of slower arithmetic the time that the GPU waits for launches, which
// hides that much of it.
func (t *timing) hide(wait unit.Seconds) {
	t.Slower, t.Slowest = max(t.Slower-wait, 0), max(t.Slowest-wait, 0)
	t.Stretch.Hide(wait)
}
