// Command sluice-init is pid 1 of a container: it runs one command, and sees to it that
// what the command started outlives it.
//
//	sluice-init [--stop-signal SIGNAL] [--haproxy-memory-limit BYTES] COMMAND [ARGUMENT...]
//
// In one container sluice and HAProxy live together. Were sluice pid 1, its death (killed
// for memory, a bug) would end the container, and HAProxy with all its connections. As a
// child of this program it is started again, after a wait that grows from 100 ms to 30 s,
// while HAProxy serves on; the new sluice takes it over.
//
//   - Where nothing else runs when the command ends, there is nothing to protect: this
//     program ends with the same exit code, and whoever runs the container sees it.
//   - Orphans become its children, also where it is not pid 1, and are reaped.
//   - Signals are forwarded to the command. SIGTERM and SIGINT end it, for good: if
//     processes are left then (sluice was down, or was killed on the way), they get SIGUSR1,
//     by which HAProxy finishes its connections, and this program ends after the last one.
//     With a second SIGTERM they get that one, too.
//   - --stop-signal says what the command gets in place of SIGTERM. HAProxy, as the command
//     of a container of its own, needs USR1: SIGTERM would cut its connections.
//   - --haproxy-memory-limit is the memory of that container, from the downward API: HAProxy
//     gets an -m for half of it, which is arithmetic that manifests can't do.
//
// It is a program of its own and not a command of sluice so that pid 1 is small and has
// nothing that can fail. tini, dumb-init and catatonit reap and forward, but start nothing
// again; supervisors that do (s6, runit) need a tree of scripts and a shell.
//
// Limits: Linux only. One command. A command that hangs is not noticed: that is for probes.
package main
