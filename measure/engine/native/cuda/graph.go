package cuda

import "errors"

// A Graph is work that was recorded from a stream and can be done again with
// one call.
type Graph struct {
	dev  *Device
	exec uintptr
}

// Record runs work, which must queue on s alone, without doing any of it, and
// makes a graph of what it queued.
func (s *Stream) Record(work func() error) (*Graph, error) {
	d := s.dev.d
	const threadLocal = 1 // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
	if err := d.check("cuStreamBeginCapture", d.captureBegin(s.h, threadLocal)); err != nil {
		return nil, err
	}
	werr := work()
	var g uintptr
	err := d.check("cuStreamEndCapture", d.captureEnd(s.h, &g))
	if err := errors.Join(werr, err); err != nil {
		if g != 0 {
			err = errors.Join(err, d.check("cuGraphDestroy", d.graphDestroy(g)))
		}
		return nil, err
	}
	out := &Graph{dev: s.dev}
	err = d.check("cuGraphInstantiate", d.graphInstantiate(&out.exec, g, 0))
	err = errors.Join(err, d.check("cuGraphDestroy", d.graphDestroy(g)))
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Launch queues the whole graph on s.
func (g *Graph) Launch(s *Stream) error {
	return g.dev.d.check("cuGraphLaunch", g.dev.d.graphLaunch(g.exec, s.h))
}

// Close destroys the graph.
func (g *Graph) Close() error {
	return g.dev.d.check("cuGraphExecDestroy", g.dev.d.graphExecDestroy(g.exec))
}
