// Package serving says what the users of a server see: requests arrive over time, wait,
// are prefilled and decoded beside others. A simulation runs an engine's scheduler step by
// step, each step as long as package analytic says; the steady state needs none, and takes
// less than a millisecond. Nothing here reads files or prices a step by itself.
//
// The simulation is simulate.go (what happens next), replica.go (vLLM's and SGLang's schedulers),
// frontend.go (the API server), ahead.go (steps that are alike) and price.go.
//
// The steady state of an open queue has a product form (steady_product.go) over the numbers of
// sequences that decode (steady_levels.go), with those that wait (steady_waiting.go). At each
// level the steps are a Markov chain (steady_chain.go, steady_transitions.go), whose steps an
// arriving prompt meets (steady_arrival.go), and behind a router its intervals are Erlang's
// (steady_erlang.go). Steps cost what steady_costs.go and steady_tables.go say, of replicas that
// share experts steady_lockstep.go. Short answers, busy API servers and closed loops have no
// product form: requests are followed (steady_path.go, steady_event_loop.go, steady_closed.go),
// or simulated (steady_waves.go). The largest stable rate is in steady_capacity.go, with
// preemption in steady_saturated.go.
package serving
