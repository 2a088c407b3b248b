package hardware

import "strings"

// Find is Load(text) and then GPU(name), in a fraction of the time: it reads
// only the table of the entry that is asked for. A mistake elsewhere in the
// text goes unseen, so this is for the table that the program is built with.
func Find(text, name string) (GPU, error) {
	want := fold(name)
	for _, section := range sections(text) {
		if !names(section, want) {
			continue
		}
		// One that has a base, or that does not stand alone, takes the long way.
		if t, err := Load(section); err == nil && len(t.gpus) == 1 {
			return t.GPU(name)
		}
	}
	t, err := Load(text)
	if err != nil {
		return GPU{}, err
	}
	return t.GPU(name)
}

// sections cuts text before each line that starts a [gpu.KEY] table.
func sections(text string) []string {
	const start = "\n[gpu."
	var parts []string
	for {
		_, rest, ok := strings.Cut(text, start)
		if !ok {
			return parts
		}
		end := strings.Index(rest, start)
		if end < 0 {
			end = len(rest)
		}
		parts = append(parts, start[1:]+rest[:end])
		text = rest[end:]
	}
}

// names reports whether a section is of the GPU that a folded name finds, as
// far as its first lines tell.
func names(section, want string) bool {
	for line := range strings.Lines(section) {
		if key, ok := strings.CutPrefix(line, "[gpu."); ok {
			if fold(key) == want {
				return true
			}
			continue
		}
		if !strings.HasPrefix(line, "name = ") && !strings.HasPrefix(line, "aliases = ") {
			return false // they come first, and what follows is long
		}
		for i, quoted := range strings.Split(line, `"`) {
			if i%2 == 1 && fold(quoted) == want {
				return true
			}
		}
	}
	return false
}
