package plan

import (
	"fmt"
	"strings"
)

// kubernetes is a Deployment of an engine's image with a Service: one pod for each replica, or for those that share their
// experts, so that the pods may be on any machines.
func kubernetes(r *Row, server *Launch, checkpoint string) Launch {
	l := Launch{Engine: "kubernetes"}
	name := dnsLabel(lastPart(checkpoint))
	gpus, pods := r.pods()
	if r.Prefill > 0 {
		l.Notes = append(l.Notes, fmt.Sprintf("these pods decode: apply the manifest a second time under another name with %d for prefill, "+
			"and put a proxy in front of both services", r.Prefill))
	}
	if per := r.Card.GPU.GPUsPerNode; per > 0 && gpus > per {
		l.Notes = append(l.Notes, fmt.Sprintf("a pod of %d GPUs is on no machine of %d: use a LeaderWorkerSet (lws.sigs.k8s.io)", gpus, per))
	}
	l.Text = fmt.Sprintf(manifest, name, pods, server.Image, listed(server.Pod, "            "), gpuResource(r.Card.GPU.Vendor), gpus)
	l.Notes = append(l.Notes, "pin the image to the release that you tested",
		"gated checkpoints want a secret with a token of the hub in HF_TOKEN")
	return l
}

// manifest is what a pod of the server needs: shared memory for the exchange of tensors
// between its processes, and a probe that waits until the weights are loaded.
const manifest = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: %[1]s
spec:
  replicas: %[2]d
  selector:
    matchLabels:
      app: %[1]s
  template:
    metadata:
      labels:
        app: %[1]s
    spec:
      containers:
        - name: server
          image: %[3]s
          args:%[4]s
          ports:
            - containerPort: 8000
          resources:
            limits:
              %[5]s: %[6]d
          startupProbe:
            httpGet:
              path: /health
              port: 8000
            periodSeconds: 10
            failureThreshold: 180
          readinessProbe:
            httpGet:
              path: /health
              port: 8000
          volumeMounts:
            - name: shm
              mountPath: /dev/shm
      volumes:
        - name: shm
          emptyDir:
            medium: Memory
            sizeLimit: 16Gi
---
apiVersion: v1
kind: Service
metadata:
  name: %[1]s
spec:
  selector:
    app: %[1]s
  ports:
    - port: 8000
      targetPort: 8000
`

// dnsLabel makes a name of Kubernetes: at most 63 lower-case letters, digits and dashes.
func dnsLabel(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, s)
	s = strings.Trim(s, "-")
	if s == "" || s[0] >= '0' && s[0] <= '9' {
		s = "llm-" + s
	}
	return strings.Trim(s[:min(len(s), 63)], "-")
}
