package input

import (
	"errors"
	"io/fs"
)

// Cause is what the system said of a file, without the file's name: the user may not have given it.
func Cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
