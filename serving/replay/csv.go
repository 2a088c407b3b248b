package replay

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// table reads the records of CSV below a header.
func (t *Trace) table(from *lines) error {
	c := csv.NewReader(from)
	c.FieldsPerRecord, c.ReuseRecord = -1, true
	cells, line, err := cellsOf(c, from)
	if parse, ok := errors.AsType[*csv.ParseError](err); ok {
		err = fmt.Errorf("line %d: no header of a table, as %s, and no JSON", parse.Line, inCSV)
	}
	if err != nil {
		return err
	}
	header := &record{line: line}
	for _, key := range cells {
		if err := header.add(field{key: strings.Clone(key), name: plain(key), value: strings.Clone(key)}); err != nil {
			return err
		}
	}
	t.form, t.Format = formOf(header.has, false), "csv"
	if i := strings.IndexAny(cells[0], ";\t|"); t.form == nil && len(cells) == 1 && i >= 0 {
		return header.wrong("its columns are parted by %q: want commas, as in %s", cells[0][i], inCSV)
	}
	if t.form == nil {
		return header.wrong("the header has no column for %s", general().missing(header, inCSV))
	}
	return t.begin(func() (*record, error) {
		cells, line, err := cellsOf(c, from)
		if err != nil {
			return nil, err
		}
		r := &record{line: line, fields: slices.Clone(header.fields)}
		if len(cells) != len(r.fields) {
			r.fields = []field{{key: "cells", value: strings.Join(cells, ",")}}
			return nil, r.wrong("%d columns where the header has %d", len(cells), len(header.fields))
		}
		for i, cell := range cells {
			r.fields[i].value = cell
		}
		return r, nil
	})
}

// cellsOf reads the next line that is not blank.
func cellsOf(c *csv.Reader, from *lines) ([]string, int, error) {
	for {
		from.left = mostRecord
		cells, err := c.Read()
		parse := new(csv.ParseError)
		switch {
		case errors.Is(err, io.EOF):
			return nil, 0, io.EOF
		case errors.As(err, &parse):
			return nil, 0, fmt.Errorf("line %d: not a line of CSV: %w", parse.Line, parse)
		case err != nil:
			return nil, 0, broken(from.line, err)
		}
		line, _ := c.FieldPos(0)
		if slices.ContainsFunc(cells, func(cell string) bool { return strings.TrimSpace(cell) != "" }) {
			return cells, line, nil
		}
	}
}
