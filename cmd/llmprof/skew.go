package main

import "github.com/spf13/cobra"

// skewFlag adds the flag that says how unevenly experts are chosen.
func (q *question) skewFlag(cmd *cobra.Command) { q.SkewFlag(cmd.Flags()) }
