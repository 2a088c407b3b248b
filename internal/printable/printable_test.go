package printable

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"NVIDIA H200": "NVIDIA H200", "Llama·µs – 1 §": "Llama·µs – 1 §", "two\nlines\tand a tab": "two\nlines\tand a tab",
		"a\x1b[2Jb": `a\x1b[2Jb`, "bell\a": `bell\a`, "c1\u009b31m": `c1\u009b31m`, "right\u202eleft": `right\u202eleft`,
		"bad\xffbyte":     `bad\xffbyte`,
		"zero\u200bwidth": `zero\u200bwidth`, "back\rspace": `back\rspace`, "\uFFFD": "\uFFFD",
	} {
		if got := Text(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	if got := Line("a\nb"); got != `a\nb` {
		t.Errorf("a line: %q", got)
	}
}

func TestCell(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "llama": "llama", "=1+1": "'=1+1", "@SUM(A1)": "'@SUM(A1)", "-3.5": "-3.5", "+1e6": "+1e6", "-cmd": "'-cmd", "\tx": "'\tx",
	} {
		if got := Cell(in); got != want || FromCell(got) != in {
			t.Errorf("%q: got %q, back %q", in, got, FromCell(got))
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add("\x1b]0;title\a")
	f.Fuzz(func(t *testing.T, s string) {
		got := Text(s)
		for _, r := range got {
			if unicode.IsControl(r) && r != '\n' && r != '\t' {
				t.Errorf("%q keeps %q", s, r)
			}
		}
		if Text(got) != got {
			t.Errorf("%q is not stable", got)
		}
		if strings.ContainsAny(Line(s), "\n\t") {
			t.Errorf("%q is no line", Line(s))
		}
		if c := Cell(s); c != "" && strings.ContainsRune("=@\t\r", rune(c[0])) {
			t.Errorf("%q is a formula", c)
		}
	})
}

// TestKubernetesArg reads words as Kubernetes does: it replaces $(NAME) by a variable and $$ by $, and leaves another $.
func TestKubernetesArg(t *testing.T) {
	expanded := regexp.MustCompile(`\$\$|\$\([^)]*\)`)
	for _, word := range []string{"a b", "$(HF_TOKEN)", "$$(HF_TOKEN)", "$$$(HF_TOKEN)", "$", "$$", "a$b", "it's \"so\"", "$(A)$(B)"} {
		text, err := strconv.Unquote(KubernetesArg(word))
		got := expanded.ReplaceAllStringFunc(text, func(s string) string { return map[bool]string{true: "$", false: "secret"}[s == "$$"] })
		if err != nil || got != word {
			t.Errorf("%q is written as %s, and read as %q, %v", word, KubernetesArg(word), got, err)
		}
	}
}

func TestShellWord(t *testing.T) {
	for word, want := range map[string]string{"a/b-c_1.0": "a/b-c_1.0", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$(x)": "'$(x)'"} {
		if got := ShellWord(word); got != want {
			t.Errorf("%q: %s, want %s", word, got, want)
		}
	}
}

func TestOperand(t *testing.T) {
	for name, want := range map[string]string{"-x.gguf": "./-x.gguf", "--help": "./--help", "a/-x": "a/-x", "./-x": "./-x", "": "",
		"org/name": "org/name"} {
		if got := Operand(name); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
}
