package openai

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"llmprof/measure/result"
)

// The two interfaces that a server may have.
const (
	Chat        = "chat"        // POST /chat/completions
	Completions = "completions" // POST /completions
)

// DefaultTimeout is how long a server may be silent where Options do not say.
const DefaultTimeout = 2 * time.Minute

// Options say what a server is asked, how often and how fast.
type Options struct {
	BaseURL string // base URL of OpenAI's clients, with /v1; a URL without a path gets /v1
	API     string // Chat or Completions
	Model   string // name that the server gives; "" for a server with one model that needs no name
	Key     string // bearer token; it enters no error and no result

	Concurrency int             // requests at a time; in an open loop the most at a time, 0 for no bound
	RequestRate float64         // Poisson arrivals a second; 0 for a closed loop
	Arrivals    []time.Duration // when requests are sent, as of a trace; nil for Poisson arrivals or a closed loop
	Requests    int             // number of requests measured
	Warmup      int             // requests before them, in a closed loop

	Prompts     []Prompt // taken in turn, those of the warm-up first
	PromptLen   int      // tokens that each is meant to have; 0 for whatever they have
	GenLen      int      // most tokens generated for each
	IgnoreEOS   bool     // ask the server not to stop before them
	Sampling    Sampling
	Seed        uint64        // seed of the arrivals
	Timeout     time.Duration // longest silence, until the first byte and between two
	SaveOutputs bool
	Connections string // Pooled, New or Worker; "" for Pooled
	SLO         SLO
	Metrics     bool // sample the server's page of metrics beside the requests

	Client *http.Client // nil for one made for this: HTTP/1.1, as many connections as requests, no compression

	// Begin is called when the warm-up is over, just before the first request that
	// counts: what goes along with the run, such as a power meter, begins here.
	Begin func()
	// End is called when the last request has ended: what goes along ends here.
	End func()
	// Each, if not nil, is called with every request that counts as it ends, never
	// twice at a time.
	Each func(*result.Record)
}

// Sampling says how a server chooses tokens.
type Sampling struct {
	Temperature float64 // 0 for the likeliest token
	// Seed of the first request, from which the others count up; 0 to send none. vLLM draws the random numbers of
	// each request that has a seed by a kernel of its own, so that seeds make its steps longer.
	Seed uint64
}

// MaxTemperature is the highest that OpenAI's interface takes.
const MaxTemperature = 2

// A Prompt is a text, or the tokens of one where the server takes them.
type Prompt struct {
	Text   string
	Tokens []int // token ids, for Completions only; they take precedence over Text
	Gen    int   // most tokens generated; 0 for those of Options
}

// check says all that is wrong with o at once.
func (o *Options) check() error {
	var found []error
	hold := func(ok bool, format string, args ...any) {
		if !ok {
			found = append(found, fmt.Errorf(format, args...))
		}
	}
	hold(o.API == Chat || o.API == Completions, "no API %.40q: there are %q and %q", o.API, Chat, Completions)
	hold(o.Concurrency >= 0, "a concurrency of %d: want at least 1", o.Concurrency)
	hold(len(o.Arrivals) == 0 || len(o.Arrivals) == o.Requests && o.RequestRate == 0 && slices.IsSorted(o.Arrivals),
		"%d arrivals of %d requests: want one of each, in their order, and no rate", len(o.Arrivals), o.Requests)
	hold(o.Concurrency != 0 || o.openLoop(), "neither a concurrency nor a request rate: want one of them")
	hold(o.RequestRate >= 0 && !math.IsInf(o.RequestRate, 0), "a request rate of %v a second: want a finite number, or 0 for a closed loop",
		o.RequestRate)
	hold(o.Requests >= 1, "%d requests: want at least 1", o.Requests)
	hold(o.Warmup >= 0, "a warm-up of %d requests: want 0 or more", o.Warmup)
	hold(o.PromptLen >= 0, "prompts of %d tokens: want at least 1, or 0 for whatever they have", o.PromptLen)
	hold(o.GenLen >= 1, "%d generated tokens: want at least 1", o.GenLen)
	hold(o.Sampling.Temperature >= 0 && o.Sampling.Temperature <= MaxTemperature, "a temperature of %v: want 0 to %d", o.Sampling.Temperature,
		MaxTemperature)
	hold(o.Timeout >= 0, "a timeout of %v: want more than 0", o.Timeout)
	hold(len(o.Prompts) > 0, "no prompts")
	hold(slices.Contains([]string{"", Pooled, New, Worker}, o.Connections), "connections %.40q: there are %q, %q and %q", o.Connections,
		Pooled, New, Worker)
	hold(o.Connections != Worker || !o.openLoop(), "connections %q: requests that come at a rate have no worker of their own; want %q or %q",
		Worker, Pooled, New)
	hold(!strings.ContainsAny(o.Key, "\r\n\x00"), "the API key has a line break or a NUL in it")
	for i, p := range o.Prompts {
		if err := p.check(o.API); err != nil {
			found = append(found, fmt.Errorf("prompt %d of %d: %w", i+1, len(o.Prompts), err))
			break
		}
	}
	return errors.Join(found...)
}

func (p *Prompt) check(api string) error {
	switch {
	case len(p.Tokens) > 0 && api == Chat:
		return errors.New("it is tokens, which the chat API does not take: use completions, or a text")
	case len(p.Tokens) == 0 && p.Text == "":
		return errors.New("it is empty")
	}
	for i, id := range p.Tokens {
		if id < 0 {
			return fmt.Errorf("token %d is %d: ids count from 0", i, id)
		}
	}
	return nil
}

// openLoop reports whether requests come at times of their own.
func (o *Options) openLoop() bool { return o.RequestRate > 0 || len(o.Arrivals) > 0 }

// outputTokens is the tokens that a request asks for.
func (o *Options) outputTokens(p *Prompt) int { return cmp.Or(p.Gen, o.GenLen) }

func (o *Options) timeout() time.Duration { return cmp.Or(o.Timeout, DefaultTimeout) }

// prompt gives the one of the n-th request, the warm-up's counted.
func (o *Options) prompt(n int) *Prompt { return &o.Prompts[n%len(o.Prompts)] }

// aside asks the same server for a token after each of the prompts, one at a time,
// beside what is measured.
func (o *Options) aside(prompts ...Prompt) Options {
	return Options{
		BaseURL: o.BaseURL, API: o.API, Model: o.Model, Key: o.Key, Client: o.Client, Timeout: o.Timeout,
		Concurrency: 1, Requests: len(prompts), GenLen: 1, Prompts: prompts,
	}
}
