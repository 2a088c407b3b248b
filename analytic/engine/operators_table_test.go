package engine

import (
	"strings"
	"testing"

	"llmprof/hardware"
)

// Every row of the table is read, and those that are left out for an engine and a GPU are of others.
func TestOperatorRows(t *testing.T) {
	_, rows, _ := strings.Cut(operatorsCSV, "engine,gpu,generation,constant,value,p90\n")
	all, err := parseOperators(rows)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 500 {
		t.Fatalf("%d rows, want those of all tables", len(all))
	}
	for _, g := range []hardware.GPU{{Key: "h200-sxm-141gb", Generation: "hopper"}, {Key: "l40s-48gb", Generation: "ada"},
		{Key: "another", Generation: "blackwell"}, {Key: "none"}} {
		for _, engine := range []string{"vllm", "sglang", "tensorrt-llm", "native"} {
			var want, got []operatorConstant
			own := func(from []operatorConstant) (list []operatorConstant) {
				for _, o := range from {
					if o.engine == engine && (o.gpu == g.Key || o.generation == g.Generation) {
						list = append(list, o)
					}
				}
				return list
			}
			if want, got = own(all), own(operators(engine, &g)); len(got) != len(want) {
				t.Fatalf("%s on %s: %d rows, want %d", engine, g.Key, len(got), len(want))
			}
			for i := range want {
				if got[i] != want[i] {
					t.Errorf("%s on %s: row %v, want %v", engine, g.Key, got[i], want[i])
				}
			}
		}
	}
}
