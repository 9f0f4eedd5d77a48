// Package zzdeps pins dependencies while their users are being written.
package zzdeps

import (
	_ "github.com/fsnotify/fsnotify"
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/haproxytech/client-native/v6/runtime"
	_ "github.com/haproxytech/client-native/v6/runtime/options"
	_ "github.com/prometheus/client_golang/prometheus"
	_ "github.com/prometheus/client_golang/prometheus/collectors"
	_ "github.com/prometheus/client_golang/prometheus/promhttp"
	_ "github.com/spf13/cobra"
	_ "golang.org/x/sys/unix"
	_ "golang.org/x/tools/txtar"
	_ "k8s.io/api/core/v1"
	_ "k8s.io/api/discovery/v1"
	_ "k8s.io/api/networking/v1"
	_ "k8s.io/apimachinery/pkg/util/yaml"
	_ "k8s.io/apimachinery/pkg/util/validation"
	_ "pgregory.net/rapid"
	_ "sigs.k8s.io/yaml"
	_ "github.com/pmezard/go-difflib/difflib"
	_ "golang.org/x/net/dns/dnsmessage"
	_ "golang.org/x/net/http2"
)
