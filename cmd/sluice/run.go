package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/sluice-proxy/sluice/cmd/internal/admin"
	"github.com/sluice-proxy/sluice/cmd/internal/loop"
	"github.com/sluice-proxy/sluice/cmd/internal/options"
	"github.com/sluice-proxy/sluice/pkg/converters/source"
	manifests "github.com/sluice-proxy/sluice/pkg/converters/source/files"
	"github.com/sluice-proxy/sluice/pkg/forwarder"
	"github.com/sluice-proxy/sluice/pkg/haproxy/apply"
	"github.com/sluice-proxy/sluice/pkg/haproxy/files"
	"github.com/sluice-proxy/sluice/pkg/haproxy/process"
	"github.com/sluice-proxy/sluice/pkg/haproxy/socket"
)

// reloadBurst is how many reloads may follow each other at once: what somebody does by hand
// is never slowed down.
const reloadBurst = 10

func runCommand(s streams) *cobra.Command {
	o := &options.Options{}
	command := &cobra.Command{
		Use:   "run [--source DIR | --kubeconfig FILE]",
		Short: "Serve a cluster, or manifests, with HAProxy and follow the changes",
		Long: `Read the objects of a cluster, or manifests, render the HAProxy configuration they ask for,
start HAProxy on it and keep the running HAProxy equal to them as they change. If an HAProxy of an earlier
run still serves what its files say, it is taken over as it is. With --once HAProxy goes on
serving when the command ends, and goes on writing its access log to the same output.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			return run(command.Context(), o, s)
		},
	}
	o.Bind(command.Flags(), options.Run)
	return command
}

// run wires the parts together and runs the loop until ctx ends.
func run(ctx context.Context, o *options.Options, s streams) error {
	if err := o.Validate(); err != nil {
		return err
	}
	log := newLog(s.err, o)
	objects, c, err := newSource(o, log)
	if err != nil {
		return err
	}
	r, err := newRunner(o, log)
	if err != nil {
		return err
	}
	r.loop.Contents, _ = objects.(source.Contents)
	r.write(newWriter(o, c, log, r.admin.Metrics))
	group, groupCtx := errgroup.WithContext(ctx)
	loopCtx, stop := context.WithCancel(groupCtx)
	if o.AdminAddress != "" && !o.Once {
		listener, err := admin.Listen(o.AdminAddress)
		if err != nil {
			stop()
			return err
		}
		group.Go(func() error { return r.admin.Serve(loopCtx, listener) })
	}
	if r.writer != nil {
		group.Go(func() error { return r.writer.Run(loopCtx) })
	}
	if nodes := newNodes(o, c, log, r.admin.Leads); nodes != nil {
		addresses := make(chan []string)
		r.loop.Addresses = addresses
		group.Go(func() error { return nodes.Run(loopCtx, addresses) })
	}
	batches := make(chan source.Batch)
	group.Go(func() error { return objects.Run(loopCtx, batches) })
	group.Go(func() error {
		defer stop()
		return r.loop.Run(loopCtx, batches)
	})
	err = group.Wait()
	if !o.Once {
		r.stop(log, o.StopTimeout)
	}
	return err
}

// objectSource is where the objects come from.
type objectSource interface {
	Run(ctx context.Context, out chan<- source.Batch) error
}

// newSource is where the objects come from, with the clients of a cluster, if it is one.
func newSource(o *options.Options, log *slog.Logger) (objectSource, *clients, error) {
	if len(o.Source) > 0 {
		return manifests.New(o.Source, log), nil, nil
	}
	c, err := newClients(o)
	if err != nil {
		return nil, nil, err
	}
	return newClusterSource(o, c, log), c, nil
}

// runner holds the parts of a running sluice.
type runner struct {
	loop       *loop.Loop
	admin      *admin.Server
	writer     statusWriter         // nil: no statuses are written
	forwarder  *forwarder.Forwarder // nil: datagrams are not forwarded
	supervisor *process.Supervisor  // nil: HAProxy is somebody else's
}

func newRunner(o *options.Options, log *slog.Logger) (*runner, error) {
	binary, err := o.Binary()
	if err != nil {
		return nil, err
	}
	memory, err := o.ProcessMemory(debug.SetMemoryLimit(-1))
	if err != nil {
		return nil, err
	}
	folder, err := files.Open(o.ConfigDir, o.StateDir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.RunDir, 0o755); err != nil {
		return nil, fmt.Errorf("--run-dir: %w", err)
	}
	own, err := ownCertificate(o.StateDir, time.Now())
	if err != nil {
		return nil, err
	}
	line, err := loop.NewLine(o, own)
	if err != nil {
		return nil, err
	}
	metrics := admin.NewMetrics()
	r := &runner{admin: &admin.Server{Metrics: metrics, Files: func() (map[string]admin.File, error) { return shown(folder) }}}
	master := o.MasterSocket
	if master == "" {
		master = filepath.Join(o.RunDir, "master.sock")
		r.supervisor = process.New(process.Config{
			Binary: binary, ConfDir: filepath.Join(o.ConfigDir, "current", "conf.d"), RunDir: o.RunDir, Log: log, Memory: memory,
			MasterSocket: master, StatsSocket: filepath.Join(o.RunDir, "haproxy.sock"), PIDFile: filepath.Join(o.RunDir, "haproxy.pid"),
		})
	}
	var worker func() int
	runtime := socket.NewRuntime(filepath.Join(o.RunDir, "haproxy.sock"), socket.Options{Worker: func() int { return worker() }})
	config := apply.Config{
		Folder: folder, Worker: runtime, Master: socket.NewMaster(master), Log: log,
		Check:   func(ctx context.Context, confDir string) error { return process.Check(ctx, binary, confDir) },
		Room:    apply.Room{OldWorkers: o.OldWorkers},
		Metrics: apply.Metrics{FileWritten: metrics.FileWritten, CommandSent: metrics.CommandSent, Reloaded: metrics.Reloaded},
	}
	if o.ReloadInterval > 0 {
		config.Pace = rate.NewLimiter(rate.Every(o.ReloadInterval), reloadBurst).Wait
	}
	if r.supervisor != nil {
		config.Supervisor = r.supervisor
		// Pids of somebody else's HAProxy may be those of another container.
		config.Room.Memory, config.Room.Resident = 2*memory, process.Resident
	}
	metrics.Backends(runtime.BackendCounters)
	metrics.Workers(config.Master.Processes)
	a := apply.New(config)
	worker = a.WorkerPID
	r.loop = &loop.Loop{Line: line, Apply: a, Log: log, Metrics: metrics, Publish: r.admin.Publish, Once: o.Once, Counters: runtime}
	if !o.Once {
		r.forwarder = forwarder.New(forwarder.Options{Idle: o.UDPIdleTimeout, Sessions: o.UDPSessions, Log: log})
		r.loop.Forwarder = r.forwarder
		metrics.Datagrams(r.forwarder.Counters)
	}
	if r.supervisor != nil {
		r.loop.Exited = r.supervisor.Exited
	}
	return r, nil
}

// stop ends HAProxy with the controller, and the forwarder: requests in flight are finished first.
func (r *runner) stop(log *slog.Logger, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	var forwarding sync.WaitGroup
	defer forwarding.Wait()
	if r.forwarder != nil {
		forwarding.Go(func() { r.forwarder.Close(ctx) })
	}
	if r.supervisor == nil || r.supervisor.PID() == 0 {
		return
	}
	log.Info("stopping HAProxy; requests in flight are finished first")
	if err := r.supervisor.Stop(ctx); err != nil {
		log.Error("stopping HAProxy", "error", err)
	}
}

func newLog(w io.Writer, o *options.Options) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.LogLevel)); err != nil {
		panic(err) // Validate has looked at it
	}
	handler := &slog.HandlerOptions{Level: level}
	if o.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, handler))
	}
	return slog.New(slog.NewTextHandler(w, handler))
}
