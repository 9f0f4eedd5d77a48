package kubelet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/sluice-proxy/sluice/tests/kube/internal/container"
	"github.com/sluice-proxy/sluice/tests/kube/internal/sandbox"
)

// container says what to run for a container of a pod.
func (u *unit) container(ctx context.Context, image Image) (*container.Spec, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	variables, err := u.env(image)
	if err != nil {
		return nil, err
	}
	mounts, err := u.volumeMounts()
	if err != nil {
		return nil, err
	}
	hosts, err := u.pod.hosts()
	if err != nil {
		return nil, err
	}
	mounts = append(append(image.mounts(), container.Mount{Source: hosts, Target: "/etc/hosts"}), mounts...)
	spec := &container.Spec{Dir: "/", UID: image.UID, GID: image.GID, Mounts: mounts, Open: image.Readable}
	for _, dir := range []string{image.Dir, u.spec.WorkingDir} {
		if dir != "" {
			spec.Dir = dir
		}
	}
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		spec.Env = append(spec.Env, name+"="+variables[name])
	}
	spec.Argv = image.argv(expandAll(u.spec.Command, variables), expandAll(u.spec.Args, variables))
	if !u.pod.spec.HostNetwork {
		spec.Hostname = u.pod.hostname()
	}
	u.secure(spec)
	return spec, nil
}

// secure applies what a security context says of users and the root.
func (u *unit) secure(spec *container.Spec) {
	if c := u.pod.spec.SecurityContext; c != nil {
		set(&spec.UID, c.RunAsUser)
		set(&spec.GID, c.RunAsGroup)
		for _, group := range c.SupplementalGroups {
			spec.Groups = append(spec.Groups, int(group))
		}
		if c.FSGroup != nil {
			spec.Groups = append(spec.Groups, int(*c.FSGroup))
		}
	}
	if c := u.spec.SecurityContext; c != nil {
		set(&spec.UID, c.RunAsUser)
		set(&spec.GID, c.RunAsGroup)
		spec.ReadOnlyRoot = c.ReadOnlyRootFilesystem != nil && *c.ReadOnlyRootFilesystem
	}
}

func set(to *int, from *int64) {
	if from != nil {
		*to = int(*from)
	}
}

// hosts writes the pod's hosts file.
func (p *pod) hosts() (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "127.0.0.1\tlocalhost\n%s\t%s\n", p.address, p.hostname())
	for _, alias := range p.spec.HostAliases {
		fmt.Fprintf(&b, "%s\t%s\n", alias.IP, strings.Join(alias.Hostnames, "\t"))
	}
	name := filepath.Join(p.k.folder(p.uid), "hosts")
	if err := os.WriteFile(name, []byte(b.String()), 0o644); err != nil {
		return "", fmt.Errorf("writing the hosts file: %w", err)
	}
	return name, nil
}

func (p *pod) hostname() string {
	if p.spec.Hostname != "" {
		return p.spec.Hostname
	}
	return p.name[:min(len(p.name), 63)]
}

// env is the environment of a container.
func (u *unit) env(image Image) (map[string]string, error) {
	variables := map[string]string{"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/", "HOSTNAME": u.pod.hostname()}
	maps.Copy(variables, u.pod.k.o.Env)
	for _, variable := range image.Env {
		name, value, _ := strings.Cut(variable, "=")
		variables[name] = value
	}
	for i := range u.spec.EnvFrom {
		if err := u.envFrom(&u.spec.EnvFrom[i], variables); err != nil {
			return nil, err
		}
	}
	for i := range u.spec.Env {
		variable := &u.spec.Env[i]
		if variable.ValueFrom == nil {
			variables[variable.Name] = expand(variable.Value, variables)
			continue
		}
		value, found, err := u.value(variable.ValueFrom)
		if err != nil {
			return nil, fmt.Errorf("variable %s: %w", variable.Name, err)
		}
		if found {
			variables[variable.Name] = value
		}
	}
	return variables, nil
}

func (u *unit) envFrom(source *corev1.EnvFromSource, variables map[string]string) error {
	var files map[string]file
	var err error
	switch {
	case source.ConfigMapRef != nil:
		files, err = u.pod.configMapFiles(source.ConfigMapRef.Name, nil, 0, source.ConfigMapRef.Optional)
	case source.SecretRef != nil:
		files, err = u.pod.secretFiles(source.SecretRef.Name, nil, 0, source.SecretRef.Optional)
	}
	if err != nil {
		return err
	}
	for name, content := range files {
		variables[source.Prefix+name] = string(content.data)
	}
	return nil
}

// value is what a variable refers to; not found: optional, and not there.
func (u *unit) value(source *corev1.EnvVarSource) (string, bool, error) {
	var files map[string]file
	var err error
	key := ""
	switch {
	case source.FieldRef != nil:
		value, err := u.pod.field(source.FieldRef.FieldPath)
		return value, err == nil, err
	case source.ResourceFieldRef != nil:
		value, err := u.resource(source.ResourceFieldRef)
		return value, err == nil, err
	case source.ConfigMapKeyRef != nil:
		ref := source.ConfigMapKeyRef
		key = ref.Key
		files, err = u.pod.configMapFiles(ref.Name, []corev1.KeyToPath{{Key: key, Path: key}}, 0, ref.Optional)
	case source.SecretKeyRef != nil:
		ref := source.SecretKeyRef
		key = ref.Key
		files, err = u.pod.secretFiles(ref.Name, []corev1.KeyToPath{{Key: key, Path: key}}, 0, ref.Optional)
	default:
		err = errors.New("a source that the kubelet stand-in does not know")
	}
	if err != nil {
		return "", false, err
	}
	content, found := files[key]
	return string(content.data), found, nil
}

// field is a field of the downward API.
func (p *pod) field(path string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fields := map[string]string{
		"metadata.name": p.name, "metadata.namespace": p.namespace, "metadata.uid": string(p.uid),
		"spec.nodeName": p.node.Name, "spec.serviceAccountName": p.spec.ServiceAccountName,
		"status.podIP": p.address, "status.podIPs": p.address,
		"status.hostIP": sandbox.RouterAddress, "status.hostIPs": sandbox.RouterAddress,
		"metadata.labels": lines(p.object.Labels), "metadata.annotations": lines(p.object.Annotations),
	}
	if value, found := fields[path]; found {
		return value, nil
	}
	for prefix, values := range map[string]map[string]string{"metadata.labels['": p.object.Labels, "metadata.annotations['": p.object.Annotations} {
		if rest, found := strings.CutPrefix(path, prefix); found {
			return values[strings.TrimSuffix(rest, "']")], nil
		}
	}
	return "", fmt.Errorf("field %q is not known to the kubelet stand-in", path)
}

// lines is how the downward API writes labels and annotations.
func lines(values map[string]string) string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(values)) {
		fmt.Fprintf(&b, "%s=%q\n", key, values[key])
	}
	return b.String()
}

// resource is a limit or request of the container, in units of the divisor, rounded up.
func (u *unit) resource(ref *corev1.ResourceFieldSelector) (string, error) {
	kind, name, _ := strings.Cut(ref.Resource, ".")
	list := u.spec.Resources.Requests
	if kind == "limits" {
		list = u.spec.Resources.Limits
	}
	quantity, found := list[corev1.ResourceName(name)]
	if !found {
		return "", fmt.Errorf("the container has no %s", ref.Resource)
	}
	divisor := ref.Divisor
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	milli := divisor.MilliValue()
	return fmt.Sprint((quantity.MilliValue() + milli - 1) / milli), nil
}

func expandAll(texts []string, variables map[string]string) []string {
	expanded := make([]string, len(texts))
	for i, text := range texts {
		expanded[i] = expand(text, variables)
	}
	return expanded
}

// expand replaces $(NAME); $$ is one $, and what does not exist stays as it is written.
func expand(text string, variables map[string]string) string {
	var b strings.Builder
	for text != "" {
		before, rest, found := strings.Cut(text, "$")
		b.WriteString(before)
		if !found {
			break
		}
		text = rest
		name, after, closed := strings.Cut(strings.TrimPrefix(rest, "("), ")")
		value, known := variables[name]
		switch {
		case strings.HasPrefix(rest, "$"):
			b.WriteString("$")
			text = rest[1:]
		case strings.HasPrefix(rest, "(") && closed && known:
			b.WriteString(value)
			text = after
		default:
			b.WriteString("$")
		}
	}
	return b.String()
}
