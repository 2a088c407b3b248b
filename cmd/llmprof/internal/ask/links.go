package ask

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"llmprof/analytic"
	"llmprof/hardware"
	"llmprof/unit"
)

// linkFlags says how the GPUs of a host are linked.
func linkFlags(f *pflag.FlagSet, l *hardware.Links) {
	f.BoolVar(&l.P2P, "p2p", false, "GeForce cards have peer access over PCIe, by a patched driver")
	f.BoolVar(&l.NoP2P, "no-p2p", false, "other GPUs have no peer access over PCIe, as in many virtual machines")
	f.BoolVar(&l.NVLink, "nvlink", false, "cards have their bridge, of NVLink or Infinity Fabric")
}

// idleLink is the error of a flag about links that changes nothing.
func idleLink(flag string) error {
	return fmt.Errorf("--%s: %s; give other GPUs, or --tp, --pp or --ep", flag, map[string]string{
		"p2p":    "no GPUs talk over PCIe whose driver refuses peer access",
		"no-p2p": "no GPUs talk over PCIe that are taken to have peer access",
		"nvlink": "no GPUs talk that a bridge could join",
	}[flag])
}

// links says how the GPUs are taken to be linked, and what TPOT would be if one flag about it were turned. A flag that changes nothing
// is an error.
func (ans *Answer) links(of maker) (string, error) {
	groups := ans.Parallel.Groups()
	var others []string
	for _, c := range hardware.LinkChoices() {
		l, with := ans.Q.Links, "with"
		if turned := c.Of(&l); *turned {
			*turned, with = false, "without"
		} else {
			*turned = true
		}
		g := ans.GPU.Linked(l)
		switch same := g.SameRoutes(ans.GPU, groups); {
		case same && ans.Q.Given(c.Name):
			return "", idleLink(c.Name)
		case same:
			continue
		}
		e, err := ans.on(of, g)
		if err != nil {
			return "", err
		}
		others = append(others, fmt.Sprintf("%v %s --%s", unit.Around(e.TPOT.Expected, e.TPOT.Low, e.TPOT.High), with, c.Name))
	}
	if len(others) == 0 {
		return "", nil
	}
	return fmt.Sprintf("GPUs are taken to talk %s; TPOT is %s", ans.GPU.Route(slices.Max(groups)), strings.Join(others, ", ")), nil
}

// on is the estimate on the GPU with other links.
func (ans *Answer) on(of maker, g *hardware.GPU) (e analytic.Estimate, err error) {
	c := ans.Case
	if c.Machine, err = ans.machine(of, g); err != nil {
		return e, err
	}
	return analytic.Predict(&c)
}
