package result

import (
	"encoding/json"
	"fmt"
	"time"
)

// FailureSchema names the form of a failure.
const FailureSchema = "llmprof.failure/v1"

// A Failure is a run that gave no result. Its file goes when the run succeeds.
type Failure struct {
	Schema   string          `json:"schema"`
	ID       string          `json:"id" jsonschema:"pattern=^[A-Za-z0-9][A-Za-z0-9._-]{0\\,159}$"`
	Cycle    int             `json:"cycle"`
	Hash     string          `json:"config_hash"`
	Settings json.RawMessage `json:"settings" jsonschema:"type=object"` // of the point, zero ones left out; config_hash is the SHA-256 of them
	Started  time.Time       `json:"started"`
	Ended    time.Time       `json:"ended"`
	Attempts int             `json:"attempts" jsonschema:"minimum=1"`
	Errors   []string        `json:"errors" jsonschema:"minItems=1"` // the whole of it, the outermost first
}

// A Summary counts what became of the trials.
type Summary struct{ Trials, Measured, Kept, Failed, Skipped int }

// String is the summary in a line.
func (s Summary) String() string {
	text := fmt.Sprintf("%d runs: %d measured, %d kept from before, %d failed", s.Trials, s.Measured, s.Kept, s.Failed)
	if s.Skipped > 0 {
		text += fmt.Sprintf(", %d left alone that failed before", s.Skipped)
	}
	return text
}
