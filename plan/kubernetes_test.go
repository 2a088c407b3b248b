package plan

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"llmprof/internal/testkit/kube"
	"llmprof/unit"
)

type labels map[string]string

// deployed has the properties of a Deployment that have to agree with each other and with
// the row.
type deployed struct {
	Spec struct {
		Replicas int64
		Selector struct{ MatchLabels labels }
		Template struct {
			Metadata struct{ Labels labels }
			Spec     struct {
				Containers []struct {
					Ports        []struct{ ContainerPort int }
					Resources    struct{ Limits map[string]int64 }
					StartupProbe struct{ HTTPGet struct{ Port int } }
					VolumeMounts []struct{ Name string }
				}
				Volumes []struct{ Name string }
			}
		}
	}
}

// The manifest is a Deployment and a Service by Kubernetes' own schema, and its parts find
// each other.
func TestManifest(t *testing.T) {
	for i, all := range launched(t) {
		l := named(t, all, "kubernetes")
		first, second, ok := strings.Cut(l.Text, "---\n")
		if !ok {
			t.Fatalf("%d: no service:\n%s", i, l.Text)
		}
		var d deployed
		kube.Decode(t, first, &d)
		var s struct {
			Kind string
			Spec struct{ Selector labels }
		}
		kube.Decode(t, second, &s)
		pod := d.Spec.Template
		if s.Kind != "Service" {
			t.Errorf("%d: a %s", i, s.Kind)
		}
		if app := pod.Metadata.Labels["app"]; app == "" || d.Spec.Selector.MatchLabels["app"] != app || s.Spec.Selector["app"] != app {
			t.Errorf("%d: the labels %v, the selectors %v and %v", i, pod.Metadata.Labels, d.Spec.Selector.MatchLabels, s.Spec.Selector)
		}
		c := pod.Spec.Containers[0]
		var gpus int64
		for name, n := range c.Resources.Limits {
			if !strings.HasSuffix(name, "/gpu") {
				t.Errorf("%d: a limit of %s", i, name)
			}
			gpus = n * d.Spec.Replicas
		}
		if want := []int64{6, 2, 1, 16, 4, 16, 1, 8}[i]; gpus != want {
			t.Errorf("%d: %d GPUs, want %d", i, gpus, want)
		}
		if c.VolumeMounts[0].Name != pod.Spec.Volumes[0].Name || c.StartupProbe.HTTPGet.Port != c.Ports[0].ContainerPort {
			t.Errorf("%d: %+v", i, c)
		}
	}
}

// named is the launch of a name.
func named(t *testing.T, all []Launch, name string) Launch {
	t.Helper()
	i := slices.IndexFunc(all, func(l Launch) bool { return l.Engine == name })
	if i < 0 {
		t.Fatalf("no launch with %s", name)
	}
	return all[i]
}

// graphed and serviced have the properties of the custom resources that have to agree with the row.
type graphed struct {
	Spec struct {
		Components []struct {
			Name, Type  string
			Replicas    int64
			Multinode   struct{ NodeCount int64 }
			PodTemplate struct {
				Spec struct{ Containers []container }
			}
		}
	}
}

type container struct {
	Args      []string
	Resources struct{ Limits map[string]string }
}

// gpus are those that the container is limited to.
func (c *container) gpus() (sum int64) {
	for _, n := range c.Resources.Limits {
		each, _ := strconv.ParseInt(n, 10, 64)
		sum += each
	}
	return sum
}

type serviced struct {
	Spec struct {
		Model       struct{ URI, Name string }
		Replicas    int64
		Parallelism struct{ Tensor int64 }
		Template    struct{ Containers []container }
		Prefill     struct{ Replicas int64 }
	}
}

// Manifests of Dynamo and KServe are what their resources take, ask for the GPUs of the row, and give the flags of the command line.
func TestCustomResources(t *testing.T) {
	for i, all := range launched(t) {
		gpus := []int64{6, 2, 1, 16, 4, 24, 1, 8}[i]
		if i != 4 { // MI300X
			var g graphed
			l := named(t, all, "dynamo")
			kube.Decode(t, l.Text, &g)
			kube.CheckPublished(t, l.Text, "nvidia.com_dynamographdeployments.yaml")
			var sum int64
			for _, c := range g.Spec.Components {
				main := c.PodTemplate.Spec.Containers[0]
				sum += c.Replicas * max(c.Multinode.NodeCount, 1) * main.gpus()
				if c.Type == "frontend" {
					continue
				}
				mode := slices.Index(main.Args, "--disaggregation-mode")
				if apart := i == 5; main.Args[0] != "--model" || (c.Type == "worker") == apart || (mode > 0) != apart ||
					apart && main.Args[mode+1] != c.Type {
					t.Errorf("%d: %+v", i, c)
				}
			}
			if sum != gpus {
				t.Errorf("%d: Dynamo is asked for %d GPUs, want %d:\n%s", i, sum, gpus, l.Text)
			}
		}
		if i == 3 { // Replicas of 16 GPUs are on two machines.
			if slices.ContainsFunc(all, func(l Launch) bool { return l.Engine == "kserve" }) {
				t.Errorf("%d: a pod on two machines", i)
			}
			continue
		}
		var s serviced
		l := named(t, all, "kserve")
		kube.Decode(t, l.Text, &s)
		kube.CheckPublished(t, l.Text, "serving.kserve.io_llminferenceservices.yaml")
		sum := s.Spec.Template.Containers[0].gpus() * (s.Spec.Replicas + s.Spec.Prefill.Replicas)
		if sum != gpus || s.Spec.Model.URI != "hf://"+s.Spec.Model.Name {
			t.Errorf("%d: KServe is asked for %d GPUs, want %d:\n%s", i, sum, gpus, l.Text)
		}
		if slices.Contains(s.Spec.Template.Containers[0].Args, "--tensor-parallel-size") || s.Spec.Parallelism.Tensor < 1 {
			t.Errorf("%d: the split is given twice, or not at all:\n%s", i, l.Text)
		}
	}
	q := request(t, "llama3.1-8b", "h100")
	row := Row{Formats: Formats{"", unit.BF16}, Split: Split{1, 1, 1, 0}, DP: 1, Batch: 1, GPUs: 1, Card: &q.Cards[0]}
	if slices.ContainsFunc(Launches(&row, q, "./folder"), func(l Launch) bool { return l.Engine == "kserve" }) {
		t.Error("a folder is a repository of the hub")
	}
}

// Kubernetes puts no variable of the pod into a name, as it would a token of the hub for $(HF_TOKEN).
func TestManifestKeepsNames(t *testing.T) {
	q := request(t, "llama3.1-8b", "h100")
	row := Row{Formats: Formats{"", unit.BF16}, Split: Split{1, 1, 1, 0}, DP: 1, Batch: 1, GPUs: 1, Card: &q.Cards[0]}
	all := Launches(&row, q, "./$(HF_TOKEN)/m")
	if text := named(t, all, "kubernetes").Text; !strings.Contains(text, `"./$$(HF_TOKEN)/m"`) {
		t.Errorf("the folder's name is a variable:\n%s", text)
	}
}

func TestDNSLabel(t *testing.T) {
	for name, want := range map[string]string{
		"Qwen3-32B": "qwen3-32b", "llama3.1-8b": "llama3-1-8b", "": "llm", "70b": "llm-70b", "-a-": "a",
		strings.Repeat("a", 80): strings.Repeat("a", 63),
	} {
		if got := dnsLabel(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
