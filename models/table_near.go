package models

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// unknown is the error of a name that the table does not have, with the names
// that it is near to.
func (t *Table) unknown(name string) error {
	near := t.near(name)
	if len(near) == 0 {
		return fmt.Errorf("unknown model %.80q; the built-in names are listed by \"llmprof models list\", "+
			"and a hub id (org/name), a directory or a config.json will do too", name)
	}
	return fmt.Errorf("unknown model %.80q; did you mean %s?", name, strings.Join(near, ", "))
}

// near lists names of the table: those that name is the beginning of, or else
// those that are the fewest edits from it, by the nearest of each model's own
// name and aliases.
func (t *Table) near(name string) []string {
	const fewest, most, longest = 3, 8, 80
	typed := fold(name)
	if len(typed) < 2 || len(typed) > longest {
		return nil
	}
	if begun := t.beginning(typed); len(begun) > 0 {
		return begun[:min(most, len(begun))]
	}
	type candidate struct {
		name  string
		edits int
	}
	var found []candidate
	for _, e := range t.entries {
		least := levenshtein.ComputeDistance(typed, fold(e.Name))
		for _, alias := range e.Aliases {
			least = min(least, editsTo(typed, alias))
		}
		if least <= max(2, len(typed)/3) {
			found = append(found, candidate{e.Name, least})
		}
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return a.edits - b.edits })
	var names []string
	for _, c := range found[:min(fewest, len(found))] {
		names = append(names, c.name)
	}
	return names
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

// editsTo counts the edits from a folded name to an alias. Of a hub id the name
// alone counts unless an organization was typed too.
func editsTo(typed, alias string) int {
	if !strings.Contains(typed, "/") {
		alias = alias[strings.LastIndexByte(alias, '/')+1:]
	}
	return levenshtein.ComputeDistance(typed, fold(alias))
}
