package models_test

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"llmprof/internal/testkit"
	"llmprof/models"
)

// Published checkpoints in AWQ and GPTQ have the bytes that their config.json says: the sizes are those of the
// files as the hub's commits have them. Shapes that a commit does not show are those of the model that it names.
func TestPublishedSizes(t *testing.T) {
	data, err := os.ReadFile("testdata/published_sizes.jsonl")
	testkit.Must(t, err)
	n := 0
	for line := range bytes.Lines(data) {
		var c struct {
			Name, Source string
			Size         float64
			Config       json.RawMessage
		}
		testkit.Must(t, json.Unmarshal(line, &c))
		n++
		m, err := models.Checkpoint{Config: c.Config}.Read(c.Name)
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		off := float64(m.StoredBytes())/c.Size - 1
		t.Logf("%-50s %12.0f bytes, %12.0f in the file (%+.3f %%)", c.Name, float64(m.StoredBytes()), c.Size, 100*off)
		if off > 0.005 || off < -0.005 {
			t.Errorf("%s: %+.2f %% (%s)", c.Name, 100*off, c.Source)
		}
	}
	if n < 7 {
		t.Errorf("%d checkpoints", n)
	}
}
