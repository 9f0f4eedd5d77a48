package serverline

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// Options are the parameters that all servers of a backend share, without a blank at
// either end. All of them but "resolvers" and "init-addr", which
// only servers with a DNS name have, are accepted by "add server".
func Options(o model.ServerOptions) string {
	var w words
	if o.SSL {
		w.add("ssl")
		if o.Verify {
			w.add("verify", "required", "ca-file", caFile(o.CAFile))
			w.text("verifyhost", o.VerifyHost)
		} else {
			w.add("verify", "none")
		}
		if o.CertFile != "" {
			w.add("crt", "certs/"+o.CertFile)
		}
		w.text("sni", o.SNI)
		w.text("alpn", o.ALPN)
	}
	w.text("proto", o.Proto)
	if o.SendProxy != "" {
		w.add(o.SendProxy)
	}
	w.number("maxconn", o.MaxConn)
	w.number("maxqueue", o.MaxQueue)
	if !o.Pool && o.Proto != "h2" && o.ALPN != "h2" { // streams share a connection of HTTP/2 in any case
		w.add("pool-max-conn", "0")
	}
	w.number("slowstart", int(o.SlowStart.Milliseconds()))
	w.check(o)
	if o.Resolvers != "" {
		// Without "init-addr" a name that does not resolve would stop the whole load.
		w.add("resolvers", o.Resolvers, "init-addr", "none")
	}
	return strings.Join(w, " ")
}

// caFile is what "ca-file" names. The authorities of the system have a name of HAProxy's own.
func caFile(name string) string {
	if name == model.SystemCA {
		return name
	}
	return "certs/" + name
}

// words collects the words of a line.
type words []string

func (w *words) add(text ...string) { *w = append(*w, text...) }

func (w *words) text(keyword, value string) {
	if value != "" {
		w.add(keyword, value)
	}
}

func (w *words) number(keyword string, value int) {
	if value != 0 {
		w.add(keyword, strconv.Itoa(value))
	}
}

// check are the parameters of the check. Where port and address are the server's, a check of
// a server in the file speaks TLS and the PROXY protocol as requests do; one of a server that
// is added at run time does so only if told (management manual, "add server"; tried with
// 3.2.26 and 3.4.7), so both are told.
func (w *words) check(o model.ServerOptions) {
	c := o.Check
	if !c.On {
		return
	}
	w.add("check")
	if o.Eject > 0 {
		w.add("observe", "layer4", "error-limit", strconv.Itoa(o.Eject), "on-error", "mark-down")
	}
	w.number("inter", int(c.Interval.Milliseconds()))
	w.number("rise", c.Rise)
	w.number("fall", c.Fall)
	w.number("port", c.Port)
	w.text("addr", c.Addr)
	if c.Port != 0 || c.Addr != "" {
		return
	}
	if o.SSL {
		w.add("check-ssl")
	}
	if o.SendProxy != "" {
		w.add("check-send-proxy")
	}
}

// Weight is the weight that the server is given: 0 where it drains.
func Weight(s *model.Server) int {
	if s.State == model.Drain {
		return 0
	}
	return s.Weight
}

// AppendParameters appends what stands behind "server <name>" on a line and behind
// "add server <backend>/<name>" at run time: address, weight, cookie and options.
func AppendParameters(dst []byte, s *model.Server, options string) []byte {
	if s.Host != "" {
		dst = appendName(dst, s)
	} else {
		dst = s.Addr.AppendTo(dst)
	}
	return appendOptions(dst, s, options)
}

// appendName appends what model.Server.Name gives.
func appendName(dst []byte, s *model.Server) []byte {
	port := s.Port
	if s.Host != "" {
		dst = append(dst, s.Host...)
	} else {
		dst, port = s.Addr.Addr().AppendTo(dst), s.Addr.Port()
	}
	dst = append(dst, ':')
	return strconv.AppendUint(dst, uint64(port), 10)
}

// appendOptions appends what stands behind the address.
func appendOptions(dst []byte, s *model.Server, options string) []byte {
	dst = append(dst, " weight "...)
	dst = strconv.AppendInt(dst, int64(Weight(s)), 10)
	if s.Cookie != "" {
		dst = append(dst, " cookie "...)
		dst = append(dst, s.Cookie...)
	}
	if options != "" {
		dst = append(dst, ' ')
		dst = append(dst, options...)
	}
	return dst
}

// Append appends the "server" line, without indent and line feed.
func Append(dst []byte, s *model.Server, options string) []byte {
	dst = append(dst, "server "...)
	from := len(dst)
	dst = appendName(dst, s)
	end := len(dst)
	dst = append(dst, ' ')
	if s.Host == "" && s.Addr.Addr().Is6() {
		dst = s.Addr.AppendTo(dst) // has brackets
	} else {
		dst = append(dst, dst[from:end]...) // is the name; spelling it out twice would cost
	}
	dst = appendOptions(dst, s, options)
	if s.State == model.Maint {
		dst = append(dst, " disabled"...)
	}
	return dst
}

// Parse reads a line that Append wrote. Options is the text between weight, cookie and
// "disabled". A server of weight 0 is taken for one that drains.
func Parse(line string) (s model.Server, options string, ok bool) {
	words := strings.Fields(line)
	if len(words) < 5 || words[0] != "server" || words[3] != "weight" {
		return model.Server{}, "", false
	}
	weight, err := strconv.Atoi(words[4])
	if err != nil {
		return model.Server{}, "", false
	}
	s.Weight = weight
	if weight == 0 {
		s.State = model.Drain
	}
	if s.Addr, err = netip.ParseAddrPort(words[2]); err != nil {
		host, port, found := strings.Cut(words[2], ":")
		number, err := strconv.ParseUint(port, 10, 16)
		if !found || err != nil {
			return model.Server{}, "", false
		}
		s.Addr, s.Host, s.Port = netip.AddrPort{}, host, uint16(number)
	}
	rest := words[5:]
	if len(rest) > 1 && rest[0] == "cookie" {
		s.Cookie, rest = rest[1], rest[2:]
	}
	if len(rest) > 0 && rest[len(rest)-1] == "disabled" {
		s.State, rest = model.Maint, rest[:len(rest)-1]
	}
	return s, strings.Join(rest, " "), true
}
