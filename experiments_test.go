package llmprof_test

import (
	"bytes"
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"llmprof/internal/testkit"
)

// TestExperimentScripts runs the scripts that constants and tables follow from on the data that they were run on. What they
// print, or write to the file that is named, is as it was.
func TestExperimentScripts(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		if os.Getenv("LLMPROF_PYTHON") == "required" {
			t.Fatal(err)
		}
		t.Skip("python3 is not here: ", err)
	}
	for _, x := range []struct{ name, command, from, want string }{
		{name: "aiconfigurator", command: "aiconfigurator/compare.py --table aiconfigurator/choices.json"},
		{name: "apiserver", command: "h100-vllm-apiserver/reduce.py", from: "h100-vllm-apiserver/loads.csv"},
		{name: "sync", command: "h200-vllm-sync/table.py"},
		{name: "generated", command: "operators/generated.py"},
		{name: "sglang-host", command: "sglang/host.py", from: "sglang/host.csv"},
		{name: "sglang-ranks",
			command: "sglang/host.py sglang/h100/qwen3-4b-prompt-128.json.gz sglang/h100/qwen3-4b-tp2-rank0-prompt-128.json.gz"},
		{name: "sglang-h100", command: "sglang/reduce.py sglang/h100", want: "validate/observations/h100-sglang.csv"},
		{name: "sglang-h200", command: "sglang/reduce.py sglang/h200", want: "validate/observations/h200-sglang.csv"},
		{name: "pair-vllm", command: "h200-pair/reduce.py h200-pair h200-windows h200-experts --vllm",
			want: "validate/observations/h200-vllm-0.33.csv"},
		{name: "pair-sglang", command: "h200-pair/reduce.py h200-pair h200-sglang --sglang",
			want: "validate/observations/h200-sglang-0.5.23.csv"},
		{name: "hybrids-host", command: "h200-hybrids/table.py h200-hybrids"},
		{name: "host-phases", command: "vllm-host/table.py vllm-host/h100"},
		{name: "host-steps", command: "vllm-host/steps.py vllm-load-models/fourth-launches-1.jsonl.gz"},
		{name: "host-pinned", command: "vllm-host/pinned.py vllm-host/h200/pinned.jsonl vllm-host/h200/pinned-probe.csv"},
		{name: "host", command: "vllm/host.py h200-vllm h100-vllm vllm-host"},
		{name: "between", command: "vllm/between.py h200-vllm"},
		{name: "errors", command: "vllm/errors.py h100-vllm-fp8"},
		{name: "sequences", command: "vllm/sequences.py"},
		{name: "table", command: "vllm/table.py h100-vllm"},
		{name: "layer", command: "vllm/traces.py --layer h200-vllm/traces/llama3.1-8b-decode-b1.json.gz"},
		{name: "clocks", command: "vllm/clocks_table.py TEMP", want: "experiments/h200-vllm/clocks.csv"},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			if x.name == "generated" {
				testkit.Long(t, "what takes two seconds")
			}
			written := ""
			if strings.HasSuffix(x.command, "TEMP") { // it writes beside what it reads
				folder := t.TempDir()
				for _, name := range []string{"clocks.jsonl.gz", "nvml.csv.gz"} {
					testkit.Must(t, os.WriteFile(filepath.Join(folder, name), []byte(read(t, "experiments/h200-vllm/"+name)), 0o600))
				}
				x.command, written = strings.TrimSuffix(x.command, "TEMP")+folder, filepath.Join(folder, "clocks.csv")
			}
			args := strings.Fields(x.command)
			for i := range args {
				if !strings.HasPrefix(args[i], "-") && !filepath.IsAbs(args[i]) {
					args[i] = "experiments/" + args[i]
				}
			}
			cmd := exec.CommandContext(t.Context(), python, args...)
			cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONUTF8=1")
			var out, failed bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &failed
			if x.from != "" {
				cmd.Stdin = strings.NewReader(read(t, "experiments/"+x.from))
			}
			if err := cmd.Run(); err != nil {
				t.Fatalf("%s: %v: %s", x.command, err, failed.String())
			}
			got := out.String()
			if written != "" {
				got = read(t, written)
			}
			testkit.Golden(t, cmp.Or(x.want, filepath.Join("testdata", "experiments", x.name+".txt")), got)
		})
	}
}
