package plots

import (
	"fmt"
	"math"
	"strings"
)

// engineering is a figure in engineering notation: three digits and a decimal prefix, as "1.31T".
func engineering(v float64) string {
	prefixes := []string{"", "k", "M", "G", "T", "P", "E"}
	i := 0
	for v >= 999.5 && i+1 < len(prefixes) {
		v, i = v/1000, i+1
	}
	switch {
	case v >= 1e3:
		return strings.Replace(fmt.Sprintf("%.0e", v*math.Pow(1000, float64(i))), "+", "", 1)
	case v >= 99.95:
		return fmt.Sprintf("%.0f%s", v, prefixes[i])
	case v >= 9.995:
		return fmt.Sprintf("%.1f%s", v, prefixes[i])
	case v < 0.005 && v > 0:
		return "<0.01"
	}
	return fmt.Sprintf("%.2f%s", v, prefixes[i])
}

// shareText is a share of time with a digit after the point where it is small.
func shareText(share float64) string {
	switch {
	case share >= 0.0995:
		return fmt.Sprintf("%.0f %%", share*100)
	case share < 0.0005 && share > 0:
		return "<0.1 %"
	}
	return fmt.Sprintf("%.1f %%", share*100)
}

// heading is the name of a kind of layer, how often there is one, and its share.
func (g *graph) heading(cl *cluster) string {
	s := fmt.Sprintf("%d × %s: ", cl.count, cl.title)
	for i, col := range g.columns {
		share := 0.0
		for _, n := range cl.nodes {
			share += col.of(n).share
		}
		if i > 0 {
			s += ", "
		}
		s += shareText(share) + " of " + col.name
	}
	return s
}

// finite reports whether all of xs are numbers of at least 0.
func finite(xs ...float64) bool {
	for _, x := range xs {
		if math.IsNaN(x) || math.IsInf(x, 0) || x < 0 {
			return false
		}
	}
	return true
}
