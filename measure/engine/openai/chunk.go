package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"llmprof/input"
)

// A chunk is one event of an answer, as far as it is of use here. Chat
// completions put their tokens in the delta of a choice, completions in its
// text.
type chunk struct {
	Choices []choice `json:"choices"`
	Usage   *usage   `json:"usage"`
	Error   value    `json:"error"`
	Detail  value    `json:"detail"`  // FastAPI's name for it
	Object  value    `json:"object"`  // "error" is what older vLLM calls one
	Message value    `json:"message"` // message of such an error
}

type choice struct {
	Delta  delta  `json:"delta"`
	Text   value  `json:"text"`
	Finish value  `json:"finish_reason"`
	Usage  *usage `json:"usage"` // Moonshot puts it here
}

// A delta holds what one chunk adds, by channel. Reasoning is
// "reasoning_content" for DeepSeek, SGLang and llama.cpp, "reasoning" for
// OpenRouter, Ollama and newer vLLM.
type delta struct {
	Content          value `json:"content"`
	ReasoningContent value `json:"reasoning_content"`
	Reasoning        value `json:"reasoning"`
	ToolCalls        value `json:"tool_calls"`
	FunctionCall     value `json:"function_call"`
	Refusal          value `json:"refusal"`
}

// usage is what the server counted.
type usage struct {
	Prompt    *int `json:"prompt_tokens"`
	Generated *int `json:"completion_tokens"`
	Details   struct {
		Cached *int `json:"cached_tokens"` // null of a server that does not count them
	} `json:"prompt_tokens_details"`
}

// maxTokens is the most that usage may say: beyond it, it is a mistake.
const maxTokens = 1 << 30

func (u *usage) check() error {
	for _, n := range []*int{u.Prompt, u.Generated, u.Details.Cached} {
		if n != nil && (*n < 0 || *n > maxTokens) {
			return fmt.Errorf("usage counts %d tokens", *n)
		}
	}
	return nil
}

// A value is JSON that is not decoded: a part of the event that it was read
// from, and good as long as that.
type value []byte

// UnmarshalJSON keeps the text, without a copy.
func (v *value) UnmarshalJSON(text []byte) error { *v = text; return nil }

// empty reports whether there is nothing in v: null, false, "", [] and {} are
// ways in which servers say so.
func (v value) empty() bool {
	switch string(v) {
	case "", "null", "false", `""`, "[]", "{}":
		return true
	}
	return false
}

// text decodes v as a string, or as a list of parts with texts.
func (v value) text() string {
	var s string
	if v.empty() || json.Unmarshal(v, &s) == nil {
		return s
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(v, &parts) != nil {
		return ""
	}
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String()
}

// Events of more than a few bytes are counted before they are decoded: a choice takes a hundred times the memory of "{}".
const fewBytes = 64 << 10

var eventLimits = input.Limits{Bytes: maxEvent, Depth: 10_000, Values: 1 << 17}

var doneMark = []byte("[DONE]")

// parse reads an event's data into c. The values in c are parts of data.
func (c *chunk) parse(data []byte) error {
	*c = chunk{Choices: c.Choices[:0]}
	clear(c.Choices[:cap(c.Choices)]) // encoding/json merges new values into old ones.
	data = bytes.TrimSpace(data)
	if len(data) == 0 || data[0] != '{' {
		return errors.New("not a JSON object")
	}
	if len(data) > fewBytes {
		if err := eventLimits.JSON(string(data)); err != nil {
			return err
		}
	}
	if err := json.Unmarshal(data, c); err != nil {
		return err
	}
	for i := range c.Choices {
		if c.Usage == nil {
			c.Usage = c.Choices[i].Usage
		}
	}
	if c.Usage != nil {
		return c.Usage.check()
	}
	return nil
}

// failure gives the server's words if the event is an error.
func (c *chunk) failure() (words string, is bool) {
	switch {
	case !c.Error.empty():
		return wordsOf(c.Error), true
	case len(c.Choices) > 0:
		return "", false
	case !c.Detail.empty():
		return wordsOf(c.Detail), true
	case string(c.Object) == `"error"`:
		return wordsOf(c.Message), true
	}
	return "", false
}

// A look is what a chunk holds.
type look struct {
	output    bool // a token that is no reasoning
	reasoning bool // a token of reasoning
	finished  bool // the last of its choice
}

func (c *chunk) look() look {
	var l look
	for i := range c.Choices {
		ch := &c.Choices[i]
		d := &ch.Delta
		l.reasoning = l.reasoning || !d.ReasoningContent.empty() || !d.Reasoning.empty()
		l.output = l.output || !d.Content.empty() || !ch.Text.empty() || !d.ToolCalls.empty() ||
			!d.FunctionCall.empty() || !d.Refusal.empty()
		l.finished = l.finished || !ch.Finish.empty()
	}
	return l
}

// appendText adds what the chunk says in words, reasoning first, as it comes.
func (c *chunk) appendText(b *strings.Builder) {
	for i := range c.Choices {
		ch := &c.Choices[i]
		d := &ch.Delta
		for _, v := range []value{d.ReasoningContent, d.Content, ch.Text, d.Refusal} {
			b.WriteString(v.text())
		}
		if d.ReasoningContent.empty() {
			b.WriteString(d.Reasoning.text())
		}
		for _, v := range []value{d.ToolCalls, d.FunctionCall} {
			if !v.empty() {
				b.Write(v)
			}
		}
	}
}

// wordsOf finds the message in a server's error, of which there are as many
// shapes as servers: a string, an object with a message, one within another.
func wordsOf(text []byte) string {
	var o map[string]json.RawMessage
	if json.Unmarshal(text, &o) != nil {
		var s string
		if json.Unmarshal(text, &s) == nil {
			return s
		}
		return string(text)
	}
	for _, key := range []string{"error", "message", "detail", "msg", "error_message"} {
		if v, ok := o[key]; ok && !value(v).empty() {
			return wordsOf(v)
		}
	}
	return string(text)
}

// clip makes one line of at most 300 bytes of a server's words.
func clip(s string) string {
	const most = 300
	s = strings.ToValidUTF8(strings.Join(strings.FieldsFunc(s, blankOrControl), " "), "�")
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "..."
	}
	return s
}

func blankOrControl(r rune) bool { return r <= ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 }
