package kubelet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sluice-proxy/sluice/tests/kube/internal/container"
)

// file is one file of a volume that is made of objects.
type file struct {
	data []byte
	mode os.FileMode
}

// makeVolumes makes all volumes, or says what is missing.
func (p *pod) makeVolumes(ctx context.Context) error {
	volumes := map[string]string{}
	for i := range p.spec.Volumes {
		volume := &p.spec.Volumes[i]
		folder, err := p.makeVolume(ctx, volume)
		if err != nil {
			return fmt.Errorf("volume %s: %w", volume.Name, err)
		}
		volumes[volume.Name] = folder
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.volumes = volumes
	return nil
}

func (p *pod) makeVolume(ctx context.Context, volume *corev1.Volume) (string, error) {
	if volume.HostPath != nil {
		return volume.HostPath.Path, nil
	}
	folder := p.k.folder(p.uid, "volumes", volume.Name)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", fmt.Errorf("making its folder: %w", err)
	}
	if volume.EmptyDir != nil {
		return folder, p.openFolder(folder)
	}
	files, err := p.filesOf(ctx, volume)
	if err != nil {
		return "", err
	}
	return folder, p.writeFiles(folder, files)
}

// openFolder lets every container write to an emptyDir.
func (p *pod) openFolder(folder string) error {
	mode := os.FileMode(0o777)
	if group := p.fsGroup(); group >= 0 {
		if err := os.Chown(folder, -1, group); err != nil {
			return fmt.Errorf("giving it to the group: %w", err)
		}
		mode |= os.ModeSetgid
	}
	// Not in MkdirAll: the process' umask would take bits away.
	if err := os.Chmod(folder, mode); err != nil {
		return fmt.Errorf("opening it: %w", err)
	}
	return nil
}

// fsGroup is the group of the pod's volumes; -1: none.
func (p *pod) fsGroup() int {
	if context := p.spec.SecurityContext; context != nil && context.FSGroup != nil {
		return int(*context.FSGroup)
	}
	return -1
}

// refreshVolumes writes volumes anew when what they show has changed.
func (p *pod) refreshVolumes(ctx context.Context) {
	for {
		select {
		case <-p.contents:
		case <-ctx.Done():
			return
		}
		// Something that is missing now leaves the files as they are.
		if err := p.makeVolumes(ctx); err != nil && ctx.Err() == nil {
			p.k.o.Report("pod %s/%s: %v", p.namespace, p.name, err)
		}
	}
}

// filesOf collects the files of a volume.
func (p *pod) filesOf(ctx context.Context, volume *corev1.Volume) (map[string]file, error) {
	switch {
	case volume.Secret != nil:
		s := volume.Secret
		return p.secretFiles(s.SecretName, s.Items, modeOf(s.DefaultMode), s.Optional)
	case volume.ConfigMap != nil:
		c := volume.ConfigMap
		return p.configMapFiles(c.Name, c.Items, modeOf(c.DefaultMode), c.Optional)
	case volume.DownwardAPI != nil:
		return p.downwardFiles(volume.DownwardAPI.Items, modeOf(volume.DownwardAPI.DefaultMode))
	case volume.Projected != nil:
		all := map[string]file{}
		for i := range volume.Projected.Sources {
			files, err := p.projected(ctx, &volume.Projected.Sources[i], modeOf(volume.Projected.DefaultMode))
			if err != nil {
				return nil, err
			}
			maps.Copy(all, files)
		}
		return all, nil
	default:
		return nil, errors.New("a kind of volume that the kubelet stand-in does not know")
	}
}

func (p *pod) projected(ctx context.Context, source *corev1.VolumeProjection, mode os.FileMode) (map[string]file, error) {
	switch {
	case source.Secret != nil:
		return p.secretFiles(source.Secret.Name, source.Secret.Items, mode, source.Secret.Optional)
	case source.ConfigMap != nil:
		return p.configMapFiles(source.ConfigMap.Name, source.ConfigMap.Items, mode, source.ConfigMap.Optional)
	case source.DownwardAPI != nil:
		return p.downwardFiles(source.DownwardAPI.Items, mode)
	case source.ServiceAccountToken != nil:
		token, err := p.token(ctx, source.ServiceAccountToken)
		if err != nil {
			return nil, err
		}
		return map[string]file{source.ServiceAccountToken.Path: {token, mode}}, nil
	default:
		return nil, errors.New("a projected source that the kubelet stand-in does not know")
	}
}

func modeOf(mode *int32) os.FileMode {
	if mode == nil {
		return 0o644
	}
	return os.FileMode(*mode)
}

func (p *pod) secretFiles(name string, items []corev1.KeyToPath, mode os.FileMode, optional *bool) (map[string]file, error) {
	secret, err := p.k.secrets.Secrets(p.namespace).Get(name)
	if apierrors.IsNotFound(err) && optional != nil && *optional {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return pick(secret.Data, items, mode, optional)
}

func (p *pod) configMapFiles(name string, items []corev1.KeyToPath, mode os.FileMode, optional *bool) (map[string]file, error) {
	configMap, err := p.k.configMaps.ConfigMaps(p.namespace).Get(name)
	if apierrors.IsNotFound(err) && optional != nil && *optional {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	data := maps.Clone(configMap.BinaryData)
	if data == nil {
		data = map[string][]byte{}
	}
	for key, value := range configMap.Data {
		data[key] = []byte(value)
	}
	return pick(data, items, mode, optional)
}

// pick takes the items, or everything if there are none.
func pick(data map[string][]byte, items []corev1.KeyToPath, mode os.FileMode, optional *bool) (map[string]file, error) {
	files := map[string]file{}
	if len(items) == 0 {
		for key, value := range data {
			files[key] = file{value, mode}
		}
		return files, nil
	}
	for _, item := range items {
		value, found := data[item.Key]
		if !found && optional != nil && *optional {
			continue
		}
		if !found {
			return nil, fmt.Errorf("key %q is missing", item.Key)
		}
		own := mode
		if item.Mode != nil {
			own = modeOf(item.Mode)
		}
		files[item.Path] = file{value, own}
	}
	return files, nil
}

func (p *pod) downwardFiles(items []corev1.DownwardAPIVolumeFile, mode os.FileMode) (map[string]file, error) {
	files := map[string]file{}
	for i := range items {
		if items[i].FieldRef == nil {
			return nil, fmt.Errorf("file %s: only fields are known to the kubelet stand-in", items[i].Path)
		}
		value, err := p.field(items[i].FieldRef.FieldPath)
		if err != nil {
			return nil, err
		}
		files[items[i].Path] = file{[]byte(value), mode}
	}
	return files, nil
}

// token is a token of the pod's service account, bound to the pod.
func (p *pod) token(ctx context.Context, source *corev1.ServiceAccountTokenProjection) ([]byte, error) {
	if token, found := p.tokens[source.Audience]; found {
		return token, nil
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: source.ExpirationSeconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: p.name, UID: p.uid},
	}}
	if source.Audience != "" {
		request.Spec.Audiences = []string{source.Audience}
	}
	accounts := p.k.o.Client.CoreV1().ServiceAccounts(p.namespace)
	answer, err := accounts.CreateToken(ctx, p.spec.ServiceAccountName, request, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("token: %w", err)
	}
	p.tokens[source.Audience] = []byte(answer.Status.Token)
	return p.tokens[source.Audience], nil
}

// writeFiles shows files in a folder, all at once: as with a kubelet they lie in a folder
// of their own and the names are links through a link that is swapped.
func (p *pod) writeFiles(folder string, files map[string]file) error {
	content, err := os.MkdirTemp(folder, "..content-")
	if err != nil {
		return fmt.Errorf("making the folder of its files: %w", err)
	}
	if err := os.Chmod(content, 0o755); err != nil {
		return fmt.Errorf("opening the folder of its files: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := p.writeFile(filepath.Join(content, name), files[name]); err != nil {
			return err
		}
	}
	data := filepath.Join(folder, "..data")
	old, _ := os.Readlink(data) // none at first
	if err := os.Symlink(filepath.Base(content), data+".new"); err != nil {
		return fmt.Errorf("linking its files: %w", err)
	}
	if err := os.Rename(data+".new", data); err != nil {
		return fmt.Errorf("swapping its files: %w", err)
	}
	if err := linkNames(folder, content); err != nil {
		return err
	}
	if old != "" {
		return os.RemoveAll(filepath.Join(folder, old))
	}
	return nil
}

func (p *pod) writeFile(name string, f file) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return fmt.Errorf("making the folder of a file: %w", err)
	}
	mode := f.mode
	group := p.fsGroup()
	if group >= 0 {
		mode |= 0o440
	}
	if err := os.WriteFile(name, f.data, 0o600); err != nil {
		return fmt.Errorf("writing a file: %w", err)
	}
	if err := errors.Join(os.Chown(name, -1, group), os.Chmod(name, mode)); err != nil {
		return fmt.Errorf("opening a file: %w", err)
	}
	return nil
}

// linkNames makes the visible names, and removes those that are no more.
func linkNames(folder, content string) error {
	wanted, err := os.ReadDir(content)
	if err != nil {
		return fmt.Errorf("listing files: %w", err)
	}
	names := map[string]bool{"..data": true, filepath.Base(content): true}
	for _, entry := range wanted {
		names[entry.Name()] = true
		link := filepath.Join(folder, entry.Name())
		if err := os.Symlink(filepath.Join("..data", entry.Name()), link); err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("linking a file: %w", err)
		}
	}
	present, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("listing names: %w", err)
	}
	for _, entry := range present {
		if !names[entry.Name()] && entry.Type()&os.ModeSymlink != 0 {
			if err := os.Remove(filepath.Join(folder, entry.Name())); err != nil {
				return fmt.Errorf("removing a name: %w", err)
			}
		}
	}
	return nil
}

// volumeMounts are the mounts of a container.
func (u *unit) volumeMounts() ([]container.Mount, error) {
	u.pod.mu.Lock()
	defer u.pod.mu.Unlock()
	var mounts []container.Mount
	for _, m := range u.spec.VolumeMounts {
		source, found := u.pod.volumes[m.Name]
		if !found {
			return nil, fmt.Errorf("there is no volume %q", m.Name)
		}
		if m.SubPath != "" {
			// Resolved now: a kubelet's subPath shows no later changes either.
			resolved, err := filepath.EvalSymlinks(filepath.Join(source, m.SubPath))
			if err != nil {
				return nil, fmt.Errorf("path in volume %q: %w", m.Name, err)
			}
			source = resolved
		}
		mounts = append(mounts, container.Mount{Source: source, Target: m.MountPath, ReadOnly: m.ReadOnly || u.pod.objects(m.Name)})
	}
	return mounts, nil
}

// objects says whether a volume is made of objects; nobody writes to those.
func (p *pod) objects(name string) bool {
	i := slices.IndexFunc(p.spec.Volumes, func(v corev1.Volume) bool { return v.Name == name })
	v := p.spec.Volumes[i]
	return v.EmptyDir == nil && v.HostPath == nil
}
