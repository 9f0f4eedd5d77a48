package process

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Refusal is HAProxy's refusal of a configuration.
type Refusal struct {
	File    string // relative to the generation: conf.d/50-backends-003.cfg; empty: not told
	Line    int    // 1 and up; 0: not told
	Section string // "backend x" or "proxy x", where the alert names one; best effort
	Message string // the first alert, without severity and place
	Output  string // everything HAProxy printed
}

// Error is the first alert with its place.
func (r *Refusal) Error() string {
	switch {
	case r.Line > 0:
		return fmt.Sprintf("haproxy refuses the configuration: %s:%d: %s", r.File, r.Line, r.Message)
	case r.File != "":
		return fmt.Sprintf("haproxy refuses the configuration: %s: %s", r.File, r.Message)
	}
	return "haproxy refuses the configuration: " + r.Message
}

// outputWithin bounds how long the output of a process that has ended may stay open: on a
// machine under load another process that was just forked holds it for a moment.
const outputWithin = 2 * time.Second

// Check runs "haproxy -c -f confDir". It returns nil, *Refusal, or an error where the
// binary could not be run, was killed, or ctx ended. Warnings are not reported.
func Check(ctx context.Context, binary, confDir string) error {
	confDir, err := filepath.Abs(confDir)
	if err != nil {
		return fmt.Errorf("checking a configuration: %w", err)
	}
	cmd := exec.CommandContext(ctx, located(binary), "-c", "-f", confDir)
	cmd.Dir = "/" // paths are relative to the generation, never to a working directory
	cmd.Env = environment()
	cmd.WaitDelay = outputWithin
	output, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil || errors.Is(err, exec.ErrWaitDelay): // it ended with status 0
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("haproxy -c -f %s did not end in time: %w", confDir, ctx.Err())
	case errors.As(err, &exit) && exit.Exited():
		return refusalOf(string(output), filepath.Dir(confDir))
	}
	return fmt.Errorf("running %s -c -f %s: %w; it printed: %s", binary, confDir, err, tail(string(output)))
}

// located is the absolute path of a binary, since it is run in another folder than ours;
// one that is not found stays as it is, and running it tells so.
func located(binary string) string {
	path, err := exec.LookPath(binary)
	if err != nil {
		return binary
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return binary
	}
	return abs
}

// Forms of an alert, tried on 3.2.26 and 3.4.7:
//
//	[ALERT]    (1) : config : parsing [/g/conf.d/x.cfg:11] : unknown keyword ...
//	[ALERT]    (1) : config : Parsing [/g/conf.d/x.cfg:11]: backend 'b' has the same name ...
//	[ALERT]    (1) : config : [/g/conf.d/x.cfg:11] : 'server b/x' : unknown keyword 'blah'.
//	[ALERT]    (1) : Proxy 'c': unable to find required use_backend: 'blah'.
//	[ALERT]    (1) : Binding [/g/conf.d/x.cfg:2] for frontend http: protocol tcpv4: cannot bind socket (Address already in use) for [127.0.0.1:80].
//	[ALERT]    (1) : config : Error(s) found in configuration file : /g/conf.d/x.cfg
var (
	alertLine = regexp.MustCompile(`^\[ALERT\]\s+\(\d+\) : (?:config : )?(.*)$`)
	placeText = regexp.MustCompile(`(?:[Pp]arsing )?\[([^\[\]]+\.cfg):(\d+)\]\s*:?\s*`)
	fileText  = regexp.MustCompile(`^Error\(s\) found in configuration file : (.+)$`)
	proxyText = regexp.MustCompile(`(?i)\b(proxy|backend|frontend) '([^']+)'`)
	otherText = regexp.MustCompile(`\b(defaults|userlist|resolvers|peers)(?: section)? '([^']+)'`)
	ownerText = regexp.MustCompile(`'server ([^/']+)/`)
)

// refusalOf reads what HAProxy printed. The files in it lie below the folder root.
func refusalOf(output, root string) *Refusal {
	r := &Refusal{Output: output, Message: tail(output)}
	first := true
	for l := range strings.Lines(output) {
		m := alertLine.FindStringSubmatch(strings.TrimSpace(l))
		if m == nil {
			continue
		}
		text := m[1]
		if file := fileText.FindStringSubmatch(text); file != nil {
			// It names the file of alerts that do not tell their own.
			if r.File == "" {
				r.File = relative(file[1], root)
			}
			continue
		}
		if !first {
			continue
		}
		first = false
		r.Message = text
		if at := placeText.FindStringSubmatchIndex(text); at != nil {
			r.File = relative(text[at[2]:at[3]], root)
			r.Line, _ = strconv.Atoi(text[at[4]:at[5]]) // digits by the expression
			if at[0] == 0 {
				r.Message = text[at[1]:]
			}
		}
		r.Section = sectionOf(text)
	}
	return r
}

func sectionOf(alert string) string {
	if m := ownerText.FindStringSubmatch(alert); m != nil {
		return "backend " + m[1]
	}
	for _, form := range []*regexp.Regexp{proxyText, otherText} {
		if m := form.FindStringSubmatch(alert); m != nil {
			return strings.ToLower(m[1]) + " " + m[2]
		}
	}
	return ""
}

// relative is the path of a file below root; one that is elsewhere, for example because
// HAProxy was started on another link to the same folder, is cut at conf.d.
func relative(file, root string) string {
	if below, ok := strings.CutPrefix(file, root+"/"); ok {
		return below
	}
	if i := strings.LastIndex(file, "/conf.d/"); i >= 0 {
		return file[i+1:]
	}
	return file
}

// maxTail bounds how much of an output an error shows, in bytes.
const maxTail = 2000

// tail is the end of an output.
func tail(output string) string {
	output = strings.TrimSpace(output)
	if len(output) > maxTail {
		output = "..." + output[len(output)-maxTail:]
	}
	if output == "" {
		return "nothing"
	}
	return output
}
