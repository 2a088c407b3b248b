// Package sweep answers grids of estimates: it streams one row a point, in order and in
// constant memory, as CSV, JSON Lines or Parquet.
package sweep
