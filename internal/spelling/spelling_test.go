package spelling

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNear(t *testing.T) {
	known := []string{"batch", "prompt_len", "gen_len", "model", "warmup"}
	for name, want := range map[string][]string{
		"bacth": {"batch"}, "prompt-len": {"prompt_len"}, "genlen": {"gen_len"}, "Model": {"model"}, "warm_up": {"warmup"},
		"btach": {"batch"}, "gen": {"gen_len"}, "warmups": {"warmup"}, "zzzzzzzz": nil, "": nil, strings.Repeat("batch", 100): nil,
	} {
		if diff := cmp.Diff(want, Near(name, known)); diff != "" {
			t.Errorf("%.20q: %s", name, diff)
		}
	}
}

// Each thing counts once, by the name that is nearest.
func TestNearest(t *testing.T) {
	got := Nearest("h20", [][]string{{"a100-sxm-80gb", "a100"}, {"h200-sxm-141gb", "h200"}, {"h20"}})
	if len(got) != 1 || got[0].Index != 2 {
		t.Errorf("h20: %+v", got)
	}
	if got = Nearest("h2000", [][]string{{"a100-sxm-80gb", "a100"}, {"h200-sxm-141gb", "h200"}}); len(got) != 1 || got[0].Name != "h200" {
		t.Errorf("h2000: %+v", got)
	}
}

func TestHint(t *testing.T) {
	if got, want := Hint("cut", []string{"cat", "cot", "dog"}), `did you mean "cat" or "cot"?`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := Hint("elephant", []string{"cat", "dog"}), "known are cat, dog"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
