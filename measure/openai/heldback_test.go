package openai

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// An answer that is held back, headers and all, until it is whole has no time per
// token, rather than one of 0.
func TestHeldBack(t *testing.T) {
	o := options(serve(t, func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(20 * time.Millisecond)
		stream(w, whole())
	}))
	s, err := Run(t.Context(), o, nil)
	if err != nil || s.Completed != 4 {
		t.Fatal(s, err)
	}
	if ttft, tpot, _ := Times(s); tpot != nil || ttft.N != 4 {
		t.Errorf("TPOT %+v, TTFT %+v", tpot, ttft)
	}
	if notes := strings.Join(s.Notes, "\n"); !strings.Contains(notes, "4 answers came all at once") {
		t.Errorf("notes %q", notes)
	}
	if s.Adjusted.TPOT.P50 != nil {
		t.Errorf("adjusted %+v", s.Adjusted)
	}
}
