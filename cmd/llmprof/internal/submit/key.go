package submit

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"llmprof/sweep"
)

// Key names what a command computes: its settings, the content of the files that they
// name, and the program. Shards of one key can be put together.
func Key(program string, settings []string) (string, error) {
	h := sha256.New()
	if err := hashFile(h, program); err != nil {
		return "", fmt.Errorf("reading the program: %w", err)
	}
	for _, s := range settings {
		fmt.Fprintf(h, "%d %s\n", len(s), s)
		_, value, ok := strings.Cut(s, "=")
		if !ok {
			value = s
		}
		for word := range strings.SplitSeq(value, ",") {
			for _, file := range []string{word, filepath.Join(word, "config.json")} {
				if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
					continue
				}
				if err := hashFile(h, file); err != nil {
					return "", fmt.Errorf("reading %s: %w", file, err)
				}
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:16], nil
}

func hashFile(h io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(h, f)
	return err
}

// ParseShard reads "2/8", or "auto/8" in a task of Slurm's job arrays or of a Kubernetes
// Indexed Job, which pass the number of the task in a variable.
func ParseShard(text string, env func(string) string) (s sweep.Shard, err error) {
	if of, ok := strings.CutPrefix(text, "auto/"); ok {
		i, err := task(env)
		if err != nil {
			return s, fmt.Errorf("shard %.40q: %w", text, err)
		}
		text = fmt.Sprintf("%d/%s", i, of)
	}
	return sweep.ParseShard(text)
}

// task is the number of the task, from 1. Slurm's arrays of this program begin with 1,
// Kubernetes' indexes with 0.
func task(env func(string) string) (i int, err error) {
	for _, v := range []struct {
		name  string
		first int
	}{{"SLURM_ARRAY_TASK_ID", 1}, {"JOB_COMPLETION_INDEX", 0}} {
		text := env(v.name)
		if text == "" {
			continue
		}
		if n, err := fmt.Sscanf(text, "%d", &i); n != 1 || err != nil {
			return 0, fmt.Errorf("%s is %.40q, which is no number", v.name, text)
		}
		return i + 1 - v.first, nil
	}
	return 0, fmt.Errorf("neither SLURM_ARRAY_TASK_ID nor JOB_COMPLETION_INDEX is set: this is no task of an array; give a number in place of auto")
}
