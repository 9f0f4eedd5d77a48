package settings

// tcpOptions are those of TCP services.
func tcpOptions() []Option {
	return []Option{
		{Name: "tcp-service-port", Scope: TCP, Type: Int, Default: "0", Max: 65535,
			Doc: "Makes the Ingress a TCP service on this port: its hosts are names that TLS clients ask for, a rule without a host takes all others, and the only path is /. With a tls part TLS ends here, without one at the servers. 0: the Ingress is one for HTTP."},
		{Name: "tcp-service-proxy-protocol", Scope: TCP, Type: Bool, Default: "false",
			Doc: "Clients of the port speak the PROXY protocol. Who does not is refused."},
		{Name: "tcp-log-format", Aliases: []string{"tcp-service-log-format"}, Scope: Global, Type: LogFormat, Default: "",
			Doc:  "Text of a line of the log of connections to TCP services. Empty: that of HAProxy (tcplog).",
			Note: "The log is read by the administrator, so an Ingress can't set its format.",
			Risk: "HAProxy evaluates it: a sample that can't be used here makes HAProxy refuse the configuration."},
		{Name: "bind-ip-addr-tcp", Scope: Global, Type: Names, Default: "*,[::]", Theirs: "none", parse: parseListenIPs,
			Doc:  "IP addresses that TCP services listen on, separated by commas. * stands for all IPv4, [::] for all IPv6 addresses.",
			Note: "All addresses, as the listeners for HTTP; written out."},
	}
}
