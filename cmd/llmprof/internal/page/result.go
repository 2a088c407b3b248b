package page

import (
	"errors"
	"fmt"

	"llmprof"
	"llmprof/hardware"
	"llmprof/measure/result"
	"llmprof/validate"
)

// result sets the times of a result file beside what is predicted for them, as
// "llmprof validate FILE" does.
func (p *Page) result(r *Request) (*Answer, error) {
	data := []byte(r.File)
	decoded, err := result.Decode(r.Name, data)
	if err != nil {
		return nil, err
	}
	all, err := validate.ReduceFile(r.Name, data, decoded)
	if err != nil {
		return nil, err
	}
	constants, err := p.Constants("")
	if err != nil {
		return nil, err
	}
	gpus, err := hardware.Load(llmprof.HardwareTOML)
	if err != nil {
		return nil, err
	}
	s := &validate.Scorer{
		Model:       p.table.Model,
		GPU:         func(name string) (*hardware.GPU, error) { g, err := gpus.GPU(name); return &g, err },
		Calibration: constants.Among,
	}
	score := s.Score(all)
	times := NewAccuracy(score)
	if len(times) == 0 && len(score.Skipped) > 0 {
		return nil, errors.New(score.Skipped[0].Detail)
	}
	if len(times) == 0 {
		return nil, fmt.Errorf("%s holds no time", r.Name)
	}
	return &Answer{Data: times}, nil
}
