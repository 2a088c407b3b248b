package cuda

import (
	"errors"

	"llmprof/unit"
)

// Once does work and returns the GPU's time of it.
func (s *Stream) Once(work func() error) (t unit.Seconds, err error) {
	begin, err := s.dev.NewEvent()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, begin.Close()) }()
	end, err := s.dev.NewEvent()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, end.Close()) }()
	if err := begin.Record(s); err != nil {
		return 0, err
	}
	if err := work(); err != nil {
		return 0, err
	}
	if err := end.Record(s); err != nil {
		return 0, err
	}
	if err := end.Sync(); err != nil {
		return 0, err
	}
	return end.Since(begin)
}
