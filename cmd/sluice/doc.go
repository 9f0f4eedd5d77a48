// Command sluice is an ingress and gateway controller for HAProxy.
//
// Each command is one file. This is the only place where the parts are wired together.
// Results go to standard output, findings to standard error. The exit code is 0 if all
// is well, 1 if there are findings or differences, 2 if the machine failed or the call
// was wrong.
package main
