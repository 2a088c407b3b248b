package serving

import (
	"testing"
)

// What makes a load uncertain is told by its code, and in a sentence that begins with the load.
func TestWarningsOfLoad(t *testing.T) {
	r := &Result{Refused: 3, Refusal: "no cache holds them", Interrupted: true, Completed: 7}
	all := r.Warnings(t.Context(), &Server{}, "8/s", &Load{})
	want := []struct{ code, text string }{
		{"requests_refused", "8/s: 3 requests were refused; no cache holds them"}, {"interrupted", "8/s: interrupted after 7 requests"},
	}
	if len(all) != len(want) {
		t.Fatalf("%v", all)
	}
	for i, w := range want {
		if got := &all[i]; got.Code != w.code || got.String() != w.text || got.Arguments()[0] != "8/s" {
			t.Errorf("%s: %s, want %s: %s", got.Code, got, w.code, w.text)
		}
	}
	if none := (&Result{}).Warnings(t.Context(), &Server{}, "trace", nil); none != nil {
		t.Errorf("%v", none)
	}
}
