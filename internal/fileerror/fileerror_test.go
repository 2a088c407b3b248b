package fileerror

import (
	"strings"
	"testing"
)

// A line of any length is a short excerpt whose mark is below the mistake.
func FuzzExcerpt(f *testing.F) {
	f.Add("a = 1", 5, 1)
	f.Add(strings.Repeat("ä", 500), 300, 1000)
	f.Add("", 3, 0)
	f.Fuzz(func(t *testing.T, line string, column, width int) {
		text, mark, _ := strings.Cut(Excerpt(line, column, width), "\n")
		if n := len([]rune(text)); n > 200 || len(mark) > 200 || !strings.Contains(mark, "^") {
			t.Errorf("%d and %d characters", n, len(mark))
		}
	})
}

func TestExcerptMarksTheMistake(t *testing.T) {
	line := []rune(strings.Repeat("ä", 1000))
	for _, at := range []int{0, 59, 60, 61, 500, 900, 999} {
		line[at] = 'X'
		text, mark, _ := strings.Cut(Excerpt(string(line), at+1, 1), "\n")
		if i := strings.IndexByte(mark, '^'); []rune(text)[i] != 'X' {
			t.Errorf("column %d: %s\n%s", at+1, text, mark)
		}
		line[at] = 'ä'
	}
}
