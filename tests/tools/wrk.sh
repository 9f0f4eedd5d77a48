#!/usr/bin/env bash
# Prints the path of wrk, the HTTP load generator that `make bench` uses: $SLUICE_WRK, then the one on PATH, then one
# that is unpacked below .tools/ from Debian's package, in the same way as haproxy.sh does it. Nothing is installed into
# the system and root is not needed.
#
#   wrk.sh path

set -euo pipefail

# shellcheck source=tests/tools/haproxy.sh
source "$(dirname "${BASH_SOURCE[0]}")/haproxy.sh"

say() { printf 'wrk.sh: %s\n' "$*" >&2; }

# build_wrk unpacks the package with its libraries and makes the program use those.
build_wrk() {
  local tree=$1 binary="$1/usr/bin/wrk" new ld
  apt_ready
  say "installing wrk into $tree"
  new="$work/wrk"
  fetch_tree wrk "$new"
  patchelf_ready
  rm -rf "$tree"
  mkdir -p "$(dirname "$tree")"
  cp -a "$new" "$tree"
  ld=$(loader "$tree")
  "${patchelf[@]}" --set-interpreter "$ld" --force-rpath --set-rpath "$(library_dirs "$tree")" "$binary"
  if "$ld" --list "$binary" | grep 'not found' >&2; then
    die "wrk lacks the libraries above" "install the package wrk yourself, or set SLUICE_WRK to the path of a wrk"
  fi
  printf '%s %s\n' "$recipe" "$tree" >"$tree/.stamp"
}

wrk_intact() { [[ -x $1/usr/bin/wrk && "$(cat "$1/.stamp" 2>/dev/null)" == "$recipe $1" ]]; }

wrk_path() {
  local tree="$cache/wrk"
  if [[ -n ${SLUICE_WRK:-} ]]; then
    echo "$SLUICE_WRK"
    return
  fi
  command -v wrk && return
  if ! wrk_intact "$tree"; then
    mkdir -p "$cache"
    # One installer at a time: clones share the cache.
    exec 9>"$cache/.lock"
    flock 9
    wrk_intact "$tree" || build_wrk "$tree"
    exec 9>&-
  fi
  mkdir -p "$tools/bin"
  link "$tree" "$tools/wrk"
  link ../wrk/usr/bin/wrk "$tools/bin/wrk"
  echo "$tools/bin/wrk"
}

case ${1:-path} in
  path) wrk_path ;;
  *) die "unknown command '$1'" "try '$0 path'" ;;
esac
