package tree

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"

	"llmprof/internal/fileerror"
	"llmprof/internal/input"
)

// ParseJSON reads a JSON file.
func ParseJSON(s *Source) (*Node, error) {
	if err := s.within(input.Limits.JSON); err != nil {
		return nil, err
	}
	d := json.NewDecoder(strings.NewReader(s.Text))
	d.UseNumber()
	p := jsonParser{s, d}
	n, err := p.value()
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, p.source.at(int(p.d.InputOffset())-1, 1).Errorf("more follows the first value: want one object")
	}
	return n, nil
}

type jsonParser struct {
	source *Source
	d      *json.Decoder
}

// start is where the next token begins.
func (p *jsonParser) start() int {
	rest := p.source.Text[p.d.InputOffset():]
	return len(p.source.Text) - len(strings.TrimLeft(rest, " \t\r\n,:"))
}

func (p *jsonParser) token() (json.Token, Place, error) {
	from := p.start()
	token, err := p.d.Token()
	if err == nil {
		return token, p.source.at(from, int(p.d.InputOffset())-from), nil
	}
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return nil, Place{}, p.source.at(int(syntax.Offset)-1, 1).Errorf("not JSON: %v", err)
	}
	return nil, Place{}, p.source.at(len(strings.TrimSpace(p.source.Text))-1, 1).Errorf("the file ends in the middle of a value")
}

func (p *jsonParser) value() (*Node, error) {
	token, at, err := p.token()
	if err != nil {
		return nil, err
	}
	switch v := token.(type) {
	case json.Delim:
		if v == '{' {
			return p.table(at)
		}
		return p.list(at)
	case json.Number:
		n, err := number(v.String())
		if err != nil {
			return nil, at.Errorf("%v", err)
		}
		return &Node{At: at, Scalar: n}, nil
	}
	return &Node{At: at, Scalar: token}, nil
}

func (p *jsonParser) list(at Place) (*Node, error) {
	n := &Node{At: at, Kind: ListKind}
	for p.d.More() {
		item, err := p.value()
		if err != nil {
			return nil, err
		}
		n.Items = append(n.Items, item)
	}
	_, _, err := p.token()
	return n, err
}

func (p *jsonParser) table(at Place) (*Node, error) {
	n := &Node{At: at, Kind: TableKind}
	seen := map[string]bool{}
	for p.d.More() {
		token, at, err := p.token()
		if err != nil {
			return nil, err
		}
		key, _ := token.(string)
		if seen[key] {
			return nil, at.Errorf("%.60q stands twice", key)
		}
		seen[key] = true
		value, err := p.value()
		if err != nil {
			return nil, err
		}
		n.Pairs = append(n.Pairs, Pair{key, at, value})
	}
	_, _, err := p.token()
	return n, err
}

// number reads a whole number as one, another as a float64.
func number(text string) (any, error) {
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return i, nil
	}
	if u, err := strconv.ParseUint(text, 10, 64); err == nil {
		return u, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return nil, errors.New("want a finite number, not " + strconv.Quote(fileerror.Short(text)))
	}
	return f, nil
}
