package traced

import (
	"regexp"
	"strconv"
	"sync"
)

// A step is the kernels of one forward pass, from the embedding to what comes ahead of the next.
type step struct {
	kernels []kernel
	decode  bool
	graph   bool    // A CUDA graph launched the attention.
	next    float64 // microseconds at which the next step begins; 0 for the last
	load    load
}

// A kernel is a launch with what it does.
type kernel struct {
	*Launch
	class class
	role  string // the operator that it is of; "" for none
}

// A load is what a step was given, and 0 where the trace does not say it.
type load struct{ batch, tokens int }

func (k *kernel) end() float64 { return k.TS + k.Dur }

// forward matches vLLM's mark of a forward pass: requests with a prompt and their tokens, and those that
// decode.
var forward = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^execute_context_(\d{1,7})\((\d{1,9})\)_generation_(\d{1,7})\((\d{1,9})\)`)
})

// split cuts a time line into steps. A step begins with the gather of the embedding; where no
// name tells of one, after the inputs were prepared ahead of each whole number of layers.
func split(l *Timeline, layers int) (steps []step) {
	kernels := make([]kernel, len(l.Kernels))
	var starts []int
	for i := range l.Kernels {
		kernels[i] = kernel{Launch: &l.Kernels[i], class: classOf(l.Kernels[i].Name)}
		if kernels[i].class == embedding {
			starts = append(starts, i)
		}
	}
	if len(starts) == 0 {
		starts = byLayers(kernels, layers)
	}
	for n, from := range starts {
		to, next := len(kernels), 0.0
		if n+1 < len(starts) {
			to = starts[n+1]
			next = kernels[to].TS
		}
		s := step{kernels: kernels[from:to], next: next}
		s.load, s.decode = marked(l, &s)
		for _, k := range s.kernels {
			if next > 0 {
				k.Dur = min(k.Dur, next-k.TS) // the rest is time of the next step
			}
			s.graph = s.graph || k.class == attention && l.Graphs[k.Correlation]
			if s.load == (load{}) {
				s.decode = s.decode || s.graph || k.class == combine
			}
		}
		steps = append(steps, s)
	}
	return steps
}

// byLayers finds where steps begin by the number of attentions.
func byLayers(kernels []kernel, layers int) (starts []int) {
	seen, last := 0, 0
	for i := range kernels {
		switch kernels[i].class {
		case attention:
			if seen%layers == 0 {
				starts = append(starts, last)
			}
			seen++
		case preparation, copying, sampling, filling:
			if seen%layers == 0 {
				last = i + 1
			}
		}
	}
	return starts
}

// marked is what vLLM's own mark of the pass says, by whichever begins in the step or around it.
func marked(l *Timeline, s *step) (of load, decode bool) {
	begin := s.kernels[0].TS
	for _, m := range l.Marks {
		if !m.Device || m.TS > begin || m.TS+m.Dur < begin {
			continue
		}
		parts := forward().FindStringSubmatch(m.Name)
		if parts == nil {
			continue
		}
		var n [4]int
		for k := range n {
			n[k], _ = strconv.Atoi(parts[k+1])
		}
		if n[0] > 0 && n[2] == 0 {
			return load{batch: n[0], tokens: n[1] / n[0]}, false
		}
		if n[0] == 0 && n[2] > 0 {
			return load{batch: n[2], tokens: 1}, true
		}
	}
	return load{}, false
}

// whole reports whether the step has all layers: a trace may begin and end within one.
func (s *step) whole(layers int) bool {
	n := 0
	for i := range s.kernels {
		if s.kernels[i].class == attention {
			n++
		}
	}
	return n == layers
}

// took is the time until the next step begins, or until its own end; and that in which a
// kernel ran.
func (s *step) took() (span, busy float64) {
	begin := s.kernels[0].TS
	end := begin
	for _, k := range s.kernels {
		if k.TS > end {
			busy += k.Dur
			end = k.end()
		} else if k.end() > end {
			busy += k.end() - end
			end = k.end()
		}
	}
	span = end - begin
	if s.next > 0 {
		span = s.next - begin
	}
	return span, busy
}
