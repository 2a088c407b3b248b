package validate

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"

	"llmprof/analytic"
	"llmprof/hardware"
	"llmprof/measure/stats"
)

// A Constant is a constant of the theory, and what it would be if hardware and
// engine were ideal.
type Constant struct {
	Name  string  // as a calibration file has it, where it does: "gemm.compute"
	Field string  // as "Calibration.GEMM.Compute" or "Engine.Join"
	Ideal float64 // 1 for a share, 0 for a time; of a flag 1 is true
	About string
}

// Constants lists every constant that a predicted time or energy depends on. A
// test holds that no field of hardware.Calibration and analytic.Engine is
// missing here and in Unscored.
func Constants() []Constant {
	return slices.Concat([]Constant{
		{"gemm.compute", "Calibration.GEMM.Compute", 1, "share of the matrix peak that products with weights reach"},
		{"gemm.sustained", "Calibration.Sustained", 1, "share of the matrix peak that products reach at the power limit"},
		{"gemm.memory", "Calibration.GEMM.Memory", 1, "share of the bandwidth that products with weights reach"},
		{"gemm.fixed", "Calibration.GEMM.Fixed", 0, "time of a product that no size takes away"},
		{"own.memory", "Calibration.Own.Memory", 1, "share of the bandwidth that an engine's own products of few rows reach"},
		{"own.row", "Calibration.Own.Row", 0, "what each row adds to their time"},
		{"own.fixed", "Calibration.Own.Fixed", 0, "time of such a product that no size takes away"},
		{"attention.compute", "Calibration.Attention.Compute", 1, "share of the matrix peak that attention reaches"},
		{"attention.memory", "Calibration.Attention.Memory", 1, "share of the bandwidth that attention reaches"},
		{"attention.fixed", "Calibration.Attention.Fixed", 0, "time of an attention kernel that no size takes away"},
		{"element.compute", "Calibration.Element.Compute", 1, "share of the vector peak that element-wise kernels reach"},
		{"element.memory", "Calibration.Element.Memory", 1, "share of the bandwidth that element-wise kernels reach"},
		{"element.fixed", "Calibration.Element.Fixed", 0, "time of an element-wise kernel that no size takes away"},
		{"attention.ramp", "Calibration.AttentionRamp", 0, "query tokens until attention in a prefill reaches half of its rate"},
		{"link.share", "Calibration.Link", 1, "share of the link's rate that a large all-reduce reaches"},
		{"link.base", "Calibration.LinkBase", 0, "latency of an all-reduce over the link"},
		{"link.per_gpu", "Calibration.LinkPerGPU", 0, "what each GPU adds to that latency"},
		{"one_shot.base", "Calibration.OneShotBase", 0, "latency of a small all-reduce over peer memory"},
		{"one_shot.per_gpu", "Calibration.OneShotPerGPU", 0, "what each GPU adds to that latency"},
		{"posted.base", "Calibration.PostedBase", 0, "what an own product takes longer that sums over GPUs itself"},
		{"posted.per_gpu", "Calibration.PostedPerGPU", 0, "what each GPU adds to that"},
		{"pcie.share", "Calibration.PCIe", 1, "share of PCIe's rate that a large all-reduce reaches"},
		{"pcie.base", "Calibration.PCIeBase", 0, "latency of an all-reduce over PCIe"},
		{"pcie.per_gpu", "Calibration.PCIePerGPU", 0, "what each GPU adds to that latency"},
		{"inter_node.share", "Calibration.InterNode", 1, "share of the network's rate between nodes"},
		{"inter_node.base", "Calibration.InterNodeBase", 0, "latency between nodes"},
		{"graph.node", "Calibration.Launch", 0, "time of a kernel in a CUDA graph"},
		{"power.memory", "Calibration.Power.Memory", 0, "share of the power that busy memory draws"},
		{"power.own", "Calibration.Power.Own", 0, "share of the power that the engine's own products of few rows draw"},
		{"power.attention", "Calibration.Power.Attention", 0, "share of the power that decode attention draws"},
		{"power.network", "Calibration.Power.Network", 0, "share of the power that busy links draw"},
		{"power.fixed", "Calibration.Power.Fixed", 0, "share of the power that a kernel draws while it starts and ends"},
		{"power.waiting", "Calibration.Power.Waiting", 0, "share of the power that a GPU draws while it waits for its host"},
		{"power.idle", "Calibration.Power.Idle", 0, "share of the power limit that an idle GPU draws, where no source says"},
		{"engine.fused", "Engine.Fused", 1, "norms, rotary, activations and cache writes are one kernel each"},
		{"engine.carries_rows", "Engine.Carries.Rows", 1024, "sequences up to which products of a decode step carry norms and activation"},
		{"engine.carries_wide", "Engine.Carries.Wide", 1024, "the same on GPUs of compute capability 9.0"},
		{"engine.carries_quantized", "Engine.Carries.Quantized", 1024, "the same of products with quantized weights"},
		{"engine.carries_rotation", "Engine.Carries.Rotation", 1, "attention of a decode step carries rotary embedding and cache write"},
		{"engine.carries_layer", "Engine.Carries.Layer", 1024, "sequences up to which a layer with a mixture is one kernel and attention"},
		{"engine.carries_experts", "Engine.Carries.Experts", 1, "the experts' first product carries their activation"},
		{"engine.carries_pairs", "Engine.Carries.Pairs", 0, "sequences up to which the experts' first product reads an expert for each pair"},
		{"engine.carries_mixture", "Engine.Carries.Mixture", 1024, "sequences up to which mixtures of decode steps are the engine's own kernels"},
		{"engine.one_shot", "Engine.OneShot", 1, "small all-reduces take one exchange over peer memory"},
		{"host.step", "Engine.Host", 0, "time of the host in every step"},
		{"host.launch", "Engine.Launch", 0, "time of the host for every kernel"},
		{"engine.stream", "Engine.Stream", 0, "a prefill's kernels are launched one by one"},
		{"engine.graph", "Engine.Graph", 1, "decode steps are one CUDA graph"},
		{"host.small_kernel", "Engine.Element", 0, "least time of an element-wise kernel that is not fused"},
		{"engine.join", "Engine.Join", 0, "the growing cache is put together anew in every step"},
		{"engine.repeat", "Engine.Repeat", 0, "copies of a cache of fixed length, and the share of the bandwidth at which they are read"},
	}, ownConstants())
}

// ownConstants are those of an engine's own kernels for mixtures and for products of many sequences.
func ownConstants() []Constant {
	return []Constant{
		{"mixture.memory", "Calibration.Mixture.Memory", 1, "share of the bandwidth that mixtures of decode steps reach by an engine's own kernels"},
		{"mixture.again", "Calibration.Mixture.Again", 0, "what comes again of their weights, of the time that it takes at the bandwidth"},
		{"mixture.row", "Calibration.Mixture.Row", 0, "what each row of an expert adds to their time"},
		{"mixture.fixed", "Calibration.Mixture.Fixed", 0, "time of router, choice and products of a layer that no size takes away, of one sequence"},
		{"mixture.several", "Calibration.Mixture.Several", 0, "the same of several sequences"},
		{"wide.memory", "Calibration.Wide.Memory", 1, "share of the bandwidth that products of many sequences' decode steps reach by an engine's own kernels"},
		{"wide.again", "Calibration.Wide.Again", 0, "how often their inputs and results are moved"},
		{"wide.fixed", "Calibration.Wide.Fixed", 0, "time of such a product that no size takes away"},
		{"experts.compute", "Calibration.Experts.Compute", 1, "share of the matrix peak that products of a prompt's experts reach by an engine's own kernels"},
		{"experts.memory", "Calibration.Experts.Memory", 1, "share of the bandwidth that they reach"},
		{"experts.gather", "Calibration.Experts.Gather", 0, "how often their inputs are moved"},
		{"experts.sum", "Calibration.Experts.Sum", 0, "how often their results are moved"},
		{"choice.pair", "Calibration.Experts.ChoicePair", 0, "time of the choice and the order of a pair of a token and an expert"},
		{"choice.expert", "Calibration.Experts.ChoiceExpert", 0, "time of an expert in that order"},
		{"choice.fixed", "Calibration.Experts.ChoiceFixed", 0, "time of the choice that no number of pairs or experts takes away"},
		{"stream.node", "Calibration.Stream", 0, "by how much longer a kernel takes that no CUDA graph has"},
	}
}

// Unscored lists the constants that no predicted time and no energy depends on,
// with what they are for. Their Ideal means nothing.
func Unscored() []Constant {
	return []Constant{
		{Name: "error.decode", Field: "Calibration.DecodeError", About: "half-width of the interval of a decode step"},
		{Name: "error.prefill", Field: "Calibration.PrefillError", About: "half-width of the interval of a prefill"},
		{Name: "engine.error", Field: "Engine.Error", About: "what the engine adds to the half-width of the interval"},
		{Name: "engine.older", Field: "Engine.Older", About: "what releases before the one measured add to the interval"},
		{Name: "engine.reserve", Field: "Engine.Reserve", About: "memory that the engine holds"},
	}
}

// find is the field that the constant is.
func (k *Constant) find(c *hardware.Calibration, e *analytic.Engine) (reflect.Value, error) {
	path := strings.Split(k.Field, ".")
	v := reflect.ValueOf(c).Elem()
	if path[0] == "Engine" {
		v = reflect.ValueOf(e).Elem()
	}
	for _, name := range path[1:] {
		if v.Kind() != reflect.Struct || !v.FieldByName(name).IsValid() {
			return v, fmt.Errorf("no constant %s: %v has no field %s", k.Field, v.Type(), name)
		}
		v = v.FieldByName(name)
	}
	if v.Kind() != reflect.Float64 && v.Kind() != reflect.Bool {
		return v, fmt.Errorf("the constant %s is a %v: want a number or a flag", k.Field, v.Type())
	}
	return v, nil
}

// Flag reports whether the constant is a flag rather than a number.
func (k *Constant) Flag() bool {
	v, err := k.find(&hardware.Calibration{}, &analytic.Engine{})
	return err == nil && v.Kind() == reflect.Bool
}

// idealize puts the constant to its ideal.
func (k *Constant) idealize(c *hardware.Calibration, e *analytic.Engine) error {
	v, err := k.find(c, e)
	if err != nil {
		return err
	}
	for section, known := range map[string]float64{"Mixture": c.Mixture.Memory, "Wide": c.Wide.Memory, "Experts": c.Experts.Memory} {
		if strings.HasPrefix(k.Field, "Calibration."+section+".") && known == 0 {
			return nil // nothing is known of them, and other constants stand in
		}
	}
	if v.Kind() == reflect.Bool {
		v.SetBool(k.Ideal != 0)
		return nil
	}
	v.SetFloat(k.Ideal)
	return nil
}

// An Effect is what an ideal constant does to the error of the rows of one
// metric that a constant was, or was not, fitted on.
type Effect struct {
	Metric Metric
	Fitted bool
	N      int     // rows
	Moved  int     // of them, those whose prediction depends on the constant
	Median float64 // of the error's absolute value, with all constants as they are
	Ideal  float64 // the same with this one ideal
}

// Buys is by how much the median error grows without the constant.
func (e *Effect) Buys() float64 { return e.Ideal - e.Median }

// An Ablation is what one constant buys.
type Ablation struct {
	Constant
	Effects []Effect // by metric, those of fitted rows last
}

// Moved counts the rows whose prediction depends on the constant.
func (a *Ablation) Moved(fitted bool) (n int) {
	for i := range a.Effects {
		if a.Effects[i].Fitted == fitted {
			n += a.Effects[i].Moved
		}
	}
	return n
}

// Buys is the mean over the metrics of what the constant buys, each metric with
// the same weight; ok is false where there are no such rows.
func (a *Ablation) Buys(fitted bool) (mean float64, ok bool) {
	n := 0
	for i := range a.Effects {
		if e := &a.Effects[i]; e.Fitted == fitted {
			mean, n = mean+e.Buys(), n+1
		}
	}
	return mean / float64(max(n, 1)), n > 0
}

// Ablate predicts every row anew with one constant after the other put to its
// ideal and all others kept. Those that buy most come first. The last return
// value is that of all constants ideal at once.
func (s *Scorer) Ablate(rows []Row) ([]Ablation, *Ablation, error) {
	for i := range rows { // fills what is kept, so that the copies below look nothing up
		if _, err := s.question(&rows[i].Config); err != nil {
			return nil, nil, err
		}
	}
	constants := Constants()
	sets := make([][]Constant, 0, len(constants)+1)
	for i := range constants {
		sets = append(sets, constants[i:i+1])
	}
	sets = append(sets, constants)
	found, errs := make([]Ablation, len(sets)), make([]error, len(sets))
	var all sync.WaitGroup
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i, set := range sets {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			found[i].Effects, errs[i] = s.without(set, rows)
		})
	}
	all.Wait()
	for i, err := range errs {
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", sets[i][0].Name, err)
		}
	}
	each, together := found[:len(constants)], &found[len(constants)]
	for i := range each {
		each[i].Constant = constants[i]
	}
	together.Constant = Constant{Name: "all of them", About: "every constant of this list"}
	slices.SortStableFunc(each, func(a, b Ablation) int {
		x, _ := a.Buys(false)
		y, _ := b.Buys(false)
		return cmp.Or(cmp.Compare(y, x), b.Moved(false)-a.Moved(false))
	})
	return each, together, nil
}

// without are the effects of putting some constants to their ideals.
func (s *Scorer) without(set []Constant, rows []Row) ([]Effect, error) {
	other := &Scorer{Model: s.Model, GPU: s.GPU, Calibration: s.Calibration, models: maps.Clone(s.models), gpus: maps.Clone(s.gpus)}
	other.change = func(c *hardware.Calibration, e *analytic.Engine) error {
		for i := range set {
			if err := set[i].idealize(c, e); err != nil {
				return err
			}
		}
		return nil
	}
	type group struct {
		Metric
		fitted bool
	}
	before, after, moved := map[group][]float64{}, map[group][]float64{}, map[group]int{}
	for i := range rows {
		r := &rows[i]
		p, err := other.predict(r.Config)
		if err != nil {
			return nil, err
		}
		span, err := p.of(&r.Config, r.Metric)
		if err != nil {
			return nil, err
		}
		g := group{r.Metric, r.Fitted != ""}
		before[g] = append(before[g], math.Abs(r.Error))
		after[g] = append(after[g], math.Abs(span.expected/r.Value-1))
		if span.expected != r.Predicted {
			moved[g]++
		}
	}
	var effects []Effect
	for _, fitted := range []bool{false, true} {
		for _, m := range Metrics() {
			g := group{m, fitted}
			if n := len(before[g]); n > 0 {
				effects = append(effects, Effect{m, fitted, n, moved[g], median(before[g]), median(after[g])})
			}
		}
	}
	return effects, nil
}

func median(values []float64) float64 {
	slices.Sort(values)
	return stats.Percentile(values, 50)
}
