package hardware

import "strings"

// Find is Load(text) and then GPU(name), in a fraction of the time: it reads
// only the table of the entry that is asked for. A mistake elsewhere in the
// text goes unseen, so this is for the table that the program is built with.
func Find(text, name string) (GPU, error) {
	if _, rest, ok := strings.Cut(text, "\n[gpu."+name+"]"); ok { // most names are keys, and names are unique
		rest, _, _ = strings.Cut(rest, "\n[gpu.")
		return findIn(text, "[gpu."+name+"]"+rest, name)
	}
	want := fold(name)
	var reported []string // sections whose driver reports the name
	for _, section := range sections(text) {
		switch names(section, want) {
		case byName:
			return findIn(text, section, name)
		case byDriver:
			reported = append(reported, section)
		}
	}
	if len(reported) == 1 {
		return findIn(text, reported[0], name)
	}
	return findIn(text, "", name)
}

// findIn finds name in a section, or in all of text where the section has a base
// or does not stand alone.
func findIn(text, section, name string) (GPU, error) {
	if t, err := Load(section); err == nil && len(t.gpus) == 1 {
		return t.GPU(name)
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

// A naming says how a section answers to a name.
type naming int

const (
	notAtAll naming = iota
	byDriver
	byName
)

// names reports whether a section is of the GPU that a folded name finds. It reads its
// first lines alone: key, name, aliases and devices come first, and what follows is long.
func names(section, want string) naming {
	found, devices := notAtAll, false
	for line := range strings.Lines(section) {
		if key, ok := strings.CutPrefix(line, "[gpu."); ok {
			if fold(key) == want {
				return byName
			}
			continue
		}
		if strings.HasPrefix(line, "vendor = ") {
			break
		}
		devices = devices || strings.HasPrefix(line, "devices = ")
		for i, quoted := range strings.Split(line, `"`) {
			if i%2 == 0 || fold(quoted) != want {
				continue
			}
			if !devices {
				return byName
			}
			found = byDriver
		}
	}
	return found
}
