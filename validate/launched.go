package validate

// A started says that a source started its servers with graphs of more tokens than the engine captures by
// default; an empty field is any.
type started struct {
	source, engine, model string
	graphs                int
}

// launches lists what the sources' scripts set. InferenceX starts vLLM with --max-cudagraph-capture-size 2048 for gpt-oss-120b
// (benchmarks/gptoss_fp4_{h100,h200,b200}.sh, Apache-2.0), so that a prompt of 1024 tokens that joins decode steps runs in graphs.
func launches() []started {
	return []started{{source: "aiconfigurator-moe", engine: "vllm", model: "gpt-oss-120b", graphs: 2048}}
}

// graphs is the most tokens of the graphs that the server of an observation captured, 0 for the engine's default.
func graphs(o *Observation) int {
	for _, l := range launches() {
		if wants(l.source, o.Source) && wants(l.engine, o.Engine) && wants(l.model, o.Model) {
			return l.graphs
		}
	}
	return 0
}
