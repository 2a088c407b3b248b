package tables

import (
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"

	"llmprof/internal/fileerror"
	"llmprof/internal/input"
)

// A table may have at most these.
const (
	mostBytes   = 64 << 20
	mostRows    = 1 << 20
	mostColumns = 64
	mostText    = 1 << 10 // bytes of a cell
)

// A table is a file with its columns. A column has numbers, or texts where any of its
// cells is none.
type table struct {
	path    string
	hash    string
	n       int
	names   []string
	texts   map[string][]string
	numbers map[string][]float64
}

// read reads a table of either format, recognized by its content.
func read(path string) (*table, error) {
	data, err := input.Read(path, mostBytes)
	if err != nil {
		return nil, fmt.Errorf("table: %w", err)
	}
	sum := sha256.Sum256(data)
	t := &table{path: path, hash: hex.EncodeToString(sum[:]), texts: map[string][]string{}, numbers: map[string][]float64{}}
	if bytes.HasPrefix(data, []byte("PAR1")) {
		err = t.parquet(data)
	} else {
		err = t.csv(data)
	}
	if err != nil {
		return nil, fmt.Errorf("table %s: %w", path, err)
	}
	return t, nil
}

func (t *table) columns(names []string) error {
	if len(names) == 0 || len(names) > mostColumns {
		return fmt.Errorf("%d columns: want 1 to %d", len(names), mostColumns)
	}
	for i, name := range names {
		if name == "" || slices.Contains(names[:i], name) {
			return fmt.Errorf("column %d is called %.40q: want a name of its own", i+1, name)
		}
	}
	t.names = names
	return nil
}

func (t *table) csv(data []byte) error {
	r := csv.NewReader(bytes.NewReader(data))
	r.ReuseRecord = true
	head, err := r.Read()
	if err != nil {
		return fmt.Errorf("no line of column names: %w", err)
	}
	if err := t.columns(slices.Clone(head)); err != nil {
		return err
	}
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if t.n++; t.n > mostRows {
			return fmt.Errorf("more than %d rows", mostRows)
		}
		for i, cell := range record {
			if err := t.cell(t.names[i], strings.Clone(cell)); err != nil {
				return fmt.Errorf("row %d: %w", t.n, err)
			}
		}
	}
	t.parseNumbers()
	return nil
}

// parseNumbers makes numbers of the columns that have nothing else.
func (t *table) parseNumbers() {
	for name, cells := range t.texts {
		values := make([]float64, len(cells))
		for i, cell := range cells {
			v, err := strconv.ParseFloat(strings.TrimSpace(cell), 64)
			if err != nil {
				values = nil
				break
			}
			values[i] = v
		}
		if values != nil {
			t.numbers[name] = values
			delete(t.texts, name)
		}
	}
}

// parquet reads flat columns. The library may panic on a file that is damaged.
func (t *table) parquet(data []byte) (err error) {
	defer func() {
		if broken := recover(); broken != nil {
			err = fmt.Errorf("the Parquet file is damaged: %v", fileerror.Short(fmt.Sprint(broken)))
		}
	}()
	file, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)), parquet.SkipBloomFilters(true), parquet.SkipPageIndex(true))
	if err != nil {
		return fmt.Errorf("not a Parquet file: %w", err)
	}
	if n := file.NumRows(); n < 0 || n > mostRows {
		return fmt.Errorf("%d rows: want at most %d", n, mostRows)
	}
	var names []string
	for _, path := range file.Schema().Columns() {
		names = append(names, strings.Join(path, "."))
	}
	if err := t.columns(names); err != nil {
		return err
	}
	rows, buffer := parquet.NewGenericReader[any](file), make([]any, 256)
	defer rows.Close()
	for {
		n, err := rows.Read(buffer)
		for _, row := range buffer[:n] {
			cells, _ := row.(map[string]any)
			t.n++
			for _, name := range names {
				if err := t.cell(name, cells[name]); err != nil {
					return fmt.Errorf("row %d: %w", t.n, err)
				}
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case n == 0:
			return errors.New("a row group ends before its rows do")
		}
	}
}

// cell adds a cell to a column.
func (t *table) cell(name string, v any) error {
	text := ""
	switch x := v.(type) {
	case string:
		text = x
	case []byte:
		text = string(x)
	case nil:
		if t.texts[name] == nil {
			t.numbers[name] = append(t.numbers[name], math.NaN())
			return nil
		}
	default:
		n, err := strconv.ParseFloat(fmt.Sprint(x), 64)
		if err != nil {
			return fmt.Errorf("%s is %.40v: want a number or a text", name, x)
		}
		t.numbers[name] = append(t.numbers[name], n)
		return nil
	}
	if len(text) > mostText {
		return fmt.Errorf("%s has %s: want at most %s", name, input.Size(int64(len(text))), input.Size(mostText))
	}
	t.texts[name] = append(t.texts[name], text)
	return nil
}

func (t *table) has(names ...string) bool {
	for _, name := range names {
		if !slices.Contains(t.names, name) {
			return false
		}
	}
	return true
}

// A record is a row of a table, with the first thing that was wrong with it.
type record struct {
	t   *table
	i   int
	err error
}

func (r *record) text(name string) string {
	if cells := r.t.texts[name]; cells != nil {
		return cells[r.i]
	}
	return ""
}

// number is a cell of a column of numbers, above 0.
func (r *record) number(name string) float64 {
	return r.cell(name, func(v float64) bool { return v > 0 && !math.IsInf(v, 1) })
}

// difference is a cell of a column of differences of times: 0 where it is below.
func (r *record) difference(name string) float64 {
	return max(r.cell(name, func(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }), 0)
}

// size is a whole number from 1 on.
func (r *record) size(name string) int { return r.atLeast(name, 1) }

// atLeast is a whole number from least on.
func (r *record) atLeast(name string, least float64) int {
	return int(r.cell(name, func(v float64) bool { return v >= least && v <= 1e12 && v == math.Trunc(v) }))
}

// cell is a cell of a column of numbers. Where it is none that is right, it is 1, and the record keeps the first mistake.
func (r *record) cell(name string, right func(float64) bool) float64 {
	value := any("missing")
	if cells := r.t.numbers[name]; cells != nil {
		if right(cells[r.i]) {
			return cells[r.i]
		}
		value = cells[r.i]
	} else if cells := r.t.texts[name]; cells != nil {
		value = fileerror.Short(cells[r.i])
	}
	if r.err == nil {
		r.err = fmt.Errorf("table %s, row %d: %s is %v: want a size or a time above 0", r.t.path, r.i+1, name, value)
	}
	return 1
}
