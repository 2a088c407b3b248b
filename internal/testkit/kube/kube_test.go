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
