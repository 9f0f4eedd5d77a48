package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sluice-proxy/sluice/cmd/internal/options"
	"github.com/sluice-proxy/sluice/pkg/haproxy/files"
)

// bootstrap writes the first generation of a configuration folder. The number in its
// maps/sluice.map is 0, which no batch has: whoever adopts an HAProxy that was started on it
// reloads it.
func bootstrap(o *options.Options, s streams) error {
	if o.Out == "" || o.Out == "-" {
		return errors.New("--bootstrap needs --out DIR: name the folder that is run's --config-dir")
	}
	line, err := emptyLine(o)
	if err != nil {
		return err
	}
	line.Again(time.Now())
	p, err := rendered(line)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.RunDir, 0o755); err != nil {
		return fmt.Errorf("--run-dir: %w", err)
	}
	folder, err := files.Open(o.Out, "")
	if err != nil {
		return fmt.Errorf("--out=%s: %w", o.Out, err)
	}
	defer folder.Close()
	if n := folder.Generation(); n != 0 {
		fmt.Fprintf(s.out, "%s holds generation %d already, which is left as it is\n", o.Out, n)
		return nil
	}
	if _, err := folder.Stage(1, p.Tree, nil); err != nil {
		return fmt.Errorf("--out=%s: %w", o.Out, err)
	}
	if err := folder.Swap(1); err != nil {
		return fmt.Errorf("--out=%s: %w", o.Out, err)
	}
	fmt.Fprintf(s.out, "HAProxy can be started: haproxy -W -S %s/master.sock,mode,600 -f %s/conf.d\n", o.RunDir, folder.Current())
	return nil
}
