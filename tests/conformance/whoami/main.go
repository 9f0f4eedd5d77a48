// Command whoami stands in for CoreDNS as the conformance suite configures it: it answers
// each query over UDP and TCP on port 53 with who asks, as the plug-in of that name does.
//
// Limits: it takes CoreDNS' flag for the configuration and does not read it; names that
// CoreDNS would ask somebody else for are answered in the same way.
package main

import (
	"flag"
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/miekg/dns"
)

func main() {
	flag.String("conf", "", "taken, as CoreDNS does, and not read")
	flag.Parse()
	failed := make(chan error)
	for _, network := range []string{"udp", "tcp"} {
		server := &dns.Server{Addr: ":53", Net: network, Handler: dns.HandlerFunc(answer)}
		go func() { failed <- server.ListenAndServe() }()
	}
	fmt.Fprintln(os.Stderr, "whoami:", <-failed)
	os.Exit(1)
}

// answer tells the address and the port of who asks, in the additional section.
func answer(w dns.ResponseWriter, query *dns.Msg) {
	reply := new(dns.Msg)
	reply.SetReply(query)
	reply.Authoritative = true
	host, port, err := net.SplitHostPort(w.RemoteAddr().String())
	if err != nil || len(query.Question) != 1 {
		reply.Rcode = dns.RcodeServerFailure
	} else {
		reply.Extra = who(query.Question[0].Name, w.RemoteAddr().Network(), host, port)
	}
	if err := w.WriteMsg(reply); err != nil {
		fmt.Fprintln(os.Stderr, "whoami: answering:", err)
	}
}

func who(name, network, host, port string) []dns.RR {
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		panic(err) // a port of the kernel
	}
	header := func(kind uint16, owner string) dns.RR_Header {
		return dns.RR_Header{Name: owner, Rrtype: kind, Class: dns.ClassINET}
	}
	service := &dns.SRV{Hdr: header(dns.TypeSRV, "_"+network+"."+name), Port: uint16(number), Target: "."}
	ip := net.ParseIP(host)
	if v4 := ip.To4(); v4 != nil {
		return []dns.RR{&dns.A{Hdr: header(dns.TypeA, name), A: v4}, service}
	}
	return []dns.RR{&dns.AAAA{Hdr: header(dns.TypeAAAA, name), AAAA: ip}, service}
}
