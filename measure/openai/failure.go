package openai

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// The kinds of failure, as results name them. A status without a kind of its own
// is in the kind of its hundred.
const (
	Timeout        = "timeout"            // the server was silent for Options.Timeout
	Refused        = "connection_refused" // nobody listens there
	Connection     = "connection"         // The connection could not be made, or broke before an answer came.
	Redirect       = "redirect"           // redirect that a request cannot follow
	Status429      = "status_429"         // the server has too much to do
	Status4xx      = "status_4xx"
	Status5xx      = "status_5xx"
	StatusOther    = "status_other"
	CutStream      = "cut_stream"      // The stream ended without [DONE] and without finish_reason.
	MalformedEvent = "malformed_event" // no JSON, or none of a chunk
	ErrorEvent     = "error_event"     // the server says in the stream that it failed
	Empty          = "empty"           // the stream ended as it should and held no token
	ContentType    = "content_type"    // the answer is no stream of events
	TooLarge       = "too_large"       // an event or an answer beyond all bounds
)

// A Failure is what became of a request that was not completed.
type Failure struct {
	Kind  string
	Words string // the server's, or the system's
}

func (f *Failure) Error() string {
	text := strings.ReplaceAll(f.Kind, "_", " ")
	if f.Words != "" {
		text += ": " + f.Words
	}
	return text
}

// errTimeout is the cause of a request's end after a silence of Options.Timeout.
var errTimeout = errors.New("the server was silent for the whole timeout")

// errBarren is the cause of a request's end after barrenTimeouts without a token.
var errBarren = errors.New("no token came")

// barrenTimeouts is for how many timeouts a server may go on to send comments and events without a token, as those do
// whose requests wait.
const barrenTimeouts = 10

// errEndless is the cause of a request's end after the longest time that an answer may take.
var errEndless = errors.New("the answer did not end")

// longest is how long an answer of so many tokens may take: barrenTimeouts until the first, and the timeout for each.
// A server that trickles bytes is never silent.
func (o *Options) longest(tokens int) time.Duration {
	return time.Duration(min(o.timeout().Seconds()*float64(barrenTimeouts+tokens), maxAnswer.Seconds()) * float64(time.Second))
}

// maxAnswer is the longest time of an answer, of whatever length.
const maxAnswer = 30 * 24 * time.Hour

// timedOut says of a timeout how long it was.
func (o *Options) timedOut(ctx context.Context, f *Failure, took time.Duration) *Failure {
	switch cause := context.Cause(ctx); {
	case f == nil:
	case errors.Is(cause, errTimeout):
		f.Kind, f.Words = Timeout, fmt.Sprintf("the server was silent for %v, the timeout", o.timeout())
	case errors.Is(cause, errBarren):
		f.Kind, f.Words = Timeout, fmt.Sprintf("the server sent no token for %v, %d times the timeout, though it sent something else",
			barrenTimeouts*o.timeout(), barrenTimeouts)
	case errors.Is(cause, errEndless):
		f.Kind, f.Words = Timeout, fmt.Sprintf("the answer had not ended after %v: the timeout of %v for each token that was asked for, and "+
			"%d times the timeout before", took.Round(time.Second), o.timeout(), barrenTimeouts)
	}
	return f
}

// broken sorts an error of the connection; began says that the answer had.
func broken(ctx context.Context, err error, began bool) *Failure {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // u repeats the URL, query and all
	}
	f := &Failure{Kind: Connection, Words: err.Error()}
	var timeout net.Error
	switch {
	case errors.Is(context.Cause(ctx), errTimeout):
		f.Kind, f.Words = Timeout, errTimeout.Error()
	case errors.Is(err, errTooLarge):
		f.Kind, f.Words = TooLarge, strings.TrimPrefix(f.Words, errTooLarge.Error()+": ")
	case errors.Is(err, syscall.ECONNREFUSED) && !began:
		f.Kind = Refused
	case errors.As(err, &timeout) && timeout.Timeout():
		f.Kind = Timeout
	case began:
		f.Kind = CutStream
	}
	if errors.Is(err, io.EOF) && !began {
		f.Words = "the server closed the connection without an answer"
	}
	return f
}

// refused sorts an answer whose status is not 200.
func refused(status int, reason string, body []byte) *Failure {
	f := &Failure{Kind: StatusOther, Words: wordsOf(body)}
	switch {
	case status == 429:
		f.Kind = Status429
	case status >= 300 && status < 400:
		f.Kind = Redirect
	case status >= 400 && status < 500:
		f.Kind = Status4xx
	case status >= 500 && status < 600:
		f.Kind = Status5xx
	}
	f.Words = strings.TrimSuffix(fmt.Sprintf("%s: %s", reason, f.Words), ": ")
	return f
}
