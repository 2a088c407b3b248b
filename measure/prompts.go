package measure

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"llmprof/internal/input"
)

// randomPrompts is the name of prompts that are drawn at random.
const randomPrompts = "random"

// Limits of a file of prompts, beyond what any data set of prompts has.
const (
	mostPrompts = 1 << 20
	mostPrompt  = 16 << 20 // bytes of one line

	mostPromptBytes = 128 << 20 // size of a whole file
)

// A promptLine is one line of a JSONL file: a text, under one of the names that
// data sets use, or token ids.
type promptLine struct {
	Prompt *string `json:"prompt"`
	Text   *string `json:"text"`
	Tokens []int   `json:"prompt_token_ids"`
}

// readPrompts reads a file of prompts: a text a line, or with a name that ends in
// .jsonl an object a line with "prompt" or "text", or with "prompt_token_ids".
func readPrompts(path string) (tokens [][]int, texts []string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("prompts: %w", err)
	}
	defer file.Close()
	from := &io.LimitedReader{R: file, N: mostPromptBytes} // a pipe or a device may never end
	tokens, texts, err = parsePrompts(from, strings.EqualFold(filepath.Ext(path), ".jsonl"))
	if err == nil && from.N == 0 {
		err = fmt.Errorf("it is longer than %s", input.Size(mostPromptBytes))
	}
	if err != nil {
		return nil, nil, fmt.Errorf("prompts %s: %w", path, err)
	}
	return tokens, texts, nil
}

func parsePrompts(from io.Reader, objects bool) (tokens [][]int, texts []string, err error) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, mostPrompt)
	for n := 1; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		switch {
		case len(line) == 0:
			continue
		case len(tokens)+len(texts) == mostPrompts:
			return nil, nil, fmt.Errorf("line %d: more than %d prompts", n, mostPrompts)
		case !utf8.Valid(line):
			return nil, nil, fmt.Errorf("line %d: not UTF-8", n)
		case !objects:
			texts = append(texts, string(line))
			continue
		}
		ids, text, err := parsePrompt(line)
		if err != nil {
			return nil, nil, fmt.Errorf("line %d: %w", n, err)
		}
		if ids != nil {
			tokens = append(tokens, ids)
		} else {
			texts = append(texts, text)
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, nil, fmt.Errorf("a line is longer than %s", input.Size(mostPrompt))
	case err != nil:
		return nil, nil, err
	case len(tokens) > 0 && len(texts) > 0:
		return nil, nil, errors.New("some prompts are texts and some are token ids: want one kind")
	case len(tokens)+len(texts) == 0:
		return nil, nil, errors.New("no prompt in it")
	}
	return tokens, texts, nil
}

func parsePrompt(line []byte) (ids []int, text string, err error) {
	var p promptLine
	if err := json.Unmarshal(line, &p); err != nil {
		return nil, "", fmt.Errorf("want an object with \"prompt\", \"text\" or \"prompt_token_ids\": %w", err)
	}
	given := 0
	for _, t := range []*string{p.Prompt, p.Text} {
		if t != nil && *t != "" {
			given, text = given+1, *t
		}
	}
	if len(p.Tokens) > 0 {
		given++
		for _, id := range p.Tokens {
			if id < 0 {
				return nil, "", fmt.Errorf("the token %d: ids count from 0", id)
			}
		}
	}
	if given != 1 {
		return nil, "", fmt.Errorf("want one of \"prompt\", \"text\" and \"prompt_token_ids\", not empty: %d are there", given)
	}
	return p.Tokens, text, nil
}
