package plan

import (
	"fmt"
	"strings"
)

// Describe is a command in words for a person who reads a plan. It shows no secret and
// is not what is sent to HAProxy.
func Describe(c Command) string {
	switch c := c.(type) {
	case AddBackend:
		return fmt.Sprintf("add backend %s at run time", c.Backend.Name)
	case DelBackend:
		return fmt.Sprintf("remove backend %s at run time", c.Backend)
	case AddServer:
		return fmt.Sprintf("add server %s/%s", c.Backend, c.Server.Name())
	case DelServer:
		return fmt.Sprintf("del server %s/%s", c.Backend, c.Server)
	case SetServer:
		return describeSet(c)
	case EditMap:
		return fmt.Sprintf("change %d entries of maps/%s.map", len(c.Edits), c.Map)
	case EditList:
		return fmt.Sprintf("add %d and remove %d entries of lists/%s.lst", len(c.Add), len(c.Remove), c.List)
	case AddCertificate:
		return "load certificate " + c.Certificate.Name
	case AddCAFile:
		return "load CA file " + c.Certificate.Name
	case DelCertificate:
		return "unload certificate " + c.Name
	case AddCrtLine:
		return fmt.Sprintf("serve %s with certificate %s", strings.Join(c.Line.Hosts, ", "), c.Line.Certificate)
	case DelCrtLine:
		return fmt.Sprintf("no longer serve %s with certificate %s", strings.Join(c.Line.Hosts, ", "), c.Line.Certificate)
	}
	return c.Verb()
}

func describeSet(c SetServer) string {
	text := fmt.Sprintf("set server %s/%s", c.Backend, c.Server)
	if c.State != nil {
		text += " state " + c.State.String()
	}
	if c.Weight != nil {
		text += fmt.Sprintf(" weight %d", *c.Weight)
	}
	return text
}
