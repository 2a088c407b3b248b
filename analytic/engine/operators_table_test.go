package engine

import (
	"strings"
	"testing"

	"llmprof/hardware"
)

// Every row of the table is read, and a GPU has of each section its own rows, else those of its generation.
func TestOperatorRows(t *testing.T) {
	n := 0
	for _, rows := range operators() {
		n += len(rows)
	}
	_, rows, _ := strings.Cut(operatorsCSV, "engine,gpu,generation,constant,value,p90\n")
	if want := strings.Count(rows, "\n"); n != want || n < 500 {
		t.Fatalf("%d rows were read of %d, want those of all tables", n, want)
	}
	for _, g := range []hardware.GPU{{Key: "h200-sxm-141gb", Generation: "hopper"}, {Key: "l40s-48gb", Generation: "ada"},
		{Key: "another", Generation: "blackwell"}, {Key: "none"}} {
		for _, engine := range []string{"vllm", "sglang", "tensorrt-llm", "native"} {
			own := map[string]bool{}
			for _, o := range operatorsOf(engine, &g) {
				section, _, _ := strings.Cut(o.constant.String(), ".")
				switch {
				case o.engine != engine || o.gpu != g.Key && o.generation != g.Generation:
					t.Errorf("%s on %s: row %v", engine, g.Key, o)
				case o.gpu == g.Key:
					own[section] = true
				case own[section]:
					t.Errorf("%s on %s: row %v of the generation, though the GPU has some of its section", engine, g.Key, o)
				}
			}
		}
	}
}

// A row that is wrong is refused.
func TestWrongOperatorRows(t *testing.T) {
	for _, row := range []string{"vllm,h200,hopper,gemm.compute,0.8", "vllm,h200,hopper,gemm.compote,0.8,", "vllm,h200,hopper,gemm.compute,x,",
		"vllm,h200,hopper,gemm.compute,0.8,x", "vllm,h200,hopper,gemm.compute,-1,"} {
		if _, err := parseOperator(row); err == nil {
			t.Errorf("%q is read", row)
		}
	}
	if o, err := parseOperator("vllm,h200,hopper,gemm.compute,,0.1"); err != nil || o.value != 0 || o.p90 != 0.1 {
		t.Errorf("%v, %v", o, err)
	}
}
