//go:build !js

package view

import (
	"llmprof/internal/schema"
	"llmprof/measure/aggregate"
	"llmprof/measure/calibrate"
	"llmprof/measure/result"
	"llmprof/plan/sweep"
	"llmprof/validate"
)

// Forms are the documents that commands write, by the name of their form.
func Forms() schema.Forms {
	return schema.Forms{
		EstimateSchema:             {EstimateDocument{}},
		PlanSchema:                 {PlanDocument{}},
		FleetSchema:                {FleetDocument{}},
		SimulationSchema:           {SimulationDocument{}},
		CompareSchema:              {CompareDocument{}},
		RegressionSchema:           {RegressionDocument{}},
		ServerLiveSchema:           {ServerLiveDocument{}},
		validateSchema:             {ValidationDocument{}},
		serversSchema:              {ServersDocument{}},
		tracedSchema:               {TracedDocument{}},
		ablationSchema:             {AblationDocument{}},
		"llmprof.models-check/v1":  {[]ModelCheck{}},
		"llmprof.sweep/v1":         {[]sweep.Row{}},
		result.Schema:              {result.Result{}},
		result.FailureSchema:       {result.Failure{}},
		aggregate.Schema:           {aggregate.Report{}},
		calibrate.RowSchema:        calibrate.Lines(),
		validate.PredictionsSchema: {validate.Predictions{}},
	}
}
