package analytic

import (
	"llmprof/analytic/operator"
	"llmprof/roofline"
	"llmprof/unit"
)

// launch lifts the time of a stage to the time of the host, if that is longer than the time of
// the kernels. A kernel outside a CUDA graph begins later than one within, even if the host is
// ahead of the GPU.
func (p *Predictor) launch(t *total, stage *timing, s *operator.Step) {
	m := p.machine
	stage.least = stage.floor.Time()
	t.Piece.Mark(stage.floor.Slowest())
	stage.host = p.host(stage, s)
	if stage.host > stage.Expected {
		stage.bound = [roofline.NumBounds]unit.Seconds{roofline.ByLaunch: stage.host}
		t.Piece.Mark(1 | stage.hide(stage.host-stage.Expected))
		stage.Expected = stage.host
	}
	if !s.Decode() || !m.Engine.Profile().Graph {
		stage.waitsForHost(m.seconds(roofline.StreamNode).Times(stage.launches))
	}
}

// host is the time of the host for a step while the GPU works: launches and, with
// asynchronous scheduling, the other work for a decode step. That work hides behind launches where there is no CUDA graph, as in
// steps with prompts, which have it beside their launches where the next step is launched before the tokens are handed out.
func (p *Predictor) host(t *timing, s *operator.Step) unit.Seconds {
	m := p.machine
	eager := m.seconds(roofline.HostLaunch).Times(t.launches) + m.seconds(roofline.HostDispatch).Times(t.calls)
	switch e := m.Engine.Profile(); {
	case s.Decode() && e.Graph:
		return p.async(s)
	case s.Decode() && !e.Blocking:
		return max(p.machine.seconds(roofline.HostAsync), eager) + p.between(s)
	case e.Ahead:
		return p.async(s) + eager
	}
	return eager
}

// async is the time of the host for a step besides launches, with asynchronous scheduling.
func (p *Predictor) async(s *operator.Step) unit.Seconds {
	if p.machine.Engine.Profile().Blocking {
		return 0
	}
	return p.machine.seconds(roofline.HostAsync) + p.between(s)
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

// waitsForHost adds time of the host that the GPU does not hide.
func (t *timing) waitsForHost(host unit.Seconds) {
	t.Expected += host
	t.bound[roofline.ByLaunch] += host
}

// hide takes from the cost of slower arithmetic the time that the GPU waits for launches, which
// hides that much of it. The result identifies the linear piece.
func (t *timing) hide(wait unit.Seconds) (what uint64) {
	if wait >= t.Slower {
		what |= 2
	}
	if wait >= t.Slowest {
		what |= 4
	}
	t.Slower, t.Slowest = max(t.Slower-wait, 0), max(t.Slowest-wait, 0)
	return what
}
