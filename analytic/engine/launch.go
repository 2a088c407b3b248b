package engine

import (
	"cmp"
	"fmt"
	"strconv"

	"llmprof/analytic"
	"llmprof/hardware"
	"llmprof/internal/printable"
	"llmprof/models"
	"llmprof/unit"
)

// A Deployment is what servers are started for.
type Deployment struct {
	Engine     analytic.Engine // engine of the estimate
	Model      *models.Model
	GPU        *hardware.GPU
	Checkpoint string // name or folder of the weights

	TP, PP, EP int
	Sharing    int // replicas that share one set of experts
	Replicas   int // Replicas decode, and prefill unless others do.
	Prefill    int // further replicas that only prefill

	Weights string // scheme that was asked for; "" for that of the checkpoint
	Scheme  string // name of the scheme of the weights
	KV      unit.Format

	Context int // longest context of a request
	Prompt  int // longest prompt
	Batch   int // sequences of a replica at once
	Budget  int // most tokens of a step; 0 for the scheduler's
	Drafts  int // tokens drafted with each one
	Request int // longest request, prompt and answer

	Placement *Placement // says which tensors lie in host memory; nil where all lie on the GPU

	Case *analytic.Case // one replica, by the engine of the estimate; nil where none is known

	starts *Engine // engine that is started
}

// A Launch is how an engine is started.
type Launch struct {
	Engine string   `json:"engine" jsonschema:"enum=vllm,enum=sglang,enum=tensorrt-llm,enum=llama.cpp,enum=kubernetes,enum=dynamo,enum=kserve"`
	Text   string   `json:"text" jsonschema:"minLength=1"`  // a command line, or a file
	Args   []string `json:"-"`                              // words of the command line; nil for a file
	Notes  []string `json:"notes" jsonschema:"minLength=1"` // what the engine does otherwise than the deployment has it

	Templates bool `json:"-"` // Dynamo and KServe have templates of the engine's servers

	Image string   `json:"-"` // container image whose entry point takes Pod; "" where none is known
	Pod   []string `json:"-"` // arguments of one server of the replicas that share their experts
}

// Launches are the commands that start one machine's part of a deployment with the engines that people run and that run on its GPU.
func Launches(d *Deployment) (list []Launch) {
	for _, e := range all() {
		if e.launch == nil || unfit(&e.profile.Support, d.GPU) != "" {
			continue
		}
		own := *d
		own.starts = e
		a := e.launch(&own)
		if a == nil {
			continue // It would not start.
		}
		l := Launch{Engine: e.profile.Name, Text: printable.CommandLine(a.list), Args: a.list, Notes: a.notes, Templates: e.templates}
		if l.Image = cmp.Or(e.images[d.GPU.Vendor], e.images[""]); l.Image != "" {
			pod := own
			pod.Replicas = d.Sharing
			l.Pod = e.launch(&pod).list[2:]
		}
		list = append(list, l)
	}
	return list
}

// budget is the most tokens of a step: of the deployment, else of the estimate's engine, else of a scheduler.
func (d *Deployment) budget(s *sized) int {
	if d.Budget > 0 {
		return d.Budget
	}
	if e, ok := d.Engine.(*Engine); ok && len(e.schedulers) > 0 {
		s = &e.schedulers[0]
	}
	return s.on(d.GPU).Budget
}

// runs reports whether the estimate is of an engine with an option.
func (d *Deployment) runs(option string) bool {
	e, ok := d.Engine.(*Engine)
	return ok && e.has(option)
}

// stored reports whether the weights are those of the checkpoint.
func (d *Deployment) stored() bool {
	return d.Weights == "" || d.Scheme == models.StoredScheme(d.Model).Name
}

// servers are how many servers of the replicas that share their experts are started.
func (d *Deployment) servers() int { return d.Replicas / d.Sharing }

// args makes a command line.
type args struct {
	list  []string
	notes []string
}

func command(words ...string) *args       { return &args{list: words} }
func (a *args) add(flags ...string)       { a.list = append(a.list, flags...) }
func (a *args) number(flag string, n int) { a.add(flag, strconv.Itoa(n)) }
func (a *args) note(format string, values ...any) {
	a.notes = append(a.notes, fmt.Sprintf(format, values...))
}

// noteIf adds a note if a condition holds.
func (a *args) noteIf(holds bool, format string, values ...any) {
	if holds {
		a.note(format, values...)
	}
}

// above adds a flag whose number is above 1.
func (a *args) above(flag string, n int) {
	if n > 1 {
		a.number(flag, n)
	}
}

// when adds flags if a condition holds.
func (a *args) when(holds bool, flags ...string) {
	if holds {
		a.add(flags...)
	}
}

// quantize adds what quantizes the weights while they are loaded, or says which checkpoint
// is needed.
func (a *args) quantize(d *Deployment, flag string, online map[unit.Format]string) {
	s, err := models.ParseScheme(d.Weights)
	word, ok := online[s.Weights]
	switch {
	case d.stored() || err != nil || s.Weights == s.Act && s.Weights == s.Stream():
	case ok && s.Group == 0 && s.Act == s.Weights:
		a.add(flag, word)
	default:
		as := ""
		if name := d.Model.QuantizedAs(s.Weights); name != "" {
			as = ", as " + name
		}
		a.note("give a checkpoint with weights quantized as %s in place of %s%s", d.Weights, d.Model.Name, as)
	}
}

// nodes says that the deployment takes several machines.
func (a *args) nodes(d *Deployment) {
	gpus := d.TP * d.PP * (d.Replicas + d.Prefill)
	if per := d.GPU.GPUsPerNode; per > 0 && gpus > per {
		a.note("%d GPUs take %d machines of %d: start the engine on each of them, as its manual says for several nodes, or start one server "+
			"for each replica behind a router",
			gpus, (gpus+per-1)/per, per)
	}
}
