package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// release is the version of the sources; a build from a tagged module has its
// own.
const release = "0.1.0"

func (a *app) version() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(a.stdout, versionText())
			return err
		},
	}
}

// versionText is the version with what it was built from.
func versionText() string {
	s := "llmprof " + release
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return s + " " + runtime.Version()
	}
	revision, modified := "", ""
	for _, kv := range info.Settings {
		switch {
		case kv.Key == "vcs.revision":
			revision = " " + kv.Value[:min(12, len(kv.Value))]
		case kv.Key == "vcs.modified" && kv.Value == "true":
			modified = " modified"
		}
	}
	return s + revision + modified + " " + info.GoVersion + " " + runtime.GOOS + "/" + runtime.GOARCH
}
