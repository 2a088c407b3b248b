package plots

import (
	"fmt"
	"slices"
	"strings"

	"llmprof/models"
)

// A strip shows how the kinds of layers of a hybrid alternate, a cell a layer.
type strip struct {
	order []int // the kind of each layer
}

// newStrip is that of a model whose kinds have these names, empty if there is
// one kind only, or if the order is not known.
func newStrip(m *models.Model, names []string) strip {
	s := strip{}
	for _, k := range m.Order {
		if k < 0 || k >= len(m.Layers) {
			return strip{}
		}
		at := slices.Index(names, m.Layers[k].Name)
		if at < 0 {
			return strip{}
		}
		s.order = append(s.order, at)
	}
	if len(names) < 2 || len(s.order) == 0 {
		return strip{}
	}
	return s
}

// letter names a kind, as a, z, a1: small, since capitals are bounds.
func letter(kind int) string {
	s := string(rune('a' + kind%26))
	if kind >= 26 {
		s += fmt.Sprint(kind / 26)
	}
	return s
}

// A run is layers of one kind, or of one pattern, that follow each other.
type run struct {
	text  string
	cells int // cells of one round
	times int
}

// runs are equal layers counted, and then equal patterns of those.
func (s *strip) runs() []run {
	var rs []run
	for _, k := range s.order {
		if n := len(rs); n > 0 && rs[n-1].text == letter(k) {
			rs[n-1].times++
			continue
		}
		rs = append(rs, run{letter(k), 1, 1})
	}
	return folded(rs)
}

// folded takes together the patterns of several runs that are repeated. At each
// run it takes the pattern that covers the most layers.
func folded(rs []run) (out []run) {
	const longest = 12 // runs in a pattern
	for i := 0; i < len(rs); {
		best, width := 1, 0
		for w := 2; w <= longest && i+2*w <= len(rs); w++ {
			times := 1
			for i+(times+1)*w <= len(rs) && slices.Equal(rs[i:i+w], rs[i+times*w:i+(times+1)*w]) {
				times++
			}
			if times > 1 && times*w > best*width {
				best, width = times, w
			}
		}
		if width == 0 {
			out = append(out, rs[i])
			i++
			continue
		}
		cells, texts := 0, make([]string, width)
		for k, r := range rs[i : i+width] {
			texts[k] = r.String()
			cells += r.cells * r.times
		}
		out = append(out, run{"(" + strings.Join(texts, " ") + ")", cells, best})
		i += best * width
	}
	return out
}

// String is the run as "58×b", "18×(a b)".
func (r run) String() string {
	if r.times == 1 {
		return r.text
	}
	return fmt.Sprintf("%d×%s", r.times, r.text)
}

// text is the whole strip as its runs, as "61 layers: 3×a 58×b".
func (s *strip) text() string {
	rs := s.runs()
	texts := make([]string, len(rs))
	for i, r := range rs {
		texts[i] = r.String()
	}
	return fmt.Sprintf("%d layers: %s", len(s.order), strings.Join(texts, " "))
}
