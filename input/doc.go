// Package input takes in files that others wrote. A file has to be a regular one
// of bounded size; how deep its text is nested and how many values it has is
// counted before a parser sees it, since parsers recurse and copy; and what a
// message repeats of it is short.
package input
