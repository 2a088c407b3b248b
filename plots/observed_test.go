package plots

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/plot/vg"

	"llmprof/analytic"
	"llmprof/internal/testkit"
	"llmprof/plots/colors"
	"llmprof/unit"
)

// observedPoints are made up: every GPU and engine, errors from none to four times.
func observedPoints() (points []Observed) {
	gpus := []string{"H100", "H200", "B200", "A100", "L40S", "L4", "T4", "V100", "Thor", "Orin Nano", "GH200"}
	engines := []string{"native", "transformers eager", "transformers graph", "vllm"}
	for i := range 88 {
		observed := 0.002 * math.Pow(1.09, float64(i))
		points = append(points, Observed{
			Decode: i%2 == 1, Name: fmt.Sprintf("model-%d, batch %d", i, 1<<(i%6)), GPU: gpus[i%len(gpus)], Engine: engines[i%len(engines)],
			Observed: observed, Predicted: observed * math.Pow(2, math.Sin(float64(i))*float64(1+i%3)/3), Fitted: i%5 == 0,
		})
		if p := &points[i]; i%7 > 0 {
			p.Low, p.High = p.Predicted*0.8, p.Predicted*1.3
		}
	}
	return points
}

// batchLines are made up: three batches of two engines.
func batchLines() (all []BatchLine) {
	for _, engine := range []string{"graph", "eager"} {
		for _, decode := range []bool{false, true} {
			for _, batch := range []int{1, 8, 32} {
				c := BatchLine{Engine: engine, Decode: decode, Batch: batch}
				for _, prompt := range Doublings(128, 4096) {
					t := unit.Seconds(0.001*float64(batch)*float64(prompt)/128 + 0.01)
					c.Predicted = append(c.Predicted, PredictedAt{prompt, analytic.Span{Floor: t / 2, Expected: t, Low: t * 0.8, High: t * 1.2}})
				}
				for _, prompt := range []int{128, 1024, 4096} {
					v := 1.1 * (0.001*float64(batch)*float64(prompt)/128 + 0.01)
					c.Observed = append(c.Observed, ObservedAt{prompt, v, v * 0.8, v * 1.1})
				}
				all = append(all, c)
			}
		}
	}
	return all
}

// TestObservedGolden compares the two pictures with the reviewed ones in testdata.
func TestObservedGolden(t *testing.T) {
	for _, p := range []picture{
		{"accuracy", func() (*Figure, error) { return Accuracy("made up · llmprof", observedPoints()) }},
		{"follow", func() (*Figure, error) { return Follow("made up · llmprof", batchLines()) }},
	} {
		f, err := p.make()
		testkit.Must(t, err)
		got, err := f.SVG()
		testkit.Must(t, err)
		if again, _ := f.SVG(); again != got {
			t.Errorf("%s: a second drawing differs from the first", p.name)
		}
		if dir := os.Getenv("LOOK_AT"); dir != "" {
			look(t, f, filepath.Join(dir, p.name+".png"))
		}
		golden(t, p.name+".svg", []byte(got))
	}
}

// TestAccuracyNames checks that the farthest of a panel is named, no fitted one and
// none that is near.
func TestAccuracyNames(t *testing.T) {
	for want, points := range map[string][]Observed{
		"farther": {{Name: "far", Predicted: 4, Observed: 1}, {Name: "farther", Predicted: 1, Observed: 5},
			{Name: "fitted", Predicted: 9, Observed: 1, Fitted: true}},
		"": {{Name: "near", Predicted: 1.2, Observed: 1}, {Name: "fitted", Predicted: 9, Observed: 1, Fitted: true}},
	} {
		got := ""
		if o := (&accuracyPanel{points: points}).farthest(); o != nil {
			got = o.Name
		}
		if got != want {
			t.Errorf("named %q, want %q", got, want)
		}
	}
}

// TestAccuracySums checks that a panel's summary counts only unfitted observations, and intervals
// only where there are any.
func TestAccuracySums(t *testing.T) {
	p := &accuracyPanel{points: []Observed{
		{Predicted: 1.1, Low: 0.9, High: 1.3, Observed: 1}, {Predicted: 1.3, Low: 1.2, High: 1.4, Observed: 1},
		{Predicted: 0.8, Observed: 1}, {Predicted: 9, Observed: 1, Fitted: true},
	}}
	if got, want := p.summary(), "3 held out, median 20.0 %, 50 % inside"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := (&accuracyPanel{points: p.points[3:]}).summary(), "1 fitted, median 800.0 %"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestIntervalsCrossZero draws intervals that hold across the line of no error, in
// faint, and those that do not beside it, in the colour of an alarm.
func TestIntervalsCrossZero(t *testing.T) {
	for _, o := range []Observed{
		{Engine: "e", GPU: "g", Predicted: 1.1, Low: 0.9, High: 1.3, Observed: 1},
		{Engine: "e", GPU: "g", Predicted: 1.3, Low: 1.2, High: 1.4, Observed: 1},
	} {
		f, err := Accuracy("", []Observed{o})
		testkit.Must(t, err)
		v := &accuracyView{far: 1}
		box := vg.Rectangle{Max: vg.Point{X: 10, Y: 10}}
		low, high, zero := v.at(math.Log(o.Low), box), v.at(math.Log(o.High), box), v.at(0, box)
		if crosses := low <= zero && zero <= high; crosses != o.inside() {
			t.Errorf("the interval from %v to %v crosses zero at %v: %t, inside: %t", low, high, zero, crosses, o.inside())
		}
		if n := len(strokes(f, colors.Alarm().Faded(130))); (n > 0) == o.inside() {
			t.Errorf("inside %t: %d lines of alarm", o.inside(), n)
		}
	}
}

// TestAccuracyLooks checks that no two GPUs look the same.
func TestAccuracyLooks(t *testing.T) {
	seen := map[string]string{}
	for i := range mostGPUs {
		style := fmt.Sprint(signs[i%len(signs)], colors.Series(i))
		if other := seen[style]; other != "" {
			t.Errorf("GPU %d looks like %s", i, other)
		}
		seen[style] = fmt.Sprint("GPU ", i)
	}
	points := slices.Repeat(observedPoints(), 2)
	for i := range points {
		points[i].GPU = fmt.Sprint("GPU ", i%(mostGPUs+1))
	}
	if _, err := Accuracy("", points); err == nil || !strings.Contains(err.Error(), "73 GPUs") {
		t.Errorf("73 GPUs in one picture: %v", err)
	}
	for i := range points {
		points[i].GPU, points[i].Engine = "GPU", fmt.Sprint("engine ", i%(mostEngines+1))
	}
	if _, err := Accuracy("", points); err == nil || !strings.Contains(err.Error(), "13 engines") {
		t.Errorf("13 engines in one picture: %v", err)
	}
}

// TestObservedOdd checks that what cannot be drawn is an error, and what is odd a
// picture.
func TestObservedOdd(t *testing.T) {
	for _, v := range []float64{0, -1, math.NaN(), math.Inf(1), 1e300} {
		if _, err := Accuracy("", []Observed{{Name: "a", Predicted: v, Observed: 1}}); err == nil {
			t.Errorf("predicted %v is drawn", v)
		}
		if _, err := Accuracy("", []Observed{{Name: "a", Predicted: 1, Observed: v}}); err == nil {
			t.Errorf("observed %v is drawn", v)
		}
		if _, err := Follow("", []BatchLine{{Batch: 1, Observed: []ObservedAt{{Prompt: 1, Value: v}}}}); err == nil {
			t.Errorf("an observation of %v is drawn", v)
		}
	}
	if _, err := Accuracy("", nil); err == nil {
		t.Error("nothing is drawn")
	}
	if _, err := Follow("", nil); err == nil {
		t.Error("nothing is followed")
	}
	falling := batchLines()[:1]
	slices.Reverse(falling[0].Predicted)
	if _, err := Follow("", falling); err == nil {
		t.Error("a line that turns back is drawn")
	}
	one := []BatchLine{{Engine: "a", Batch: 1, Observed: []ObservedAt{{Prompt: 128, Value: 1}}}}
	for name, make := range map[string]func() (*Figure, error){
		"one point":       func() (*Figure, error) { return Accuracy("", []Observed{{Name: "a", Predicted: 1, Observed: 1}}) },
		"one observation": func() (*Figure, error) { return Follow("", one) },
		"far apart": func() (*Figure, error) {
			return Accuracy("", []Observed{{Name: "a", Predicted: 1e-9, Observed: 1e9}, {Decode: true, Predicted: 1e9, Observed: 1e-9}})
		},
	} {
		f, err := make()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, format := range Formats() {
			var b strings.Builder
			if err := f.Write(&b, format); err != nil || b.Len() == 0 {
				t.Errorf("%s as %s: %d bytes, %v", name, format, b.Len(), err)
			}
			if strings.Contains(b.String(), "NaN") {
				t.Errorf("%s as %s has places that are no numbers", name, format)
			}
		}
	}
}
