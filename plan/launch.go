package plan

import (
	"context"
	"strings"

	"llmprof/analytic/engine"
	"llmprof/internal/printable"
	"llmprof/models"
)

// A Launch is how an engine is started as a row says.
type Launch = engine.Launch

// Launches are the commands that start one machine's part of a deployment with the engines
// that people run and that run on its GPU, and manifests for the first that has a container image: of Kubernetes, of Dynamo and of
// KServe, as llm-d runs it, where these run such a deployment. Checkpoint is the name or the folder of the weights.
func Launches(r *Row, q *Request, checkpoint string) (all []Launch) {
	d := r.deployment(q, printable.Operand(checkpoint))
	all = engine.Launches(&d)
	for i := range all {
		if all[i].Image != "" {
			server := all[i]
			all = append(all, kubernetes(r, &server, d.Checkpoint))
			for _, manifest := range []func(*Row, *Launch, string) (Launch, bool){dynamo, kserve} {
				if l, ok := manifest(r, &server, d.Checkpoint); ok {
					all = append(all, l)
				}
			}
			return all
		}
	}
	return all
}

// deployment is what servers are started for as a row says.
func (r *Row) deployment(q *Request, checkpoint string) engine.Deployment {
	d := engine.Deployment{
		Model: r.Card.Model, GPU: r.Card.GPU, Checkpoint: checkpoint, Engine: r.Card.Machine.Engine,
		TP: r.Split.TP, PP: r.Split.PP, EP: r.Split.EP, Sharing: r.Split.sharing(), Replicas: r.DP, Prefill: r.Prefill,
		Weights: r.Formats.Weights, Scheme: r.Scheme, KV: r.Formats.KV,
		Context: longest(q, r.Card.Model), Prompt: q.Prompt.Longest(), Batch: r.Batch, Budget: r.Budget, Drafts: r.Drafts,
		Placement: r.Placement,
		Request:   q.Prompt.Longest() + q.Gen.Longest(),
	}
	one := *r
	one.DP, one.Prefill = r.Split.sharing(), 0
	request := one.Request(q)
	unit, err := q.From.Serve(context.Background(), &request)
	if err != nil {
		return d // the estimate's engine does not run it
	}
	d.Case = &unit.Case
	return d
}

// longest is the longest context that requests come to, with an eighth to spare.
func longest(q *Request, m *models.Model) int {
	n := (q.Prompt.Longest() + q.Gen.Longest()) * 9 / 8
	if most := m.MaxContext; most > 0 {
		n = min(n, most)
	}
	return n
}

func lastPart(path string) string { return path[strings.LastIndexAny(path, `/\`)+1:] }
