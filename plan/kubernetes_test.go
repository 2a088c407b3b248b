package plan

import (
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// The manifest is what Kubernetes' own types say that a Deployment and a Service are, and
// its parts find each other.
func TestManifest(t *testing.T) {
	for i, all := range launched(t) {
		l := all[len(all)-1]
		deployment, service, ok := strings.Cut(l.Text, "---\n")
		if !ok {
			t.Fatalf("%d: no service:\n%s", i, l.Text)
		}
		var d apps.Deployment
		if err := yaml.UnmarshalStrict([]byte(deployment), &d); err != nil {
			t.Fatalf("%d: %v\n%s", i, err, deployment)
		}
		var s core.Service
		if err := yaml.UnmarshalStrict([]byte(service), &s); err != nil {
			t.Fatalf("%d: %v\n%s", i, err, service)
		}
		pod := d.Spec.Template
		if d.APIVersion != "apps/v1" || d.Kind != "Deployment" || s.APIVersion != "v1" || s.Kind != "Service" {
			t.Errorf("%d: %+v, %+v", i, d.TypeMeta, s.TypeMeta)
		}
		if app := pod.Labels["app"]; app == "" || d.Spec.Selector.MatchLabels["app"] != app || s.Spec.Selector["app"] != app {
			t.Errorf("%d: the labels %v, the selectors %v and %v", i, pod.Labels, d.Spec.Selector.MatchLabels, s.Spec.Selector)
		}
		c := pod.Spec.Containers[0]
		var gpus int64
		for name, n := range c.Resources.Limits {
			if !strings.HasSuffix(string(name), "/gpu") {
				t.Errorf("%d: a limit of %s", i, name)
			}
			gpus = n.Value() * int64(*d.Spec.Replicas)
		}
		if want := []int64{6, 2, 1, 16, 4, 16, 1}[i]; gpus != want {
			t.Errorf("%d: %d GPUs, want %d", i, gpus, want)
		}
		if c.VolumeMounts[0].Name != pod.Spec.Volumes[0].Name || c.StartupProbe.HTTPGet.Port.IntVal != c.Ports[0].ContainerPort {
			t.Errorf("%d: %+v", i, c)
		}
	}
}

func TestDNSLabel(t *testing.T) {
	for name, want := range map[string]string{
		"Qwen3-32B": "qwen3-32b", "llama3.1-8b": "llama3-1-8b", "": "llm", "70b": "llm-70b", "-a-": "a", strings.Repeat("a", 80): strings.Repeat("a", 63),
	} {
		if got := dnsLabel(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
