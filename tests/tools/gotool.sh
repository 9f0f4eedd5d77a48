#!/usr/bin/env bash
# Prints the path of a development tool that tests/tools/go.mod pins, building it if needed.
#
#   gotool.sh golangci-lint
#
# A tool is built once for each set of pinned versions and Go release and kept in a cache outside the clone
# ($SLUICE_TOOLS_CACHE, default ~/.cache/sluice-tools), since linking a linter takes minutes.

set -euo pipefail

name=${1:?usage: gotool.sh NAME}
cd "$(dirname "${BASH_SOURCE[0]}")"
cache="${SLUICE_TOOLS_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/sluice-tools}"

package=$(awk -v name="/$name" '$1 ~ "^[a-z].*" name "$" { print $1 }' go.mod | head -n 1)
if [[ -z $package ]]; then
  echo "gotool.sh: no tool '$name' in tests/tools/go.mod; add it with: cd tests/tools && go get -tool PACKAGE@VERSION" >&2
  exit 2
fi

key=$({ cat go.mod go.sum; go env GOVERSION GOOS GOARCH; } | sha256sum | cut -c1-12)
binary="$cache/go/$name-$key"
if [[ ! -x $binary ]]; then
  mkdir -p "$cache/go"
  # One build at a time: clones share the cache.
  exec 9>"$cache/go/.lock"
  flock 9
  if [[ ! -x $binary ]]; then
    echo "gotool.sh: building $package (once; it takes some minutes)" >&2
    # GOFLAGS and GOWORK of the caller are about the product.
    env -u GOFLAGS GOWORK=off CGO_ENABLED=0 nice go build -trimpath -o "$binary.new" "$package" >&2
    mv "$binary.new" "$binary"
  fi
fi
echo "$binary"
