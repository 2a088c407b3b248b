package validate

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// A Metric is what was observed; its name ends in its unit.
type Metric string

// The metrics.
const (
	TTFT             Metric = "ttft_s"
	TPOT             Metric = "tpot_s"
	TTLT             Metric = "ttlt_s"
	EnergyPerPrompt  Metric = "energy_per_prompt_j"
	EnergyPerToken   Metric = "energy_per_token_j"
	EnergyPerRequest Metric = "energy_per_request_j"
)

// Texts are the names of all metrics.
func (Metric) Texts() []string {
	var texts []string
	for _, m := range metrics() {
		texts = append(texts, string(m))
	}
	return texts
}

// metrics lists the metrics in the order of tables.
func metrics() []Metric {
	return []Metric{TTFT, TPOT, TTLT, EnergyPerPrompt, EnergyPerToken, EnergyPerRequest}
}

func known[T ~string](what, name string, all []T) (T, error) {
	if x := T(name); slices.Contains(all, x) {
		return x, nil
	}
	return "", fmt.Errorf("unknown %s %.40q (known: %s)", what, name, strings.Join(texts(all), ", "))
}

// Energy reports whether m is an energy rather than a time.
func (m Metric) Energy() bool { return strings.HasSuffix(string(m), "_j") }

func texts[T ~string](list []T) []string {
	all := make([]string, len(list))
	for i, x := range list {
		all[i] = string(x)
	}
	return all
}

// A Load says how requests come.
type Load string

// The loads.
const (
	// Static is a batch that starts together, as an estimate has it.
	Static Load = "static"
	// Closed is Batch clients that each send a request when the last is answered.
	Closed Load = "closed"
	// Varied is the same with lengths that are spread evenly from 0.8 to 1 times the longest, whose mean
	// Prompt and Gen are: InferenceX's --random-range-ratio 0.8.
	Varied Load = "closed-varied"
)

// loads lists the loads.
func loads() []Load { return []Load{Static, Closed, Varied} }

// clients reports whether requests come from clients in a closed loop.
func (l Load) clients() bool { return l == Closed || l == Varied }

// A Config is what was run. Observations of one configuration have an estimate
// in common.
type Config struct {
	Model        string // a name that the table of models knows
	GPU          string // a name that the table of GPUs knows
	Engine       string // engine that was measured: "transformers", "vllm", ...
	Mode         string // "graph" or "eager" where the engine has both
	Release      string // release of the engine; empty for the release of its constants, "unknown" where the source names none
	TP           int
	EP           int    // ranks of TP that each hold some of the experts whole; 0 or 1 for none
	Budget       int    // most tokens of a step; 0 for the engine's default
	Graphs       int    // most tokens of a step that CUDA graphs hold; 0 for the engine's default
	RecvInterval int    // decode steps after which the engine receives new requests; 0 for one
	Option       string // option that the engine was started with, as "flashinfer-gemm" (engine.With)
	Skew         string // exponent of a Zipf law by which experts were chosen, or sameExperts; empty for evenly
	Host         string // host of the GPU, as hardware.HostOf reads it; empty where nothing lies there
	Placement    string // what lies on the host, as engine.ParsePlacement reads it
	Batch        int    // sequences together, or clients
	Prompt       int    // tokens of each prompt
	Gen          int    // tokens generated for each
	Weights      string
	KV           string // empty: as the stream
	Load         Load
	Logits       bool  // the LM head ran on every position of the prompt
	Params       int64 // parameters that the engine counted; 0 if it did not
}

// String names the configuration in one line.
func (c *Config) String() string {
	s := fmt.Sprintf("%s on %s, %s", c.Model, c.GPU, c.Runs())
	if c.TP > 1 {
		s += fmt.Sprintf(", TP %d", c.TP)
	}
	if c.EP > 1 {
		s += fmt.Sprintf(", EP %d", c.EP)
	}
	s += fmt.Sprintf(", batch %d, %d+%d", c.Batch, c.Prompt, c.Gen)
	if c.Weights != "bf16" {
		s += ", " + c.Weights
	}
	if c.Load.clients() {
		s += ", closed loop"
	}
	if c.Release != "" {
		s += ", release " + c.Release
	}
	if c.Graphs > 0 {
		s += fmt.Sprintf(", graphs of up to %d tokens", c.Graphs)
	}
	if c.RecvInterval > 1 {
		s += fmt.Sprintf(", new requests every %d steps", c.RecvInterval)
	}
	if c.Option != "" {
		s += ", with " + c.Option
	}
	if c.Placement != "" {
		s += ", " + strings.TrimSpace(c.Host+" "+c.Placement)
	}
	if c.Skew != "" {
		s += ", expert skew " + c.Skew
	}
	return s
}

// Runs is the engine with its mode, as "transformers graph".
func (c *Config) Runs() string {
	if c.Mode == "" {
		return c.Engine
	}
	return c.Engine + " " + c.Mode
}

// An Observation is one measured figure.
type Observation struct {
	Config
	Source  string // key of a Source, or the name of the file that it was read from
	ID      string // identifier of the measurement within the source
	Metric  Metric
	Value   float64  // seconds or joules; of repeats the median
	Low     *float64 // 95 % interval of the median; nil if not known
	High    *float64
	Device  *float64 // value by the device's events
	Samples int      // 0 if not known
	Marks   []string // reasons to doubt the figure
	Note    string
}

// noise is the half-width of the interval as a share of the value.
func (o *Observation) noise() (float64, bool) {
	if o.Low == nil || o.High == nil {
		return 0, false
	}
	return (*o.High - *o.Low) / 2 / o.Value, true
}

func (o *Observation) name() string {
	return fmt.Sprintf("%s of %s (%s)", o.Metric, o.String(), o.place())
}

func (o *Observation) place() string {
	if o.ID == "" || o.ID == o.Source {
		return o.Source
	}
	return o.Source + ": " + o.ID
}

// most is beyond any length, batch or number of GPUs.
const most = 1 << 30

// Check says what about the observation cannot be.
func (o *Observation) Check() error {
	for _, text := range []struct{ key, value string }{
		{"source", o.Source}, {"model", o.Model}, {"gpu", o.GPU}, {"engine", o.Engine}, {"weights", o.Weights},
	} {
		if text.value == "" {
			return fmt.Errorf("%s is not given", text.key)
		}
	}
	for _, n := range []struct {
		key string
		n   int
	}{{"tp", o.TP}, {"batch", o.Batch}, {"prompt_len", o.Prompt}, {"gen_len", o.Gen}} {
		if n.n < 1 || n.n > most {
			return fmt.Errorf("%s is %d: want 1 to %d", n.key, n.n, most)
		}
	}
	for _, n := range []struct {
		key string
		n   int
	}{{columnEP, o.EP}, {columnBudget, o.Budget}, {columnGraphs, o.Graphs}, {columnRecvInterval, o.RecvInterval}} {
		if n.n < 0 || n.n > most {
			return fmt.Errorf("%s is %d: want 1 to %d, or nothing", n.key, n.n, most)
		}
	}
	if !slices.Contains(loads(), o.Load) {
		return fmt.Errorf("load %.40q: want %s", o.Load, strings.Join(texts(loads()), ", "))
	}
	if o.Mode != "" && o.Mode != "graph" && o.Mode != "eager" {
		return fmt.Errorf("mode %.40q: want \"graph\", \"eager\" or nothing", o.Mode)
	}
	if o.Samples < 0 || o.Params < 0 {
		return fmt.Errorf("samples are %d and params %d: they cannot be negative", o.Samples, o.Params)
	}
	return o.checkValues()
}

// least and greatest are beyond any time or energy of a request.
const (
	least    = 1e-9
	greatest = 1e9
)

func (o *Observation) checkValues() error {
	if _, err := known("metric", string(o.Metric), metrics()); err != nil {
		return err
	}
	for _, v := range []struct {
		key   string
		value *float64
	}{{"value", &o.Value}, {"low", o.Low}, {"high", o.High}, {"device", o.Device}} {
		if v.value != nil && (math.IsNaN(*v.value) || *v.value < least || *v.value > greatest) {
			return fmt.Errorf("%s is %v: want a number from %g to %g", v.key, *v.value, least, greatest)
		}
	}
	if (o.Low == nil) != (o.High == nil) {
		return fmt.Errorf("only one end of the interval is given: want low and high, or neither")
	}
	if o.Low != nil && (*o.Low > o.Value || o.Value > *o.High) {
		return fmt.Errorf("value %v is not between low %v and high %v", o.Value, *o.Low, *o.High)
	}
	if o.Gen == 1 && (o.Metric == TPOT || o.Metric == EnergyPerToken) {
		return fmt.Errorf("%s with one generated token: it is of the tokens after the first", o.Metric)
	}
	if o.Device != nil && o.Metric.Energy() {
		return fmt.Errorf("device is %v: events of the device time, but %s is an energy", *o.Device, o.Metric)
	}
	return nil
}
