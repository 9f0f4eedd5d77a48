package main

import (
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // as the commands' own main packages do: --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // and the metrics of their clients
	_ "k8s.io/component-base/metrics/prometheus/version"  // and of their version
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

func main() {
	// The programs read their own arguments and name themselves after args[0].
	switch name := filepath.Base(os.Args[0]); name {
	case "etcd":
		etcdmain.Main(os.Args)
	case "kube-apiserver":
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	case "kube-controller-manager":
		os.Exit(cli.Run(controllermanager.NewControllerManagerCommand()))
	default:
		fmt.Fprintf(os.Stderr, "%s: unknown; call this by a link named etcd, kube-apiserver or kube-controller-manager\n", name)
		os.Exit(2)
	}
}
