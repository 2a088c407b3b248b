package plan

import (
	"slices"

	"llmprof/deployment"

	"llmprof/analytic/engine"
)

// extras are the deployments with other settings than a server starts with: speculation, other
// steps, replicas that only prefill. Where the price counts they have to save a GPU over one without.
func (s *search) extras(c *config, found incumbent) (rows []Row) {
	if s.q.rate() == 0 {
		return nil
	}
	if found.gpus = min(found.gpus, found.plain-1); s.fewestGPUs() && float64(c.least*c.GPUs) > found.gpus {
		return nil
	}
	keep := func(r Row, ok bool) {
		if ok {
			rows, found = append(rows, r), found.with(s, &r)
		}
	}
	for _, drafts := range append([]int{0}, s.q.Drafts...) {
		base, err := s.drafting(c, drafts)
		if err != nil {
			s.missed(Miss{err.Error(), infinite, nil})
			continue
		}
		for _, budget := range s.steps(base, found) {
			if other := s.stepping(base, budget); !s.hopeless(other) {
				keep(s.serve(other, found))
			}
		}
		if !s.q.Together && fitsSteps(&c.server.Scheduler, 0, drafts) && !s.hopeless(base) {
			keep(s.apart(base, found))
		}
	}
	return rows
}

// steps are the most tokens of a step that are tried beside those of a deployment, 0 for its scheduler's: none where more requests come
// than steps of any length may answer.
func (s *search) steps(c *config, found incumbent) (budgets []int) {
	for _, n := range append([]int{0}, s.q.Budgets...) {
		if n+c.Drafts > 0 && fitsSteps(&c.server.Scheduler, n, c.Drafts) {
			budgets = append(budgets, n)
		}
	}
	if len(budgets) > 2 {
		longest := s.stepping(c, slices.Max(budgets))
		units := s.paidUnits(c, s.mostUnits(c, found))
		if s.q.prepare(longest) == nil && s.q.rate()*longest.slower > shorterSteps*longest.capacity(units) {
			return nil
		}
	}
	return budgets
}

// shorterSteps is how many times as many requests shorter steps may answer as the longest ones. In random cases they answer up to 1.87
// times as many (TestCapacityOfSteps).
const shorterSteps = 2

// fitsSteps reports whether a budget differs from the scheduler's, and leaves prompts half of a
// step where as many sequences decode, and verify drafts, as may run.
func fitsSteps(rules *engine.Scheduler, budget, drafts int) bool {
	switch budget {
	case 0:
		budget = rules.Budget
	case rules.Budget:
		return false
	}
	return budget >= 2*rules.MaxSeqs*(1+drafts)
}

// drafting is the deployment with speculation.
func (s *search) drafting(c *config, drafts int) (*config, error) {
	if drafts == 0 {
		return c, nil
	}
	other := *c
	other.steadies, other.Drafts = nil, drafts
	return &other, s.ready(&other) // Draft layers take memory.
}

// stepping is the deployment with steps of another length, which cost what is known of them.
func (s *search) stepping(c *config, budget int) *config {
	if budget == 0 {
		return c
	}
	other := *c
	other.steadies, other.Budget, other.server.Scheduler.Budget = nil, budget, budget
	if s.q.prepare(c) == nil { // else a shorter step may leave room enough
		other.steadies, _ = c.steadies.With(other.server.Scheduler)
	}
	if s.q.Prompt.Longest() > min(budget, c.server.Scheduler.Budget) { // its steps are others, and so is the interval
		s.alone(&other)
	}
	return &other
}

// alone predicts a request that is alone on a deployment anew, with the steps that it has.
func (s *search) alone(c *config) {
	units, err := s.prepare(&c.Row)
	if err != nil {
		return // it was prepared before
	}
	w := s.q.workload(c.MicroBatches)
	w.Budget = c.Budget
	e, err := units.Predict(w)
	if err != nil {
		return // the steady state says why
	}
	if c.single = s.single(c, units, &e); !s.q.Expected {
		c.slower = deployment.Slower(&e)
	}
}
