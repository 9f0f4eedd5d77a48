package settings

// namespaceOptions say which Secrets of other namespaces an object may name. The global
// ConfigMap and the parameters of a class may name any.
func namespaceOptions() []Option {
	option := func(name, secrets, by string) Option {
		return Option{Name: name, Scope: Global, Type: Enum, Default: "deny", Values: []string{"deny", "allow"}, Safe: "deny",
			Doc: "allow: an Ingress or a Service may name Secrets of other namespaces with " + secrets + " (" + by + "). The flag --allow-cross-namespace allows all of them."}
	}
	return []Option{
		option("cross-namespace-secrets-ca", "authorities", "secure-verify-ca-secret"),
		option("cross-namespace-secrets-crt", "certificates", "secure-crt-secret"),
		option("cross-namespace-secrets-passwd", "users", "auth-secret"),
	}
}
