package experiment

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"

	"llmprof/input"
)

// parseJSON reads a JSON file.
func parseJSON(s *source) (*node, error) {
	if err := s.within(input.Limits.JSON); err != nil {
		return nil, err
	}
	d := json.NewDecoder(strings.NewReader(s.text))
	d.UseNumber()
	p := jsonParser{s, d}
	n, err := p.value()
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, p.here(1).mistake("more follows the first value: want one object")
	}
	return n, nil
}

type jsonParser struct {
	source *source
	d      *json.Decoder
}

// here is the place of the token that ends where the decoder is.
func (p *jsonParser) here(width int) place {
	return p.source.at(int(p.d.InputOffset())-width, width)
}

// start is where the next token begins.
func (p *jsonParser) start() int {
	rest := p.source.text[p.d.InputOffset():]
	return len(p.source.text) - len(strings.TrimLeft(rest, " \t\r\n,:"))
}

func (p *jsonParser) token() (json.Token, place, error) {
	from := p.start()
	token, err := p.d.Token()
	if err == nil {
		return token, p.source.at(from, int(p.d.InputOffset())-from), nil
	}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return nil, place{}, p.source.at(int(syntax.Offset)-1, 1).mistake("not JSON: %v", err)
	}
	return nil, place{}, p.source.at(len(strings.TrimSpace(p.source.text))-1, 1).mistake("the file ends in the middle of a value")
}

func (p *jsonParser) value() (*node, error) {
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
			return nil, at.mistake("%v", err)
		}
		return &node{at: at, scalar: n}, nil
	}
	return &node{at: at, scalar: token}, nil
}

func (p *jsonParser) list(at place) (*node, error) {
	n := &node{at: at, kind: listKind}
	for p.d.More() {
		item, err := p.value()
		if err != nil {
			return nil, err
		}
		n.items = append(n.items, item)
	}
	_, _, err := p.token()
	return n, err
}

func (p *jsonParser) table(at place) (*node, error) {
	n := &node{at: at, kind: tableKind}
	seen := map[string]bool{}
	for p.d.More() {
		token, at, err := p.token()
		if err != nil {
			return nil, err
		}
		key, _ := token.(string)
		if seen[key] {
			return nil, at.mistake("%.60q stands twice", key)
		}
		seen[key] = true
		value, err := p.value()
		if err != nil {
			return nil, err
		}
		n.pairs = append(n.pairs, pair{key, at, value})
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
		return nil, errors.New("want a finite number, not " + strconv.Quote(input.Short(text)))
	}
	return f, nil
}
