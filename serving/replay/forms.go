package replay

import (
	"regexp"
	"slices"
	"strings"
)

// Names are some of which any or all are meant, between blanks.
type names string

// The fields of a request, the best name of each first.
type fields struct{ at, prompt, gen names }

// A form is how a tool writes requests. Names are as plain gives them; those of fields within others are joined by points.
type form struct {
	name             string  // "" for what no tool is known of
	what             string  // the file, in words
	marks            names   // all are in a record if it is of this form; where there are none, one for each length and the time is
	top              []names // The object around all records has all fields of one of these, if the file is of this form.
	list             string  // It leads from that object to the list of records.
	columns          bool    // The object has a list for each field and no list of records.
	fields                   // They are the fields of a request.
	failed           names   // fields that say that a request failed
	unit             string  // Times that are numbers have this unit; with "" it has to be found.
	block            int     // tokens that a hash is of; 0 where it has to be found
	ended            bool    // records are written as requests end, so that they have to be sorted
	arrivals         bool    // it has when requests came, and not how long their answers took
	lacks, available string  // what no file of this form has, and which of that tool's files has it
}

const (
	noTimes  = "the times of arrival"
	noTokens = "the prompt and generated tokens of each request"
	noLists  = "requests, each with its time, prompt and generated tokens"
)

// The forms are tried in this order: those with more marks stand before those with fewer. The one without marks is of
// files of no known tool that have all that is needed; those that lack something come after it.
var forms = []form{
	{name: "llmprof", what: "a result of llmprof measure", top: []names{"serving"}, list: "serving.records.[]",
		fields: fields{"sents", "prompttokens", "generatedtokens"}, failed: "failure", unit: "s"},
	{name: "vllm", what: "the results of a benchmark by vLLM or SGLang",
		top: []names{"inputlens", "outputlens", "totalinputtokens requestthroughput"}, columns: true,
		fields: fields{"starttimes", "inputlens", "outputlens"}, unit: "s", lacks: "the times and tokens of each request",
		available: "vllm bench serve writes start_times, input_lens and output_lens with --save-result --save-detailed"},
	{name: "guidellm", what: "a report of GuideLLM", top: []names{"benchmarks"}, list: "benchmarks.[].requests.successful.[]",
		fields: fields{"requeststarttime starttime", "prompttokens", "outputtokens"}, unit: "s"},
	{name: "weka", what: "a trace of agents by Weka", top: []names{"hashidscope requests"}, list: "requests.[]",
		fields: fields{"t", "in", "out"}, arrivals: true, unit: "s"},
	{what: "GenAI-Perf's profile_export.json", top: []names{"experiments"}, lacks: noTokens,
		available: "AIPerf, which follows it, has them in its profile_export.jsonl"},
	{what: "a summary by GenAI-Perf or AIPerf", top: []names{"inputconfig"}, lacks: noLists,
		available: "AIPerf has them in its profile_export.jsonl"},
	{what: "a summary by LLMPerf", top: []names{"resultsnumcompletedrequests", "resultsnumrequestsstarted"}, lacks: noLists},
	{what: "a result of genai-bench", top: []names{"aggregatedmetrics"}, lacks: noTimes},
	{what: "a report of trtllm-bench", top: []names{"worldinfo requestinfo"}, lacks: noLists},
	{what: "a Benchmark Report of llm-d", top: []names{"scenario results", "scenario version"}, lacks: noLists},
	{what: "a profiler's trace of kernels", top: []names{"traceevents"}, lacks: noLists},
	{name: "aiperf", what: "AIPerf's profile_export.jsonl", marks: "metadata.requeststartns",
		fields: fields{"metadata.requeststartns", "metrics.inputsequencelength.value", "metrics.outputsequencelength.value"},
		failed: "error metadata.wascancelled", ended: true},
	{name: "inference-perf", what: "the requests of inference-perf", fields: fields{"starttime",
		"info.inputtokens info.requestmetrics.text.inputtokens", "info.outputtokens info.responsemetrics.outputtokens"},
		failed: "error", unit: "s", ended: true},
	{name: "records", what: "records of llmprof", marks: "index sents", fields: fields{"sents", "prompttokens", "generatedtokens"},
		failed: "failure", ended: true},
	{name: "records", what: "records of llmprof", marks: "index arrivals", fields: fields{"arrivals", "prompttokens", "generatedtokens"},
		ended: true},
	{name: "vidur", what: "a trace of Vidur", fields: fields{"arrivedat", "numprefilltokens", "numdecodetokens"}, arrivals: true, unit: "s"},
	{name: "splitwise", what: "a trace of SplitwiseSim", fields: fields{"arrivaltimestamp", "promptsize", "tokensize"}, arrivals: true,
		unit: "s"},
	{name: "bailian", what: "a trace of Alibaba's Bailian", marks: "chatid timestamp inputlength outputlength",
		fields: fields{"timestamp", "inputlength", "outputlength"}, arrivals: true, unit: "s", block: 16},
	{name: "mooncake", what: "a trace of Mooncake", marks: "timestamp inputlength outputlength hashids",
		fields: fields{"timestamp", "inputlength", "outputlength"}, arrivals: true, unit: "ms", block: 512},
	{what: "a trace with Mooncake's names", fields: fields{"timestamp", "inputlength", "outputlength"}, arrivals: true},
	{name: "azure", what: "Azure's trace", fields: fields{"timestamp", "contexttokens", "generatedtokens"}, arrivals: true, unit: "s"},
	{name: "burstgpt", what: "BurstGPT's trace", fields: fields{"timestamp", "requesttokens", "responsetokens"}, unit: "s"},
	{name: "servegen", what: "a workload of ServeGen", marks: "requestid timestamp inputtokens outputtokens",
		fields: fields{"timestamp", "inputtokens", "outputtokens"}, arrivals: true, unit: "s"},
	{fields: fields{withUnits(),
		"contexttokens requesttokens inputtokens inputlength prompttokens promptlen inputtoks prompt prompts input",
		"generatedtokens responsetokens outputtokens outputlength completiontokens genlen outputtoks generated output"},
		failed: "failure", unit: "s"},
	{what: "individual responses of LLMPerf", marks: "numberinputtokens numberoutputtokens", lacks: noTimes},
	{what: "the result of llama-bench", marks: "buildcommit nprompt ngen", lacks: noLists},
	{what: "a dataset of trtllm-bench", marks: "taskid outputtokens", lacks: noTimes},
}

// units are those of times, in seconds.
var units = map[string]float64{"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}

// unitNames are the units in words.
var unitNames = map[string]string{"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}

// withUnits are names of times in files of no known tool, with and without a unit at their end.
func withUnits() (all names) {
	for _, name := range []string{"timestamp", "time", "arrival", "arrivaltime", "at", "sent"} {
		for _, end := range []string{"", "s", "ms", "us", "ns"} {
			all += names(" " + name + end)
		}
	}
	return all[1:]
}

// ending is the unit in which a name ends, as time_s or timeMs. A name as times may be a plural.
var ending = regexp.MustCompile(`(?i)(?:_(s|ms|us|ns)|^(?:timestamp|time|arrival[-_ ]?time|arrival|at|sent)[- ]?(ms|us|ns))$`)

// stated is the unit that a field's name ends in, "" for none.
func stated(key string) string {
	if m := ending.FindStringSubmatch(key); m != nil {
		return strings.ToLower(m[1] + m[2])
	}
	return ""
}

var separators = strings.NewReplacer("_", "", " ", "", "-", "", "\ufeff", "")

// plain is a name without case, spaces, underscores and hyphens.
func plain(name string) string { return separators.Replace(strings.ToLower(name)) }

// formOf is the form of a record that has fields, or of an object around all records; nil if it is none of them.
func formOf(has func(name string) bool, around bool) *form {
	i := slices.IndexFunc(forms, func(f form) bool {
		switch {
		case around:
			return slices.ContainsFunc(f.top, func(n names) bool { return n.all(has) })
		case f.top != nil:
			return false
		case f.marks != "":
			return f.marks.all(has)
		}
		return f.at.any(has) && f.prompt.any(has) && f.gen.any(has)
	})
	if i < 0 {
		return nil
	}
	return &forms[i]
}

// general is the form of files of no known tool.
func general() *form {
	return &forms[slices.IndexFunc(forms, func(f form) bool { return f.what == "" })]
}

func (n names) any(has func(name string) bool) bool {
	return slices.ContainsFunc(strings.Fields(string(n)), has)
}

func (n names) all(has func(name string) bool) bool {
	return !slices.ContainsFunc(strings.Fields(string(n)), func(name string) bool { return !has(name) })
}
