package printable

import "testing"

func TestASCII(t *testing.T) {
	for in, want := range map[string]string{
		"8 × A100: 120 µs ±20 %": "8 x A100: 120 us +-20 %", "─██▎": "-##-", "Größe 漢": "Gr??e ?", "plain\n\ttext": "plain\n\ttext",
		"−6 % • –":             "-6 % * -",
		"\x1b[1mbold\x1b[0m ×": "\x1b[1mbold\x1b[0m x",
	} {
		if got := ASCII(in); got != want {
			t.Errorf("ASCII(%q) = %q; want %q", in, got, want)
		}
	}
}

func TestUTF8(t *testing.T) {
	for _, c := range []struct {
		all, ctype, lang string
		want             bool
	}{
		{"", "", "", true}, {"", "", "en_US.UTF-8", true}, {"", "", "C.utf8", true}, {"", "", "C", false}, {"POSIX", "", "en_US.UTF-8", false},
		{"", "de_DE.ISO-8859-1", "en_US.UTF-8", false}, {"C.UTF-8", "C", "C", true},
	} {
		env := map[string]string{"LC_ALL": c.all, "LC_CTYPE": c.ctype, "LANG": c.lang}
		if got := UTF8(func(name string) string { return env[name] }); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
