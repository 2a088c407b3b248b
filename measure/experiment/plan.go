package experiment

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"llmprof/measure/spelling"
	"llmprof/unit"
)

// A plan is the tables of an experiment that its points come from.
type plan struct{ base, grid, points, exclude *node }

// frameKeys are the keys of an experiment that are no settings of a point.
func frameKeys() []string {
	return []string{"name", "extends", "cycles", "order", "order_seed", "gap_s", "grid", "points", "exclude", "metadata"}
}

// points are the cross product of the grid, then the listed points, less what
// is excluded.
func (r *reader) points(p *plan) []Point {
	base := Default()
	r.lay(&base, p.base, frameKeys())
	rows := r.combinations(p.grid)
	listed := r.tables(p.points, "points")
	if p.grid == nil && len(listed) > 0 {
		rows = nil
	}
	excluded := r.rules(p.exclude)
	all := append(rows, listed...)
	var points []Point
	seen := map[string]bool{}
	for _, row := range all {
		point := base
		r.lay(&point, row, nil)
		if slices.ContainsFunc(excluded, func(rule []condition) bool { return matches(&point, rule) }) {
			continue
		}
		hash, err := point.Hash()
		if err != nil || seen[hash] {
			r.warn(row.at, "the point %s stands twice: it is run once; for repeats give cycles", describe(row))
			continue
		}
		seen[hash] = true
		if r.hold(&point, row, p.base); r.full() {
			break
		}
		points = append(points, point)
	}
	if len(points) == 0 && len(r.mistakes) == 0 {
		r.wrong(p.base.at.mistake("no point is left: exclude leaves none of %d", len(all)))
	}
	return points
}

// lay gives a point the settings of a table.
func (r *reader) lay(p *Point, n *node, beside []string) {
	if n == nil {
		return
	}
	for _, pair := range n.pairs {
		if r.full() {
			return
		}
		if !slices.Contains(settingKeys, pair.key) {
			r.wrong(unknown(pair, beside))
			continue
		}
		r.wrong(p.set(pair.key, pair.value))
	}
}

func unknown(p pair, beside []string) *Mistake {
	at := p.at
	known := append(Settings(), beside...)
	return at.mistake("%.60q is not a setting; %s", p.key, spelling.Hint(p.key, known))
}

// hold notes what is wrong with a point, at the setting that it is wrong in.
func (r *reader) hold(p *Point, row, base *node) {
	found := p.problems()
	for _, check := range r.checks {
		found = append(found, check(p)...)
	}
	for _, w := range found {
		at := base.at
		for _, n := range []*node{row, base} {
			if v := n.get(w.Key); v != nil {
				at = v.at
				break
			}
		}
		list := (*[]*Mistake)(&r.mistakes)
		if w.Warning {
			list = &r.warnings
		}
		m := at.mistake("%s: %s", w.Key, w.Text)
		if !slices.ContainsFunc(*list, func(o *Mistake) bool { return reflect.DeepEqual(o, m) }) {
			*list = append(*list, m)
		}
	}
}

// combinations are the rows of a grid, the last key varying fastest.
func (r *reader) combinations(grid *node) []*node {
	rows := []*node{{kind: tableKind}}
	if grid == nil {
		return rows
	}
	if grid.kind != tableKind {
		r.wrong(grid.at.mistake("grid: %s: want a table of settings with lists of their values", grid.what()))
		return nil
	}
	for _, axis := range grid.pairs {
		if r.full() {
			return nil
		}
		if !slices.Contains(settingKeys, axis.key) {
			r.wrong(unknown(axis, nil))
			continue
		}
		values := axis.value.items
		switch {
		case axis.value.kind != listKind || len(values) == 0:
			r.wrong(axis.value.at.mistake("grid: %s is %s: want a list of values, as [1, 8, 32]", axis.key, axis.value.what()))
			continue
		case len(rows)*len(values) > mostPoints:
			r.wrong(axis.value.at.mistake("grid: more than %d points", mostPoints))
			return nil
		}
		next := make([]*node, 0, len(rows)*len(values))
		for _, row := range rows {
			for _, v := range values {
				joined := &node{at: v.at, kind: tableKind, pairs: slices.Clone(row.pairs)}
				joined.put(pair{axis.key, axis.at, v})
				next = append(next, joined)
			}
		}
		rows = next
	}
	return rows
}

// tables reads a list of tables.
func (r *reader) tables(n *node, key string) []*node {
	if n == nil {
		return nil
	}
	if n.kind != listKind || len(n.items) > mostPoints {
		r.wrong(n.at.mistake("%s: %s: want a list of at most %d tables", key, n.what(), mostPoints))
		return nil
	}
	var tables []*node
	for _, item := range n.items {
		if item.kind != tableKind || len(item.pairs) == 0 {
			r.wrong(item.at.mistake("%s: %s: want a table with settings", key, item.what()))
			continue
		}
		tables = append(tables, item)
	}
	return tables
}

// A condition is a setting that a rule excludes, with the values that it does.
type condition struct {
	key    string
	values []any
}

// rules reads what is excluded, each value converted as a setting.
func (r *reader) rules(n *node) [][]condition {
	var rules [][]condition
	for _, table := range r.tables(n, "exclude") {
		probe := Default()
		r.lay(&probe, flat(table), nil)
		var rule []condition
		for _, p := range table.pairs {
			rule = append(rule, condition{p.key, converted(p)})
		}
		rules = append(rules, rule)
	}
	return rules
}

// converted are the values of a rule's setting, of which a list has several.
// What cannot be converted matches nothing.
func converted(p pair) []any {
	nodes := []*node{p.value}
	if p.key != "gpus" && p.value.kind == listKind {
		nodes = p.value.items
	}
	var values []any
	for _, n := range nodes {
		probe := Default()
		if probe.set(p.key, n) == nil {
			values = append(values, probe.Value(p.key))
		}
	}
	return values
}

// flat is a rule with the first of each list of values.
func flat(rule *node) *node {
	out := &node{at: rule.at, kind: tableKind}
	for _, p := range rule.pairs {
		if p.key != "gpus" && p.value.kind == listKind && len(p.value.items) > 0 {
			p.value = p.value.items[0]
		}
		out.pairs = append(out.pairs, p)
	}
	return out
}

// matches reports whether a point has every setting of a rule. A list of values
// matches any of them.
func matches(p *Point, rule []condition) bool {
	return !slices.ContainsFunc(rule, func(c condition) bool {
		own := p.Value(c.key)
		return !slices.ContainsFunc(c.values, func(v any) bool { return reflect.DeepEqual(own, v) })
	})
}

// describe is a row in short: "batch = 8, prompt_len = 128".
func describe(row *node) string {
	var parts []string
	for _, p := range row.pairs {
		parts = append(parts, fmt.Sprintf("%s = %v", p.key, p.value.plain()))
	}
	if len(parts) == 0 {
		return "without settings of its own"
	}
	return strings.Join(parts, ", ")
}

func assignSeconds(s *unit.Seconds, n *node) error { return assign(reflect.ValueOf(s).Elem(), n) }
