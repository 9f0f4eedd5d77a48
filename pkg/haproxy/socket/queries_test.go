package socket

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// Servers are the servers of one backend.
func (r *Runtime) Servers(ctx context.Context, backend string) ([]ServerState, error) {
	text, err := line("show servers state", backend)
	if err != nil {
		return nil, err
	}
	answer, err := r.query(ctx, text)
	if err != nil {
		return nil, err
	}
	return serversOf(text, answer)
}

// MapCount is the number of entries of maps/<name>.map.
func (r *Runtime) MapCount(ctx context.Context, name string) (int, error) {
	answer, err := r.query(ctx, "show map")
	if err != nil {
		return 0, err
	}
	for l := range strings.Lines(answer) {
		// 7 (maps/x.map) pattern loaded from file ... curr_ver=0 next_ver=0 entry_cnt=1
		if !strings.Contains(l, " ("+mapPath(name)+") ") {
			continue
		}
		_, count, _ := strings.Cut(l, " entry_cnt=")
		if n, err := strconv.Atoi(strings.TrimSpace(count)); err == nil {
			return n, nil
		}
	}
	return 0, &UnexpectedAnswer{Command: "show map", Answer: fmt.Sprintf("no entry count of %s", mapPath(name))}
}
