package native

import (
	"errors"

	"llmprof/measure/engine/native/cuda"
)

// OnStandIn opens an engine on a GPU that is none, which computes nothing: what
// the engine queues, and what is made of the times, can be seen without a GPU.
// Its tokens are all 0.
func OnStandIn(opt Options, s *cuda.StandIn) (*Engine, error) {
	sh, err := readShape(opt.Model, opt.Config)
	if err != nil {
		return nil, err
	}
	if err := opt.check(&sh); err != nil {
		return nil, err
	}
	sh.sliding = opt.outgrows(&sh)
	e := &Engine{opt: opt, shape: sh, w: layout(&sh), plans: map[planKey]*cuda.Matmul{}, dev: s.Device}
	err = e.load(nil, func() error {
		m, err := e.dev.Load([]byte("no code"))
		if err != nil {
			return err
		}
		e.p = &program{module: m, linear: linearShapes(), tile: tileFor(e.dev.Major, &sh)}
		return e.p.find(&sh)
	})
	if err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}
