// Package tables reads published tables of operator times, in Parquet or CSV, as rows
// that package calibrate fits the constants of a GPU and an engine to.
package tables
