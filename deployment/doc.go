// Package deployment answers requests: what a model takes on GPUs, alone or under a load. A Request is filled by flags, by the page, by a
// file or by a program alike. A Library reads what it names, each model, GPU and calibration once, and resolves it to a Deployment: a case
// with all defaults, near misses and refusals. A Deployment gives an estimate, steady states, and a server that package serving simulates.
//
// What may change: settings and figures are added, whose zero values are what is done now, and defaults follow the engines', as the
// CHANGELOG says; Library, Request, with the keys of its settings, and Answer stay. This is the door for other programs.
package deployment
