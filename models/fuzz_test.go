package models

import (
	"math"
	"testing"

	"llmprof/unit"
)

// FuzzRead: a model that is read has counts that are finite and positive,
// whatever the config.
func FuzzRead(f *testing.F) {
	for _, file := range []string{"defaults", "more", "published"} {
		for _, c := range readCounted(f, "testdata/"+file+".jsonl") {
			f.Add([]byte(c.Config))
		}
	}
	f.Fuzz(func(t *testing.T, config []byte) {
		m, err := Read("fuzz", config)
		if err != nil {
			return
		}
		checkCounts(t, m)
	})
}

// checkCounts fails where a count of m cannot be.
func checkCounts(t *testing.T, m *Model) {
	t.Helper()
	params, active := m.Params(), m.ActiveParams()
	if params <= 0 || params > 2*maxParams {
		t.Errorf("%d parameters", params)
	}
	if active <= 0 || active > params {
		t.Errorf("%d active parameters of %d", active, params)
	}
	if n := m.NumLayers(); n < 1 || n > maxLayers {
		t.Errorf("%d layers", n)
	}
	for _, bytes := range []unit.Bytes{
		m.KVBytesPerToken(unit.BF16), m.CacheBytes(4096, unit.BF16), m.StateBytes(unit.BF16),
	} {
		if b := float64(bytes); b < 0 || math.IsNaN(b) || math.IsInf(b, 0) {
			t.Errorf("%g bytes", b)
		}
	}
	for _, l := range m.Layers {
		for _, b := range l.Blocks {
			checkBlock(t, b)
		}
	}
}

// checkBlock fails where a block does nothing, or has a matrix without size.
func checkBlock(t *testing.T, b Block) {
	t.Helper()
	if b.Attention == nil && b.Scan == nil && b.Experts == nil && b.Activation.Width == 0 {
		t.Errorf("block %q does nothing", b.Name)
	}
	if b.Params() < 0 {
		t.Errorf("block %q has %d parameters", b.Name, b.Params())
	}
	b.each(func(l Linear, _ int, _ float64) {
		if l.In < 1 || l.Out < 1 || l.Heads < 0 {
			t.Errorf("block %q: %s is %d by %d, %d heads", b.Name, l.Name, l.Out, l.In, l.Heads)
		}
	})
	if a := b.Attention; a != nil && (a.Heads < 1 || a.KVHeads < 1 || a.KeyDim < 1 || a.ValueDim < 1 || a.RotaryDim > a.KeyDim) {
		t.Errorf("block %q: attention %+v", b.Name, *a)
	}
}
