package sweep

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"

	"llmprof/internal/printable"
)

// A column is a value of a row that is answered over and over in one place.
type column struct {
	name string
	of   any // *string, *float64, *int or *bool in the row

	value   float64 // the last number or text, which many a row has too
	string  string
	written []byte // what was written for it
}

// columnsOf are the fields of a row under the names that they have in Parquet; those of a load are in rows of grids
// that have one.
func columnsOf(row reflect.Value, loaded bool) (all []column) {
	for i := range row.NumField() {
		f := row.Field(i)
		name, _, _ := strings.Cut(row.Type().Field(i).Tag.Get("parquet"), ",")
		switch {
		case !loaded && (f.Type() == reflect.TypeFor[Loaded]() || name == "rate_hz" || name == "concurrency"):
		case f.Kind() == reflect.Struct:
			all = append(all, columnsOf(f, loaded)...)
		default:
			all = append(all, column{name: name, of: f.Addr().Interface()})
		}
	}
	return all
}

// Columns names the columns of a row, in their order.
func Columns(loaded bool) (names []string) {
	for _, c := range columnsOf(reflect.ValueOf(new(Row)).Elem(), loaded) {
		names = append(names, c.name)
	}
	return names
}

// A text writes a row as CSV or JSON, whatever it holds at the time. What the workload does not change is written
// once for all rows that share it.
type text struct {
	json              bool
	settings, numbers []column
	prefix            []byte
}

func newText(f Format, r *Row, loaded bool) *text {
	all, n := columnsOf(reflect.ValueOf(r).Elem(), loaded), len(columnsOf(reflect.ValueOf(&r.Setting).Elem(), loaded))
	return &text{json: f != CSV, settings: all[:n], numbers: all[n:]}
}

// begin begins rows of the setting that the row has.
func (t *text) begin() {
	if t.prefix = t.prefix[:0]; t.json {
		t.prefix = append(t.prefix, '{')
	}
	t.prefix = t.columns(t.prefix, t.settings)
}

// append appends the line of the row.
func (t *text) append(dst []byte) []byte {
	dst = append(dst, t.prefix...)
	dst = t.columns(dst, t.numbers)
	dst = dst[:len(dst)-1] // the last comma
	if t.json {
		dst = append(dst, '}')
	}
	return append(dst, '\n')
}

// columns appends values, each with a comma behind it.
func (t *text) columns(dst []byte, columns []column) []byte {
	for i := range columns {
		c := &columns[i]
		if t.json {
			dst = append(append(append(dst, '"'), c.name...), '"', ':')
		}
		dst = append(t.value(dst, c), ',')
	}
	return dst
}

// value appends the value of a column; one that does not exist is empty in CSV, and null
// in JSON. No counts but those of a cached prefix can be 0.
func (t *text) value(dst []byte, c *column) []byte {
	switch v := c.of.(type) {
	case *bool:
		return strconv.AppendBool(dst, *v)
	case *int:
		if *v != 0 || c.name == "cached_prefix" {
			return strconv.AppendInt(dst, int64(*v), 10)
		}
	case *float64:
		if *v != 0 {
			if *v != c.value {
				c.value, c.written = *v, appendFloat(c.written[:0], *v)
			}
			return append(dst, c.written...)
		}
	case *string:
		if *v != "" {
			if *v != c.string {
				c.string, c.written = *v, t.quote(c.written[:0], *v)
			}
			return append(dst, c.written...)
		}
	}
	if t.json {
		return append(dst, "null"...)
	}
	return dst
}

// appendFloat is strconv.AppendFloat in format g with the fewest digits that v can be read from. Format e, whose
// digits it moves where g has no exponent, is faster.
func appendFloat(dst []byte, v float64) []byte {
	if v < 1e-4 || v >= 1e6 {
		return strconv.AppendFloat(dst, v, 'g', -1, 64)
	}
	const exponent = len("e-0n")
	var scratch [32]byte
	e := strconv.AppendFloat(scratch[:0], v, 'e', -1, 64)
	first, further, n := e[0], []byte(nil), int(e[len(e)-1]-'0')
	if len(e) > exponent+1 {
		further = e[2 : len(e)-exponent]
	}
	if v < 1 {
		dst = append(append(dst, "0.000"[:1+n]...), first)
		return append(dst, further...)
	}
	dst = append(dst, first)
	if len(further) <= n {
		return append(append(dst, further...), "00000"[:n-len(further)]...)
	}
	dst = append(append(dst, further[:n]...), '.')
	return append(dst, further[n:]...)
}

// quote appends a text as the format wants it.
func (t *text) quote(dst []byte, s string) []byte {
	if t.json {
		if plain(s) {
			return append(append(append(dst, '"'), s...), '"')
		}
		quoted, _ := json.Marshal(s) // a string always can be
		return append(dst, quoted...)
	}
	s = printable.Cell(s)
	if !strings.ContainsAny(s, ",\"\r\n") {
		return append(dst, s...)
	}
	dst = append(dst, '"')
	dst = append(dst, strings.ReplaceAll(s, `"`, `""`)...)
	return append(dst, '"')
}

// plain reports whether JSON has the text as it stands.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' || s[i] == '"' || s[i] == '\\' {
			return false
		}
	}
	return true
}
