package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/sluice-proxy/sluice/cmd/internal/options"
	"github.com/sluice-proxy/sluice/pkg/haproxy/model"
)

// renderUDP writes what sluice itself serves, beside HAProxy.
func renderUDP(o *options.Options, m *model.Model, s streams) error {
	if o.UDP == "" {
		return nil
	}
	var text strings.Builder
	for _, l := range m.UDP {
		writeListener(&text, l)
	}
	if o.UDP == "-" {
		_, err := fmt.Fprint(s.out, text.String())
		return err
	}
	if err := os.WriteFile(o.UDP, []byte(text.String()), 0o644); err != nil {
		return fmt.Errorf("--udp: %w", err)
	}
	return nil
}

// writeListener writes a line for a listener and one for each of its targets.
func writeListener(w *strings.Builder, l *model.UDPListener) {
	fmt.Fprintf(w, "%s on %s\n", l.Name, strings.Join(l.Addresses, " "))
	for _, t := range l.Targets {
		if !t.Serves() {
			fmt.Fprintf(w, "  weight %d: dropped\n", t.Weight)
			continue
		}
		fmt.Fprintf(w, "  weight %d: %s", t.Weight, t.Backend.Name)
		for _, server := range t.Backend.Servers {
			fmt.Fprintf(w, " %s", server.Addr)
			if server.State != model.Ready {
				fmt.Fprintf(w, " (%s)", server.State)
			}
		}
		w.WriteByte('\n')
	}
}
