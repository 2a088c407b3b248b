// Package report makes one page of tables and pictures: a web page that needs
// nothing beside it, or Markdown with its pictures in files.
package report

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"net/url"
	"slices"
	"strings"

	"llmprof/plots/colors"
	"llmprof/plots/render"
)

// A Page is a report.
type Page struct {
	Title    string
	Lead     string // subject of the report, in a line
	Cards    []Card
	Warnings []string
	Sections []Section
	Command  string // command line that makes the report again
	Version  string
	Sheet    bool // The page is printed on one sheet, for which its type is smaller; what starts servers is left out there.
}

// A Card is a headline figure.
type Card struct {
	Name   string
	Value  string
	Detail []string
	Bad    bool // The note says that something is wrong.
}

// A Section is a chapter of the page.
type Section struct {
	ID    string // target of links, unique on the page
	Title string
	Parts []Part
}

// A Part of a section is a block or a picture.
type Part struct {
	Block    render.Block
	Sortable bool // A table's rows can be sorted.
	Picture  *Picture
}

// A Picture is a figure in its forms.
type Picture struct {
	Name    string // name of the picture's files, without extension
	Title   string
	Caption string
	SVG     string
	Files   map[string][]byte // other forms by what their names end in: "png", "dot"
}

//go:embed page.html
var pageTemplate string

//go:embed style.css
var style string

//go:embed sort.js
var script string

// A view is what the template sees.
type view struct {
	*Page
	Style  template.CSS
	Script template.JS
	Policy string
	Body   []chapter
}

type chapter struct {
	ID, Title string
	Parts     []template.HTML
}

// HTML writes the page as one file that asks for nothing from anywhere.
func (p *Page) HTML(w io.Writer, s render.Style) error {
	t, err := template.New("page").Parse(pageTemplate)
	if err != nil {
		return err
	}
	//nolint:gosec // files of this package
	v := view{Page: p, Style: template.CSS(colorProperties() + style), Script: template.JS(script), Policy: policy()}
	for i := range p.Sections {
		c, err := p.Sections[i].html(s)
		if err != nil {
			return fmt.Errorf("section %q: %w", p.Sections[i].Title, err)
		}
		v.Body = append(v.Body, c)
	}
	return t.Execute(w, &v)
}

// colorProperties are the colours that the page shares with its pictures: on light ground, on dark
// ground where the reader wants that, and on light ground in print.
func colorProperties() string {
	light, dark := colors.CSS(false), colors.CSS(true)
	return ":root{" + light + "}@media (prefers-color-scheme: dark){:root{" + dark + "}}@media print{:root{" + light + "}}\n"
}

// policy lets the page run its own script and its styles, and fetch nothing.
func policy() string {
	sum := sha256.Sum256([]byte(script))
	return "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-" +
		base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'"
}

func (s *Section) html(style render.Style) (chapter, error) {
	c := chapter{ID: s.ID, Title: s.Title}
	for _, part := range s.Parts {
		if part.Picture != nil {
			c.Parts = append(c.Parts, part.Picture.html())
			continue
		}
		text, err := render.HTML(part.Block, style, part.Sortable)
		if err != nil {
			return c, err
		}
		c.Parts = append(c.Parts, text)
	}
	return c, nil
}

// html is the picture as a figure. The SVG has a title and a description of its
// own, which a screen reader reads.
func (p *Picture) html() template.HTML {
	svg := p.SVG
	if i := strings.Index(svg, "<svg"); i > 0 {
		svg = svg[i:] // a page has no XML declaration within
	}
	return template.HTML(fmt.Sprintf("<figure id=\"%s\" class=\"picture\"><p class=\"hint\">Scroll sideways for all of the "+
		"picture.</p><div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"%s\">%s</div></figure>\n",
		template.HTMLEscapeString(p.Name), template.HTMLEscapeString(p.Title), svg)) //nolint:gosec // package plots escapes texts
}

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
	head := render.Document{Title: p.Title, Blocks: []render.Block{render.Notes{Title: "Warnings", Items: p.Warnings}, p.summary()}}
	if err := render.Markdown(&b, &head, s); err != nil {
		return nil, err
	}
	for _, section := range p.Sections {
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

func (p *Page) summary() render.Table {
	t := render.Table{Title: "Headline figures", Columns: []render.Column{
		{Title: "", Left: true}, {Title: "", Left: true}, {Title: "", Left: true}}}
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
