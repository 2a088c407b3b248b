package experiment

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"

	yaml "github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// parseYAML reads a YAML file of one document.
func parseYAML(s *source) (*node, error) {
	tokens, err := yamlTokens(s)
	if err != nil {
		return nil, err
	}
	file, err := parser.Parse(tokens, 0)
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

// mostMarks bounds the tokens of a text, which take 5 KB each until they are
// nodes.
const mostMarks = 40_000

// yamlTokens are the tokens of a text. The parser recurses over them, so that how
// deep it will is counted first: brackets within each other, and on one line what
// nests without any, as "- - -". Indented lines nest less than a thousand deep in a
// file of the size that is read.
func yamlTokens(s *source) (token.Tokens, error) {
	marks := 0
	for i := range len(s.text) {
		if strings.IndexByte("[]{},:-?&*!\n", s.text[i]) >= 0 {
			marks++
		}
	}
	if marks > mostMarks {
		return nil, place{source: s}.mistake("more than %d lines, colons, commas and brackets; a grid gives many points in few", mostMarks)
	}
	tokens := lexer.Tokenize(s.text)
	brackets, inLine, line := 0, 0, 0
	for _, t := range tokens {
		if t.Position.Line != line {
			line, inLine = t.Position.Line, 0
		}
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			brackets++
		case token.SequenceEndType, token.MappingEndType:
			brackets--
			inLine = 0
		case token.CollectEntryType:
			inLine = 0
		case token.SequenceEntryType, token.MappingKeyType, token.MappingValueType, token.TagType, token.AnchorType:
			inLine++
		}
		if brackets > deepest || inLine > deepest {
			return nil, place{s, line, t.Position.Column, 1}.mistake("nested more than %d deep", deepest)
		}
	}
	return tokens, nil
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
	if depth > deepest || y.nodes > mostValues {
		return nil, y.at(n).mistake("nested deeper than %d, or more than %d values", deepest, mostValues)
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

// exponent is a number that the parser takes for a text.
var exponent = regexp.MustCompile(`^[-+]?(\.\d+|\d+(\.\d*)?)[eE][-+]?\d+$`)

// scalar reads one value. The parser takes "4e2" for a text, which YAML 1.2.2
// (section 10.3.2) has as a number.
func (y *yamlParser) scalar(n ast.Node) (*node, error) {
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
	seen := map[string]bool{}
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
			for _, p := range table.pairs {
				seen[p.key] = true
			}
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
		if seen[key] {
			table.put(pair{key, keyAt, value})
			continue
		}
		seen[key] = true
		table.pairs = append(table.pairs, pair{key, keyAt, value})
	}
	return table, nil
}
