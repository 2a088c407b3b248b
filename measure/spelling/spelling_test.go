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
		"zzzzzzzz": nil, "": nil, strings.Repeat("batch", 100): nil,
	} {
		if diff := cmp.Diff(want, Near(name, known)); diff != "" {
			t.Errorf("%.20q: %s", name, diff)
		}
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
