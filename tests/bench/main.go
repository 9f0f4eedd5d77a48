package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"runtime/pprof"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// errMissed says that a target was missed; the table tells which.
var errMissed = errors.New("a target is missed")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	b, err := newBench(os.Args[1:])
	if err == nil {
		err = b.run(ctx)
	}
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errMissed):
		os.Exit(1)
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
}

// bench is one run.
type bench struct {
	quick    bool
	out      string // page to write
	part     string
	profile  string
	rounds   int
	binaries map[string]string // HAProxy by branch
	services int
	dir      string // temporary
	log      *slog.Logger
	parse    time.Duration // CPU of the parse of all Services
	table    table
}

// Sizes of what is measured.
const (
	allServices   = 10_000
	quickServices = 1_000
	fewServices   = 100
	perService    = 10 // endpoints
)

func newBench(args []string) (*bench, error) {
	b := &bench{services: allServices, binaries: map[string]string{}}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.BoolVar(&b.quick, "quick", false, "1 000 Services and no requests: does the bench itself work?")
	flags.StringVar(&b.out, "out", "", "write the page with the results to this `file`")
	flags.StringVar(&b.part, "part", "all", "what to measure: all, control, latency (a part of control) or requests")
	flags.StringVar(&b.profile, "cpuprofile", "", "write a CPU profile of the changes of one endpoint to this `file`")
	flags.IntVar(&b.rounds, "rounds", 5, "rounds of each measurement that is repeated")
	verbose := flags.Bool("v", false, "log what the controller does")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if b.quick {
		b.services, b.part = quickServices, "control"
	}
	for _, branch := range []string{"3.2", "3.4"} {
		name := "SLUICE_HAPROXY_" + branch[:1] + branch[2:]
		b.binaries[branch] = os.Getenv(name)
		if _, err := os.Stat(b.binaries[branch]); err != nil {
			return nil, fmt.Errorf("HAProxy %s is needed: set %s to its path, or run `make bench`, which does so", branch, name)
		}
	}
	sink := io.Discard
	if *verbose {
		sink = os.Stderr
	}
	b.log = slog.New(slog.NewTextHandler(sink, nil))
	return b, nil
}

// run measures, prints the table and writes the page.
func (b *bench) run(ctx context.Context) (err error) {
	// Sockets have short paths only.
	if b.dir, err = os.MkdirTemp("", "slb"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	spread(b.dir)
	fmt.Printf("%d cores, %s; HAProxy %s and %s\n", runtime.NumCPU(), runtime.Version(), version(b.binaries["3.2"]), version(b.binaries["3.4"]))
	if b.part == "latency" {
		if err := b.latencyOnly(ctx); err != nil {
			return err
		}
	}
	if b.part == "all" || b.part == "control" {
		if err := b.control(ctx); err != nil {
			return err
		}
	}
	if b.part == "all" || b.part == "requests" {
		if err := b.requests(ctx); err != nil {
			return err
		}
	}
	b.table.print(os.Stdout)
	if b.out != "" {
		if err := b.page(b.out); err != nil {
			return err
		}
	}
	if b.table.missed() {
		return errMissed
	}
	return nil
}

// spread asks ext4 to put the folders below dir into block groups of their own. Whoever
// creates a file there pays for each file that was deleted in its group within some minutes,
// by whatever process; in the usual folder for temporary files those are many.
func spread(dir string) {
	file, err := os.Open(dir)
	if err != nil {
		return // it was made just now: whoever needs it will tell
	}
	defer file.Close()
	const topDirectory = 0x20000 // FS_TOPDIR_FL of linux/fs.h, chattr +T
	flags, err := unix.IoctlGetInt(int(file.Fd()), unix.FS_IOC_GETFLAGS)
	if err == nil {
		_ = unix.IoctlSetPointerInt(int(file.Fd()), unix.FS_IOC_SETFLAGS, flags|topDirectory) // other file systems know no such flag
	}
}

// progress tells a person who waits what is going on.
func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, "... "+format+"\n", args...) }

// profiled runs f under the CPU profiler where a profile is asked for.
func (b *bench) profiled(f func() error) error {
	if b.profile == "" {
		return f()
	}
	file, err := os.Create(b.profile)
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return err
	}
	err = f()
	pprof.StopCPUProfile()
	return errors.Join(err, file.Close())
}
