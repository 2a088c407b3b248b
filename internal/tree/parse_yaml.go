package tree

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"sync"

	yaml "github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// ParseYAML reads a YAML file of one document.
func ParseYAML(s *Source) (*Node, error) {
	tokens, err := yamlTokens(s)
	if err != nil {
		return nil, err
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		if located, ok := errors.AsType[yaml.Error](err); ok && located.GetToken() != nil {
			p := located.GetToken().Position
			return nil, s.place(p.Line, p.Column, len(located.GetToken().Value)).Errorf("%s", located.GetMessage())
		}
		return nil, Place{Source: s}.Errorf("%v", err)
	}
	var body []ast.Node
	for _, doc := range file.Docs {
		if doc.Body != nil {
			body = append(body, doc.Body)
		}
	}
	if len(body) == 0 {
		return &Node{At: Place{Source: s}, Kind: TableKind}, nil
	}
	y := yamlParser{source: s, anchors: map[string]ast.Node{}}
	if len(body) > 1 {
		return nil, y.at(body[1]).Errorf("a second document: want one")
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
func yamlTokens(s *Source) (token.Tokens, error) {
	marks := 0
	for i := range len(s.Text) {
		if strings.IndexByte("[]{},:-?&*!\n", s.Text[i]) >= 0 {
			marks++
		}
	}
	if marks > mostMarks {
		return nil, Place{Source: s}.Errorf("more than %d lines, colons, commas and brackets; a grid gives many points in few", mostMarks)
	}
	tokens := lexer.Tokenize(s.Text)
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
			return nil, s.place(line, t.Position.Column, 1).Errorf("nested more than %d deep", deepest)
		}
	}
	return tokens, nil
}

type yamlParser struct {
	source  *Source
	anchors map[string]ast.Node
	nodes   int
}

func (y *yamlParser) at(n ast.Node) Place {
	t := n.GetToken()
	if t == nil || t.Position == nil {
		return Place{Source: y.source}
	}
	return y.source.place(t.Position.Line, t.Position.Column, max(len([]rune(t.Value)), 1))
}

func (y *yamlParser) node(n ast.Node, depth int) (*Node, error) {
	if n == nil {
		return &Node{At: Place{Source: y.source}}, nil
	}
	y.nodes++
	if depth > deepest || y.nodes > mostValues {
		return nil, y.at(n).Errorf("nested deeper than %d, or more than %d values", deepest, mostValues)
	}
	switch v := n.(type) {
	case *ast.MappingNode:
		return y.table(n, v.Values, depth)
	case *ast.MappingValueNode:
		return y.table(n, []*ast.MappingValueNode{v}, depth)
	case *ast.SequenceNode:
		list := &Node{At: y.at(n), Kind: ListKind}
		for _, item := range v.Values {
			value, err := y.node(item, depth+1)
			if err != nil {
				return nil, err
			}
			list.Items = append(list.Items, value)
		}
		return list, nil
	case *ast.AnchorNode:
		y.anchors[v.Name.String()] = v.Value
		return y.node(v.Value, depth+1)
	case *ast.AliasNode:
		target, ok := y.anchors[v.Value.String()]
		if !ok {
			return nil, y.at(n).Errorf("no anchor %q stands before this alias", v.Value.String())
		}
		return y.node(target, depth+1)
	}
	return y.scalar(n)
}

// exponent is a number that the parser takes for a text.
var exponent = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[-+]?(\.\d+|\d+(\.\d*)?)[eE][-+]?\d+$`) })

// scalar reads one value. The parser takes "4e2" for a text, which YAML 1.2.2
// (section 10.3.2) has as a number.
func (y *yamlParser) scalar(n ast.Node) (*Node, error) {
	out := &Node{At: y.at(n)}
	switch v := n.(type) {
	case *ast.NullNode:
	case *ast.BoolNode:
		out.Scalar = v.Value
	case *ast.IntegerNode:
		out.Scalar = v.Value
		if u, ok := v.Value.(uint64); ok && u <= math.MaxInt64 {
			out.Scalar = int64(u)
		}
	case *ast.FloatNode:
		out.Scalar = v.Value
	case *ast.StringNode:
		out.Scalar = v.Value
		if exponent().MatchString(v.Value) && v.GetToken().Type == token.StringType {
			f, err := number(v.Value)
			if err != nil {
				return nil, out.At.Errorf("%v", err)
			}
			out.Scalar = f
		}
	case *ast.LiteralNode:
		out.Scalar = v.Value.Value
	default:
		return nil, out.At.Errorf("%v: want a text, a number, true, false, null, a list or a table", n.Type())
	}
	return out, nil
}

func (y *yamlParser) table(at ast.Node, values []*ast.MappingValueNode, depth int) (*Node, error) {
	table := &Node{At: y.at(at), Kind: TableKind}
	seen := map[string]bool{}
	for _, v := range values {
		value, err := y.node(v.Value, depth+1)
		if err != nil {
			return nil, err
		}
		if _, ok := v.Key.(*ast.MergeKeyNode); ok {
			if value.Kind != TableKind {
				return nil, y.at(v.Key).Errorf("<< takes %s: want a table", value.What())
			}
			table = table.Over(value)
			for _, p := range table.Pairs {
				seen[p.Key] = true
			}
			continue
		}
		key := fmt.Sprint(v.Key)
		if k, ok := v.Key.(*ast.StringNode); ok {
			key = k.Value
		}
		keyAt := y.at(v.Key)
		if value.At.Line == 0 {
			value.At = keyAt
		}
		if seen[key] {
			table.Put(Pair{key, keyAt, value})
			continue
		}
		seen[key] = true
		table.Pairs = append(table.Pairs, Pair{key, keyAt, value})
	}
	return table, nil
}
