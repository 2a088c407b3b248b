//go:build !js

package llmprof

import "embed"

// Sources are the files that say what the keys of documents mean, in comments of the types that are written: package schema reads them.
//
//go:embed analytic/*.go analytic/operator/workload.go analytic/engine/launch.go cmd/llmprof/internal/view/*.go deployment/*.go
//go:embed internal/stats/*.go measure/aggregate/*.go measure/calibrate/*.go measure/result/*.go
//go:embed models/count.go plan/*.go plan/sweep/row.go roofline/work.go serving/*.go validate/*.go validate/live/server.go
var Sources embed.FS
