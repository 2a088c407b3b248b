package tables

import (
	"bytes"
	"cmp"
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

// A table is a file with its cells, row by row, as texts.
type table struct {
	path  string
	hash  string
	names []string
	rows  [][]string
}

// read reads a table of either format, recognized by its content.
func read(path string) (*table, error) {
	data, err := input.Read(path, mostBytes)
	if err != nil {
		return nil, fmt.Errorf("table: %w", err)
	}
	sum := sha256.Sum256(data)
	t := &table{path: path, hash: hex.EncodeToString(sum[:])}
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
	head, err := r.Read()
	if err != nil {
		return fmt.Errorf("no line of column names: %w", err)
	}
	if err := t.columns(head); err != nil {
		return err
	}
	for {
		cells, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = t.row(cells)
		}
		if err != nil {
			return err
		}
	}
}

// row adds a row.
func (t *table) row(cells []string) error {
	t.rows = append(t.rows, cells)
	if len(t.rows) > mostRows {
		return fmt.Errorf("more than %d rows", mostRows)
	}
	for i, text := range cells {
		if len(text) > mostText {
			return fmt.Errorf("row %d: %s has %s: want at most %s", len(t.rows), t.names[i], input.Size(int64(len(text))), input.Size(mostText))
		}
	}
	return nil
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
			values, _ := row.(map[string]any)
			cells := make([]string, len(names))
			for i, name := range names {
				cells[i] = text(values[name])
			}
			if err := t.row(cells); err != nil {
				return err
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

// text is a value of a Parquet file; "" for none.
func text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case []byte:
		return string(v)
	}
	return fmt.Sprint(v)
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

// text is a cell; "" where the table does not have the column.
func (r *record) text(name string) string {
	if at := slices.Index(r.t.names, name); at >= 0 {
		return r.t.rows[r.i][at]
	}
	return ""
}

// number is a number above 0.
func (r *record) number(name string) float64 {
	return r.cell(name, func(v float64) bool { return v > 0 && !math.IsInf(v, 1) })
}

// difference is a difference of times: 0 where it is below.
func (r *record) difference(name string) float64 {
	return max(r.cell(name, func(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }), 0)
}

// size is a whole number from 1 on.
func (r *record) size(name string) int { return r.atLeast(name, 1) }

// atLeast is a whole number from least on.
func (r *record) atLeast(name string, least float64) int {
	return int(r.cell(name, func(v float64) bool { return v >= least && v <= 1e12 && v == math.Trunc(v) }))
}

// cell is a cell that has a number. Where it is none that is right, it is 1, and the record keeps the first mistake.
func (r *record) cell(name string, right func(float64) bool) float64 {
	text := r.text(name)
	if v, err := strconv.ParseFloat(strings.TrimSpace(text), 64); err == nil && right(v) {
		return v
	}
	if r.err == nil {
		r.err = fmt.Errorf("table %s, row %d: %s is %s: want a size or a time above 0", r.t.path, r.i+1, name,
			cmp.Or(fileerror.Short(text), "missing"))
	}
	return 1
}
