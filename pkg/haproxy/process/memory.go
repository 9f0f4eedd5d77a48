package process

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// Resident is the memory that a process has, in bytes; 0: not known, since it is gone, or
// one of another container.
func Resident(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	fields := bytes.Fields(text) // size and resident, in pages: proc_pid_statm(5)
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
