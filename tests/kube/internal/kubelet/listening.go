package kubelet

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/sluice-proxy/sluice/tests/kube/internal/container"
)

// awaitListening marks the container ready once its pod listens on a port.
func (u *unit) awaitListening(ctx context.Context, process *container.Process) {
	for !listening(process.PID()) {
		if !pause(ctx, 10*time.Millisecond) {
			return
		}
	}
	u.mark(func() { u.ready = u.process == process })
}

// listening tells whether anything listens in the network namespace of a process: on a TCP
// port, or on a UDP port with no peer.
func listening(pid int) bool {
	const listen, unconnected = "0A", "07" // states of tcp and udp in proc(5)
	for table, state := range map[string]string{"tcp": listen, "tcp6": listen, "udp": unconnected, "udp6": unconnected} {
		if holdsState(fmt.Sprintf("/proc/%d/net/%s", pid, table), state) {
			return true
		}
	}
	return false
}

func holdsState(table, state string) bool {
	file, err := os.Open(table)
	if err != nil {
		return false // the process has ended
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		// sl local_address rem_address st ...
		if fields := strings.Fields(lines.Text()); len(fields) > 3 && fields[3] == state {
			return true
		}
	}
	return false
}
