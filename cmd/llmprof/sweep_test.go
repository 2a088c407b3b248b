package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"llmprof/sweep"
)

// TestInterruptedSweep checks that Ctrl-C leaves a file of whole rows, and that the command
// says how many they are and how it goes on.
func TestInterruptedSweep(t *testing.T) {
	for form, rows := range map[string]func(file string) (int, error){"csv": linesOf, "parquet": parquetRows} {
		file := filepath.Join(t.TempDir(), "rows."+form)
		stop := make(chan struct{})
		go interruptOnceLarge(file, 1<<20, stop)
		var out, errs bytes.Buffer
		code := run([]string{"sweep", "llama3.1-8b", "a100", "--gen-len", "1..8", "--batch", "1..64", "--prompt-len", "1..4000", "-o", file}, nil, &out, &errs, os.Getenv)
		close(stop)
		said := regexp.MustCompile(`(\d+) of 2048000 points were answered, and .* with --from (\d+) `).FindStringSubmatch(errs.String())
		if code != 130 || said == nil || said[1] != said[2] {
			t.Errorf("%s: exit %d: %s", form, code, errs.String())
			continue
		}
		want, _ := strconv.Atoi(said[1]) // digits
		if got, err := rows(file); err != nil || got != want || got == 0 {
			t.Errorf("%s: the file has %d rows, and %d are said to be: %v", form, got, want, err)
		}
	}
}

// interruptOnceLarge interrupts this process once a file has so many bytes.
func interruptOnceLarge(file string, size int64, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Millisecond):
		}
		info, err := os.Stat(file)
		if err != nil || info.Size() < size {
			continue
		}
		if self, err := os.FindProcess(os.Getpid()); err == nil {
			_ = self.Signal(os.Interrupt) // where there is no such signal the sweep ends, and the test fails
		}
		return
	}
}

// linesOf counts the rows of a CSV file, whose last line is whole.
func linesOf(file string) (int, error) {
	text, err := os.ReadFile(file)
	if err == nil && !bytes.HasSuffix(text, []byte("\n")) {
		err = fmt.Errorf("the last line is no whole one")
	}
	return bytes.Count(text, []byte("\n")) - 1, err
}

func parquetRows(file string) (int, error) {
	rows, err := parquet.ReadFile[sweep.Row](file)
	return len(rows), err
}
