package llmprof_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"llmprof/internal/testkit"
)

// The most that the tracked files have together, and one by itself.
const (
	mostTracked = 36_000_000
	mostFile    = 400_000
)

// tables may be larger than other files: they grow with what is known.
var tables = []string{"models.json", "hardware.toml", "validate/observations/", "validate/served/data/", "models/testdata/"}

// TestWeight holds what a clone has to a size. Results are packed (gzip -9n), raw data and what can be made again are left out.
func TestWeight(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "git", "ls-files", "-z").Output()
	if err != nil {
		t.Skip("this is no checkout of git: ", err)
	}
	all := int64(0)
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		info, err := os.Lstat(name)
		if os.IsNotExist(err) {
			continue // it is about to leave
		}
		testkit.Must(t, err)
		all += info.Size()
		if table := slices.ContainsFunc(tables, func(table string) bool { return strings.HasPrefix(name, table) }); info.Size() > mostFile &&
			!table {
			t.Errorf("%s has %d bytes: want at most %d", name, info.Size(), mostFile)
		}
	}
	if all > mostTracked {
		t.Errorf("the tracked files have %d bytes: want at most %d", all, mostTracked)
	}
}
