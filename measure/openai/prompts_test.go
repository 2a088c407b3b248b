package openai

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestRandomPrompts(t *testing.T) {
	a := RandomTokens(50, 20, 10, 12, 7)
	if len(a) != 50 || !reflect.DeepEqual(a, RandomTokens(50, 20, 10, 12, 7)) || reflect.DeepEqual(a, RandomTokens(50, 20, 10, 12, 8)) {
		t.Error("prompts are not those of the seed")
	}
	var all []int
	for _, p := range a {
		if len(p.Tokens) != 20 || p.Text != "" {
			t.Fatalf("%+v", p)
		}
		all = append(all, p.Tokens...)
	}
	if slices.Sort(all); !slices.Equal(slices.Compact(all), []int{10, 11}) {
		t.Errorf("tokens %v, want 10 and 11", all)
	}
	b := RandomText(50, 1000, 7)
	if len(b) != 50 || b[0].Text == b[1].Text || b[0].Text != RandomText(1, 1000, 7)[0].Text {
		t.Error("texts are not those of the seed, or the same")
	}
	words := strings.Fields(b[0].Text)
	if slices.Sort(words); len(words) != 1000 || len(slices.Compact(words)) < 100 {
		t.Errorf("%d words", len(words))
	}
	for _, none := range [][]Prompt{RandomText(3, 0, 1), RandomTokens(3, 0, 0, 9, 1), RandomTokens(3, 5, 9, 9, 1), RandomText(-1, 5, 1)} {
		if len(none) != 0 {
			t.Errorf("%v", none)
		}
	}
}
