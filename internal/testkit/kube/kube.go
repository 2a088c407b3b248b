// Package kube holds manifests in tests to the schema that Kubernetes publishes. The
// Go types of k8s.io/api would do so too, and take 15 s to compile.
package kube

import (
	"bytes"
	_ "embed" // the schemas
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"llmprof/internal/testkit"
)

// schema defines a Deployment, a Service and a Job, and refuses every property without a definition.
//
//go:embed schema.json
var schema []byte

// Decode checks a manifest and writes the properties for which v has fields into v.
func Decode(t testing.TB, manifest string, v any) {
	t.Helper()
	testkit.Must(t, Check(manifest))
	text, err := yaml.YAMLToJSON([]byte(manifest))
	testkit.Must(t, err)
	testkit.Must(t, json.Unmarshal(text, v))
}

// custom has the parts that are written of a DynamoGraphDeployment and of an LLMInferenceService, as their definitions have them:
// deploy/operator/config/crd/bases/nvidia.com_dynamographdeployments.yaml of ai-dynamo/dynamo at 01cc1c3b677b with what its descriptions
// require of new components, and config/crd/full/llmisvc of kserve/kserve at aaac4e294dae, to which CheckPublished held all manifests.
// Containers are those of schema.
//
//go:embed custom.json
var custom []byte

// Check is an error if a manifest is not what Kubernetes takes.
func Check(manifest string) error {
	c := jsonschema.NewCompiler()
	for name, text := range map[string][]byte{"kubernetes.json": schema, "custom.json": custom} {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			return err
		}
		if err := c.AddResource(name, doc); err != nil {
			return err
		}
	}
	name := "kubernetes.json"
	for _, group := range []string{"nvidia.com/", "serving.kserve.io/"} {
		if strings.HasPrefix(manifest, "apiVersion: "+group) {
			name = "custom.json"
		}
	}
	s, err := c.Compile(name)
	if err != nil {
		return err
	}
	return validate(s, manifest)
}

// CheckPublished checks a manifest against the definition of its resource that its project publishes, a file of the folder that
// LLMPROF_CRDS names; without the file it does nothing. Properties that the definition does not name are refused, which the API server
// would drop.
func CheckPublished(t testing.TB, manifest, file string) {
	t.Helper()
	folder := os.Getenv("LLMPROF_CRDS")
	if folder == "" {
		return
	}
	text, err := os.ReadFile(filepath.Join(folder, file))
	if errors.Is(err, fs.ErrNotExist) {
		t.Logf("%s has no %s", folder, file)
		return
	}
	testkit.Must(t, err)
	var definition struct {
		Spec struct {
			Versions []struct {
				Name   string
				Schema struct {
					Schema map[string]any `yaml:"openAPIV3Schema"`
				}
			}
		}
	}
	testkit.Must(t, yaml.Unmarshal(text, &definition))
	checked := false
	for _, v := range definition.Spec.Versions {
		if line, _, _ := strings.Cut(manifest, "\n"); !strings.HasSuffix(line, "/"+v.Name) {
			continue
		}
		closed(v.Schema.Schema)
		doc, err := json.Marshal(v.Schema.Schema)
		testkit.Must(t, err)
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(doc))
		testkit.Must(t, err)
		c := jsonschema.NewCompiler()
		testkit.Must(t, c.AddResource("published.json", value))
		s, err := c.Compile("published.json")
		testkit.Must(t, err)
		testkit.Must(t, validate(s, manifest))
		checked = true
	}
	if !checked {
		t.Errorf("%s has no version of the manifest", file)
	}
}

// closed refuses properties that a definition does not name, but for the metadata, which Kubernetes defines.
func closed(of map[string]any) {
	properties, _ := of["properties"].(map[string]any)
	if _, open := of["additionalProperties"]; properties != nil && !open && of["x-kubernetes-preserve-unknown-fields"] == nil {
		of["additionalProperties"] = false
	}
	for _, p := range properties {
		if m, ok := p.(map[string]any); ok {
			closed(m)
		}
	}
	if m, ok := of["items"].(map[string]any); ok {
		closed(m)
	}
}

func validate(s *jsonschema.Schema, manifest string) error {
	text, err := yaml.YAMLToJSON([]byte(manifest))
	if err != nil {
		return err
	}
	m, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return s.Validate(m)
}
