package main

import (
	"slices"
	"testing"

	"llmprof/cmd/llmprof/internal/submit"
)

// What makes a command line a shard stands before a "--", behind which words are no flags.
func TestTask(t *testing.T) {
	for _, c := range [][2][]string{
		{{"sweep", "--batch", "1"}, {"sweep", "--batch", "1", "--submit=", "--shard=auto/4", "--part=/d"}},
		{{"simulate", "--rate", "2", "--", "-x.json", "h100"}, {
			"simulate", "--rate", "2", "--submit=", "--shard=auto/4", "--part=/d", "--", "-x.json", "h100"}},
	} {
		if got := (&app{args: c[0]}).task(&submit.Folder{Dir: "/d", Shards: 4}); !slices.Equal(got, c[1]) {
			t.Errorf("%q becomes %q, want %q", c[0], got, c[1])
		}
	}
}
