#!/usr/bin/env bash
# Prints a folder that holds etcd, kube-apiserver and kube-controller-manager: $KUBEBUILDER_ASSETS if it is set,
# otherwise .tools/controlplane, which is built here from the pinned versions in tests/kube/controlplane/go.mod.
#
#   controlplane.sh path
#
# The first build compiles Kubernetes: 12 to 22 CPU-minutes and 2 GB of module and build cache. The binary (about 150 MB)
# is kept for each set of versions and Go release in a cache outside the clone ($SLUICE_TOOLS_CACHE, default
# ~/.cache/sluice-tools), so that this happens once a machine and not once a clone.
#
# Nothing is installed into the system.

set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
tools="$root/.tools"
cache="${SLUICE_TOOLS_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/sluice-tools}"
programs=(etcd kube-apiserver kube-controller-manager)

# Bumped when the way the binary is made changes: it is then made again.
recipe=1

say() { printf 'controlplane.sh: %s\n' "$*" >&2; }

die() {
  say "error: $1"
  shift
  for line in "$@"; do say "  $line"; done
  exit 2
}

# assets_of prints KUBEBUILDER_ASSETS if all programs are in it.
assets_of() {
  local program
  for program in "${programs[@]}"; do
    [[ -x $1/$program ]] || die "KUBEBUILDER_ASSETS=$1 holds no $program" "unset it, and the control plane is built here"
  done
  echo "$1"
}

# build makes the folder $1 with the one binary and a link for each of its names.
build() {
  local folder=$1 version link program
  version=$(awk '$1 == "k8s.io/kubernetes" { print $2; exit }' go.mod)
  link="-s -w -X k8s.io/component-base/version.gitVersion=$version"
  link+=" -X k8s.io/component-base/version.gitMajor=$(cut -d. -f1 <<<"${version#v}")"
  link+=" -X k8s.io/component-base/version.gitMinor=$(cut -d. -f2 <<<"$version")"
  say "building etcd, kube-apiserver and kube-controller-manager $version (once; 12 to 22 CPU-minutes)"
  rm -rf "$folder.new"
  mkdir -p "$folder.new"
  # GOFLAGS and GOWORK of the caller are about the product. No -trimpath: the linter, which asks for compiled packages
  # without it, finds them in the build cache then.
  env -u GOFLAGS GOWORK=off CGO_ENABLED=0 nice go build -buildvcs=false -ldflags "$link" -o "$folder.new/controlplane" . >&2
  for program in "${programs[@]}"; do ln -s controlplane "$folder.new/$program"; done
  rm -rf "$folder"
  mv "$folder.new" "$folder"
}

path() {
  local key folder
  cd "$root/tests/kube/controlplane"
  key=$({ echo "$recipe"; cat go.mod go.sum ./*.go; go env GOVERSION GOOS GOARCH; } | sha256sum | cut -c1-12)
  folder="$cache/controlplane-$key"
  if [[ ! -x $folder/controlplane ]]; then
    mkdir -p "$cache"
    # One build at a time: clones share the cache.
    exec 9>"$cache/.controlplane.lock"
    flock 9
    [[ -x $folder/controlplane ]] || build "$folder"
    exec 9>&-
  fi
  mkdir -p "$tools"
  ln -sfn "$folder" "$tools/controlplane"
  echo "$tools/controlplane"
}

[[ ${1:-path} == path ]] || die "unknown command '$1'" "try '$0 path'"
if [[ -n ${KUBEBUILDER_ASSETS:-} ]]; then assets_of "$KUBEBUILDER_ASSETS"; else path; fi
