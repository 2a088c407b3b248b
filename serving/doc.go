// Package serving says what the users of a server see: requests arrive over time, wait,
// are prefilled and decoded beside others. A simulation runs an engine's scheduler step by
// step, each step as long as package analytic says; a fixed point gives the steady state
// in microseconds. Nothing here reads files or prices a step by itself.
package serving
