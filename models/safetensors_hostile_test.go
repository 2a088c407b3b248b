package models_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"llmprof/internal/testkit"
	"llmprof/models"
)

// TestLargeHeaders refuses a checkpoint whose headers are of no use for their size, however many files they are spread over.
func TestLargeHeaders(t *testing.T) {
	dir := t.TempDir()
	config := `{"model_type":"llama","vocab_size":1000,"hidden_size":256,"intermediate_size":512,"num_hidden_layers":1,` +
		`"num_attention_heads":4,` +
		`"num_key_value_heads":4,"max_position_embeddings":4096,"torch_dtype":"bfloat16"}`
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600))
	header := `{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}` + strings.Repeat(" ", 8<<20)
	first := filepath.Join(dir, "part-0.safetensors")
	testkit.Must(t, os.WriteFile(first, append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header+"\x00"...), 0o600))
	for i := range 99 {
		testkit.Must(t, os.Link(first, filepath.Join(dir, fmt.Sprintf("part-%d.safetensors", i+1))))
	}
	start := time.Now()
	_, err := models.Resolver{}.Resolve(t.Context(), dir)
	if err == nil || !strings.Contains(err.Error(), "the headers of the checkpoint's files take") {
		t.Errorf("want a refusal of the headers, got %v", err)
	}
	if took := time.Since(start); took > 4*time.Second {
		t.Errorf("it took %v", took)
	}
}
