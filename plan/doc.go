// Package plan searches deployments of a model: which GPUs, how many, which split, formats
// and batch meet targets at least cost, and how such a deployment is launched.
//
// What may change: targets and fields of rows are added; the order of rows follows the predictions; Request, Search, Result, Row and
// Launches stay.
package plan
