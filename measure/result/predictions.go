package result

import (
	"regexp"
	"strings"
	"sync"
)

// Files of predictions lie beside the results that they were written before.
// They are named after the SHA-256 of their content, in hexadecimal.
const predictions = "predictions-"

var predictionsName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^` + predictions + `[0-9a-f]{64}\` + Extension + `$`)
})

// PredictionsName is the name of the file of predictions whose content has a hash.
func PredictionsName(hash string) string { return predictions + hash + Extension }

// IsPredictions reports whether a file of that name holds predictions rather than
// a result.
func IsPredictions(name string) bool { return predictionsName().MatchString(name) }

// PredictionsHash is the hash in the name of a file of predictions, "" if it is
// none.
func PredictionsHash(name string) string {
	if !IsPredictions(name) {
		return ""
	}
	return strings.TrimSuffix(strings.TrimPrefix(name, predictions), Extension)
}
