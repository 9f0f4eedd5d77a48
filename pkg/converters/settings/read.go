package settings

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluice-proxy/sluice/pkg/haproxy/token"
)

// parser reads the text of an option. The text holds no control character but, where the
// option is one of lines, line feeds. The error is half a sentence with the text in it.
type parser func(o *Option, text string) (value, error)

// maxText bounds the length of a text, maxList that of an address list and of header lines.
const (
	maxText = 4096
	maxList = 512 << 10
)

// unsupportedValue is the error of a text that has a meaning, but not one that sluice offers.
type unsupportedValue struct{ text string }

func (e *unsupportedValue) Error() string { return e.text }

// read checks the text for what no option may hold and parses it.
func read(o *Option, text string) (value, error) {
	limit, allowed := maxText, ""
	switch o.Type {
	case CIDRs:
		limit = maxList
	case Headers:
		limit, allowed = maxList, "\n"
	case Names:
		allowed = "\n"
	}
	if err := token.CheckText(text, allowed); err != nil {
		return value{}, fmt.Errorf("%s holds %w", o.Name, err)
	}
	if len(text) > limit {
		return value{}, fmt.Errorf("%s is %d bytes long, at most %d are allowed", o.Name, len(text), limit)
	}
	return o.parse(o, text)
}

// refuse is the usual error.
func refuse(o *Option, text, expected string) (value, error) {
	return value{}, fmt.Errorf("%s is %s, expected %s", o.Name, quote(text), expected)
}

// quote shows a text of a user in a message, shortened.
func quote(text string) string {
	const limit = 60
	if len(text) > limit {
		cut := limit
		for !utf8.RuneStart(text[cut]) {
			cut--
		}
		return strconv.QuoteToASCII(text[:cut]) + "..."
	}
	return strconv.QuoteToASCII(text)
}

func parserOf(t Type) parser {
	switch t {
	case Bool:
		return parseBool
	case Int, Code:
		return parseInt
	case Duration:
		return parseDuration
	case Size:
		return parseSize
	case Enum:
		return parseEnum
	case CIDRs:
		return parseCIDRs
	case Headers:
		return parseHeaders
	case Names:
		return parseNames
	case URL:
		return parseURL
	case URLPath:
		return parsePath
	case SecretRef:
		return parseSecret
	case Hostname:
		return parseHostname
	case Balance:
		return parseBalance
	default:
		return parseText
	}
}

// parseBool takes true and false only: "TRUE ", "yes" and the empty text are mistakes, and
// a guess at a mistake may switch a protection off.
func parseBool(o *Option, text string) (value, error) {
	switch text {
	case "true":
		return value{text: text, number: 1}, nil
	case "false":
		return value{text: text}, nil
	}
	return refuse(o, text, "true or false")
}

func parseInt(o *Option, text string) (value, error) {
	n, err := parseDigits(text)
	if o.Type == Code && len(o.Values) > 0 && !slices.Contains(o.Values, text) {
		return refuse(o, text, "one of "+strings.Join(o.Values, ", "))
	}
	if err != nil || n < o.Min || o.Max > 0 && n > o.Max {
		return refuse(o, text, "a number from "+strconv.FormatInt(o.Min, 10)+" to "+strconv.FormatInt(o.Max, 10))
	}
	return value{text: strconv.FormatInt(n, 10), number: n}, nil
}

// parseDigits reads decimal digits without a sign.
func parseDigits(text string) (int64, error) {
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseInt(text, 10, 64)
}

// maxTimer is the longest time that HAProxy takes, in milliseconds: 2^31-1, about 24 days.
const maxTimer = 1<<31 - 1

// parseDuration reads the time format of HAProxy (configuration manual, 2.5 "Time format").
// Parts of a millisecond are rounded up, so that no time becomes 0.
func parseDuration(o *Option, text string) (value, error) {
	least, most := max(o.Min, 0), o.Max
	if most == 0 {
		most = maxTimer
	}
	digits := strings.TrimRight(text, "usmhd")
	unit, known := map[string]time.Duration{
		"": time.Millisecond, "us": time.Microsecond, "ms": time.Millisecond, "s": time.Second,
		"m": time.Minute, "h": time.Hour, "d": 24 * time.Hour,
	}[text[len(digits):]]
	n, err := parseDigits(digits)
	if known && err == nil && n <= int64(1<<62/unit) {
		ms := int64((time.Duration(n)*unit + time.Millisecond - 1) / time.Millisecond)
		if ms >= least && ms <= most {
			return value{text: strconv.FormatInt(ms, 10) + "ms", number: ms * int64(time.Millisecond)}, nil
		}
	}
	return refuse(o, text, fmt.Sprintf("a time such as 500ms, 5s or 1h, from %s to %s",
		time.Duration(least)*time.Millisecond, time.Duration(most)*time.Millisecond))
}

// parseSize reads bytes with a suffix (configuration manual, 2.6 "Size format"). The word
// unlimited is 0; the number 0 is refused, since it may mean either of two things.
func parseSize(o *Option, text string) (value, error) {
	if text == "unlimited" {
		return value{text: text}, nil
	}
	digits, unit := text, int64(1)
	if text != "" {
		if i := strings.IndexByte("kmgKMG", text[len(text)-1]); i >= 0 {
			digits, unit = text[:len(text)-1], 1<<(10*(i%3+1))
		}
	}
	n, err := parseDigits(digits)
	if err != nil || n < 1 || n > o.Max/unit {
		return refuse(o, text, fmt.Sprintf("a number of bytes from 1 to %d, with k, m or g, or unlimited", o.Max))
	}
	return value{text: strconv.FormatInt(n*unit, 10), number: n * unit}, nil
}

// parseEnum takes the values as they are written, whatever the case of the letters. The
// empty text is allowed where it is the default.
func parseEnum(o *Option, text string) (value, error) {
	if text == "" && o.Default == "" && !o.FailClosed {
		return value{}, nil
	}
	for _, v := range o.Values {
		if strings.EqualFold(v, text) {
			return value{text: v}, nil
		}
	}
	return refuse(o, text, "one of "+strings.Join(o.Values, ", "))
}

// parseText takes any line.
func parseText(_ *Option, text string) (value, error) {
	return value{text: strings.Trim(text, " ")}, nil
}
