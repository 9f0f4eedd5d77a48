// Package process starts, finds, watches and stops the HAProxy master process, and asks
// the binary whether a configuration is good.
//
// It owns the command line of HAProxy and the reading of its alerts. It imports socket
// and stands below Apply. The Supervisor logs; Check does not.
//
// # What survives the controller
//
// The master is started in a session of its own, so that neither a signal to the
// controller's group nor its death takes HAProxy along. Nothing of HAProxy's output may
// therefore go through a pipe that the controller reads:
//
//   - stdout, where "log stdout" puts the access log, is the controller's own: in a
//     container the log goes on as long as the container lives, whoever writes.
//   - stderr, where start-up alerts and notices go, is a file in the run directory, opened
//     for appending. The Supervisor copies it to the controller's stderr while it lives
//     and truncates it when it has grown; one that adopts HAProxy continues there. The
//     alerts of a failed start are read from it, since a failed master has no socket left
//     to ask.
//
// A master that was adopted is no child: its end is noticed through a pidfd, or by looking
// every 200 ms where the kernel or a sandbox has none.
//
// # Limits
//
// Linux only. "-c" does not bind, so an address in use is found by Start alone. File
// descriptor limits are passed on as they are; HAProxy raises its soft limit itself.
package process
