package deploy

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

func newReader(text string) *bufio.Reader { return bufio.NewReader(strings.NewReader(text)) }

func (o *objects) checkPod() {
	spec := o.template.Spec
	if s := spec.SecurityContext; s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.RunAsUser == nil || *s.RunAsUser == 0 {
		o.t.Error("the pod may run as root")
	}
	if spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken {
		o.t.Error("the token is mounted into each container")
	}
	volumes := map[string]bool{}
	for _, volume := range spec.Volumes {
		volumes[volume.Name] = true
		if dir := volume.EmptyDir; dir != nil && dir.Medium != corev1.StorageMediumMemory {
			o.t.Errorf("the folder %s is on a disk", volume.Name)
		}
	}
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		o.checkContainer(c, volumes)
	}
	delay := int64(0)
	for _, c := range spec.Containers {
		if c.Lifecycle != nil {
			delay = max(delay, c.Lifecycle.PreStop.Sleep.Seconds)
		}
	}
	for _, arg := range spec.Containers[0].Args {
		if text, found := strings.CutPrefix(arg, "--stop-timeout="); found {
			timeout, err := strconv.ParseInt(strings.TrimSuffix(text, "s"), 10, 64)
			if err != nil || *spec.TerminationGracePeriodSeconds <= delay+timeout {
				o.t.Errorf("the pod is killed after %d s, before sluice gives up waiting: %d s and %s", *spec.TerminationGracePeriodSeconds, delay, text)
			}
		}
	}
}

var reference = regexp.MustCompile(`\$\(([^)]+)\)`)

func (o *objects) checkContainer(c corev1.Container, volumes map[string]bool) {
	s := c.SecurityContext
	if s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation ||
		!slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) || !slices.Equal(s.Capabilities.Add, []corev1.Capability{"NET_BIND_SERVICE"}) {
		o.t.Errorf("container %s: its security context grants more than NET_BIND_SERVICE: %v", c.Name, s)
	}
	token := false
	for _, mount := range c.VolumeMounts {
		if !volumes[mount.Name] {
			o.t.Errorf("container %s: there is no volume %s", c.Name, mount.Name)
		}
		token = token || mount.Name == "token"
	}
	if token != (c.Name == "sluice") {
		o.t.Errorf("container %s: has the token of the service account: %v", c.Name, token)
	}
	defined := map[string]bool{}
	for _, v := range c.Env {
		defined[v.Name] = true
	}
	for _, arg := range c.Args {
		for _, m := range reference.FindAllStringSubmatch(arg, -1) {
			if !defined[m[1]] {
				o.t.Errorf("container %s: %s names a variable that is not there", c.Name, arg)
			}
		}
	}
	for _, probe := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
		if probe != nil && !portOf(c, probe.HTTPGet.Port.StrVal) {
			o.t.Errorf("container %s: a probe asks port %s, which it has not", c.Name, probe.HTTPGet.Port.StrVal)
		}
	}
}

// built is the folder with the programs of this repository.
var built = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "sluice-deploy-bin-")
	if err != nil {
		return "", err
	}
	command := exec.Command("go", "build", "-o", folder, "./cmd/sluice", "./cmd/sluice-init")
	command.Dir = "../.."
	if out, err := command.CombinedOutput(); err != nil {
		return "", &buildError{string(out)}
	}
	return folder, nil
})

type buildError struct{ output string }

func (e *buildError) Error() string { return e.output }

func TestMain(m *testing.M) {
	code := m.Run()
	if folder, err := built(); err == nil {
		_ = os.RemoveAll(folder)
	}
	os.Exit(code)
}

// program runs sluice and returns what it printed, and its exit code.
func program(t *testing.T, stdin string, args ...string) (string, int) {
	t.Helper()
	folder, err := built()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(filepath.Join(folder, "sluice"), args...)
	command.Stdin = strings.NewReader(stdin)
	out, _ := command.CombinedOutput()
	return string(out), command.ProcessState.ExitCode()
}

// checkPrograms shows the command lines and the settings to the program itself.
func (o *objects) checkPrograms(manifests string) {
	for _, c := range slices.Concat(o.template.Spec.InitContainers, o.template.Spec.Containers) {
		if len(c.Command) > 0 {
			continue // HAProxy
		}
		if out, code := program(o.t, "", append(slices.Clone(c.Args), "--help")...); code != 0 {
			o.t.Errorf("container %s: sluice does not take its flags: %s", c.Name, out)
		}
	}
	run := o.template.Spec.Containers[0].Args
	config := of[*corev1.ConfigMap](o)[0]
	if !slices.Contains(run, "--configmap="+config.Namespace+"/"+config.Name) {
		o.t.Errorf("sluice is not told of the ConfigMap %s: %v", config.Name, run)
	}
	if out, code := program(o.t, manifests, "check", "-", "--configmap", config.Namespace+"/"+config.Name); code != 0 {
		o.t.Errorf("sluice complains about the settings: %s", out)
	}
	controller := "sluice-proxy.github.io/controller"
	for _, name := range o.values("controller-class") {
		controller += "/" + name
	}
	for _, class := range of[*networkingv1.IngressClass](o) {
		if class.Spec.Controller != controller {
			o.t.Errorf("IngressClass %s is for %s", class.Name, class.Spec.Controller)
		}
	}
	for _, class := range of[*gatewayv1.GatewayClass](o) {
		if string(class.Spec.ControllerName) != controller {
			o.t.Errorf("GatewayClass %s is for %s", class.Name, class.Spec.ControllerName)
		}
	}
}
