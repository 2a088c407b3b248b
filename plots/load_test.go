package plots

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"llmprof/internal/testkit"
)

// underLoad is two servers, one of which turns back under too great a load.
func underLoad() []LoadCurve {
	return []LoadCurve{
		{"vLLM, closed loop", []Loaded{
			{"1", 180, Spread{0.031, 0.037}, Spread{0.0051, 0.0052}, false}, {"4", 640, Spread{0.042, 0.09}, Spread{0.0058, 0.0066}, false},
			{"16", 2100, Spread{0.08, 0.31}, Spread{0.0069, 0.011}, false}, {"64", 5200, Spread{0.24, 1.1}, Spread{0.0098, 0.021}, false},
		}},
		{"llama.cpp, open loop", []Loaded{
			{"1/s", 128, Spread{0.05, 0.08}, Spread{0.0074, 0.009}, false}, {"4/s", 500, Spread{0.07, 0.4}, Spread{0.011, 0.019}, false},
			{"16/s", 1200, Spread{2.4, 9}, Spread{0.031, 0.06}, false}, {"32/s", 1050, Spread{11, 28}, Spread{0.038, 0.09}, true},
		}},
	}
}

// TestUnderLoad compares the picture with the reviewed one in testdata.
func TestUnderLoad(t *testing.T) {
	f, err := UnderLoad("llama3.1-8b · 1024 + 128 tokens · llmprof", TokensPerSecond, underLoad())
	testkit.Must(t, err)
	got, err := f.SVG()
	testkit.Must(t, err)
	if dir := os.Getenv("LOOK_AT"); dir != "" {
		look(t, f, filepath.Join(dir, "load.png"))
	}
	golden(t, "load.svg", []byte(got))
}

// TestUnderLoadOdd draws what has one load or one of the times, and refuses what
// cannot be drawn.
func TestUnderLoadOdd(t *testing.T) {
	one := []LoadCurve{{"a server", []Loaded{{"8", 3, Spread{0.5, 0.5}, Spread{}, false}}}}
	f, err := UnderLoad("c", RequestsPerSecond, one)
	testkit.Must(t, err)
	text, err := f.SVG()
	if err != nil || strings.Contains(text, "TPOT: time") || !strings.Contains(text, "completed requests a second") {
		t.Errorf("%v: %.200s", err, text)
	}
	for want, curves := range map[string][]LoadCurve{
		"nothing to draw":    nil,
		"at most 6":          make([]LoadCurve, 7),
		"has no loads":       {{Name: "x"}},
		"no server has":      {{"x", []Loaded{{"1", 3, Spread{}, Spread{}, false}}}},
		"want finite number": {{"x", []Loaded{{"1", math.NaN(), Spread{1, 1}, Spread{}, false}}}},
	} {
		if _, err := UnderLoad("c", TokensPerSecond, curves); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
