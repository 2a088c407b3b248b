package deployment

import (
	"fmt"
	"math"
	"sort"
	"strings"

	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/hardware"
	"llmprof/models"
	"llmprof/unit"
)

// A Home is what of a model lies in the memory of the host, with what llama.cpp chooses by itself and what changes are worth.
type Home struct {
	Host      string           `json:"host"`                        // the host
	Bandwidth unit.BytesPerSec `json:"host_bandwidth_bytes_per_s"`  // rate of its memory
	RAM       unit.Bytes       `json:"host_ram_bytes"`              // size of its memory
	Weights   unit.Bytes       `json:"host_weights_bytes"`          // weights in it
	KV        unit.Bytes       `json:"host_kv_bytes"`               // KV cache and states in it
	Command   string           `json:"command"`                     // what starts llama.cpp so
	Own       *HomeRates       `json:"llama_cpp_fit"`               // null where nothing fits
	Worth     []HomeRates      `json:"worth" jsonschema:"nullable"` // what changes of the machine or of options would make of it
}

// HomeRates are the rates of a variant of a placement, in tokens a second.
type HomeRates struct {
	Name     string  `json:"name"`                                   // the change, or llama.cpp's options
	Generate float64 `json:"generated_tok_s" jsonschema:"minimum=0"` // generated tokens a second
	Prefill  float64 `json:"prefill_tok_s" jsonschema:"minimum=0"`   // prompt tokens a second
}

// RatesOf is the rates of an estimate.
func RatesOf(name string, e *analytic.Estimate, batch int) HomeRates {
	r := HomeRates{Name: name, Prefill: e.InputRate}
	if e.TPOT.Expected > 0 {
		r.Generate = float64(batch) / float64(e.TPOT.Expected)
	}
	return r
}

// homeKeys are settings that put a part of the model into the memory of the host, or describe the host.
var homeKeys = []string{"fit", "host", "host_bandwidth", "pageable_bandwidth", "ram", "threads", "ngl", "n_cpu_moe", "cpu_moe",
	"override_tensor", "ubatch", "load_mode", "no_op_offload", "no_kv_offload"}

// atHome reports whether a request is about llama.cpp with a host beside the GPU.
func (q *Request) atHome() bool { return q.given(homeKeys...) != "" }

// placed names a setting that says what lies in the memory of the host; "" for none.
func (q *Request) placed() string {
	return q.given("ngl", "n_cpu_moe", "cpu_moe", "override_tensor", "no_kv_offload", "no_op_offload")
}

// checkHome refuses settings of the host that contradict each other.
func (q *Request) checkHome() error {
	key := q.placed()
	switch {
	case q.Fit && key != "":
		return unit.Errorf("{fit} chooses what lies in host memory: leave out {" + key + "}")
	case or(q.GPULayers, 0) < 0 || or(q.HostExperts, 0) < 0 || or(q.Pass, 0) < 0 || or(q.Threads, 0) < 0:
		return unit.Errorf("{ngl}, {n_cpu_moe}, {ubatch} and {threads}: want 0 or more")
	}
	return nil
}

// inHost puts the GPU into its host, where one is asked for.
func (d *Deployment) inHost() error {
	q := d.Request
	if !q.atHome() {
		return nil
	}
	host := hardware.UsualHost(d.GPU)
	if q.Host != "" {
		var err error
		if host, err = hardware.HostOf(q.Host); err != nil {
			return unit.Errorf("{host}: %w", err)
		}
	}
	if q.HostRate != nil {
		host.Speed, host.Read = float64(*q.HostRate)/float64(host.Bandwidth())*host.Speed, *q.HostRate
	}
	host.Pageable, host.RAM = or(q.PagedRate, host.Pageable), or(q.RAM, host.RAM)
	host.Threads = or(q.Threads, 0)
	if err := host.Check(); err != nil {
		return unit.Errorf("{host}: %w", err)
	}
	d.GPU = d.GPU.On(&host)
	return nil
}

// place puts a part of the model into the memory of the host, as is asked for, or as llama.cpp does where the GPU has no room.
func (d *Deployment) place() error {
	q := d.Request
	if q.WeightsAway != nil {
		return d.readFromHost()
	}
	if !q.atHome() {
		if d.overflows() {
			return d.fitted()
		}
		return nil
	}
	if !engine.LeavesWeights(d.runs) {
		return unit.Errorf("{"+q.given(homeKeys...)+"}: %s has no such option here; give {engine} %s", d.runs.Profile().Engine(),
			engine.AtHome().Profile().Name)
	}
	p := engine.Placement{Layers: q.GPULayers, Experts: or(q.HostExperts, 0), Step: or(q.Pass, 0), Pageable: q.LoadMode == "mmap",
		Stays: q.NoOpOffload, Cache: q.NoKVOffload}
	if q.Overrides != "" {
		p.Overrides = strings.Split(q.Overrides, ",")
	}
	if q.AllExperts {
		p.Experts = d.Model.NumLayers()
	}
	base := d.served()
	var placed *engine.Placed
	var err error
	if q.Fit || q.placed() == "" && q.Pass == nil && d.overflows() { // a host that is only described holds what the GPU has no room for
		if placed, err = bestPlacement(&base, p.Pageable); err == nil && placed == nil {
			return unit.Errorf("{fit}: %s has room for the model neither on the GPU nor with %v of host memory; give {ram}, narrower {weights} or "+
				"a shorter {prompt_len}", d.GPU.Name, d.GPU.Host.RAM)
		}
	} else {
		placed, err = p.At(&base)
	}
	if err != nil {
		return unit.Wrong(err)
	}
	if most, m := d.GPU.Host.RAM, &placed.Estimate.Memory; m.HostKV > most || !placed.Pageable && m.HostKV+m.HostWeights > most {
		return unit.Errorf("{host}: its memory has %v, and would hold %v of weights and %v of KV cache; give {ram}, narrower {weights}, a "+
			"smaller {batch} or less of the model there", most, m.HostWeights, m.HostKV)
	}
	d.live(&base, placed)
	return nil
}

// readFromHost leaves a part of the weights in host memory, from which the GPU reads it for every step.
func (d *Deployment) readFromHost() (err error) {
	gib := *d.Request.WeightsAway
	switch {
	case !engine.ReadsHost(d.runs):
		return unit.Errorf("{cpu_offload_gb}: %s has no such option", d.runs.Profile().Engine())
	case !(gib > 0) || math.IsInf(gib, 0) || d.GPU.Integrated || d.GPU.PCIe <= 0:
		return unit.Errorf("{cpu_offload_gb} %g: want more than 0, and a GPU with memory of its own", gib)
	}
	if d.Case, err = engine.Offloaded(&d.Case, unit.Bytes(gib*(1<<30))); err != nil {
		return unit.Wrong(err)
	}
	p, err := analytic.NewPredictor(&d.Case)
	if err != nil {
		return unit.Wrong(err)
	}
	read := p.Memory(&d.Workload).HostWeights // A small model leaves less there than it may.
	d.known = append(d.known, unit.Warn("weights_read_from_host", "every step reads %.3g GiB of weights over PCIe, with {cpu_offload_gb}: "+
		"nobody here has measured it", min(gib, float64(read)/(1<<30))))
	return nil
}

// overflows reports whether llama.cpp would leave a part of the model in host memory though nothing says so, as its own --fit does.
func (d *Deployment) overflows() bool {
	if d.Parallel.GPUs() > d.Parallel.PP || !engine.LeavesWeights(d.runs) || d.GPU.Integrated {
		return false
	}
	c := d.served()
	p, err := analytic.NewPredictor(&c)
	if err != nil {
		return false
	}
	m := p.Memory(&c.Workload)
	return m.Short() > 0
}

// served is the case with as many sequences as a server divides its cache among, where one is asked for that does so.
func (d *Deployment) served() analytic.Case {
	c := d.Case
	if rules, err := engine.SchedulerOf(d.runs.Profile().Engine(), d.runs, d.GPU); err == nil && d.Request.Loaded() &&
		rules.Admission == engine.ForSlot {
		c.Workload.Batch = max(c.Workload.Batch, or(d.Request.MaxSeqs, rules.MaxSeqs))
	}
	return c
}

// fitsAtHome reports whether the usual host of the GPU has room for what the GPU has none for, where no engine is named.
func (d *Deployment) fitsAtHome() bool {
	e, host, base := engine.AtHome(), hardware.UsualHost(d.GPU), d.Case
	if d.Request.Engine != "" || d.Parallel.GPUs() > 1 || d.GPU.NIC > 0 || d.GPU.Integrated || d.Request.Loaded() {
		return false
	}
	var err error
	if mix := models.PublishedFileType(d.Model); mix != "" && d.Request.Weights == "" {
		if base.Model, err = d.from.quantize(d.Model, mix); err != nil {
			return false
		}
		stored := models.StoredScheme(base.Model)
		base.Scheme = stored.For(d.GPU)
	}
	if engine.Runs(e, base.Model, d.GPU, &base.Scheme) != nil {
		return false
	}
	if base.Machine, err = d.from.machine(d.Request, d.GPU.On(&host), e); err != nil {
		return false
	}
	placed, err := bestPlacement(&base, false)
	return err == nil && placed != nil
}

// fitted puts what the GPU has no room for into the memory of its usual host; nothing where that has no room either.
func (d *Deployment) fitted() error {
	host := hardware.UsualHost(d.GPU)
	base := d.served()
	var err error
	if base.Machine, err = d.machine(d.GPU.On(&host)); err != nil {
		return err
	}
	placed, err := bestPlacement(&base, false)
	if err != nil || placed == nil {
		return err
	}
	d.GPU = base.Machine.GPU
	d.live(&base, placed)
	d.known = append(d.known, unit.Warn("host_assumed", "a part of the model lies in the memory of the host, which is taken to be a %s with "+
		"%v; {host} and {ram} say otherwise", host.Name, host.RAM))
	return nil
}

// live takes a placement of a case, whose workload may have more sequences than the deployment's.
func (d *Deployment) live(base *analytic.Case, p *engine.Placed) {
	host, m, w := &base.Machine.GPU.Host, &p.Estimate.Memory, &base.Workload
	h := &Home{
		Host: host.Name, Bandwidth: host.Bandwidth(), RAM: host.RAM, Weights: m.HostWeights, KV: m.HostKV,
		Command: fmt.Sprintf("llama-server --model FILE.gguf %s --ctx-size %d --parallel %d", p.Flags(), w.Context()*w.Batch, w.Batch),
	}
	asked := *base
	asked.Workload = d.Workload
	// llama.cpp's own --fit takes the default pass, weights as pages of the file, and a margin on the GPU (common/fit.cpp).
	if own, err := fullest(&asked, engine.Placement{Pageable: true}, fitMargin); err == nil && own != nil {
		h.Own = new(RatesOf(own.Flags(), &own.Estimate, d.Workload.Batch))
	}
	h.Worth = worths(&asked, p)
	switch {
	case d.Parallel.TP > 1:
		h.Command += " --split-mode row"
	case d.Parallel.PP > 1:
		h.Command += " --split-mode layer"
	}
	d.Case, d.Home, d.Placement = p.Case, h, &p.Placement
	d.Workload = asked.Workload
}

// onGPU reports whether the GPU has room, with a margin that stays free.
func onGPU(p *engine.Placed, margin unit.Bytes) bool {
	m := &p.Estimate.Memory
	return m.Total+margin <= m.Usable
}

// inHostMemory reports whether the host has room beside what the system takes.
func inHostMemory(p *engine.Placed) bool {
	const system = unit.Bytes(2e9)
	m := &p.Estimate.Memory
	return m.HostWeights+m.HostKV+system <= p.Case.Machine.GPU.Host.RAM
}

// passes are the sizes of a pass among which a placement is looked for. A larger one copies the same weights for more tokens, and takes
// more memory of the GPU.
var passes = []int{512, 1024, 2048, 4096}

// bestPlacement is the placement that fits and with which a request takes least. It puts all experts of a mixture on the host, or those of
// the fewest layers with which the rest fits the GPU. As many layers as fit are on the GPU for a dense model, and for a mixture that does
// not fit even so.
func bestPlacement(c *analytic.Case, pageable bool) (*engine.Placed, error) {
	var best *engine.Placed
	for _, step := range passes {
		p, err := fullest(c, engine.Placement{Step: step, Pageable: pageable}, 0)
		if err != nil {
			return nil, err
		}
		if p != nil && (best == nil || p.Estimate.TTLT.Expected < best.Estimate.TTLT.Expected) {
			best = p
		}
		if step >= c.Workload.PromptLen {
			break
		}
	}
	return best, nil
}

// fitMargin is the memory that llama.cpp's own --fit leaves free on each GPU (--fit-target).
const fitMargin = unit.Bytes(1 << 30)

// fullest is the placement that leaves least on the host; nil if neither memory has room for its part. A mixture leaves the experts of its
// first layers there, and where not even those of all layers are enough, whole layers besides.
func fullest(c *analytic.Case, base engine.Placement, margin unit.Bytes) (best *engine.Placed, failed error) {
	layers, experts := c.Model.NumLayers(), 0
	if c.Model.HasExperts() {
		experts = layers
	}
	sort.Search(experts+layers+2, func(n int) bool {
		p := base
		if p.Experts = min(n, experts); n > experts {
			p.Layers = new(experts + layers + 1 - n)
		}
		placed, err := p.At(c)
		if err != nil {
			failed = err
			return true
		}
		fits := onGPU(placed, margin)
		if fits { // Each one that fits leaves less on the host than the one before.
			best = placed
		}
		return fits
	})
	if failed != nil || best == nil || !inHostMemory(best) {
		return nil, failed
	}
	return best, nil
}

// worths are the rates that more memory of the GPU, faster memory of the host, a larger pass and pinned weights would give a placement.
// With more memory on the GPU as much more of the model lies there as fits.
func worths(c *analytic.Case, p *engine.Placed) (all []HomeRates) {
	add := func(name string, placed *engine.Placed, err error) {
		if err == nil && placed != nil {
			all = append(all, RatesOf(name, &placed.Estimate, c.Workload.Batch))
		}
	}
	const more = unit.Bytes(1e9)
	larger, m := *c, *c.Machine
	m.Utilization *= float64((m.GPU.Visible() + more) / m.GPU.Visible())
	larger.Machine = &m
	placed, err := fullest(&larger, engine.Placement{Step: p.Step, Pageable: p.Pageable}, 0)
	add("1 GB more on the GPU", placed, err)
	host := c.Machine.GPU.Host
	host.Speed, host.Read = host.Speed*1.25, host.Read.Times(1.25)
	faster := *c
	if faster.Machine, err = analytic.NewMachine(c.Machine.GPU.On(&host), c.Machine.Cal, c.Machine.Engine); err == nil {
		placed, err = p.At(&faster)
		add("memory of the host 25 % faster", placed, err)
	}
	other := p.Placement
	if other.Step = 2 * max(p.Step, passes[0]); other.Step <= passes[len(passes)-1] {
		if placed, err = other.At(c); err == nil && onGPU(placed, 0) && inHostMemory(placed) {
			add(fmt.Sprintf("--ubatch %d", other.Step), placed, nil)
		}
	}
	other = p.Placement
	other.Pageable = !p.Pageable
	placed, err = other.At(c)
	add("--load-mode "+engine.LoadMode(other.Pageable), placed, err)
	return all
}
