package main

import (
	"encoding/json"
	"fmt"

	"llmprof/cmd/llmprof/internal/report"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/input"
	"llmprof/measure/result"
	"llmprof/validate"
)

// A stored is a result file that becomes a section of the report: of a
// measurement or of another estimate.
type stored struct {
	file     string
	origin   string // source of its observations, if they come with the program
	measured *result.Result
	estimate *view.OtherEstimate
}

// mostResult bounds a result file: beyond any that llmprof writes.
const mostResult = 32 << 20

// readResults reads result files of the kinds that the report knows.
func readResults(files []string) ([]stored, error) {
	var all []stored
	for _, file := range files {
		s, err := readStored(file)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

func readStored(file string) (stored, error) {
	s := stored{file: file}
	data, err := input.Read(file, mostResult)
	if err != nil {
		return s, fmt.Errorf("--results %s: %w", file, input.Cause(err))
	}
	var head struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return s, fmt.Errorf("--results %s: not a JSON object: %w", file, err)
	}
	switch head.Schema {
	case result.Schema:
		if s.measured, err = result.Decode(file, data); err == nil {
			s.origin, err = validate.Origin(data)
		}
	case view.EstimateSchema:
		s.estimate, err = view.DecodeEstimate(data)
	default:
		err = fmt.Errorf("schema %.80q: want %s or %s", head.Schema, result.Schema, view.EstimateSchema)
	}
	if err != nil {
		return s, fmt.Errorf("--results %s: %w", file, err)
	}
	return s, nil
}

// section is the result beside the estimate of the page.
func (s *stored) section(i int, ans *answer) report.Section {
	id := fmt.Sprintf("result-%d", i+1)
	if s.estimate != nil {
		return ans.BesideEstimate(id, s.estimate)
	}
	return ans.BesideMeasured(id, s.measured, view.ProcessBlocks(s.measured))
}
