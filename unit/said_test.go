package unit_test

import (
	"fmt"
	"testing"

	"llmprof/unit"
)

// A sentence names settings as whoever shows it does, within sentences that it is made of too, and leaves what users gave alone.
func TestSaidNamesSettings(t *testing.T) {
	inner := unit.Say("{tp} %d: want at least 1", 0)
	s := unit.Say("%.9q: %w; give {moe_tp}", "{tp}", inner)
	flags := func(key string) string { return "--" + key }
	if got, want := s.In(flags), `"{tp}": --tp 0: want at least 1; give --moe_tp`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := fmt.Sprint(s), `"{tp}": tp 0: want at least 1; give moe_tp`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
