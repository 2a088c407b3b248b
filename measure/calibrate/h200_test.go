package calibrate

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"llmprof"
	"llmprof/hardware"
	"llmprof/unit"
)

// operator is a line of hardware/testdata/h200_operators.json.
type operator struct {
	Op      string
	M, N, K int
	Tokens  int
	Heads   int
	KVHeads int `json:"kv_heads"`
	HeadDim int `json:"head_dim"`
	Width   int
	TimeS   float64  `json:"time_s"`
	PowerW  *float64 `json:"power_w"`
	FLOPsPS float64  `json:"flops_per_s"`
}

// h200Rows turns what hardware/testdata/operators.py saw on an H200 into rows. Of
// its runs at the power limit only the one bound by arithmetic is a row: the
// others repeat shapes that are timed already.
func h200Rows(t *testing.T) []byte {
	t.Helper()
	data, err := os.ReadFile("../../hardware/testdata/h200_operators.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		GPU, Torch string
		Rows       []operator
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	when := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	var b bytes.Buffer
	out := json.NewEncoder(&b)
	m := Machine{
		Schema: RowSchema, Kind: machineKind, GPU: "h200-sxm-141gb", Device: file.GPU, Kernels: "torch " + file.Torch + " (cuBLAS, cuDNN attention)",
		DType: unit.BF16, Tools: map[string]string{"torch": file.Torch}, Version: "hardware/testdata/operators.py", When: when,
	}
	if err := out.Encode(m); err != nil {
		t.Fatal(err)
	}
	for _, o := range file.Rows {
		p := Point{DType: unit.BF16, Ranks: 1}
		cold := false
		switch {
		case o.Op == "gemm":
			p.Kind, p.Shape, cold = GEMM, Shape{M: o.M, N: o.N, K: o.K}, true
		case o.Op == "prefill_attention":
			p.Kind, p.Shape = AttentionPrefill, Shape{Tokens: o.Tokens, Heads: o.Heads, KVHeads: o.KVHeads, HeadDim: o.HeadDim}
		case o.Op == "empty_kernel": // 500 in a graph
			p.Kind, p.Shape = GraphNode, Shape{Launches: 500}
			o.TimeS *= 500
		case o.Op == "rms_norm":
			p.Kind, p.Shape = RMSNorm, Shape{Tokens: o.Tokens, Width: o.Width}
		case o.Op == "gemm_power" && o.M == 8192:
			p.Kind, p.Shape = Sustained, Shape{M: o.M, N: o.N, K: o.K}
			o.TimeS = float64(p.Work().FLOPs) / o.FLOPsPS
		default:
			continue
		}
		row, err := newRow(&p, []float64{o.TimeS})
		if err != nil {
			t.Fatal(err)
		}
		row.Graph, row.Cold, row.Power, row.When = p.Kind != Sustained, cold, o.PowerW, when
		if err := out.Encode(row); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func board(t testing.TB, name string) *hardware.GPU {
	t.Helper()
	g, err := hardware.Find(llmprof.HardwareTOML, name)
	if err != nil {
		t.Fatal(err)
	}
	return &g
}

// TestH200 holds the calibration of the H200 that comes with the program to the
// rows that it is made of, and these to what was measured.
func TestH200(t *testing.T) {
	text := h200Rows(t)
	golden(t, filepath.Join("testdata", "h200.jsonl"), text)
	rows, err := parseRows("h200.jsonl", text)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Fit(rows, board(t, "h200"), "h200")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, filepath.Join("..", "..", "calibrations", "h200-sxm-141gb.toml"), []byte(f.Text()))
}

// TestH200Native holds the calibration of the native engine on an H200 to the rows
// that llmprof calibrate left there.
func TestH200Native(t *testing.T) {
	packed, err := os.Open(filepath.Join("testdata", "h200-native.jsonl.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	unpacked, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := parseRows("h200-native.jsonl", text)
	if err != nil {
		t.Fatal(err)
	}
	if len(rows.Rows) != 262 || len(rows.Machine.Notes) != 0 || rows.Machine.Engine != Native {
		t.Errorf("%d rows of %+v", len(rows.Rows), rows.Machine)
	}
	f, err := Fit(rows, board(t, "h200"), "h200-native")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, filepath.Join("..", "..", "calibrations", "h200-sxm-141gb.native.toml"), []byte(f.Text()))
}

// golden compares with a file, or writes it anew: UPDATE_GOLDEN=1 go test ./...
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what is made today:\n%s", path, got)
	}
}
