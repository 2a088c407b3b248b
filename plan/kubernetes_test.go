package plan

import (
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
		l := all[len(all)-1]
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

// Kubernetes puts no variable of the pod into a name, as it would a token of the hub for $(HF_TOKEN).
func TestManifestKeepsNames(t *testing.T) {
	q := request(t, "llama3.1-8b", "h100")
	row := Row{Formats: Formats{"", unit.BF16}, Split: Split{1, 1, 1, 0}, DP: 1, Batch: 1, GPUs: 1, Card: &q.Cards[0]}
	all := Launches(&row, q, "./$(HF_TOKEN)/m")
	if text := all[len(all)-1].Text; !strings.Contains(text, `"./$$(HF_TOKEN)/m"`) {
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
