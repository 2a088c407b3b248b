package openai

import (
	"net/http"
	"runtime"
	"slices"
	"testing"
	"time"

	"llmprof/measure/result"
)

// Prompts of a load have their own lengths, and begin alike as far as their hashes are equal.
func TestTokensOf(t *testing.T) {
	lengths := []Length{
		{Prompt: 100, Gen: 3, Hashes: []uint64{1, 2, 8}, HashTokens: 40},
		{Prompt: 90, Gen: 4, Hashes: []uint64{1, 2, 9}, HashTokens: 40},
		{Prompt: 50, Gen: 5},
	}
	p := TokensOf(lengths, 10, 1000, 7)
	for i, l := range lengths {
		if len(p[i].Tokens) != l.Prompt || p[i].Gen != l.Gen || slices.Min(p[i].Tokens) < 10 || slices.Max(p[i].Tokens) >= 1000 {
			t.Errorf("prompt %d: %d tokens, %d generated", i, len(p[i].Tokens), p[i].Gen)
		}
	}
	if !slices.Equal(p[0].Tokens[:80], p[1].Tokens[:80]) || slices.Equal(p[0].Tokens[80:90], p[1].Tokens[80:]) ||
		slices.Equal(p[0].Tokens[:40], p[2].Tokens[:40]) {
		t.Error("prompts share what they should not, or do not share what they should")
	}
	if again := TokensOf(lengths, 10, 1000, 8); slices.Equal(again[0].Tokens[:40], p[0].Tokens[:40]) {
		t.Error("another seed gives the same tokens")
	}
}

// Requests of a load are sent at its times, and each asks for its own tokens.
func TestArrivalsOfALoad(t *testing.T) {
	o := options(serve(t, func(w http.ResponseWriter, _ *http.Request) {
		stream(w, whole())
	}))
	o.Requests = 3
	o.Arrivals = []time.Duration{0, 30 * time.Millisecond, 200 * time.Millisecond}
	o.Concurrency, o.Warmup = 0, 0
	s, err := Run(t.Context(), o, nil)
	if err != nil || s.Arrivals != "trace" || s.RateHz != nil || s.Completed != 3 {
		t.Fatalf("%+v, %v", s, err)
	}
	for i, at := range o.Arrivals {
		if off := s.Records[i].SentS - at.Seconds(); off < -0.001 || off > 0.001 {
			t.Errorf("request %d was due at %v and counts from %g s", i, at, s.Records[i].SentS)
		}
	}
	o.Arrivals = o.Arrivals[:2]
	if _, err := Run(t.Context(), o, nil); err == nil {
		t.Error("two arrivals of three requests are taken")
	}
}

// Requests that have ended leave their records: neither their contexts nor their connections.
func TestEndedRequestsAreSmall(t *testing.T) {
	o := options(serve(t, func(w http.ResponseWriter, _ *http.Request) { stream(w, whole()) }))
	o.Requests, o.Concurrency = 2000, 4
	live := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var before, after uint64
	o.Each = func(r *result.Record) {
		switch r.Index {
		case 100:
			before = live()
		case 1900:
			after = live()
		}
	}
	if _, err := Run(t.Context(), o, nil); err != nil {
		t.Fatal(err)
	}
	if each := (int64(after) - int64(before)) / 1800; each > 640 {
		t.Errorf("%d bytes a request: want at most 640", each)
	}
}
