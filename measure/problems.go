package measure

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"

	"github.com/google/shlex"

	"llmprof/measure/experiment"
)

// Problems are what is wrong with a point that its settings alone do not show: an
// unknown model, lengths beyond it, files and programs that are not there.
func (l *Lab) Problems(ctx context.Context, p *experiment.Point) (found []experiment.Problem) {
	note := func(warning bool, key, format string, args ...any) {
		found = append(found, experiment.Problem{Key: key, Text: fmt.Sprintf(format, args...), Warning: warning})
	}
	l.modelProblems(ctx, p, note)
	if p.Prompts != randomPrompts {
		if _, _, err := readPrompts(p.Prompts); err != nil {
			note(false, "prompts", "%s", strings.TrimPrefix(err.Error(), "prompts: "))
		}
	}
	if p.WeightsDir != "" {
		if info, err := os.Stat(p.WeightsDir); err != nil || !info.IsDir() {
			note(false, "weights_dir", "%q is no directory", p.WeightsDir)
		}
	}
	for _, of := range []struct{ key, program string }{{"python", p.Python}, {"engine_cmd", commandProgram(p.EngineCmd)}} {
		if of.program == "" {
			continue
		}
		if _, err := exec.LookPath(of.program); err != nil {
			note(true, of.key, "this machine has no program %q", of.program)
		}
	}
	if _, err := shlex.Split(p.EngineCmd); err != nil {
		note(false, "engine_cmd", "%v", err)
	}
	return found
}

// hubID is the form of the name of a repository on a hub.
var hubID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][\w.-]*/[\w.-]+(@.+)?$`) })

// modelProblems are about the model. A server may have one that is not known here, and
// a hub one that was not fetched yet.
func (l *Lab) modelProblems(ctx context.Context, p *experiment.Point, note func(bool, string, string, ...any)) {
	if p.Model == "" {
		return // the error was reported before
	}
	m, err := l.Models.Resolve(ctx, p.Model)
	switch {
	case err != nil && p.Engine == experiment.OpenAI:
		note(true, "model", "%v; the server may know it, but prompts are texts then, and nothing is predicted", err)
	case err != nil && hubID().MatchString(p.Model):
		note(true, "model", "it is not checked, for nothing is fetched: %v", err)
	case err != nil:
		note(false, "model", "%v", err)
	case m.MaxContext > 0 && p.Prompts == randomPrompts && p.PromptLen+p.GenLen > m.MaxContext:
		note(false, "prompt_len", "%d tokens with %d generated: %s was made for %d in all", p.PromptLen, p.GenLen, m.Name, m.MaxContext)
	}
}

// commandProgram is the first word of a command that sets no variable, "" if there is
// none.
func commandProgram(command string) string {
	words, err := shlex.Split(command)
	if err != nil {
		return ""
	}
	for _, w := range words {
		if !strings.Contains(w, "=") {
			return w
		}
	}
	return ""
}
