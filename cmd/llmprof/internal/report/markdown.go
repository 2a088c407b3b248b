package report

import (
	"bytes"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"llmprof/cmd/llmprof/internal/render"
)

// Drop removes parts that hold nothing and sections without parts.
func (p *Page) Drop() {
	for i := range p.Sections {
		s := &p.Sections[i]
		s.Parts = slices.DeleteFunc(s.Parts, func(part Part) bool { return part.Block == nil && part.Picture == nil })
	}
	p.Sections = slices.DeleteFunc(p.Sections, func(s Section) bool { return len(s.Parts) == 0 })
}

// Markdown is the text of the page, and its pictures by the names that it links
// to: in the folder of that name beside it.
func (p *Page) Markdown(folder string, s render.Style) (text []byte, pictures map[string][]byte, err error) {
	pictures = map[string][]byte{}
	for i := range p.Sections {
		for _, part := range p.Sections[i].Parts {
			if part.Picture == nil {
				continue
			}
			for ext, data := range part.Picture.Files {
				pictures[part.Picture.Name+"."+ext] = data
			}
		}
	}
	text, err = p.markdown(folder, s)
	return text, pictures, err
}

func (p *Page) markdown(folder string, s render.Style) ([]byte, error) {
	var b bytes.Buffer
	head := render.Document{Title: p.Title, Blocks: []render.Block{render.Notes{Title: "Warnings", Items: p.Warnings}, p.headline()}}
	if err := render.Markdown(&b, &head, s); err != nil {
		return nil, err
	}
	for i := range p.Sections {
		section := &p.Sections[i]
		fmt.Fprintf(&b, "\n## %s\n", render.Escape(section.Title))
		for _, part := range section.Parts {
			if part.Picture != nil {
				part.Picture.markdown(&b, folder)
				continue
			}
			b.WriteByte('\n')
			if err := render.MarkdownBelow(&b, &render.Document{Blocks: []render.Block{part.Block}}, s, 2); err != nil {
				return nil, err
			}
		}
	}
	b.WriteByte('\n')
	repeat := render.Document{Title: "Repeat", Blocks: []render.Block{
		render.Notes{Items: []string{"Made by " + p.Version + " with this command:"}}, render.Verbatim{Lines: []string{p.Command}}}}
	if err := render.MarkdownBelow(&b, &repeat, s, 2); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func (p *Page) headline() render.Table {
	t := render.Table{Title: "Headline figures", Columns: []render.Column{{Title: "", Left: true}, {Title: "", Left: true}, {Title: "", Left: true}}}
	for _, c := range p.Cards {
		t.Add(c.Name, c.Value, strings.Join(c.Detail, "; "))
	}
	return t
}

// markdown is the picture as a link to its file, with links to its other forms.
func (p *Picture) markdown(b *bytes.Buffer, folder string) {
	base := url.PathEscape(folder) + "/" + p.Name
	fmt.Fprintf(b, "\n![%s](%s.png)\n", render.Escape(p.Title), base)
	if _, ok := p.Files["dot"]; ok {
		fmt.Fprintf(b, "\nAs Graphviz has it: [%s.dot](%s.dot)\n", p.Name, base)
	}
}
