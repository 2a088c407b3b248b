package models

import (
	"cmp"
	"math"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"sync"

	"llmprof/internal/spelling"
)

// unknown is the error of a name that the table does not have, with the names
// that it is near to.
func (t *Table) unknown(name string) error {
	first, _, _ := strings.Cut(strings.ToLower(name), "-")
	if why := fieldTable().Unread[first]; why != "" {
		return spelling.Unknown("unknown model %.80q: %s", name, why)
	}
	near := t.near(name)
	if len(near) == 0 {
		return spelling.Unknown("unknown model %.80q; the built-in names are listed by \"llmprof models list\", "+
			"and a hub id (org/name), a directory or a config.json will do too", name)
	}
	return spelling.Unknown("unknown model %.80q; did you mean %s?", name, strings.Join(near, ", "))
}

// near lists names of the table: those that name is the beginning of; or else those of
// the release that it names, or of the family's nearest ones; or
// else those that are the fewest edits from it, by the nearest of each model's
// own name and aliases; or else those whose beginning is one edit from it.
func (t *Table) near(name string) []string {
	const fewest, most, longest = 3, 8, 80
	typed := fold(name)
	if len(typed) < 2 || len(typed) > longest {
		return nil
	}
	if begun := t.beginning(typed); len(begun) > 0 {
		return begun[:min(most, len(begun))]
	}
	if others := t.otherReleases(name); len(others) > 0 {
		return others[:min(fewest, len(others))]
	}
	groups := make([][]string, len(t.entries))
	for i, e := range t.entries {
		groups[i] = []string{e.Name}
		for _, alias := range e.Aliases { // an organization counts only if one was typed
			if !strings.Contains(typed, "/") {
				alias = alias[strings.LastIndexByte(alias, '/')+1:]
			}
			groups[i] = append(groups[i], alias)
		}
	}
	var names []string
	for _, m := range spelling.Nearest(name, groups) {
		names = append(names, t.entries[m.Index].Name)
	}
	if len(names) == 0 {
		names = t.misspeltBeginning(typed)
	}
	return names[:min(most, len(names))]
}

// beginning lists the models whose own name begins with a folded text.
func (t *Table) beginning(typed string) []string {
	var names []string
	for _, e := range t.entries {
		if strings.HasPrefix(fold(e.Name), typed) {
			names = append(names, e.Name)
		}
	}
	return names
}

// misspeltBeginning lists the models whose own name begins with what is one edit
// from a folded text.
func (t *Table) misspeltBeginning(typed string) []string {
	var names []string
	for _, e := range t.entries {
		name := fold(e.Name)
		for length := len(typed) - 1; length <= min(len(typed)+1, len(name)); length++ {
			if spelling.Distance(typed, name[:length]) == 1 {
				names = append(names, e.Name)
				break
			}
		}
	}
	return names
}

// released splits a name into its family and its release, as "qwen" and 3.6 of
// "qwen3.6-27b". A number of billions or millions is a size and no release.
var released = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^([a-z-]*[a-z])-?(\d(?:\.\d+)?)(?:-|$)`) })

// release is the family and the release that a name states, if it does.
func release(name string) (family string, number float64, ok bool) {
	parts := released().FindStringSubmatch(strings.ReplaceAll(strings.ToLower(name), "_", "-"))
	if parts == nil {
		return "", 0, false
	}
	number, err := strconv.ParseFloat(parts[2], 64)
	return fold(parts[1]), number, err == nil
}

// sized finds the number of parameters in a name, as 72b and 0.6b.
var sized = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?:^|[^a-z0-9.])(\d+(?:\.\d+)?)([bmt])(?:$|[^a-z0-9])`)
})

// size is the number of parameters that a name states, 0 if none.
func size(name string) float64 {
	parts := sized().FindStringSubmatch(strings.ToLower(name))
	if parts == nil {
		return 0
	}
	n, err := strconv.ParseFloat(parts[1], 64)
	if err != nil {
		return 0
	}
	return n * map[string]float64{"m": 1e6, "b": 1e9, "t": 1e12}[parts[2]]
}

// otherReleases lists the models of a name's family, the nearest release first: those of its own generation come
// before those of another. Where the table has the release, its models come alone, the nearest size first. A family
// that the table lacks, or whose releases are farther, stands for those whose names begin with it.
func (t *Table) otherReleases(name string) []string {
	family, wanted, ok := release(name)
	if !ok {
		return nil
	}
	found := t.ofFamily(name, wanted, func(of string) bool { return of == family })
	longer := t.ofFamily(name, wanted, func(of string) bool { return len(family) > 2 && strings.HasPrefix(of, family) })
	if len(longer) > 0 && (len(found) == 0 || longer[0].far < found[0].far) {
		found = longer
	}
	var names []string
	for _, c := range found {
		if found[0].far > 0 || c.far == 0 {
			names = append(names, c.name)
		}
	}
	return names
}

// A neighbour is a model of a family, and how far it is from what was typed.
type neighbour struct {
	name       string
	far        float64 // in releases; a generation counts as 100
	size       float64 // the logarithm of how many times larger or smaller it is
	edits, row int
}

// ofFamily lists the models of the families that are asked for, the nearest first.
func (t *Table) ofFamily(name string, wanted float64, is func(family string) bool) []neighbour {
	var found []neighbour
	for i, e := range t.entries {
		of, number, ok := release(e.Name)
		if !ok || !is(of) {
			continue
		}
		c := neighbour{
			name: e.Name, far: math.Round(100*math.Abs(number-wanted))/100 + 100*math.Abs(math.Floor(number)-math.Floor(wanted)),
			edits: spelling.Distance(name, e.Name), row: i,
		}
		if a, b := size(name), size(e.Name); a > 0 {
			c.size = math.Abs(math.Log(a / b)) // a name without a size comes last
		}
		found = append(found, c)
	}
	sort.Slice(found, func(i, j int) bool { // slices.SortFunc would be compiled for this type alone, 5 kB of what the page transfers
		a, b := &found[i], &found[j]
		return cmp.Or(cmp.Compare(a.far, b.far), cmp.Compare(a.size, b.size), a.edits-b.edits, a.row-b.row) < 0
	})
	return found
}
