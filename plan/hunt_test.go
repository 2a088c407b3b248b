package plan

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"llmprof/internal/testkit"
	"llmprof/serving"
	"llmprof/unit"
)

// answer is what is shown of a search: rows with their marks, the best without replicas that only prefill, and why
// cards fell out.
func answer(r *Result, top, perGPU int) (all []string) {
	shown := Shown(r.Rows, top, perGPU)
	for i := range shown {
		x := shown[i]
		card := x.Card
		x.Card, x.order = nil, 0
		all = append(all, fmt.Sprintf("%s %s %+v", card.GPU.Key, card.Machine.Engine.Profile().Name, x))
	}
	for i := range r.Rows {
		if x := &r.Rows[i]; x.Prefill == 0 && shown[0].Prefill > 0 {
			all = append(all, "simpler: "+x.String())
			break
		}
	}
	for _, x := range r.Rejected {
		all = append(all, fmt.Sprintf("%s: %s, %v, %v", x.Card.GPU.Key, x.Miss.Reason, x.Miss.By, x.Unpriced))
	}
	return all
}

// What is shown of a search for the best rows is what is shown of one for all rows.
func TestTopOfAll(t *testing.T) {
	topOfAll(t, rand.New(rand.NewPCG(3, 17)), testkit.Cases(2, 60), drawLoad)
}

// So it is of clients that wait for their answers, with targets near what cards reach.
func TestTopOfAllClients(t *testing.T) {
	topOfAll(t, rand.New(rand.NewPCG(8, 5)), testkit.Cases(3, 60), func(q *Request, random *rand.Rand) {
		drawLoad(q, random)
		q.By = Objective(Objectives()[max(random.IntN(8)-4, 0)]) // mostly by cost
		q.Load, q.Gen = Load{Concurrency: 1 + random.IntN(40)}, serving.Fixed(2+random.IntN(100))
		q.Targets = Targets{TPOT: unit.Seconds(0.004 + 0.02*random.ExpFloat64())}
		if random.IntN(4) == 0 {
			q.Targets.TTFT = unit.Seconds(2 * random.ExpFloat64())
		}
		q.Budgets, q.Drafts, q.Acceptance = nil, nil, 0
	})
}

// topOfAll compares searches of random objectives.
func topOfAll(t *testing.T, random *rand.Rand, cases int, draw func(*Request, *rand.Rand)) {
	t.Helper()
	gpus := []string{"h100", "h200", "l40s", "a100", "l4", "rtx-4090", "t4", "mi300x", "a10", "gh200-144gb"}
	spaces := []*Request{request(t, "llama3.1-8b", gpus...), request(t, "qwen3-30b-a3b", gpus...)}
	spaces[0].Cards = append(spaces[0].Cards, requestOn(t, "sglang", "llama3.1-8b", "l40s", "h100").Cards...)
	saved, marked := 0, 0
	for i := range cases {
		q := *spaces[i%2]
		draw(&q, random)
		want, err := Search(t.Context(), &q)
		testkit.Must(t, err)
		q.Top, q.PerGPU = 1+random.IntN(4), random.IntN(3)
		got, err := Search(t.Context(), &q)
		testkit.Must(t, err)
		saved += want.Searched - got.Searched
		a, b := answer(got, q.Top, q.PerGPU), answer(want, q.Top, q.PerGPU)
		for j := range max(len(a), len(b)) {
			if j >= len(a) || j >= len(b) || a[j] != b[j] {
				t.Errorf("%d: by %s, %+v, %+v, budget %v: line %d of %d is\n%s\nof all rows\n%s", i, q.By, q.Targets, q.Load, q.Budget, j, len(b),
					line(a, j), line(b, j))
				break
			}
		}
		for _, r := range Shown(got.Rows, q.Top, q.PerGPU) {
			if r.Pareto {
				marked++
			}
		}
	}
	if saved == 0 || 2*marked < cases {
		t.Errorf("%d estimates are saved, and %d rows are marked", saved, marked)
	}
}

func line(all []string, i int) string {
	if i < len(all) {
		return all[i]
	}
	return "nothing"
}

// drawLoad draws a load with what is asked for under it.
func drawLoad(q *Request, random *rand.Rand) {
	draw(q, random)
	q.Load = Load{}
	q.MaxGPUs = 2 + random.IntN(16)
	q.Prompt, q.Gen = serving.Fixed(200+random.IntN(2000)), serving.Fixed(2+random.IntN(300))
	q.Targets.TTFT, q.Targets.TPOT = 6*q.Targets.TTFT, 4*q.Targets.TPOT
	q.Splits = []Split{{1, 1, 1, 0}, {2, 1, 1, 0}, {2, 2, 1, 0}, {4, 1, 4, 0}}[:2+random.IntN(3)]
	if len(q.Splits) == 4 && !q.Cards[0].Model.HasExperts() {
		q.Splits = q.Splits[:3]
	}
	q.Budgets, q.Together = []int{4096, 16384}[:random.IntN(3)], random.IntN(2) == 0
	switch random.IntN(5) {
	case 4: // batches that start together
	case 0:
		q.Load.Concurrency = 1 + random.IntN(24)
		q.Gen = serving.Fixed(2 + random.IntN(62))
	case 1:
		q.Load.Throughput = 3000 * random.ExpFloat64()
	default:
		q.Load.Rate = 10 * random.ExpFloat64()
		if random.IntN(3) == 0 {
			q.Drafts, q.Acceptance = []int{2}, 0.3+0.6*random.Float64()
		}
	}
	if random.IntN(3) == 0 {
		q.Budget = unit.DollarsPerHour(20 * random.ExpFloat64())
	}
}
