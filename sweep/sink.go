package sweep

import (
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
)

// A sink writes blocks.
type sink struct {
	out     io.Writer
	parquet *parquet.GenericWriter[Row]
	see     func([]Row)
}

// newSink begins the output. Of several shards the first alone has the header of CSV.
func newSink(o *Options) (*sink, error) {
	s := &sink{out: o.Out, see: o.See}
	switch o.Format {
	case Parquet:
		s.parquet = parquet.NewGenericWriter[Row](o.Out, parquet.Compression(&parquet.Zstd), parquet.MaxRowsPerRowGroup(rowGroup))
	case CSV, JSONL:
		if o.Shard.I > 1 {
			return s, nil
		}
		if _, err := o.Out.Write(newText(o.Format).header()); err != nil {
			return nil, fmt.Errorf("writing the rows: %w", err)
		}
	default:
		return nil, fmt.Errorf("format %.40q: want csv, jsonl or parquet", o.Format)
	}
	return s, nil
}

// rowGroup is how many rows a row group of a Parquet file has at most, which bounds what
// is held in memory.
const rowGroup = 1 << 17

func (s *sink) write(b *block) (err error) {
	if s.see != nil {
		s.see(b.rows)
	}
	if s.parquet != nil {
		_, err = s.parquet.Write(b.rows)
	} else {
		_, err = s.out.Write(b.text)
	}
	if err != nil {
		return fmt.Errorf("writing the rows: %w", err)
	}
	return nil
}

func (s *sink) close() error {
	if s.parquet == nil {
		return nil
	}
	if err := s.parquet.Close(); err != nil {
		return fmt.Errorf("writing the rows: %w", err)
	}
	return nil
}
