package sweep

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// A sink writes blocks.
type sink struct {
	out     io.Writer
	parquet rowWriter // nil for text
	list    bool      // rows are those of one list of JSON
	bytes   int64     // written of CSV or JSON
	pending []Row     // rows of a Parquet file, fewer than batchRows
	see     func([]Row)
	lost    bool // A Parquet file that was not written to its end has no rows.
}

// newSink begins the output. Of several shards the first alone has the header of CSV.
func newSink(o *Options, loaded bool) (*sink, error) {
	s := &sink{out: o.Out, see: o.See, list: o.Out != nil && o.Format == JSON}
	if o.Out == nil {
		return s, nil
	}
	switch o.Format {
	case Parquet:
		s.parquet = newParquet(o.Out)
	case JSON, JSONL:
	case CSV:
		if o.Shard.I > 1 || o.Skip > 0 {
			return s, nil
		}
		n, err := io.WriteString(o.Out, strings.Join(Columns(loaded), ",")+"\n")
		if s.bytes = int64(n); err != nil {
			return nil, fmt.Errorf("writing the rows: %w", err)
		}
	default:
		return nil, fmt.Errorf("format %.40q: want csv, json, jsonl or parquet", o.Format)
	}
	return s, nil
}

// A rowWriter writes rows in a form that is no text.
type rowWriter interface {
	Write(rows []Row) (int, error)
	Close() error
}

// batchRows is how many rows are written to a Parquet file at a time, so that the file is the
// same bytes however the rows came.
const batchRows = 2048

// rows writes rows to a Parquet file.
func (s *sink) rows(rows []Row) error {
	s.pending = append(s.pending, rows...)
	for len(s.pending) >= batchRows {
		if _, err := s.parquet.Write(s.pending[:batchRows]); err != nil {
			return err
		}
		s.pending = s.pending[:copy(s.pending, s.pending[batchRows:])]
	}
	return nil
}

func (s *sink) write(b *block) (err error) {
	if s.see != nil {
		s.see(b.rows)
	}
	switch {
	case s.out == nil:
	case s.parquet != nil:
		err = s.rows(b.rows)
	default:
		text := b.text
		if s.list && len(text) > 0 { // a line of a row ends with its end
			before := ",\n"
			if s.bytes == 0 {
				before = "["
			}
			text = slices.Concat([]byte(before), bytes.ReplaceAll(text[:len(text)-1], []byte("\n"), []byte(",\n")))
		}
		_, err = s.out.Write(text)
		s.bytes += int64(len(text))
	}
	if err != nil {
		s.lost = s.parquet != nil
		return fmt.Errorf("writing the rows: %w", err)
	}
	return nil
}

// finish closes the output, and takes out of the summary what it has lost.
func (s *sink) finish(all *Summary, skipped uint64) error {
	err := s.close()
	if s.lost {
		all.Done, all.Written = min(skipped, all.Points), 0
	}
	return err
}

func (s *sink) close() error {
	if s.list {
		end := "]\n"
		if s.bytes == 0 {
			end = "[]\n"
		}
		_, err := io.WriteString(s.out, end)
		return err
	}
	if s.parquet == nil {
		return nil
	}
	_, err := s.parquet.Write(s.pending)
	if err = errors.Join(err, s.parquet.Close()); err != nil {
		s.lost = true
		return fmt.Errorf("writing the rows: %w", err)
	}
	return nil
}
