package serving

import "llmprof/unit"

// A frontend is the process of a server that speaks to clients: one thread that runs an event loop, as
// vLLM's API server does. Each pass of the loop takes every task that is ready one stage further: a
// request that is parsed and checked, the output of a step that is taken apart, a token that is sent to
// its client. While many clients get tokens a pass is long, and a new request, which needs several
// passes, reaches the engine late: those that end together then begin together again.
type frontend struct {
	apiTimes
	streams int // tokens that are sent to a client at once, but for the first and the last

	end      unit.Seconds // end of the pass that runs; 0 if none does
	passes   int          // how many passes have begun
	entering fifo[entering]
	steps    fifo[delivered] // steps whose outputs wait for a pass
	outputs  []output        // outputs that the pass that runs takes apart, then those that wait for the next one
	taken    int             // outputs that the pass takes apart
	ready    []*stream       // streams that have tokens to send
}

// An apiTimes is what the API server takes.
type apiTimes struct {
	intake  unit.Seconds // A request takes that over all its stages.
	token   unit.Seconds // Half of it takes a token from a step's output, and half sends it.
	closing unit.Seconds // The end of a stream takes that.
	way     unit.Seconds // A token is under way to its client for that besides.
}

// stages is in how many passes of the loop a request goes through vLLM's API server to the engine. In
// experiments/vllm-load the first of 128 requests that come together gets its headers after 107 of 159 ms.
const stages = 7

// entering is a request on its way to the engine.
type entering struct {
	packed
	passes int // how many passes have begun when it is through
}

// enters lets a request into the process.
func (f *frontend) enters(p packed) { f.entering.push(entering{p, f.passes + stages}) }

// outputPasses is through how many passes of the loop the output of a step goes before it is taken apart: one reads
// it from the engine's socket, and one queues it (AsyncMPClient and AsyncLLM in vllm/v1/engine).
const outputPasses = 2

// An output is what a step gained for a sequence.
type output struct {
	stream *stream
	gain   int32
	ended  bool
}

// A delivered is how many outputs a step has, and how many passes have begun before the one that takes them apart.
type delivered struct{ outputs, passes int }

// hand takes the outputs of a step.
func (f *frontend) hand(outputs []output) {
	f.outputs = append(f.outputs, outputs...)
	f.steps.push(delivered{len(outputs), f.passes + outputPasses})
}

// busy reports whether there is anything to do.
func (f *frontend) busy() bool { return len(f.entering)+len(f.steps)+len(f.ready) > 0 }

// frontend is the server's process as the engine's constants say. A request's time beyond its steps is that
// of an idle server: what the process does not take of it is the way, half of it in each direction.
func (s *Server) frontend() frontend {
	f := frontend{streams: s.Scheduler.Streams}
	f.intake, f.token, f.closing = s.Predictor.FrontendTime()
	f.way = max(s.Predictor.RequestTime()-f.intake-f.token, 0).Times(0.5)
	return f
}

// scaled is the times on a host that is faster or slower than expected.
func (f apiTimes) scaled(by float64) apiTimes {
	return apiTimes{f.intake.Times(by), f.token.Times(by), f.closing.Times(by), f.way.Times(by)}
}

// each is the time of a token where several are sent at once.
func (f *frontend) each() unit.Seconds { return f.token.Times(0.5 + 0.5/float64(max(f.streams, 1))) }

// free reports whether the process costs no time, as of an engine for which none is known.
func (f *frontend) free() bool { return f.intake == 0 && f.token == 0 }

// load is the share of its time that the thread is busy at a rate of requests with so many tokens each.
func (f *frontend) load(rate, gen float64) float64 {
	return rate * (float64(f.intake) + gen*float64(f.each()) + float64(f.closing))
}

// sends reports whether a stream has tokens that are sent: its first, its last, or as many as are sent at once.
func (f *frontend) sends(s *stream) bool {
	return s.unsent > 0 && (s.last == 0 || s.complete || int(s.unsent) >= f.streams)
}

// begin begins a pass if there is anything to do, and gives sent the streams whose tokens it sends, with
// the time at which each client has them.
func (f *frontend) begin(now unit.Seconds, sent func(*stream, unit.Seconds)) {
	if f.end > 0 || !f.busy() {
		return
	}
	half := f.token.Times(0.5)
	at := now
	for _, s := range f.ready {
		at += half
		sent(s, at+f.way)
		if s.complete {
			at += f.closing
		}
	}
	f.ready = f.ready[:0]
	for len(f.steps) > 0 && f.steps[0].passes <= f.passes {
		f.taken += f.steps.pop().outputs
	}
	var gain int32
	for _, o := range f.outputs[:f.taken] {
		gain += o.gain
	}
	f.passes++
	f.end = at + half.Times(float64(gain)) + f.intake.Times(float64(len(f.entering))/stages)
}

// finish ends the pass that runs, and gives enter the requests that have gone through all stages.
func (f *frontend) finish(enter func(packed)) {
	f.end = 0
	for _, o := range f.outputs[:f.taken] {
		s := o.stream
		waits := f.sends(s)
		s.unsent += o.gain
		if s.complete = o.ended; f.sends(s) && !waits {
			f.ready = append(f.ready, s)
		}
	}
	f.outputs, f.taken = f.outputs[:copy(f.outputs, f.outputs[f.taken:])], 0
	for len(f.entering) > 0 && f.entering[0].passes <= f.passes {
		enter(f.entering.pop().packed)
	}
}
