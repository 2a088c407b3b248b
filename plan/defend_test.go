package plan

import (
	"math/rand/v2"
	"testing"

	"llmprof/internal/testkit"
	"llmprof/serving"
	"llmprof/unit"
)

// asked draws a question.
func asked(t *testing.T, random *rand.Rand) *Request {
	all := []string{"h100", "h200", "l40s", "a100", "b200", "l4", "a10", "rtx-4090"}
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	model := []string{"llama3.1-8b", "qwen3-32b", "qwen3-30b-a3b", "qwen3-8b", "qwen3-14b"}[random.IntN(5)]
	q := request(t, model, all[:2+random.IntN(3)]...)
	for i := range q.Cards {
		q.Cards[i].Formats = DefaultFormats(q.Cards[i].Model, q.Cards[i].GPU, DefaultWeights("vllm"), 8)
	}
	q.Prompt, q.Gen = lengths(random, float64(200+random.IntN(3000))), serving.Fixed(50+random.IntN(400))
	q.Load = Load{Rate: 1 + 15*random.ExpFloat64()}
	at := []float64{0, 0.5, 0.9, 0.95, 0.99}
	q.Targets = []Target{{TTFT, at[random.IntN(5)], unit.Seconds(0.3 + 2*random.Float64())},
		{TPOT, at[random.IntN(5)], unit.Seconds(0.015 + 0.06*random.Float64())}}
	q.Top, q.PerGPU = 5, 1
	return q
}

// meets simulates all replicas of a row with another seed, behind one router, and reports whether it meets what was asked for.
func meets(t *testing.T, q *Request, r *Row, requests int) bool {
	t.Helper()
	one := r.Request(q)
	d, err := library().Serve(t.Context(), &one)
	if err != nil {
		return false
	}
	server, err := d.Server(t.Context())
	if err != nil {
		return false
	}
	warmup := max(requests/10, 3*int(r.Running))
	load := serving.Load{Arrival: serving.Arrival{Kind: "poisson", Rate: q.rate() * r.slower}, Prompt: q.Prompt, Gen: q.Gen,
		Requests: requests + warmup, Seed: 4711}
	source, err := load.Source()
	testkit.Must(t, err)
	result, err := serving.Simulate(t.Context(), server, source, serving.Options{Warmup: warmup, Seed: 4711})
	if err != nil {
		return false
	}
	own := *r
	own.Simulated = summary([]*serving.Figures{&result.Figures}, r.slower)
	return q.holds(&own, 0)
}

// TestPlansHold asks 30 random questions. The first row meets its targets in a simulation of 20,000 requests with another seed in all but
// one, and of cheaper deployments drawn at random, in all but one question none does.
func TestPlansHold(t *testing.T) {
	testkit.Long(t, "30 plans, and simulations of deployments that are cheaper")
	const questions, drawn, requests = 30, 300, 20000
	random := rand.New(rand.NewPCG(29, 11))
	answered, held, beaten, cheaper := 0, 0, 0, 0
	for i := range questions {
		q := asked(t, random)
		found, err := Search(t.Context(), q)
		testkit.Must(t, err)
		q.fill()
		if len(found.Rows) == 0 {
			t.Logf("%d: nothing qualifies: %s", i, found.Rejected[0].Miss.Reason)
		} else {
			answered++
			r := &found.Rows[0]
			if meets(t, q, r, requests) {
				held++
			} else {
				t.Logf("%d: %v does not hold %+v under %+v, %v + %v", i, r, q.Targets, q.Load, &q.Prompt, &q.Gen)
			}
		}
		var all []*search
		for k := range q.Cards {
			all = append(all, whole(t, q, k))
		}
		better := false
		for range drawn {
			s := all[random.IntN(len(all))]
			if len(s.open) == 0 {
				continue
			}
			c := s.open[random.IntN(len(s.open))]
			units := 1 + random.IntN(max(q.MaxGPUs/c.GPUs, 1))
			v := variant{}
			if budgets := q.Budgets; random.IntN(3) == 0 {
				v.Budget = budgets[random.IntN(len(budgets))]
			}
			if len(found.Rows) > 0 && s.card.hour((units+v.Prefill)*c.GPUs) >= found.Rows[0].PerHour {
				units = int(float64(found.Rows[0].PerHour) / float64(s.card.hour(c.GPUs)) * 0.999)
			}
			if units < 1 || better {
				continue
			}
			cheaper++
			r := c.Row
			s.sized(&r, units)
			r.Budget, r.setting, r.from, r.search = v.Budget, setting{v, units}, c, s
			if s.fillSteady(t.Context(), c, v, &r) != nil || q.exceeds(&r) > 1.1 {
				continue
			}
			if meets(t, q, &r, requests/10) && meets(t, q, &r, requests) {
				better = true
				t.Logf("%d: %v (%v) holds, found were %v", i, &r, r.PerHour, Shown(found.Rows, 1, 1))
			}
			c.release()
		}
		if better {
			beaten++
		}
	}
	t.Logf("%d of %d questions are answered, %d rows hold, %d are beaten by one of %d cheaper deployments",
		answered, questions, held, beaten, cheaper)
	if held < answered-1 || beaten > 1 || 2*answered < questions {
		t.Error("too few hold")
	}
}
