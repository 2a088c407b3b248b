package replay

import (
	"slices"
	"strings"
)

// A form is how a tool writes requests. Names are as plain gives them; those of fields within others are joined by points.
type form struct {
	name             string     // "" for what no tool is known of
	what             string     // the file, in words
	marks            []string   // names that a record has if it is of this form
	top              [][]string // names of which the object around all records has all of one list, if it is of this form
	list             string     // where in that object the records are
	columns          bool       // that object has a list for each field instead
	at, prompt, gen  []string   // fields, the best first
	failed           []string   // fields that say that a request failed
	unit             string     // of times that are numbers; "" where it has to be found
	block            int        // tokens that a hash is of; 0 where it has to be found
	ended            bool       // records are written as requests end, so that they have to be sorted
	arrivals         bool       // it has when requests came, and not how long their answers took
	lacks, available string     // what no file of this form has, and which of that tool's files has it
}

const (
	noTimes  = "the times of arrival"
	noTokens = "the prompt and generated tokens of each request"
	noLists  = "requests, each with its time, prompt and generated tokens"
)

// The forms are tried in this order: those with more marks stand before those with fewer. The one without marks is of
// files that have all that is needed; those that lack something come after it.
var forms = []form{
	{name: "llmprof", what: "a result of llmprof measure", top: [][]string{{"serving"}}, list: "serving.records.[]",
		at: []string{"sents"}, prompt: []string{"prompttokens"}, gen: []string{"generatedtokens"}, failed: []string{"failure"},
		unit: "s"},
	{name: "vllm", what: "the results of a benchmark by vLLM or SGLang",
		top: [][]string{{"inputlens"}, {"outputlens"}, {"totalinputtokens", "requestthroughput"}}, columns: true,
		at: []string{"starttimes"}, prompt: []string{"inputlens"}, gen: []string{"outputlens"}, unit: "s",
		lacks:     "the times and tokens of each request",
		available: "vllm bench serve writes start_times, input_lens and output_lens with --save-result --save-detailed"},
	{name: "guidellm", what: "a report of GuideLLM", top: [][]string{{"benchmarks"}}, list: "benchmarks.[].requests.successful.[]",
		at: []string{"requeststarttime", "starttime"}, prompt: []string{"prompttokens"}, gen: []string{"outputtokens"}, unit: "s"},
	{name: "weka", what: "a trace of agents by Weka", top: [][]string{{"hashidscope", "requests"}}, list: "requests.[]", at: []string{"t"},
		arrivals: true, prompt: []string{"in"}, gen: []string{"out"}, unit: "s"},
	{what: "GenAI-Perf's profile_export.json", top: [][]string{{"experiments"}}, lacks: noTokens,
		available: "AIPerf, which follows it, has them in its profile_export.jsonl"},
	{what: "a summary by GenAI-Perf or AIPerf", top: [][]string{{"inputconfig"}}, lacks: noLists,
		available: "AIPerf has them in its profile_export.jsonl"},
	{what: "a summary by LLMPerf", top: [][]string{{"resultsnumcompletedrequests"}, {"resultsnumrequestsstarted"}}, lacks: noLists},
	{what: "a result of genai-bench", top: [][]string{{"aggregatedmetrics"}}, lacks: noTimes},
	{what: "a report of trtllm-bench", top: [][]string{{"worldinfo", "requestinfo"}}, lacks: noLists},
	{what: "a Benchmark Report of llm-d", top: [][]string{{"scenario", "results"}, {"scenario", "version"}}, lacks: noLists},
	{what: "a profiler's trace of kernels", top: [][]string{{"traceevents"}}, lacks: noLists},

	{name: "aiperf", what: "AIPerf's profile_export.jsonl", marks: []string{"metadata.requeststartns"},
		at:     []string{"metadata.requeststartns"},
		prompt: []string{"metrics.inputsequencelength.value"}, gen: []string{"metrics.outputsequencelength.value"},
		failed: []string{"error", "metadata.wascancelled"}, ended: true},
	{name: "inference-perf", what: "the requests of inference-perf",
		marks: []string{"starttime", "info.inputtokens", "info.outputtokens"}, at: []string{"starttime"},
		prompt: []string{"info.inputtokens"}, gen: []string{"info.outputtokens"}, failed: []string{"error"}, unit: "s", ended: true},
	{name: "inference-perf", what: "the requests of inference-perf", // since 0.7
		marks: []string{"starttime", "info.requestmetrics.text.inputtokens", "info.responsemetrics.outputtokens"}, at: []string{"starttime"},
		prompt: []string{"info.requestmetrics.text.inputtokens"}, gen: []string{"info.responsemetrics.outputtokens"},
		failed: []string{"error"}, unit: "s", ended: true},
	{name: "records", what: "records of llmprof", marks: []string{"index", "sents"}, at: []string{"sents"},
		prompt: []string{"prompttokens"}, gen: []string{"generatedtokens"},
		failed: []string{"failure"}, ended: true},
	{name: "records", what: "records of llmprof", marks: []string{"index", "arrivals"}, at: []string{"arrivals"},
		prompt: []string{"prompttokens"}, gen: []string{"generatedtokens"},
		ended: true},
	{name: "vidur", what: "a trace of Vidur", marks: []string{"arrivedat", "numprefilltokens", "numdecodetokens"},
		at:       []string{"arrivedat"},
		arrivals: true, prompt: []string{"numprefilltokens"}, gen: []string{"numdecodetokens"}, unit: "s"},
	{name: "splitwise", what: "a trace of SplitwiseSim", marks: []string{"arrivaltimestamp", "promptsize", "tokensize"},
		at:       []string{"arrivaltimestamp"},
		arrivals: true, prompt: []string{"promptsize"}, gen: []string{"tokensize"}, unit: "s"},
	{name: "bailian", what: "a trace of Alibaba's Bailian", marks: []string{"chatid", "timestamp", "inputlength", "outputlength"},
		at:       []string{"timestamp"},
		arrivals: true, prompt: []string{"inputlength"}, gen: []string{"outputlength"}, unit: "s", block: 16},
	{name: "mooncake", what: "a trace of Mooncake", marks: []string{"timestamp", "inputlength", "outputlength", "hashids"},
		at:       []string{"timestamp"},
		arrivals: true, prompt: []string{"inputlength"}, gen: []string{"outputlength"}, unit: "ms", block: 512},
	{what: "a trace with Mooncake's names", marks: []string{"timestamp", "inputlength", "outputlength"}, at: []string{"timestamp"},
		arrivals: true, prompt: []string{"inputlength"}, gen: []string{"outputlength"}},
	{name: "azure", what: "Azure's trace", marks: []string{"timestamp", "contexttokens", "generatedtokens"}, at: []string{"timestamp"},
		arrivals: true, prompt: []string{"contexttokens"}, gen: []string{"generatedtokens"}, unit: "s"},
	{name: "burstgpt", what: "BurstGPT's trace", marks: []string{"timestamp", "requesttokens", "responsetokens"},
		at:     []string{"timestamp"},
		prompt: []string{"requesttokens"}, gen: []string{"responsetokens"}, unit: "s"},
	{name: "servegen", what: "a workload of ServeGen", marks: []string{"requestid", "timestamp", "inputtokens", "outputtokens"},
		at:       []string{"timestamp"},
		arrivals: true, prompt: []string{"inputtokens"}, gen: []string{"outputtokens"}, unit: "s"},
	{at: withUnits(),
		prompt: []string{"contexttokens", "requesttokens", "inputtokens", "inputlength", "prompttokens", "promptlen", "inputtoks",
			"prompt", "prompts", "input"},
		gen: []string{"generatedtokens", "responsetokens", "outputtokens", "outputlength", "completiontokens", "genlen",
			"outputtoks", "generated", "output"},
		failed: []string{"failure"}, unit: "s"},
	{what: "individual responses of LLMPerf", marks: []string{"numberinputtokens", "numberoutputtokens"}, lacks: noTimes},
	{what: "the result of llama-bench", marks: []string{"buildcommit", "nprompt", "ngen"}, lacks: noLists},
	{what: "a dataset of trtllm-bench", marks: []string{"taskid", "outputtokens"}, lacks: noTimes},
}

// units are those of times, in seconds.
var units = map[string]float64{"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}

// unitNames are the units in words.
var unitNames = map[string]string{"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}

// timeNames are those of times in files of no known tool.
func timeNames() []string {
	return []string{"timestamp", "time", "arrival", "arrivaltime", "at", "sent"}
}

// withUnits are names of a time, with and without a unit at their end.
func withUnits() []string {
	var all []string
	for _, name := range timeNames() {
		for _, end := range []string{"", "s", "ms", "us", "ns"} {
			all = append(all, name+end)
		}
	}
	return all
}

// stated is the unit that a field's name ends in, "" for none.
func stated(key string) string {
	for _, unit := range []string{"s", "ms", "us", "ns"} {
		if strings.HasSuffix(strings.ToLower(key), "_"+unit) {
			return unit
		}
	}
	for _, name := range timeNames() { // as timeMs
		if end, ok := strings.CutPrefix(plain(key), name); ok && unitNames[end] != "" && end != "s" {
			return end
		}
	}
	return ""
}

var separators = strings.NewReplacer("_", "", " ", "", "-", "", "\ufeff", "")

// plain is a name without case, spaces, underscores and hyphens.
func plain(name string) string { return separators.Replace(strings.ToLower(name)) }

// around is the form of an object of these names that has many requests in it; nil if there is none.
func around(names []string) *form {
	for i := range forms {
		for _, all := range forms[i].top {
			if hasAll(names, all) {
				return &forms[i]
			}
		}
	}
	return nil
}

// formOf is the form of a record; nil if it is none of them.
func formOf(names []string) *form {
	for i := range forms {
		f := &forms[i]
		if f.top == nil && hasAll(names, f.marks) && (f.marks != nil || hasOne(names, f.at) && hasOne(names, f.prompt) && hasOne(names, f.gen)) {
			return f
		}
	}
	return nil
}

// general is the form of files of no known tool.
func general() *form {
	return &forms[slices.IndexFunc(forms, func(f form) bool { return f.top == nil && f.marks == nil })]
}

func hasOne(names, some []string) bool {
	return slices.ContainsFunc(some, func(name string) bool { return slices.Contains(names, name) })
}

func hasAll(names, all []string) bool {
	return !slices.ContainsFunc(all, func(name string) bool { return !slices.Contains(names, name) })
}
