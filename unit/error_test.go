package unit

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// An error names settings as whoever shows it has them, however deep it is wrapped, and keeps the words around it.
func TestErrorText(t *testing.T) {
	flag := func(key string) string { return "--" + strings.ReplaceAll(key, "_", "-") }
	why := errors.New("the disk is full")
	inner := Errorf("{gen_len} %d: %w", 0, why)
	for want, err := range map[string]error{
		"--gen-len 0: the disk is full":                        inner,
		"row 3: --gen-len 0: the disk is full":                 fmt.Errorf("row 3: %w", inner),
		"row 3: --gen-len 0: the disk is full\n--tp is absent": errors.Join(fmt.Errorf("row 3: %w", inner), Failf("{tp} is absent")),
		"--tp: row 3: --gen-len 0: the disk is full":           Errorf("{tp}: %w", fmt.Errorf("row 3: %w", inner)),
		"the disk is full":                                     Wrong(why),
	} {
		if got := Text(err, flag); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if !errors.Is(inner, why) || inner.Error() != "gen_len 0: the disk is full" || !errors.Is(Wrong(inner), inner) {
		t.Errorf("%v", inner)
	}
}
