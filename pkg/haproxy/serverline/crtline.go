package serverline

import (
	"strings"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/token"
)

// CrtLine is a line of a crt-list as the file holds it and as "add ssl crt-list" takes it.
func CrtLine(l *model.CrtLine) (string, error) {
	words := []string{"certs/" + l.Certificate}
	if l.ClientCA != "" {
		words = append(words, "certs/"+l.ClientCA)
	}
	for _, word := range append(words, l.Hosts...) {
		if _, err := token.Word(word); err != nil {
			return "", err
		}
	}
	if l.ClientCA != "" {
		verify := "required"
		if l.Optional {
			verify = "optional"
		}
		words = []string{words[0], "[ca-file " + words[1] + " verify " + verify + "]"}
	}
	return strings.Join(append(words, l.Hosts...), " "), nil
}
