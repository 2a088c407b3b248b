package main

import (
	"github.com/spf13/cobra"

	"llmprof/measure/engine/native/worker"
)

// nativeWorker is the name of the command that measurements start this program
// with.
const nativeWorker = "engine-native"

// engineNative is the native engine's worker. People have no use for it.
func (a *app) engineNative() *cobra.Command {
	return &cobra.Command{
		Use:    nativeWorker,
		Short:  "Run the native engine for a driver on standard input and output",
		Hidden: true,
		Args:   noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return worker.Serve(cmd.Context(), a.stdin, a.stdout, versionText())
		},
	}
}
