package engine

import (
	"cmp"
	"flag"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"llmprof/analytic"
	"llmprof/analytic/operator"
	"llmprof/internal/printable"
	"llmprof/models"
	"llmprof/unit"
)

// A Placement is which tensors of a model lie in the memory of the host, by the options of llama.cpp.
type Placement struct {
	Layers    *int     // --n-gpu-layers: layers on the GPU, the output counting as one; nil for all
	Experts   int      // --n-cpu-moe: layers, from the first, whose experts lie on the host
	Overrides []string // --override-tensor: REGEX=BUFFER, of which the first that matches holds; CPU is the host
	Cache     bool     // --no-kv-offload
	Stays     bool     // --no-op-offload
	Pageable  bool     // --load-mode mmap
	Step      int      // --ubatch-size; 0 for the default
}

// An override puts the tensors whose names match on the host, or on the GPU.
type override struct {
	name *regexp.Regexp
	host bool
}

// overrides are the options for a model of so many layers, in the order in which they hold.
func (p *Placement) overrides(layers int) (all []override, err error) {
	for _, text := range p.Overrides {
		for part := range strings.SplitSeq(text, ",") {
			at := strings.LastIndexByte(part, '=')
			if at < 1 || at == len(part)-1 {
				return nil, fmt.Errorf("--override-tensor %.60q: want REGEX=BUFFER, as \\.ffn_.*_exps=CPU", part)
			}
			name, err := regexp.Compile(part[:at])
			if err != nil {
				return nil, fmt.Errorf("--override-tensor %.60q: %w", part, err)
			}
			all = append(all, override{name, strings.HasPrefix(strings.ToUpper(part[at+1:]), "CPU")})
		}
	}
	for i := range min(p.Experts, layers) {
		all = append(all, override{regexp.MustCompile(fmt.Sprintf(`blk\.%d\.ffn_(up|down|gate|gate_up)_(ch|)exps`, i)), true})
	}
	return all, nil
}

// tensors are names of the tensors of each part of a layer. A part goes where all of them do.
var tensors = []struct {
	part  operator.Residence
	names []string
}{
	{operator.ExpertsIn, []string{"ffn_gate_exps", "ffn_up_exps"}}, {operator.ExpertsOut, []string{"ffn_down_exps"}},
	{operator.FeedForward, []string{"ffn_gate", "ffn_up", "ffn_down"}}, {operator.Rest, []string{"attn_q", "attn_k", "attn_v", "attn_output"}},
}

// Place is the model with its layers divided by where their tensors lie, and what of it lies on the host; nil for nothing.
func (p *Placement) Place(m *models.Model) (*models.Model, *operator.Offload, error) {
	layers := m.NumLayers()
	all, err := p.overrides(layers)
	if err != nil {
		return nil, nil, err
	}
	first := 0 // The first layers stay on the host (get_layer_buft_list of src/llama-model.cpp).
	if p.Layers != nil {
		first = min(max(layers+1-*p.Layers, 0), layers)
	}
	divided := ""
	placed, off := operator.Place(m, func(i int) (at operator.Residence) {
		if i < first {
			return operator.WholeLayer
		}
		for _, t := range tensors {
			n := 0
			for _, name := range t.names {
				if hosted(all, "blk."+strconv.Itoa(i)+"."+name+".weight") {
					n++
				}
			}
			switch n {
			case len(t.names):
				at |= t.part
			case 0:
			default:
				divided = strings.Join(t.names, ", ")
			}
		}
		return at
	})
	if divided != "" {
		return nil, nil, fmt.Errorf("--override-tensor: it puts some of %s on the host and leaves the others, for which there is no estimate",
			divided)
	}
	off.Head = p.Layers != nil && *p.Layers == 0
	off.Cache, off.Stays, off.Pageable = p.Cache, p.Stays, p.Pageable
	if !off.Head && !off.Cache && !slices.ContainsFunc(off.Kinds, func(at operator.Residence) bool { return at != 0 }) {
		return m, nil, nil
	}
	return placed, off, nil
}

// hosted reports whether the first override that matches a tensor puts it on the host.
func hosted(all []override, tensor string) bool {
	for _, o := range all {
		if o.name.MatchString(tensor) {
			return o.host
		}
	}
	return false
}

// Flags are the options of llama.cpp, as a shell takes them.
func (p *Placement) Flags() string {
	words := p.words()
	for i := range words {
		words[i] = printable.ShellWord(words[i])
	}
	return strings.Join(words, " ")
}

// words are the options of llama.cpp.
func (p *Placement) words() []string {
	var a args
	a.number("--n-gpu-layers", *cmp.Or(p.Layers, new(999)))
	for _, o := range p.Overrides {
		a.add("--override-tensor", o)
	}
	a.when(p.Experts > 0, "--n-cpu-moe", strconv.Itoa(p.Experts))
	if p.Step > 0 {
		a.number("--batch-size", max(p.Step, 2048))
		a.number("--ubatch-size", p.Step)
	}
	a.when(p.Cache, "--no-kv-offload")
	a.when(p.Stays, "--no-op-offload")
	a.when(!p.Pageable, "--load-mode", "none")
	return a.list
}

// A Placed is an estimate with the tensors of a model in some places.
type Placed struct {
	Placement
	Case     analytic.Case
	Estimate analytic.Estimate
}

// Of is a case with a placement.
func (p *Placement) Of(c *analytic.Case) (placed analytic.Case, err error) {
	placed = *c
	if p.Step > 0 {
		m := *c.Machine
		m.Budget = p.Step
		placed.Machine = &m
	}
	if placed.Model, placed.Offload, err = p.Place(c.Model); placed.Offload != nil {
		placed.Offload.PopularityKnown = c.Popularity != nil
	}
	return placed, err
}

// At is the estimate of a case with a placement.
func (p *Placement) At(c *analytic.Case) (placed *Placed, err error) {
	placed = &Placed{Placement: *p}
	if placed.Case, err = p.Of(c); err == nil {
		placed.Estimate, err = analytic.Predict(&placed.Case)
	}
	return placed, err
}

// ParsePlacement reads a placement, and the number of threads, as options in a line.
func ParsePlacement(text string) (p Placement, threads int, err error) {
	f := flag.NewFlagSet("placement", flag.ContinueOnError)
	f.SetOutput(&strings.Builder{})
	layers := f.Int("ngl", -1, "")
	f.IntVar(&p.Experts, "n-cpu-moe", 0, "")
	f.IntVar(&p.Step, "ubatch", 0, "")
	f.IntVar(&threads, "threads", 0, "")
	f.BoolVar(&p.Pageable, "mmap", false, "")
	f.BoolVar(&p.Stays, "no-op-offload", false, "")
	f.BoolVar(&p.Cache, "no-kv-offload", false, "")
	f.Func("override-tensor", "", func(s string) error { p.Overrides = append(p.Overrides, s); return nil })
	if err = f.Parse(strings.Fields(text)); err == nil && f.NArg() > 0 {
		err = fmt.Errorf("%.40q is no option of a placement", f.Arg(0))
	}
	if *layers >= 0 {
		p.Layers = layers
	}
	return p, threads, err
}

// ReadsHost reports whether an engine has --cpu-offload-gb: vLLM by its UVAOffloader (vllm/model_executor/offloader/uva.py), by which
// kernels read weights in pinned host memory, and SGLang, which copies them (sglang/srt/utils/offloader.py).
func ReadsHost(e analytic.Engine) bool {
	name := e.Profile().Engine()
	return name == vllm.profile.Name || name == sglang.profile.Name
}

// Offloaded is a case with so many bytes of each GPU's weights in host memory, those of the first layers, each of them whole.
func Offloaded(c *analytic.Case, bytes unit.Bytes) (analytic.Case, error) {
	placed, layers := *c, c.Model.NumLayers()
	place := func(n int) (unit.Bytes, error) {
		placed.Model, placed.Offload = operator.Place(c.Model, func(i int) operator.Residence {
			if i < n {
				return operator.WholeLayer
			}
			return 0
		})
		placed.Offload.Read = true
		p, err := analytic.NewPredictor(&placed)
		if err != nil {
			return 0, err
		}
		return p.Memory(&c.Workload).HostWeights, nil
	}
	whole, err := place(layers)
	if err != nil {
		return placed, err
	}
	_, err = place(int(math.Ceil(min(float64(bytes/whole), 1) * float64(layers))))
	return placed, err
}

// AtHome is the engine that leaves weights in the memory of the host.
func AtHome() analytic.Engine { return &llamaCPP }

// LeavesWeights reports whether an engine does.
func LeavesWeights(e analytic.Engine) bool { return e.Profile().HostEmbedding }

// LoadMode is llama.cpp's name of how weights are loaded.
func LoadMode(pageable bool) string {
	if pageable {
		return "mmap"
	}
	return "none"
}
