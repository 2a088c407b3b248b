// Package serving says what the users of a server see: requests arrive over time, wait,
// are prefilled and decoded beside others. A simulation runs an engine's scheduler step by
// step, each step as long as package analytic says; the steady state has the means under a
// load in some milliseconds. Nothing here reads files or prices a step by itself.
//
// The simulation is simulate.go (what happens next), replica.go (sequences and their KV
// blocks), frontend.go (the API server), pipeline.go, prefix.go and price.go (what steps
// cost). The code of a scheduler is a policy (policy.go), one file each.
//
// Steadies (steadies.go) is the one door to the steady state. An open load is followed along
// a sample path (steady_path.go) of the queue of a replica (steady_flow.go), at costs that
// steady_costs.go tabulates, with the same policies; the path of a full server gives the
// largest stable rate (steady_capacity.go). Closed loops and busy API servers are simulated
// for a bounded number of events (steady_simulated.go).
//
// What may change: schedulers, figures and options are added, whose zero values are what is done now; Server, Source, Simulate and
// Result stay.
package serving
