package engine

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"llmprof/analytic"
	"llmprof/analytic/operator"
	"llmprof/hardware"
	"llmprof/models"
	"llmprof/unit"
)

// Runs is nil if an engine can run a model with a scheme on a GPU. Else it says why not, and
// which engines can.
func Runs(e analytic.Engine, m *models.Model, g *hardware.GPU, s *models.Scheme) error {
	p := e.Profile()
	why := refusal(&p.Support, m, g, s)
	if why == "" {
		return nil
	}
	var others []string
	for _, other := range all() {
		if q := &other.profile; q.Support.Default && refusal(&q.Support, m, g, s) == "" {
			others = append(others, q.Name)
		}
	}
	if len(others) == 0 {
		return fmt.Errorf("%s %s; no engine that is known here can", p.Name, why)
	}
	return fmt.Errorf("%s %s; engines that can: %s", p.Name, why, strings.Join(others, ", "))
}

// smallModule is the memory below which llama.cpp is the default of a Jetson module: vLLM's
// libraries, CUDA graphs and buffers would take a third of the memory or more.
const smallModule = unit.Bytes(16e9)

// Default is the engine of a user who named none, and why: llama.cpp for GGUF weights and on
// small modules; else vllm if it runs the model on the GPU; else the first engine that does;
// else vllm, whose refusal says why.
func Default(m *models.Model, g *hardware.GPU, s *models.Scheme) (runs analytic.Engine, why string) {
	if refusal(&llamaCPP.profile.Support, m, g, s) == "" {
		switch {
		case gguf(s):
			return &llamaCPP, "default for GGUF weights"
		case g.Vendor == nvidia && g.Integrated && g.Memory < smallModule:
			return &llamaCPP, "default on modules under 16 GB"
		}
	}
	refused := refusal(&vllm.profile.Support, m, g, s)
	if refused == "" {
		return &vllm, "default"
	}
	for _, e := range all() {
		if p := e.Profile(); p.Support.Default && refusal(&p.Support, m, g, s) == "" {
			return e, "default, since vllm " + refused
		}
	}
	return &vllm, "default"
}

// refusal says why an engine does not run a model with a scheme on a GPU; "" if it does.
func refusal(s *analytic.Support, m *models.Model, g *hardware.GPU, scheme *models.Scheme) string {
	family := strings.TrimSuffix(m.Family, "_text")
	switch {
	case s.Families != nil && !slices.Contains(s.Families, family), slices.Contains(s.Not, family):
		return fmt.Sprintf("does not run models of the family %q (%s)", m.Family, m.Name)
	case unfit(s, g) != "":
		return unfit(s, g)
	case s.Weights != nil && !slices.Contains(s.Weights, scheme.Weights):
		return fmt.Sprintf("has no weights in %v: it has %s", scheme.Weights, unit.ListFormats(s.Weights))
	case s.Blocks && scheme.Group == 0:
		return "has weights in FP8 by blocks alone"
	case g.Vendor == nvidia && capability(g) < s.Since[scheme.Weights]:
		return fmt.Sprintf("has no weights in %v on %s: they need compute capability %.1f or newer", scheme.Weights, g.Name,
			s.Since[scheme.Weights])
	case slices.Contains(s.Lacks[g.Generation], scheme.Weights):
		return fmt.Sprintf("has no weights in %v on %s: it has no kernels for them on GPUs of the generation %s", scheme.Weights, g.Name,
			g.Generation)
	case mixed(s, scheme) != "":
		return mixed(s, scheme)
	case s.Acts != nil && !slices.Contains(s.Acts, scheme.Act):
		return fmt.Sprintf("has no products in %v: it has %s", scheme.Act, unit.ListFormats(s.Acts))
	case s.OwnCache && m.Cache != unit.NoFormat && scheme.KV != m.Cache:
		return fmt.Sprintf("keeps the KV cache of %s in %v alone, not in %v", m.Name, m.Cache, scheme.KV)
	case s.KV != nil && !slices.Contains(s.KV, scheme.KV) && scheme.KV != unit.NoFormat:
		return fmt.Sprintf("has no KV cache in %v: it has %s", scheme.KV, unit.ListFormats(s.KV))
	}
	return ""
}

// ReadsGGUF reports whether the engine of a name reads files of llama.cpp alone.
func ReadsGGUF(name string) bool {
	e, err := Parse(name)
	return err == nil && name != "" && e.Profile().Support.GGUF == analytic.OnlyGGUF
}

// gguf reports whether weights are those of a file of llama.cpp.
func gguf(s *models.Scheme) bool { return s.Stored && strings.HasPrefix(s.Name, "gguf") }

// mixed says why an engine does not run weights in 8 or 4 bits as they are packed; "" if it does.
func mixed(s *analytic.Support, scheme *models.Scheme) string {
	packed := scheme.Weights == unit.INT8 || scheme.Weights == unit.INT4
	switch {
	case packed && gguf(scheme) && s.GGUF == analytic.NoGGUF:
		return fmt.Sprintf("has no quantizations of llama.cpp (%s)", scheme.Name)
	case packed && !gguf(scheme) && s.GGUF == analytic.OnlyGGUF:
		return fmt.Sprintf("has no weights in %s: in 8 and 4 bits it has quantizations of its own, as q4_k_m and q8_0", scheme.Name)
	}
	return ""
}

// unfit says why an engine runs no model on a GPU; "" if it runs some.
func unfit(s *analytic.Support, g *hardware.GPU) string {
	switch {
	case s.Vendors != nil && !slices.Contains(s.Vendors, g.Vendor):
		return fmt.Sprintf("does not run on %s: it runs on GPUs of %s", g.Name, strings.Join(s.Vendors, ", "))
	case s.Builds[g.Vendor] != nil && g.ComputeCapability != "" && !slices.Contains(s.Builds[g.Vendor], g.ComputeCapability):
		return fmt.Sprintf("does not run on %s (%s): it is built for %s", g.Name, g.ComputeCapability, strings.Join(s.Builds[g.Vendor], ", "))
	case s.Integrated && !g.Integrated:
		return fmt.Sprintf("does not run on %s: it runs on Jetson modules and DGX Spark", g.Name)
	case g.Vendor == nvidia && capability(g) < s.Capability:
		return fmt.Sprintf("does not run on %s: it needs compute capability %.1f or newer", g.Name, s.Capability)
	}
	return ""
}

// The vendors of GPUs.
const (
	nvidia = "nvidia"
	amd    = "amd"
	intel  = "intel"
	apple  = "apple"
	google = "google"
)

// capability is the compute capability of a GPU of NVIDIA as a number.
func capability(g *hardware.GPU) float64 {
	c, err := strconv.ParseFloat(g.ComputeCapability, 64)
	if err != nil { // a user's table may leave it out
		return 0
	}
	return c
}

// Splits is nil if an engine can split a model with a scheme over GPUs as p has it. Else it says why not.
func Splits(e analytic.Engine, m *models.Model, s *models.Scheme, p *operator.Parallelism) error {
	profile, w, why := e.Profile(), p.Whole(), ""
	split := profile.Support.Split
	if split == nil {
		split = sharesWhole
	}
	switch own, _ := e.(*Engine); {
	case !m.HasExperts() && own != nil && own.has(deepEP):
		return fmt.Errorf("%s: %s has no experts to send tokens to", profile.Name, m.Name)
	case !m.HasExperts():
		return nil
	default:
		why = split(&w)
	}
	if why == "" && profile.Support.WholeBlocks {
		why = cutsBlocks(m, s, w.ExpertTP())
	}
	if why == "" {
		return nil
	}
	return fmt.Errorf("%s %s", profile.Name, why)
}

// Notes say what is to be known of an engine that runs a model with a split. They name what stands for a release that was not measured.
// They warn of replicas on several servers and of tokens that ranks all-gather between nodes.
func Notes(from analytic.Engine, m *models.Model, p *operator.Parallelism) (notes []unit.Warning) {
	e, w := from.(*Engine), p.Whole()
	if text := e.profile.Unmeasured; text != "" {
		notes = append(notes, unit.Warn("engine_unmeasured", "%s", text))
	}
	if e.note != nil {
		notes = append(notes, e.note(m, &w)...)
	}
	gathers := e.kernels[operator.Shuffle] != nil
	if !gathers || !m.HasExperts() || w.ExpertReplicas() == 1 || w.GathersTokens() || w.ExpertRanks() <= w.GPUsPerNode {
		return notes
	}
	return append(notes, unit.Warn("tokens_gathered", "every rank gathers the tokens of all %d, as %s has it by default; {engine} %s+%s "+
		"sends them to their experts alone", w.ExpertRanks(), e.profile.Engine(), e.profile.Name, deepEP))
}

// sharesWhole is the rule of engines without replicas that have parts of the same experts.
func sharesWhole(p *operator.Parallelism) string {
	if p.GathersTokens() {
		return fmt.Sprintf("has no replicas that share experts which are cut: moe-tp %d is more than tp %d leaves; vllm, sglang and "+
			"tensorrt-llm have them", p.ExpertTP(), p.TP)
	}
	return ""
}

// cutsBlocks says that experts in FP8 are cut within their blocks of scales. vLLM and SGLang refuse that
// (Fp8MoEMethod.create_weights).
func cutsBlocks(m *models.Model, s *models.Scheme, tp int) string {
	for _, b := range m.Blocks() {
		e := b.Experts
		if e == nil || len(e.In) == 0 {
			continue
		}
		if block := blockOf(s, &e.In[0]); block > 1 && e.Activation.Width%tp == 0 && e.Activation.Width/tp%block != 0 {
			return fmt.Sprintf("cuts experts in FP8 between their blocks of %d alone: each of %d ranks would have %d of the %d of an expert; "+
				"expert parallelism leaves them whole", block, tp, e.Activation.Width/tp, e.Activation.Width)
		}
	}
	return ""
}

// side128 is the side of the blocks of weights that share a scale in the scheme fp8-block.
const side128 = 128

// blockOf is how many outputs of a matrix in FP8 share their scales; 0 for all of them.
func blockOf(s *models.Scheme, l *models.Linear) int {
	switch {
	case s.Stored && l.Stored != nil && l.Stored.Format == unit.FP8:
		return l.Stored.BlockOut
	case !s.Stored && s.Weights == unit.FP8 && s.Group == side128*side128:
		return side128
	}
	return 0
}

// deepEP is the option by which ranks of EP send each token by DeepEP to the ranks alone that have its experts.
const deepEP = "deepep"

// deepEPOf is an engine with DeepEP whose host does so much for experts.
func deepEPOf(host expertHost) func(*Engine) {
	return func(e *Engine) {
		split := e.profile.Support.Split
		e.kernels[operator.Shuffle], e.kernels[operator.Exchange], e.kernels[operator.ExpertProduct] = nil, nil, host.products
		e.profile.Source = "tokens of experts sent by DeepEP, of which nothing was measured here: " + e.profile.Source
		e.profile.Support.Split = func(w *operator.Parallelism) string {
			if w.ExpertReplicas() == 1 || w.GathersTokens() {
				return "has no replicas that send tokens to whole experts: want --dp above 1 and as many --ep as --tp × --dp"
			}
			return split(w)
		}
	}
}
