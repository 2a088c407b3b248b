// Package plan searches deployments of a model: which GPUs, how many, which split, formats
// and batch meet targets at least cost, and how such a deployment is launched.
package plan
