package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// errFindings ends a command that did its work and has something to complain about.
var errFindings = errors.New("there are findings or differences")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := execute(ctx, os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr})
	stop()
	os.Exit(code)
}

// streams are the standard streams of a command.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// execute runs one command line and returns the exit code.
func execute(ctx context.Context, args []string, s streams) int {
	root := &cobra.Command{
		Use:           "sluice",
		Short:         "An ingress and gateway controller for HAProxy",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(runCommand(s), renderCommand(s), diffCommand(s), checkCommand(s), versionCommand(s))
	root.SetArgs(args)
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	switch err := root.ExecuteContext(ctx); {
	case err == nil:
		return 0
	case errors.Is(err, errFindings):
		return 1
	default:
		fmt.Fprintf(s.err, "sluice: %v\n", err)
		return 2
	}
}
