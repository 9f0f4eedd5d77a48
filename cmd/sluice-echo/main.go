package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
)

func main() {
	var listen, manifests []string
	var secure bool
	command := &cobra.Command{
		Use:          "sluice-echo [--listen NAME=ADDRESS]... [--pods-of MANIFESTS]...",
		Short:        "Answer every request with what it received",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(command *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(command.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			pods, err := podsOf(manifests)
			if err != nil {
				return err
			}
			return serve(ctx, append(listen, pods...), secure)
		},
	}
	command.Flags().StringArrayVar(&listen, "listen", nil, "NAME=ADDRESS of one pod; may be given several times")
	command.Flags().StringArrayVar(&manifests, "pods-of", nil, "file or folder of manifests: be the pod behind each address of its EndpointSlices")
	command.Flags().BoolVar(&secure, "tls", false, "speak TLS with a self-signed certificate")
	if command.ExecuteContext(context.Background()) != nil {
		os.Exit(2)
	}
}

// serve answers on all addresses until ctx ends.
func serve(ctx context.Context, listen []string, secure bool) error {
	if len(listen) == 0 {
		return errors.New("nothing to do: give at least one --listen NAME=ADDRESS, or --pods-of with EndpointSlices in it")
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, pod := range listen {
		name, address, ok := strings.Cut(pod, "=")
		if !ok {
			return fmt.Errorf("--listen %s: write NAME=ADDRESS", pod)
		}
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return fmt.Errorf("--listen %s: %w", pod, err)
		}
		server := &http.Server{Handler: echo(name, listener.Addr().String()), ReadHeaderTimeout: 5 * time.Second}
		server.Protocols = new(http.Protocols)
		server.Protocols.SetHTTP1(true)
		server.Protocols.SetHTTP2(true)
		server.Protocols.SetUnencryptedHTTP2(true)
		if secure {
			if server.TLSConfig, err = selfSigned(); err != nil {
				return err
			}
		}
		context.AfterFunc(ctx, func() { _ = server.Close() })
		fmt.Printf("sluice-echo: %s on %s\n", name, listener.Addr())
		group.Go(func() error { return ignoreClosed(start(server, listener, secure)) })
	}
	return group.Wait()
}

func start(server *http.Server, listener net.Listener, secure bool) error {
	if secure {
		return server.ServeTLS(listener, "", "")
	}
	return server.Serve(listener)
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
