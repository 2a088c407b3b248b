package native

import (
	"errors"

	"llmprof/measure/native/cuda"
)

// OnStandIn opens an engine on a GPU that computes nothing, so that tests without a GPU can see what
// the engine queues and what it makes of the times. Its tokens are all 0.
func OnStandIn(opt Options, s *cuda.StandIn) (*Engine, error) {
	e, err := newEngine(opt, 0)
	if err != nil {
		return nil, err
	}
	e.dev = s.Device
	if err := e.load(nil, (*Engine).compileNothing); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

func (e *Engine) compileNothing() error {
	m, err := e.dev.Load([]byte("no code"))
	if err != nil {
		return err
	}
	e.p, err = newProgram(e.dev, m, &e.shape, fitted(e.opt.rings(), e.dev.SharedOptIn))
	return err
}

// TeamOnStandIns opens a team on as many such GPUs as share the model.
func TeamOnStandIns(opt Options) (*Team, error) {
	return openTeam(opt, func(int) (*cuda.Device, error) { return cuda.NewStandIn().Device, nil }, (*Engine).compileNothing)
}
