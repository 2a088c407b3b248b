package ask

import (
	"fmt"
	"strings"

	"llmprof/serving"
)

// A TraceReader gives the lengths of the prompts and of the answers of a recorded trace.
type TraceReader func(file string) (prompt, gen serving.Lengths, err error)

// A LengthsFlag reads the tokens of prompts, or of answers.
type LengthsFlag struct {
	To      *serving.Lengths
	Read    TraceReader // nil where no traces are read
	Answers bool        // A trace gives the lengths of its answers, not of its prompts.
}

// String is the lengths as they are given.
func (f LengthsFlag) String() string {
	if f.To == nil || f.To.Kind == "" {
		return ""
	}
	return f.To.String()
}

// Set reads "1024", "512..2048", "lognormal:1024,0.8" or "trace:FILE".
func (f LengthsFlag) Set(text string) error {
	file, traced := strings.CutPrefix(strings.TrimSpace(text), "trace:")
	if !traced {
		l, err := serving.ParseLengths(text)
		if err == nil {
			*f.To = l
		}
		return err
	}
	if f.Read == nil {
		return fmt.Errorf("%.60q: no trace can be read here", text)
	}
	prompt, gen, err := f.Read(file)
	switch {
	case err != nil:
		return err
	case f.Answers:
		*f.To = gen
	default:
		*f.To = prompt
	}
	return nil
}

// Type is the name that help shows.
func (f LengthsFlag) Type() string { return "tokens" }

// lengths are those of the prompts and of the answers under the load.
func (l *SteadyLoad) lengths(ans *Answer) (prompt, gen serving.Lengths) {
	prompt, gen = serving.Fixed(ans.Q.Workload.PromptLen), serving.Fixed(ans.Q.Workload.GenLen)
	if l.Prompt.Kind != "" {
		prompt = l.Prompt
	}
	if l.Gen.Kind != "" {
		gen = l.Gen
	}
	return prompt, gen
}

// drawn reports whether the requests have lengths that differ.
func (l *SteadyLoad) drawn() bool { return l.Prompt.Kind != "" || l.Gen.Kind != "" }
