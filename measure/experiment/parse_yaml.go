package experiment

import (
	"errors"
	"fmt"
	"math"
	"regexp"

	yaml "github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// mostNodes bounds what aliases may blow a YAML file up to.
const mostNodes = 100_000

// parseYAML reads a YAML file of one document.
func parseYAML(s *source) (*node, error) {
	file, err := parser.ParseBytes([]byte(s.text), 0)
	if err != nil {
		var located yaml.Error
		if errors.As(err, &located) && located.GetToken() != nil {
			p := located.GetToken().Position
			return nil, place{s, p.Line, p.Column, len(located.GetToken().Value)}.mistake("%s", located.GetMessage())
		}
		return nil, place{source: s}.mistake("%v", err)
	}
	var body []ast.Node
	for _, doc := range file.Docs {
		if doc.Body != nil {
			body = append(body, doc.Body)
		}
	}
	if len(body) == 0 {
		return &node{at: place{source: s}, kind: tableKind}, nil
	}
	y := yamlParser{source: s, anchors: map[string]ast.Node{}}
	if len(body) > 1 {
		return nil, y.at(body[1]).mistake("a second document: want one")
	}
	return y.node(body[0], 0)
}

type yamlParser struct {
	source  *source
	anchors map[string]ast.Node
	nodes   int
}

func (y *yamlParser) at(n ast.Node) place {
	t := n.GetToken()
	if t == nil || t.Position == nil {
		return place{source: y.source}
	}
	return place{y.source, t.Position.Line, t.Position.Column, max(runes(t.Value), 1)}
}

func (y *yamlParser) node(n ast.Node, depth int) (*node, error) {
	if n == nil {
		return &node{at: place{source: y.source}}, nil
	}
	y.nodes++
	if depth > deepest || y.nodes > mostNodes {
		return nil, y.at(n).mistake("nested deeper than %d, or more than %d values", deepest, mostNodes)
	}
	switch v := n.(type) {
	case *ast.MappingNode:
		return y.table(n, v.Values, depth)
	case *ast.MappingValueNode:
		return y.table(n, []*ast.MappingValueNode{v}, depth)
	case *ast.SequenceNode:
		list := &node{at: y.at(n), kind: listKind}
		for _, item := range v.Values {
			value, err := y.node(item, depth+1)
			if err != nil {
				return nil, err
			}
			list.items = append(list.items, value)
		}
		return list, nil
	case *ast.AnchorNode:
		y.anchors[v.Name.String()] = v.Value
		return y.node(v.Value, depth+1)
	case *ast.AliasNode:
		target, ok := y.anchors[v.Value.String()]
		if !ok {
			return nil, y.at(n).mistake("no anchor %q stands before this alias", v.Value.String())
		}
		return y.node(target, depth+1)
	}
	return y.scalar(n)
}

// scalar reads one value. The parser takes "4e2" for a text, which YAML 1.2.2
// (section 10.3.2) has as a number.
func (y *yamlParser) scalar(n ast.Node) (*node, error) {
	exponent := regexp.MustCompile(`^[-+]?(\.\d+|\d+(\.\d*)?)[eE][-+]?\d+$`)
	out := &node{at: y.at(n)}
	switch v := n.(type) {
	case *ast.NullNode:
	case *ast.BoolNode:
		out.scalar = v.Value
	case *ast.IntegerNode:
		out.scalar = v.Value
		if u, ok := v.Value.(uint64); ok && u <= math.MaxInt64 {
			out.scalar = int64(u)
		}
	case *ast.FloatNode:
		out.scalar = v.Value
	case *ast.StringNode:
		out.scalar = v.Value
		if exponent.MatchString(v.Value) && v.GetToken().Type == token.StringType {
			f, err := number(v.Value)
			if err != nil {
				return nil, out.at.mistake("%v", err)
			}
			out.scalar = f
		}
	case *ast.LiteralNode:
		out.scalar = v.Value.Value
	default:
		return nil, out.at.mistake("%v: want a text, a number, true, false, null, a list or a table", n.Type())
	}
	return out, nil
}

func (y *yamlParser) table(at ast.Node, values []*ast.MappingValueNode, depth int) (*node, error) {
	table := &node{at: y.at(at), kind: tableKind}
	for _, v := range values {
		value, err := y.node(v.Value, depth+1)
		if err != nil {
			return nil, err
		}
		if _, ok := v.Key.(*ast.MergeKeyNode); ok {
			if value.kind != tableKind {
				return nil, y.at(v.Key).mistake("<< takes %s: want a table", value.what())
			}
			table = table.over(value)
			continue
		}
		key := fmt.Sprint(v.Key)
		if k, ok := v.Key.(*ast.StringNode); ok {
			key = k.Value
		}
		keyAt := y.at(v.Key)
		if value.at.line == 0 {
			value.at = keyAt
		}
		table.put(pair{key, keyAt, value})
	}
	return table, nil
}
