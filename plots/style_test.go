package plots

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/plot/vg"

	"llmprof/internal/testkit"
)

// TestSeriesAreDistinct checks that the lines of a picture differ in marker and dash, for any
// colour vision or printer.
func TestSeriesAreDistinct(t *testing.T) {
	origin := vg.Point{}
	for i := range NumSeries {
		_, dash, marker := Series(i)
		for j := range i {
			_, dash2, marker2 := Series(j)
			if cmp.Equal(marker.path(origin, 1), marker2.path(origin, 1)) {
				t.Errorf("series %d and %d have the same marker", i, j)
			}
			if slices.Equal(dash, dash2) {
				t.Errorf("series %d and %d have the same dashes", i, j)
			}
		}
	}
}

// TestAdaptive draws every picture in both schemes: what is dark on light ground is
// light on dark ground, and no colour is left that is not in the colors.
func TestAdaptive(t *testing.T) {
	for _, p := range allPictures(t, subjects()) {
		f, err := p.make()
		testkit.Must(t, err)
		plain, err := f.SVG()
		testkit.Must(t, err)
		text, err := f.Adaptive()
		testkit.Must(t, err)
		if light := regexp.MustCompile(`;(fill|stroke):light-dark\([^)]*\)`).ReplaceAllString(text, ""); light != plain {
			t.Errorf("%s: without its dark colours it is another picture", p.name)
		}
		for _, c := range svgColor().FindAllStringIndex(text, -1) {
			color, rest := text[c[0]:c[1]], text[c[1]:]
			if !strings.HasPrefix(rest, ";"+strings.SplitN(color, ":", 2)[0]+":light-dark(") && !onBothGrounds(color[len(color)-6:]) {
				t.Errorf("%s: %s is the same on dark ground", p.name, color)
			}
		}
	}
}

// onBothGrounds reports whether a colour is the same on either ground on purpose:
// that of memory, and of text on an area.
func onBothGrounds(hex string) bool {
	return slices.Contains([]string{"E69F00", "222222", "FFFFFF"}, hex)
}
