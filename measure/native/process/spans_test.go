package process

import (
	"bytes"
	"math"
	"testing"

	"llmprof/internal/testkit"
	"llmprof/measure/tracefile"
)

// A trace of spans reads as one of a profiler: its operators are the kernels, and
// its anchor tells its time.
func TestSpans(t *testing.T) {
	const ns = 5_000_000_000_123
	trace, err := newDrawing("engine", 77, anchor, ns)
	testkit.Must(t, err)
	if err := trace.add(
		span{row: hostRow, name: "prefill", begin: ns + 1000, end: ns + 10000},
		span{row: layerRow, name: "layer 0", begin: ns + 2000, end: ns + 6000},
		span{row: deviceRow, name: "qkv_proj", begin: ns + 2000.4, end: ns + 3500.3, args: map[string]any{"layer": 0}},
		span{row: deviceRow, name: "qkv_proj", begin: ns + 3500.3, end: ns + 6000},
		span{row: deviceRow, name: "memcpy of tokens to the host", begin: ns + 6000, end: ns + 6500},
	); err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	testkit.Must(t, trace.Write(&text))
	again, err := tracefile.Read(&text)
	testkit.Must(t, err)
	testkit.Must(t, again.Anchor(anchor, ns))
	if us, err := again.Micros(ns + 1000); err != nil || math.Abs(us-(ns+1000)/1e3) > 1e-6 {
		t.Errorf("%v us, %v", us, err)
	}
	testkit.Must(t, again.Anchor("prefill", 0))
	if at, err := again.Micros(0); err != nil || math.Abs(at-(ns+1000)/1e3) > 1e-6 {
		t.Errorf("the prefill begins at %v, %v", at, err)
	}
	kernels := again.Kernels()
	if len(kernels) != 2 || kernels[0].Name != "qkv_proj" || kernels[0].Count != 2 || math.Abs(kernels[0].Sum-4) > 1e-9 ||
		kernels[1].Type != tracefile.Memory {
		t.Errorf("kernels %+v", kernels)
	}
	for _, bad := range []span{
		{row: hostRow, end: -1}, {row: hostRow, begin: math.NaN()}, {row: deviceRow, end: math.Inf(1)}, {row: 9},
	} {
		if err := trace.add(bad); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}
