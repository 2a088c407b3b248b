package replay

import (
	"io"

	"llmprof/serving"
)

// Lengths are those of the prompts and of the answers of a trace, which file names.
func Lengths(r io.Reader, file string) (prompt, gen serving.Lengths, err error) {
	t, err := Read(r, Options{})
	if err != nil {
		return prompt, gen, err
	}
	var prompts, answers []int
	for {
		q, ok := t.Next()
		if !ok {
			break
		}
		prompts, answers = append(prompts, q.Prompt), append(answers, q.Gen)
	}
	if err := t.Err(); err != nil {
		return prompt, gen, err
	}
	return serving.Traced(file, prompts), serving.Traced(file, answers), nil
}
