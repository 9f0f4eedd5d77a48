package main

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/sluice-proxy/sluice/cmd/internal/admin"
	"github.com/sluice-proxy/sluice/cmd/internal/loop"
	"github.com/sluice-proxy/sluice/cmd/internal/options"
	"github.com/sluice-proxy/sluice/pkg/converters/status/writer"
)

// The pod that sluice runs in says its name by these (Downward API).
const (
	envPod       = "POD_NAME"
	envNamespace = "POD_NAMESPACE"
)

// statusWriter tells the world about objects: the cluster, or a file.
type statusWriter interface {
	loop.Writer
	Leads() bool
	Run(ctx context.Context) error
}

// newWriter is the writer that the flags ask for, nil for none; without clients it is that of
// the file. A run with --once has no time for an election.
func newWriter(o *options.Options, c *clients, log *slog.Logger, metrics *admin.Metrics) statusWriter {
	told := writer.Metrics{Wrote: metrics.StatusWritten, Leads: metrics.Leads}
	switch {
	case c == nil && o.UpdateStatus:
		return writer.NewFile(filepath.Join(o.StateDir, "status.yaml"), log, told)
	case c == nil || o.Once:
		return nil
	}
	namespace, _, _ := options.SplitName(o.GlobalConfigMap())
	host, _ := os.Hostname() // without a name, the other half of the identity is unique enough
	return writer.NewCluster(writer.Config{
		Client: c.kubernetes, Dynamic: c.dynamic, Log: log, Metrics: told, Statuses: o.UpdateStatus, Elect: o.LeaderElect,
		Name:      installation(o),
		Namespace: cmp.Or(os.Getenv(envNamespace), namespace, "default"),
		Identity:  cmp.Or(os.Getenv(envPod), host) + "_" + string(uuid.NewUUID()),
	})
}

// installation is the name of what shares a leader: the replicas that serve the same classes.
func installation(o *options.Options) string {
	const name = "sluice"
	class := cmp.Or(o.ControllerClass, o.IngressClass)
	if class == name {
		return name
	}
	return name + "-" + class
}

// newNodes finds the addresses of Ingresses where the flags don't say them; nil: they do, or
// there are none.
func newNodes(o *options.Options, c *clients, log *slog.Logger, leads func() bool) *writer.Nodes {
	if o.PublishService != "" || len(o.PublishAddress) > 0 || !o.UpdateStatus || o.Once {
		return nil
	}
	pod, namespace := os.Getenv(envPod), os.Getenv(envNamespace)
	if c == nil || pod == "" || namespace == "" {
		log.Info("Ingresses get no address in their status: give --publish-service or --publish-address, or, in a pod, set " + envPod + " and " + envNamespace)
		return nil
	}
	return &writer.Nodes{Client: c.kubernetes, Log: log, Namespace: namespace, Pod: pod, Leads: leads}
}

// write has the loop tell a writer, which may be nil.
func (r *runner) write(w statusWriter) {
	if w == nil {
		return
	}
	r.writer, r.loop.Writer, r.admin.Leads = w, w, w.Leads
}
