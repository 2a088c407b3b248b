package plan

import (
	"fmt"
	"slices"
	"strings"

	"llmprof/internal/printable"
)

// dynamo is a DynamoGraphDeployment (nvidia.com/v1beta1) of a vLLM server: a frontend, and workers that are told apart where prefill has
// its own. There is none where Dynamo has no template of the engine's, or the GPUs are not NVIDIA's.
func dynamo(r *Row, server *Launch, checkpoint string) (l Launch, ok bool) {
	if !server.Templates || r.Card.GPU.Vendor != "nvidia" {
		return l, false
	}
	gpus, pods := r.pods()
	nodes, multinode := 1, ""
	if per := r.Card.GPU.GPUsPerNode; per > 0 && gpus > per {
		nodes = (gpus + per - 1) / per
		multinode = fmt.Sprintf("      multinode:\n        nodeCount: %d\n", nodes)
	}
	var b strings.Builder
	fmt.Fprintf(&b, graph, dnsLabel(lastPart(checkpoint)), dynamoImage)
	worker := func(kind string, replicas int) {
		args := append([]string{"--model"}, server.Pod...)
		if r.Prefill > 0 {
			args = append(args, "--disaggregation-mode", kind)
		}
		fmt.Fprintf(&b, component, kind, replicas, multinode, dynamoImage, listed(args, "                "),
			gpuResource(r.Card.GPU.Vendor), gpus/nodes)
	}
	if r.Prefill == 0 {
		worker("worker", pods)
	} else {
		worker("decode", pods)
		worker("prefill", r.Prefill)
	}
	l = Launch{Engine: "dynamo", Text: b.String(), Notes: []string{"set the image to the release of Dynamo that you tested"}}
	return l, true
}

// dynamoImage has a release in its tag: Dynamo's operator takes no image whose tag is no version, unless runtimeVersionOverride has one.
const dynamoImage = "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.6.0"

const graph = `apiVersion: nvidia.com/v1beta1
kind: DynamoGraphDeployment
metadata:
  name: %s
spec:
  backendFramework: vllm
  components:
    - name: frontend
      type: frontend
      replicas: 1
      podTemplate:
        spec:
          containers:
            - name: main
              image: %s
              command: [python3, -m, dynamo.frontend]
`

const component = `    - name: %[1]s
      type: %[1]s
      replicas: %[2]d
%[3]s      podTemplate:
        spec:
          containers:
            - name: main
              image: %[4]s
              command: [python3, -m, dynamo.vllm]
              args:%[5]s
              resources:
                limits:
                  %[6]s: "%[7]d"
`

// kserve is an LLMInferenceService (serving.kserve.io/v1alpha2) of a vLLM server, as llm-d runs it: KServe's own templates have the image
// and the command, to which the split and the other flags are added. There is none where a replica is on several machines, or where the
// checkpoint is no repository of the hub.
func kserve(r *Row, server *Launch, checkpoint string) (l Launch, ok bool) {
	gpus, pods := r.pods()
	owner, name, _ := strings.Cut(checkpoint, "/")
	hub := owner != "" && owner[0] != '.' && name != "" && !strings.Contains(name, "/")
	if !hub || !server.Templates || gpus > max(r.Card.GPU.GPUsPerNode, 1) {
		return l, false
	}
	args := slices.Clone(server.Pod[1:])
	if i := slices.Index(args, "--tensor-parallel-size"); i >= 0 {
		args = slices.Delete(args, i, i+2)
	}
	part := func(indent string, replicas int) string {
		text := fmt.Sprintf("replicas: %d\nparallelism:\n  tensor: %d\ntemplate:\n  containers:\n    - name: main\n      args:%s\n"+
			"      resources:\n        limits:\n          %s: \"%d\"", replicas, r.Split.TP, listed(args, "        "),
			gpuResource(r.Card.GPU.Vendor), gpus)
		return strings.ReplaceAll(text, "\n", "\n"+indent)
	}
	l = Launch{Engine: "kserve", Text: fmt.Sprintf(service, dnsLabel(lastPart(checkpoint)), printable.KubernetesArg("hf://"+checkpoint),
		printable.KubernetesArg(checkpoint), part("  ", pods))}
	if r.Prefill > 0 {
		l.Text += "  prefill:\n    " + part("    ", r.Prefill) + "\n"
	}
	l.Notes = []string{"gated checkpoints want a secret with a token of the hub in HF_TOKEN"}
	return l, true
}

const service = `apiVersion: serving.kserve.io/v1alpha2
kind: LLMInferenceService
metadata:
  name: %s
spec:
  model:
    uri: %s
    name: %s
  router:
    gateway: {}
    route: {}
    scheduler: {}
  %s
`

// listed is words as items of a list in YAML.
func listed(words []string, indent string) string {
	var b strings.Builder
	for _, w := range words {
		b.WriteString("\n" + indent + "- " + printable.KubernetesArg(w))
	}
	return b.String()
}

// pods are the GPUs of a pod, and the pods that decode.
func (r *Row) pods() (gpus, pods int) {
	return r.Split.TP * r.Split.PP * r.Split.sharing(), r.DP / r.Split.sharing()
}

func gpuResource(vendor string) string {
	switch vendor {
	case "amd":
		return "amd.com/gpu"
	case "google":
		return "google.com/tpu"
	}
	return "nvidia.com/gpu"
}
