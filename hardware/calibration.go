package hardware

import (
	"cmp"
	_ "embed" // defaults.toml
	"fmt"
	"math"
	"strings"
	"sync"

	"github.com/BurntSushi/toml"

	"llmprof/roofline"
	"llmprof/unit"
)

// A Calibration says what a GPU does in practice: the constants of the laws of
// package roofline, and how far they may be off. Without one that was measured on
// the GPU at hand, DefaultCalibration serves.
type Calibration struct {
	Name      string // "default for hopper"
	Source    string // where and when the constants were measured
	Constants roofline.Constants
	Measured  bool // The constants were measured on a GPU of the kind, rather than taken from its generation.

	Fitted [roofline.NumConstants]bool // the constants that were measured there, of a file or of the engine's own operator tables

	// Error is the half-width of a 90 % interval of the expected time, as a
	// share of it: of a decode step, and of a prefill.
	DecodeError, PrefillError float64

	// Residuals says of the share that a kernel mostly depends on how far a kernel of its
	// law may be off, by the 90th percentile of shapes that its constants were not fitted
	// on. Board is how far all of them may be off together, for constants are of several
	// boards; 0 where no operators of the board were timed.
	Residuals roofline.Constants
	Board     float64

	PowerMeasured bool // what phases draw was measured end to end on GPUs of the kind
}

// Check keeps impossible constants out, as a share that has an expected time below the
// floor. An optional constant may be 0: nothing is known of it then.
func (c *Calibration) Check() error {
	for _, k := range roofline.All() {
		i, v := k.Info(), c.Constants[k]
		if unknown := v == 0 && (i.Quantity != roofline.Share || i.Optional || i.Engine); !unknown && !k.Valid(v) {
			return fmt.Errorf("%s (%s) is %v: want %s", k, i.Help, v, i.Quantity.Want())
		}
	}
	return nil
}

// SquareRows is the size of the GEMM that gemm.sustained is measured with: it is
// far above the ridge of every GPU, and so draws next to nothing for its memory.
const SquareRows = 8192

// throughHost takes GPUs that reach each other over PCIe through the host's memory alone. The constants
// are of vLLM 0.19.0's all-reduces over two RTX PRO 6000 on such a host, in CUDA graphs
// (aiconfigurator-core 0.12.0): 17 to 21 µs up to 32 KB, 15.2 GB/s at large messages.
func (c *Calibration) throughHost() {
	k := &c.Constants
	k[roofline.PCIeShare], k[roofline.PCIeBase], k[roofline.PCIePerGPU] = 0.238, 0, 9.8e-6
}

//go:embed defaults.toml
var defaultsTOML string

// defaults are the tables of defaults.toml, whose head explains them.
var defaults = sync.OnceValue(func() (d struct{ Generation, Board map[string]defaultSet }) {
	if _, err := toml.Decode(defaultsTOML, &d); err != nil {
		panic(err) // The file is part of the program, and every test of an estimate reads it.
	}
	return d
})

// A defaultSet is one table of defaults.toml.
type defaultSet struct {
	Base          string // generation that the set starts from
	Source        string
	DecodeError   float64 `toml:"decode_error"`
	PrefillError  float64 `toml:"prefill_error"`
	BoardError    float64 `toml:"board_error"`
	PowerMeasured bool    `toml:"power_measured"`
	Throttled     *throttledBoard
	Constants     defaultConstants
	Residuals     map[string]float64
}

// defaultConstants are values of constants, each in the section of its key.
type defaultConstants map[roofline.Constant]float64

// UnmarshalTOML reads the sections of constants.
func (c *defaultConstants) UnmarshalTOML(sections any) error {
	*c = defaultConstants{}
	for section, values := range sections.(map[string]any) {
		for name, v := range values.(map[string]any) {
			k := roofline.ConstantOf(section + "." + name)
			if (*c)[k] = read(k.Info().Quantity, v); !k.Valid((*c)[k]) {
				return fmt.Errorf("%s.%s is %v: want %s", section, name, v, k.Info().Quantity.Want())
			}
		}
	}
	return nil
}

// apply sets what the set has, over what its base has.
func (s *defaultSet) apply(c *Calibration) {
	if s.Base != "" {
		base := defaults().Generation[s.Base]
		base.apply(c)
	}
	c.Source, c.Board = cmp.Or(s.Source, c.Source), s.BoardError
	c.PowerMeasured = s.PowerMeasured || c.PowerMeasured && s.Base == ""
	c.DecodeError, c.PrefillError = cmp.Or(s.DecodeError, c.DecodeError), cmp.Or(s.PrefillError, c.PrefillError)
	for k, v := range s.Constants {
		c.Constants[k] = v
	}
	for key, p90 := range s.Residuals {
		c.Residuals[roofline.ConstantOf(key)] = p90
	}
}

// DefaultCalibration is what stands in for a measured calibration of a GPU: the
// constants of its generation where operator times of one of its GPUs are
// public, else those of the nearest such generation with a wider error.
func DefaultCalibration(g *GPU) (c Calibration) {
	generation := generationOf(g)
	set, board := defaults().Generation[generation], defaults().Board[g.Key]
	set.apply(&c)
	k, throttled := &c.Constants, cmp.Or(board.Throttled, set.Throttled)
	if throttled != nil {
		k[roofline.GEMMSustained] = throttled.share(g, k[roofline.GEMMCompute])
	}
	switch { // No board with less power for its peak was timed.
	case generation == "hopper" && g.TDP != throttled.Limit:
		c.PrefillError = 0.25
	case strings.HasPrefix(generation, "ada") && k[roofline.GEMMSustained] < k[roofline.GEMMCompute]:
		c.PrefillError = 0.40
	}
	board.apply(&c)
	if k[roofline.GEMMSustained] == 0 { // The operators were timed at one rate, whatever throttled them.
		k[roofline.GEMMSustained] = k[roofline.GEMMCompute]
	}
	if !g.PeerAccess() {
		c.throughHost()
	}
	if g.Generation == "blackwell" || g.Generation == "rubin" { // GEMMs of 5 to 20 µs are within 3 µs on a B200.
		c.Residuals[roofline.GEMMFixed] = 0.8
	}
	c.Name, c.Source = "default for "+g.Generation, strings.ReplaceAll(c.Source, "{generation}", g.Generation)
	return c
}

// generationOf is the table of defaults.toml that a GPU takes.
func generationOf(g *GPU) string {
	_, known := defaults().Generation[g.Generation]
	switch {
	case g.Jetson || g.Integrated:
		return "integrated"
	case g.Vendor == "amd":
		return "amd"
	case g.Generation == "ampere" && g.L2 < 30e6: // GA102 and smaller; an A100 has 40 MB
		return "ampere-graphics"
	case strings.HasPrefix(g.Name, "GeForce") || strings.HasPrefix(g.Name, "RTX PRO"):
		if graphics := g.Generation + "-graphics"; defaults().Generation[graphics].Base != "" {
			return graphics
		}
	}
	if known {
		return g.Generation
	}
	return "other"
}

// A throttledBoard is one whose large GEMMs were timed at its power limit.
type throttledBoard struct {
	Peak             unit.FLOPsPerSec // BF16
	Limit            unit.Watts
	Burst, Sustained float64 // shares of the peak, before the limit holds the board and while it does
}

// share is the share of its peak that another board of the generation sustains, which reaches
// the share burst in bursts. The rate that a power limit leaves goes with the root of the
// power (analytic/energy/energy.go), so the board is slowed by the root of the power that the
// known board's rate would cost it. The limit of a GH200 is shared with its processor.
func (b *throttledBoard) share(g *GPU, burst float64) float64 {
	peak, _ := g.Peak(unit.BF16)
	slowed := b.Burst / b.Sustained * math.Sqrt(float64(peak)/float64(b.Peak)*float64(b.Limit)/float64(g.TDP))
	return burst / max(slowed, 1)
}
