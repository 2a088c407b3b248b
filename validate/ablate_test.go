package validate

import (
	"math"
	"slices"
	"strings"
	"testing"

	"llmprof/internal/testkit"
	"llmprof/roofline"
)

// TestFittedNames holds what is said to be fitted to the constants' names.
func TestFittedNames(t *testing.T) {
	for _, f := range fits() {
		known := 0
		for word := range strings.FieldsSeq(f.constant) {
			if roofline.ConstantOf(word).String() == word {
				known++
			} else if strings.Contains(word, ".") {
				t.Errorf("%q: %s is no constant", f.constant, word)
			}
		}
		if known == 0 {
			t.Errorf("%q names no constant", f.constant)
		}
	}
}

// TestIdealize sets each constant alone, and none of which nothing is known.
func TestIdealize(t *testing.T) {
	for _, k := range roofline.All() {
		before := roofline.Constants{}
		for i := range before {
			before[i] = 0.5
		}
		after := before
		idealize(&after, k)
		for i := range after {
			if c := roofline.Constant(i); (after[c] != before[c]) != (c == k) {
				t.Errorf("%s ideal: %s is %v, before %v", k, c, after[c], before[c])
			}
		}
		if after[k] != k.Info().Ideal {
			t.Errorf("%s is %v, want %v", k, after[k], k.Info().Ideal)
		}
		before[k] = 0
		after = before
		idealize(&after, k)
		if i := k.Info(); (i.Optional || i.Engine) && after != before {
			t.Errorf("%s, which nothing is known of, becomes %v", k, after[k])
		}
	}
}

// TestIdealIsFaster holds that no constant's ideal makes a prediction faster than
// the floor, and that all of them together make none slower: else they are no
// ideals.
func TestIdealIsFaster(t *testing.T) {
	before := scorer(t)
	rows := before.Score(embedded(t)).Rows
	for _, k := range append(roofline.All(), roofline.None) { // None stands for all of them
		s := before.changing(func(c *roofline.Constants) {
			set := []roofline.Constant{k}
			if k == roofline.None {
				set = roofline.All()
			}
			for _, k := range set {
				idealize(c, k)
			}
		})
		for i := range rows {
			every := testkit.Cases(768, 1)
			if k == roofline.None {
				every = testkit.Cases(32, 1)
			}
			if i%every != int(k)%every {
				continue
			}
			r := &rows[i]
			now := span{expected: r.Predicted, floor: r.Floor}
			if alters, err := s.altering(r.runner()); err != nil {
				t.Fatal(err)
			} else if alters {
				p, err := s.predict(r.Config)
				testkit.Must(t, err)
				now, err = p.of(&r.Config, r.Metric)
				testkit.Must(t, err)
			}
			if k == roofline.None && !r.Metric.Energy() && now.expected > r.Predicted*(1+1e-12) {
				t.Errorf("all ideal: %s takes %v, before %v", r.name(), now.expected, r.Predicted)
			}
			if now.floor != nil && now.expected < *now.floor*(1-1e-12) {
				t.Errorf("%s ideal: %s takes %v, at least %v", k, r.name(), now.expected, *now.floor)
			}
		}
	}
}

// TestAblate holds an effect to scoring the rows anew with the constant changed.
func TestAblate(t *testing.T) {
	var some []Observation
	for i, o := range embedded(t) {
		if i%testkit.Cases(48, 1) == 0 {
			some = append(some, o)
		}
	}
	s := scorer(t)
	score := s.Score(some)
	each, all, err := s.Ablate(score.Rows)
	if err != nil {
		t.Fatal(err)
	}
	if want := len(slices.DeleteFunc(roofline.All(), roofline.Constant.OfScheme)); len(each) != want {
		t.Fatalf("%d constants, want %d", len(each), want)
	}
	last := math.Inf(1)
	for i := range each {
		mean, ok := each[i].Buys(false)
		if !ok || mean > last {
			t.Errorf("%s buys %v, more than %v before it", each[i].Name, mean, last)
		}
		if each[i].About == "" || roofline.ConstantOf(each[i].Name).Info().Ideal != each[i].Ideal {
			t.Errorf("%+v says nothing of itself", each[i])
		}
		last = mean
	}
	if mean, _ := all.Buys(false); mean <= 0 {
		t.Errorf("all constants together buy %v", mean)
	}
	at := slices.IndexFunc(each, func(a Ablation) bool { return a.Name == "gemm.memory" })
	other := scorer(t)
	other.change = func(c *roofline.Constants) {
		for _, k := range append([]roofline.Constant{roofline.GEMMMemory}, roofline.GEMMMemory.Variants()...) {
			if c[k] != 0 { // else the first stands in for it
				c[k] = 1
			}
		}
	}
	summary := map[Metric]map[bool]Summary{}
	for _, sum := range Summarize(other.Score(some).Rows) {
		if summary[sum.Metric] == nil {
			summary[sum.Metric] = map[bool]Summary{}
		}
		summary[sum.Metric][sum.Fitted] = sum
	}
	for _, e := range each[at].Effects {
		if want := summary[e.Metric][e.Fitted]; e.N != want.N || e.Ideal != want.MedianAPE || e.Moved == 0 {
			t.Errorf("%+v, want %+v", e, want)
		}
	}
}
