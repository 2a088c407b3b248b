package render

import (
	"encoding"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"

	"llmprof/printable"
)

// CSV writes the plain rows of a table under its keys: numbers in the SI unit
// that the key names, and nothing where there is no value.
func CSV(w io.Writer, t *Table) error {
	out := csv.NewWriter(w)
	record := make([]string, len(t.Columns))
	for i := range t.Columns {
		record[i] = t.Columns[i].Key
	}
	if err := out.Write(record); err != nil {
		return err
	}
	for i := range t.Rows {
		if t.Rows[i].Kind != Plain {
			continue
		}
		for j := range record {
			text, err := field(t.Rows[i].Cells, j)
			if err != nil {
				return fmt.Errorf("row %d, column %s: %w", i+1, t.Columns[j].Key, err)
			}
			record[j] = text
		}
		if err := out.Write(record); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

func field(cells []any, j int) (string, error) {
	if j >= len(cells) || cells[j] == nil {
		return "", nil
	}
	if v, ok := number(cells[j]); ok {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return "", nil
		}
		return plainNumber(v), nil
	}
	switch v := plain(cells[j]).(type) {
	case string:
		return printable.Cell(v), nil
	case bool:
		return strconv.FormatBool(v), nil
	case encoding.TextMarshaler:
		text, err := v.MarshalText()
		return printable.Cell(string(text)), err
	default:
		return fmt.Sprint(v), nil
	}
}

// plainNumber is v as encoding/json writes it: without an exponent unless it is
// very small or very large.
func plainNumber(v float64) string {
	if abs := math.Abs(v); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		return strconv.FormatFloat(v, 'e', -1, 64)
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// JSON writes v, indented.
func JSON(w io.Writer, v any) error {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	return out.Encode(v)
}
