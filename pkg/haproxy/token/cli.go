package token

import (
	"fmt"
	"strings"
)

// CLIWord is one argument of a runtime command. Blanks, semicolons and backslashes are
// escaped with a backslash (management manual, 9.3). So is "<": HAProxy looks for "<<"
// behind a blank, be it an escaped one, and waits for a payload then, which would swallow
// the commands that follow (3.2 and 3.4). The empty word is refused, since there is no way
// to write one.
func CLIWord(s string) (string, error) {
	if err := CheckText(s, ""); err != nil {
		return "", err
	}
	if s == "" {
		return "", fmt.Errorf("an argument of a runtime command must not be empty")
	}
	return cliEscapes.Replace(s), nil
}

var cliEscapes = strings.NewReplacer(`\`, `\\`, ` `, `\ `, `;`, `\;`, `<`, `\<`)
