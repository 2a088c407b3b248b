package kube

import (
	"strings"
	"testing"
)

const service = "apiVersion: v1\nkind: Service\nmetadata:\n  name: llm\nspec:\n  ports:\n    - port: 80\n      targetPort: http\n"

func TestCheck(t *testing.T) {
	if err := Check(service); err != nil {
		t.Error(err)
	}
	for _, wrong := range [][2]string{
		{"v1", "apps/v1"}, {"Service", "Servce"}, {"ports:", "port:"}, {"targetPort", "targetport"}, {"80", `"80"`}, {"spec:", "specification:"},
	} {
		if Check(strings.Replace(service, wrong[0], wrong[1], 1)) == nil {
			t.Errorf("%s is taken for %s", wrong[1], wrong[0])
		}
	}
}

const graph = `apiVersion: nvidia.com/v1beta1
kind: DynamoGraphDeployment
metadata:
  name: llm
spec:
  components:
    - name: decode
      type: decode
      replicas: 1
      multinode:
        nodeCount: 2
      podTemplate:
        spec:
          containers:
            - name: main
              image: runtime:1.6.0
              resources:
                limits:
                  nvidia.com/gpu: "8"
`

func TestCheckCustom(t *testing.T) {
	if err := Check(graph); err != nil {
		t.Error(err)
	}
	for _, wrong := range [][2]string{
		{"v1beta1", "v1alpha1"}, {"components", "services"}, {"type: decode", "type: decoder"}, {"nodeCount: 2", "nodeCount: 1"},
		{"name: main", "name: server"}, {"runtime:1.6.0", "runtime:latest"}, {"replicas: 1", "replicas: -1"}, {"limits", "limit"},
		{"      podTemplate", "      podSpec"}, {"name: decode", "name: -decode"},
	} {
		if Check(strings.Replace(graph, wrong[0], wrong[1], 1)) == nil {
			t.Errorf("%s is taken for %s", wrong[1], wrong[0])
		}
	}
}
