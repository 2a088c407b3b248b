package native

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"llmprof/analytic/operator"
	"llmprof/internal/testkit"
)

// spoil overwrites the first n values of a tensor of a bf16 checkpoint.
func spoil(t *testing.T, folder, name string, bits uint16, n int) {
	t.Helper()
	path := filepath.Join(folder, "model.safetensors")
	file, err := os.ReadFile(path)
	testkit.Must(t, err)
	data := 8 + int(binary.LittleEndian.Uint64(file))
	var header map[string]struct {
		Offsets []int `json:"data_offsets"`
	}
	testkit.Must(t, json.Unmarshal(file[8:data], &header))
	for i := range n {
		binary.LittleEndian.PutUint16(file[data+header[name].Offsets[0]+2*i:], bits)
	}
	testkit.Must(t, os.WriteFile(path, file, 0o600))
}

// Weights that are NaN, infinite or too large are found in the first scores. The error names the
// tensor if its values are no numbers.
func TestWeightsThatAreNoNumbers(t *testing.T) {
	const nan, inf, huge = 0x7fc0, 0x7f80, 0x7f7f
	config := shareable()["llama"]
	for what, c := range map[string]struct {
		tensor string
		bits   uint16
		n      int
		want   string // "" for numbers
	}{
		"sound": {"model.norm.weight", 0x3f80, 1, ""},
		"NaN": {"model.layers.1.mlp.up_proj.weight", nan, 1, `after the prefill are NaN or infinite: the tensor ` +
			`"model.layers.1.mlp.up_proj.weight" has 1 such values`},
		"infinite": {"model.norm.weight", inf, 2, `the tensor "model.norm.weight" has 2 such values`},
		"huge":     {"model.layers.0.input_layernorm.weight", huge, 256, "all weights are numbers, so what is computed of them outgrows bf16"},
	} {
		folder := checkpointOf(t, config, 7)
		spoil(t, folder, c.tensor, c.bits, c.n)
		team := openShared(t, config, Options{TP: 1, Weights: folder, Workload: operator.Workload{Batch: 2, PromptLen: 9, GenLen: 1}})
		testkit.Must(t, team.SetPrompts(randomPrompts(9, 2, 9, 1000)))
		if _, err := team.Prefill(); err != nil {
			t.Fatal(err)
		}
		err := team.CheckNumbers("the prefill")
		var numbers *NumbersError
		if c.want == "" && err != nil || c.want != "" && (!errors.As(err, &numbers) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
	}
}
