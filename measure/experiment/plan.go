package experiment

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"llmprof/internal/fileerror"
	"llmprof/internal/spelling"
	"llmprof/internal/tree"
)

// A plan is the tables of an experiment that its points come from.
type plan struct{ base, grid, points, exclude *tree.Node }

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
			r.warn(row.At, "the point %s stands twice: it is run once; for repeats give cycles", describe(row))
			continue
		}
		seen[hash] = true
		if r.hold(&point, row, p.base); r.full() {
			break
		}
		points = append(points, point)
	}
	if len(points) == 0 && len(r.errs) == 0 {
		r.wrong(p.base.At.Errorf("no point is left: exclude leaves none of %d", len(all)))
	}
	return points
}

// lay sets a point's fields from a table.
func (r *reader) lay(p *Point, n *tree.Node, beside []string) {
	if n == nil {
		return
	}
	for _, pair := range n.Pairs {
		if r.full() {
			return
		}
		if !slices.Contains(settingKeys, pair.Key) {
			r.wrong(unknown(pair, beside))
			continue
		}
		r.wrong(p.set(pair.Key, pair.Value))
	}
}

func unknown(p tree.Pair, beside []string) *fileerror.Error {
	at := p.At
	known := append(Settings(), beside...)
	return at.Errorf("%.60q is not a setting; %s", p.Key, spelling.Hint(p.Key, known))
}

// hold records what is wrong with a point, at the setting that has the mistake.
func (r *reader) hold(p *Point, row, base *tree.Node) {
	found := p.problems()
	for _, check := range r.checks {
		found = append(found, check(p)...)
	}
	for _, w := range found {
		at := base.At
		for _, n := range []*tree.Node{row, base} {
			if v := n.Get(w.Key); v != nil {
				at = v.At
				break
			}
		}
		list := (*[]*fileerror.Error)(&r.errs)
		if w.Warning {
			list = &r.warnings
		}
		m := at.Errorf("%s: %s", w.Key, w.Text)
		if !slices.ContainsFunc(*list, func(o *fileerror.Error) bool { return reflect.DeepEqual(o, m) }) {
			*list = append(*list, m)
		}
	}
}

// combinations are the rows of a grid, the last key varying fastest.
func (r *reader) combinations(grid *tree.Node) []*tree.Node {
	rows := []*tree.Node{{Kind: tree.TableKind}}
	if grid == nil {
		return rows
	}
	if grid.Kind != tree.TableKind {
		r.wrong(grid.At.Errorf("grid: %s: want a table of settings with lists of their values", grid.What()))
		return nil
	}
	for _, axis := range grid.Pairs {
		if r.full() {
			return nil
		}
		if !slices.Contains(settingKeys, axis.Key) {
			r.wrong(unknown(axis, nil))
			continue
		}
		values := axis.Value.Items
		switch {
		case axis.Value.Kind != tree.ListKind || len(values) == 0:
			r.wrong(axis.Value.At.Errorf("grid: %s is %s: want a list of values, as [1, 8, 32]", axis.Key, axis.Value.What()))
			continue
		case len(rows)*len(values) > mostPoints:
			r.wrong(axis.Value.At.Errorf("grid: more than %d points", mostPoints))
			return nil
		}
		next := make([]*tree.Node, 0, len(rows)*len(values))
		for _, row := range rows {
			for _, v := range values {
				joined := &tree.Node{At: v.At, Kind: tree.TableKind, Pairs: slices.Clone(row.Pairs)}
				joined.Put(tree.Pair{Key: axis.Key, At: axis.At, Value: v})
				next = append(next, joined)
			}
		}
		rows = next
	}
	return rows
}

func (r *reader) tables(n *tree.Node, key string) []*tree.Node {
	if n == nil {
		return nil
	}
	if n.Kind != tree.ListKind || len(n.Items) > mostPoints {
		r.wrong(n.At.Errorf("%s: %s: want a list of at most %d tables", key, n.What(), mostPoints))
		return nil
	}
	var tables []*tree.Node
	for _, item := range n.Items {
		if item.Kind != tree.TableKind || len(item.Pairs) == 0 {
			r.wrong(item.At.Errorf("%s: %s: want a table with settings", key, item.What()))
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

// rules reads what is excluded, each value converted as a setting; a list has several. What cannot be converted
// matches nothing.
func (r *reader) rules(n *tree.Node) (rules [][]condition) {
	for _, table := range r.tables(n, "exclude") {
		var rule []condition
		for _, p := range table.Pairs {
			if !slices.Contains(settingKeys, p.Key) {
				r.wrong(unknown(p, nil))
			}
			c, nodes := condition{key: p.Key}, []*tree.Node{p.Value}
			if p.Key != "gpus" && p.Value.Kind == tree.ListKind && len(p.Value.Items) > 0 {
				nodes = p.Value.Items
			}
			for i, n := range nodes {
				probe := Default()
				mistake := probe.set(p.Key, n)
				if mistake == nil {
					c.values = append(c.values, probe.Value(p.Key))
				} else if i == 0 && slices.Contains(settingKeys, p.Key) {
					r.wrong(mistake)
				}
			}
			rule = append(rule, c)
		}
		rules = append(rules, rule)
	}
	return rules
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
func describe(row *tree.Node) string {
	var parts []string
	for _, p := range row.Pairs {
		parts = append(parts, fmt.Sprintf("%s = %v", p.Key, p.Value.Plain()))
	}
	if len(parts) == 0 {
		return "without settings of its own"
	}
	return strings.Join(parts, ", ")
}
