package token

import (
	"fmt"
	"strings"
)

// MapKey is a key of a map file or an entry of a list file. HAProxy takes what stands before
// the first blank, skips blanks at the beginning of a line, and takes a line that begins with
// "#" for a comment (configuration manual, "map"): such keys are refused, and the empty one.
func MapKey(s string) (string, error) {
	if err := CheckText(s, ""); err != nil {
		return "", err
	}
	if s == "" || s[0] == '#' || strings.IndexByte(s, ' ') >= 0 {
		return "", fmt.Errorf("%q can't be the key of a map: it is empty, begins with # or holds a blank", s)
	}
	return s, nil
}

// MapValue is a value of a map file: the rest of the line behind the key and the blanks that
// follow it. A value that begins with a blank would lose it and is refused, as is the empty
// one.
func MapValue(s string) (string, error) {
	if err := CheckText(s, ""); err != nil {
		return "", err
	}
	if s == "" || s[0] == ' ' || s[len(s)-1] == ' ' {
		return "", fmt.Errorf("%q can't be the value of a map: it is empty, or begins or ends with a blank", s)
	}
	return s, nil
}
