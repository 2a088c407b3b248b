//go:build !js

package sweep

import (
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
)

// rowGroup is how many rows a row group of a Parquet file has at most, which bounds what
// is held in memory.
const rowGroup = 1 << 17

func newParquet(out io.Writer) rowWriter {
	return parquet.NewGenericWriter[Row](out, parquet.Compression(&parquet.Zstd), parquet.MaxRowsPerRowGroup(rowGroup))
}

// A File is a Parquet file.
type File interface {
	io.ReaderAt
	Size() int64
}

// Join writes the rows of Parquet files as one file, which is that of an unsharded sweep.
func Join(out io.Writer, parts []File) error {
	s, err := newSink(&Options{Format: Parquet, Out: out}, false)
	if err != nil {
		return err
	}
	rows := make([]Row, batchRows)
	for i, part := range parts {
		r := parquet.NewGenericReader[Row](io.NewSectionReader(part, 0, part.Size()))
		for {
			n, err := r.Read(rows)
			if failed := s.rows(rows[:n]); failed != nil {
				return fmt.Errorf("writing the rows: %w", failed)
			}
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return fmt.Errorf("reading shard %d: %w", i+1, err)
			}
			clear(rows)
		}
		if err := r.Close(); err != nil {
			return fmt.Errorf("reading shard %d: %w", i+1, err)
		}
	}
	return s.close()
}
