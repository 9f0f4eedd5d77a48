package token

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// This file reads HAProxy's languages as HAProxy does, written from the manuals and tried
// on both versions, without a look at the encoders.

// tokenizeLine splits one line of a configuration file into words (configuration manual,
// 2.2). Whatever is expanded, or ends the line early, is an error: no encoder makes it.
func tokenizeLine(line string) ([]string, error) {
	if strings.ContainsAny(line, "\n\r\x00") {
		return nil, errors.New("more than one line")
	}
	var words []string
	var word strings.Builder
	inWord := false
	var quoted byte // 0, ' or "
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case quoted == '\'':
			if c == '\'' {
				quoted = 0
			} else {
				word.WriteByte(c)
			}
		case c == '\\':
			text, used, err := escape(line[i:])
			if err != nil {
				return nil, err
			}
			word.WriteString(text)
			inWord = true
			i += used - 1
		case c == '"' && quoted == '"':
			quoted = 0
		case c == '"' || c == '\'' && quoted == 0:
			quoted, inWord = c, true
		case c == '$' && quoted == '"':
			return nil, errors.New("an environment variable is expanded")
		case quoted == 0 && (c == ' ' || c == '\t'):
			if inWord {
				words = append(words, word.String())
			}
			word.Reset()
			inWord = false
		case quoted == 0 && c == '#':
			return nil, errors.New("a comment begins")
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	if quoted != 0 {
		return nil, errors.New("a quote is not closed")
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}

// escape reads a backslash and what belongs to it, outside of strong quotes.
func escape(s string) (text string, used int, err error) {
	if len(s) < 2 {
		return "", 0, errors.New("a backslash at the end of the line")
	}
	switch c := s[1]; c {
	case ' ', '\\', '#', '\'', '"', '$':
		return string(c), 2, nil
	case 'n':
		return "\n", 2, nil
	case 'r':
		return "\r", 2, nil
	case 't':
		return "\t", 2, nil
	case 'x':
		if len(s) < 4 {
			return "", 0, errors.New("a short hexadecimal escape")
		}
		n, err := strconv.ParseUint(s[2:4], 16, 8)
		return string([]byte{byte(n)}), 4, err
	}
	return `\`, 1, nil
}

// evaluate is what a log-format without expressions comes to (configuration manual, 8.2.6).
func evaluate(format string) (string, error) {
	var out strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] == '%' {
			if i++; i == len(format) || format[i] != '%' {
				return "", fmt.Errorf("byte %d begins an expression", i-1)
			}
		}
		out.WriteByte(format[i])
	}
	return out.String(), nil
}

// readMapLine reads a line of a map file.
func readMapLine(line string) (key, value string, ok bool) {
	if strings.ContainsAny(line, "\n\r\x00") {
		return "", "", false
	}
	line = strings.TrimLeft(line, " \t")
	if line == "" || line[0] == '#' {
		return "", "", false
	}
	end := strings.IndexAny(line, " \t")
	if end < 0 {
		return line, "", true
	}
	return line[:end], strings.TrimLeft(line[end:], " \t"), true
}

// readCommand splits what is sent to the runtime socket into commands of words.
func readCommand(text string) ([][]string, error) {
	if strings.ContainsAny(text, "\n\r\x00") {
		return nil, errors.New("more than one line")
	}
	var commands [][]string
	var words []string
	for i := 0; i < len(text); {
		switch {
		case text[i] == ' ' || text[i] == '\t':
			i++
			if strings.HasPrefix(text[i:], "<<") {
				return nil, errors.New("a payload begins")
			}
		case text[i] == ';':
			commands, words = append(commands, words), nil
			i++
		default:
			var word strings.Builder
			for ; i < len(text) && strings.IndexByte(" \t;", text[i]) < 0; i++ {
				if text[i] == '\\' && i+1 < len(text) {
					i++
					// An escaped blank counts as one, where a payload may begin behind it.
					if text[i] == ' ' && strings.HasPrefix(text[i+1:], "<<") {
						return nil, errors.New("a payload begins")
					}
				}
				word.WriteByte(text[i])
			}
			words = append(words, word.String())
		}
	}
	return append(commands, words), nil
}
