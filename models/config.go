package models

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"llmprof/internal/input"
)

// Limits on a config.json. Published ones are below 100 KB and nest five deep.
const (
	maxConfigBytes  = 8 << 20
	maxDepth        = 32
	maxConfigValues = 200_000
)

// parseConfig reads one JSON object. Unlike encoding/json it accepts the bare
// Infinity and NaN that Python writes (as texts, so that they can never be a
// size), and refuses keys that are given twice, of which Python keeps the last
// and others the first.
func parseConfig(data []byte) (map[string]any, error) {
	limits := input.Limits{Bytes: maxConfigBytes, Depth: maxDepth, Values: maxConfigValues}
	if err := limits.JSON(string(data)); err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(quoteNonFinite(data)))
	d.UseNumber()
	v, err := parseValue(d, "config")
	if err != nil {
		return nil, fmt.Errorf("config is not valid JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("config has more text after its end at byte %d", d.InputOffset())
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("config is %s; want a JSON object", kindOf(v))
	}
	return object, nil
}

// parseValue reads the next value; path names it in errors.
func parseValue(d *json.Decoder, path string) (any, error) {
	t, err := d.Token()
	if errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s ends too early: %w", path, io.ErrUnexpectedEOF)
	}
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('{'):
		return parseObject(d, path)
	case json.Delim('['):
		return parseList(d, path)
	}
	return t, nil
}

func parseObject(d *json.Decoder, path string) (map[string]any, error) {
	object := make(map[string]any)
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		key, ok := t.(string)
		if !ok {
			return nil, fmt.Errorf("%s has the key %v; want a text", path, t)
		}
		if _, twice := object[key]; twice {
			return nil, fmt.Errorf("%s has the key %s twice", path, quote(key))
		}
		if object[key], err = parseValue(d, short(key)); err != nil {
			return nil, err
		}
	}
	_, err := d.Token()
	return object, unexpectedEnd(err, path)
}

func parseList(d *json.Decoder, path string) ([]any, error) {
	list := []any{}
	for d.More() {
		v, err := parseValue(d, path)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	_, err := d.Token()
	return list, unexpectedEnd(err, path)
}

// unexpectedEnd says of an end of file what it cut off.
func unexpectedEnd(err error, path string) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%s ends too early: %w", path, io.ErrUnexpectedEOF)
	}
	return err
}

// quoteNonFinite puts quotes around Infinity, -Infinity and NaN where they
// stand outside of texts.
func quoteNonFinite(data []byte) []byte {
	words := [][]byte{[]byte("-Infinity"), []byte("Infinity"), []byte("NaN")}
	if !bytes.Contains(data, words[1]) && !bytes.Contains(data, words[2]) {
		return data
	}
	out := make([]byte, 0, len(data)+16)
	inText := false
next:
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case inText && c == '\\' && i+1 < len(data):
			out = append(out, c, data[i+1])
			i++
			continue
		case c == '"':
			inText = !inText
		case !inText && (c == '-' || c == 'I' || c == 'N'):
			for _, w := range words {
				if bytes.HasPrefix(data[i:], w) {
					out = append(append(append(out, '"'), w...), '"')
					i += len(w) - 1
					continue next
				}
			}
		}
		out = append(out, data[i])
	}
	return out
}

// kindOf names the JSON kind of v for errors.
func kindOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return fmt.Sprint(v)
	case json.Number:
		return short(v.String())
	case string:
		return "the text " + quote(v)
	case []any:
		return "a list"
	}
	return "an object"
}

// quote is s in quotes, cut to a length that fits into an error.
func quote(s string) string { return fmt.Sprintf("%q", short(s)) }

// short is s, cut to a length that fits into an error.
func short(s string) string {
	const limit = 60
	if len(s) > limit {
		return s[:limit] + "..."
	}
	return s
}
