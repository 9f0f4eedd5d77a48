package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// usage is what a piece of work cost.
type usage struct {
	cpu       time.Duration // user and system time of the whole process
	allocated uint64        // bytes
}

func (u usage) plus(v usage) usage { return usage{u.cpu + v.cpu, u.allocated + v.allocated} }

func (u usage) over(n int) usage { return usage{u.cpu / time.Duration(n), u.allocated / uint64(n)} }

// spent is the CPU time that the process used so far.
func spent() time.Duration {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		panic(err) // the arguments are constants
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// allocated are the bytes that were allocated so far.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// measure is what f costs.
func measure(f func()) usage {
	bytes := allocated() // takes time, too: not between the two looks at the clock
	before := spent()
	f()
	cpu := spent() - before
	return usage{cpu, allocated() - bytes}
}

// fresh is what f costs in a process without garbage of earlier measurements.
func fresh(f func()) usage {
	runtime.GC()
	return measure(f)
}

// collector is the cost of the garbage collector where a piece of work is too small to
// trigger it: what one collection costs, spread over the bytes that lead to the next.
type collector struct {
	cpu  time.Duration // of one collection
	live uint64        // bytes that survive it, and may be allocated until the next one
}

// collect measures a collection of what is live now.
func collect() collector {
	runtime.GC()
	c := collector{cpu: 1 << 62}
	for range 3 {
		c.cpu = min(c.cpu, measure(runtime.GC).cpu)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	// The first collection comes at 4 MiB, however little is live (GOGC).
	c.live = max(m.HeapAlloc, 4<<20)
	return c
}

// share is the part of collections in a piece of work.
func (c collector) share(u usage) time.Duration {
	return time.Duration(float64(c.cpu) * float64(u.allocated) / float64(c.live))
}

// heap is the memory in use by the heap after a collection, bytes.
func heap() uint64 {
	runtime.GC()
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}

// parse is the CPU time that haproxy -c takes for a folder of configuration files.
func parse(binary, confDir string) (time.Duration, error) {
	var out bytes.Buffer
	command := exec.Command(binary, "-c", "-f", confDir)
	command.Stdout, command.Stderr = &out, &out
	if err := command.Run(); err != nil {
		return 0, fmt.Errorf("%s -c: %w\n%s", binary, err, out.Bytes())
	}
	return command.ProcessState.UserTime() + command.ProcessState.SystemTime(), nil
}

// version is the version that a binary of HAProxy tells.
func version(binary string) string {
	out, err := exec.Command(binary, "-v").Output()
	found := regexp.MustCompile(`version (\d+\.\d+\.\d+)`).FindSubmatch(out)
	if err != nil || found == nil {
		return "(unknown)"
	}
	return string(found[1])
}

func median[T int | float64 | time.Duration](list []T) T {
	sorted := slices.Sorted(slices.Values(list))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%.2f ms", d.Seconds()*1000) }

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

func megabytes(bytes uint64) string { return fmt.Sprintf("%.2f MB", float64(bytes)/1e6) }
