package input

// JSON reports the first place where a text of JSON exceeds the limits. Whether
// it is JSON is for the parser to say.
func (l Limits) JSON(text string) error {
	c, err := l.counter(text)
	if err != nil {
		return err
	}
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i = quotedEnd(text, i, true)
		case '{', '[':
			depth++
			err = c.deep(i, depth)
			if err == nil {
				err = c.value(i)
			}
		case '}', ']':
			depth--
		case ',':
			err = c.value(i)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// quotedEnd is where the text in quotes that begins at i ends: at the same quote
// or, where there is none, at the end of the line.
func quotedEnd(text string, i int, escapes bool) int {
	quote := text[i]
	for i++; i < len(text) && text[i] != quote && text[i] != '\n'; i++ {
		if escapes && text[i] == '\\' {
			i++
		}
	}
	return i
}
