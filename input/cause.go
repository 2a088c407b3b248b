package input

import (
	"errors"
	"io/fs"
)

// Cause is what the system said of a file, without the file's name: the user may not have given it.
func Cause(err error) error {
	var e *fs.PathError
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}
