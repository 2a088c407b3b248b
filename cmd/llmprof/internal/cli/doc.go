// Package cli has what the flags and the help of all commands share: groups of
// flags, numbers as people write them, near misses of names.
package cli
