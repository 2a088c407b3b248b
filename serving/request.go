package serving

import (
	"fmt"

	"llmprof/unit"
)

// A Request is what a client asks of a server.
type Request struct {
	At     unit.Seconds // time of its arrival
	Prompt int          // tokens
	Gen    int          // tokens generated, the first included

	// Hashes name the blocks of the prompt of HashTokens tokens each: requests whose first
	// hashes are equal share that prefix.
	Hashes     []uint64
	HashTokens int
}

// A Record is what became of a request.
type Record struct {
	Index       int
	Request     Request
	First, Last unit.Seconds // when the client had the first token, and the last
	Cached      int          // tokens of the prompt found in a prefix cache
	Preempted   int          // times
	Replica     int
}

// TTFT is the time to the first token.
func (r *Record) TTFT() unit.Seconds { return r.First - r.Request.At }

// E2E is the time to the last token.
func (r *Record) E2E() unit.Seconds { return r.Last - r.Request.At }

// TPOT is the time per token after the first; false if there is only one.
func (r *Record) TPOT() (unit.Seconds, bool) {
	if r.Request.Gen < 2 {
		return 0, false
	}
	return (r.Last - r.First).Times(1 / float64(r.Request.Gen-1)), true
}

// maxLength bounds the tokens of a prompt or an answer.
const maxLength = 1 << 26

func (r *Request) check() error {
	switch {
	case r.Prompt < 1 || r.Prompt > maxLength:
		return fmt.Errorf("a prompt of %d tokens: want from 1 to %d", r.Prompt, maxLength)
	case r.Gen < 1 || r.Gen > maxLength:
		return fmt.Errorf("%d generated tokens: want from 1 to %d", r.Gen, maxLength)
	case !(r.At >= 0 && r.At < 1e12):
		return fmt.Errorf("an arrival at %g s: want from 0 to 1e12", float64(r.At))
	}
	return nil
}
