package socket

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"strings"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
	"github.com/sluice-proxy/sluice/pkg/haproxy/serverline"
	"github.com/sluice-proxy/sluice/pkg/haproxy/token"
)

// terminator ends a payload. With the default one, an empty line, a blank line inside a
// PEM would end it and the rest would run as commands. No line of a payload that this
// package writes can be equal to it: PEM lines are re-encoded, lines of maps and
// crt-lists consist of two words. 3.2 takes at most 7 characters.
const terminator = "-END-"

// Paths as the configuration spells them: HAProxy finds a map, a certificate or a list
// by the very text that the configuration names it with, whatever "default-path" says.
func mapPath(name string) string  { return "maps/" + name + ".map" }
func listPath(name string) string { return "lists/" + name + ".lst" }
func certPath(name string) string { return "certs/" + name }

func crtListPath(name string) string { return "crt-lists/" + name + ".list" }

// line is one CLI command of several words; each is escaped on its own.
func line(verb string, words ...string) (string, error) {
	var b strings.Builder
	b.WriteString(verb)
	for _, w := range words {
		text, err := token.CLIWord(w)
		if err != nil {
			return "", &Invalid{What: verb, Why: err}
		}
		b.WriteByte(' ')
		b.WriteString(text)
	}
	return b.String(), nil
}

// parameters checks what serverline rendered: it is sent as it stands, since the words of
// a "server" line are words of "add server" too, as long as nothing in them has a meaning
// on the command line only, or in a file only.
func parameters(text string) error {
	if err := token.CheckText(text, ""); err != nil {
		return &Invalid{What: "add server", Why: err}
	}
	if i := strings.IndexAny(text, ";'\"$#"); i >= 0 {
		return &Invalid{What: "add server", Why: fmt.Errorf("%q in the server options does not mean the same on the command line", text[i])}
	}
	if strings.Contains(text, "<<") {
		return &Invalid{What: "add server", Why: fmt.Errorf(`"<<" in the server options would start a payload`)}
	}
	return nil
}

// canonicalPEM decodes and encodes again: what reaches the socket is base64 between BEGIN
// and END lines and nothing else, whatever stood in the Secret.
func canonicalPEM(secret model.Secret) (string, error) {
	rest := []byte(secret.Reveal())
	var out bytes.Buffer
	for {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if len(block.Headers) > 0 {
			return "", fmt.Errorf("a %s block has headers: encrypted keys can't be loaded", block.Type)
		}
		if err := pem.Encode(&out, block); err != nil {
			return "", fmt.Errorf("encoding a %s block: %w", block.Type, err)
		}
	}
	if out.Len() == 0 {
		return "", fmt.Errorf("it holds no PEM block")
	}
	return out.String(), nil
}

// crtLine is a line of a crt-list: a certificate and its server names. They are checked
// and not escaped: the payload is read as a line of the file is.
func crtLine(l model.CrtLine) (string, error) {
	text, err := serverline.CrtLine(&l)
	if err != nil {
		return "", &Invalid{What: "add ssl crt-list", Why: err}
	}
	return text, nil
}

// severity takes the "[6]: " in front of an answer off.
func severity(text string) string {
	if len(text) >= 5 && text[0] == '[' && text[2] == ']' && text[3] == ':' && text[4] == ' ' {
		return text[5:]
	}
	return text
}

// maxQuoted bounds how much of an answer an error quotes, in bytes.
const maxQuoted = 400

// redact takes the lines of a secret payload out of a text: HAProxy quotes what it does
// not understand.
func redact(text, secret string) string {
	for l := range strings.Lines(secret) {
		if l = strings.TrimSpace(l); len(l) > 3 {
			text = strings.ReplaceAll(text, l, "[redacted]")
		}
	}
	return text
}

// quotable is an answer as an error shows it.
func quotable(text string) string {
	text = strings.ToValidUTF8(strings.TrimSpace(text), "?")
	if len(text) > maxQuoted {
		text = strings.ToValidUTF8(text[:maxQuoted], "") + "..."
	}
	return text
}
