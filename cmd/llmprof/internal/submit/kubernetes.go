package submit

import (
	"fmt"
	"strconv"
	"strings"

	"llmprof/internal/printable"
)

// A Pod is what a Kubernetes Indexed Job runs.
type Pod struct {
	Name    string
	Shards  int
	Image   string
	Claim   string   // claim of the volume that all pods, and the machine that merges the shards, can see
	Command []string // command of a pod, which finds its shard in JOB_COMPLETION_INDEX
	GPUs    int
}

// Manifest is the Indexed Job: an index for each shard, each tried again a few times, in
// the folder that the volume is mounted at.
func (p *Pod) Manifest() string {
	var args strings.Builder
	for _, w := range p.Command {
		args.WriteString("\n            - " + printable.KubernetesArg(w))
	}
	limits := ""
	if p.GPUs > 0 {
		limits = fmt.Sprintf("\n          resources:\n            limits:\n              nvidia.com/gpu: %d", p.GPUs)
	}
	return fmt.Sprintf(indexedJob, p.Name, p.Shards, strconv.Quote(p.Image), args.String(), limits, strconv.Quote(p.Claim))
}

const indexedJob = `apiVersion: batch/v1
kind: Job
metadata:
  name: %[1]s
spec:
  completions: %[2]d
  parallelism: %[2]d
  completionMode: Indexed
  backoffLimitPerIndex: 3
  template:
    metadata:
      labels:
        app: %[1]s
    spec:
      restartPolicy: Never
      containers:
        - name: shard
          image: %[3]s
          args:%[4]s
          workingDir: /work%[5]s
          volumeMounts:
            - name: work
              mountPath: /work
      volumes:
        - name: work
          persistentVolumeClaim:
            claimName: %[6]s
`
