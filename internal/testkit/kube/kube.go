// Package kube holds manifests in tests to the schema that Kubernetes publishes. The
// Go types of k8s.io/api would do so too, and take 15 s to compile.
package kube

import (
	"bytes"
	_ "embed" // the schema
	"encoding/json"
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

// Check is an error if a manifest is not what Kubernetes takes.
func Check(manifest string) error {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		return err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("kubernetes.json", doc); err != nil {
		return err
	}
	s, err := c.Compile("kubernetes.json")
	if err != nil {
		return err
	}
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
