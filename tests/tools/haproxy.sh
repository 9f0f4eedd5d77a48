#!/usr/bin/env bash
# Finds or installs the HAProxy binaries that sluice is built for and tested against.
#
#   haproxy.sh install [3.2|3.4|all]   unpacks them below .tools/ (default: all); does nothing when they are there
#   haproxy.sh path 3.2|3.4            prints the path of exactly that branch's binary, installing it if needed
#   haproxy.sh find [3.2|3.4]          prints any binary good enough to run sluice with: $SLUICE_HAPROXY, then a haproxy
#                                      of 3.2 or later on PATH, then the one in .tools (default 3.4), installed if needed
#
# Results go to stdout, progress and errors to stderr. Nothing is installed into the system and root is not needed.
#
# Where the binaries come from: Debian's own packages of the newer suites, fetched by apt from the mirror that this
# machine's apt is set up with and verified with Debian's archive keys. The machine's release is older than these
# packages, so each tree also holds the libraries they were linked with, down to libc and the dynamic loader, and the
# binary is patched to use those: a plain executable, not a wrapper, because HAProxy's master executes itself again on
# every reload.
#
# Settings (environment):
#   SLUICE_TOOLS_CACHE     where the unpacked trees are kept for all clones (default ~/.cache/sluice-tools)
#   SLUICE_HAPROXY         a binary for `find` to prefer
#   SLUICE_DEBIAN_MIRROR   the Debian mirror to use where the apt configuration names none (a machine that is not Debian)

set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
tools="$root/.tools"
cache="${SLUICE_TOOLS_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/sluice-tools}"

# Which suites hold which branch changes with time, so all are listed and the newest version of the branch is taken.
suites=(forky sid experimental)
branches=(3.2 3.4)

# Bumped when the way a tree is made changes: older trees are then made again.
recipe=1

say() { printf 'haproxy.sh: %s\n' "$*" >&2; }

# die says what is wrong and, in the further arguments, what to do about it.
die() {
  say "error: $1"
  shift
  for line in "$@"; do say "  $line"; done
  exit 2
}

known_branch() {
  local branch
  for branch in "${branches[@]}"; do [[ $branch == "$1" ]] && return 0; done
  die "unknown HAProxy branch '$1'" "known ones: ${branches[*]}"
}

# --- a private apt -------------------------------------------------------------------------------------------------

# mirror prints the URL of the Debian mirror in this machine's apt configuration (deb822 or one line per source). It is
# the one that serves a suite of Debian proper; third-party repositories and the security archive have other suites.
mirror() {
  if [[ -n ${SLUICE_DEBIAN_MIRROR:-} ]]; then
    echo "$SLUICE_DEBIAN_MIRROR"
    return
  fi
  local files=() file
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
    [[ -r $file ]] && files+=("$file")
  done
  [[ ${#files[@]} -gt 0 ]] || return 0
  # An awk that reads to the end: leaving early would break the pipe of a long configuration.
  awk '
    function offer(uri, suite) {
      if (found == "" && suite ~ /^(bookworm|trixie|forky|duke|sid|stable|testing|unstable)$/) found = uri
    }
    function flush_stanza(  n, list, i) {
      if (uris != "" && enabled) {
        n = split(names, list, /[ \t]+/)
        split(uris, uri, /[ \t]+/)
        for (i = 1; i <= n; i++) offer(uri[1], list[i])
      }
      uris = ""; names = ""; enabled = 1
    }
    FNR == 1 { flush_stanza() }
    /^[ \t]*#/ { next }
    /^[ \t]*$/ { flush_stanza(); next }
    /^deb[ \t]/ {
      sub(/\[[^]]*\][ \t]*/, "")
      offer($2, $3)
      next
    }
    tolower($1) == "uris:"    { $1 = ""; sub(/^[ \t]+/, ""); uris = $0 }
    tolower($1) == "suites:"  { $1 = ""; sub(/^[ \t]+/, ""); names = $0 }
    tolower($1) == "enabled:" { enabled = (tolower($2) != "no") }
    BEGIN { enabled = 1 }
    END { flush_stanza(); print found }
  ' "${files[@]}"
}

# apt_ready sets up an apt of our own in $work: its own lists, cache and (empty) package status. The machine's ways to
# reach the network (proxy, certificates) are kept, everything else of its configuration is left out.
apt_ready() {
  [[ -n ${work:-} ]] && return
  local tool
  for tool in apt-get apt-config dpkg-deb sha256sum; do
    command -v "$tool" >/dev/null || die "'$tool' is missing: HAProxy can be installed this way on Debian and its kin only" \
      "install HAProxy 3.2 or later yourself and set SLUICE_HAPROXY=/path/to/haproxy (for 'make run')," \
      "or SLUICE_HAPROXY_32 and SLUICE_HAPROXY_34 (for 'make test')"
  done
  local url
  url=$(mirror)
  [[ -n $url ]] || die "the apt configuration of this machine names no Debian mirror" \
    "set SLUICE_DEBIAN_MIRROR to the URL of one, or SLUICE_HAPROXY to an installed HAProxy of 3.2 or later"

  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  mkdir -p "$work"/{lists/partial,cache/archives/partial,debs}
  : >"$work/status"
  apt-config dump | grep '^Acquire' | grep -v -e IndexTargets -e '^Acquire::Languages' >"$work/apt.conf"
  cat >>"$work/apt.conf" <<CONF
Acquire::Languages "none";
Acquire::AllowInsecureRepositories "false";
APT::Get::AllowUnauthenticated "false";
APT::Sandbox::User "";
Dir::Etc::parts "/dev/null";
Dir::Etc::main "/dev/null";
Dir::Etc::sourcelist "$work/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State "$work";
Dir::State::lists "$work/lists";
Dir::State::status "$work/status";
Dir::Cache "$work/cache";
CONF
  say "reading the package lists of ${suites[*]} from $url"
  if ! update_lists "$url" "$(keyring)" "${suites[@]}"; then
    say "trying again with newer archive keys"
    newer_keyring "$url"
    update_lists "$url" "$newer_keys" "${suites[@]}" || say "warning: not every suite could be read; going on with the others"
  fi
}

# newer_keyring sets newer_keys to the keyring package's current content. An older release need not know the keys of a
# newer suite, but the newer keys come as an update of the release itself, which the keys of this machine verify.
newer_keyring() {
  local url=$1 release tree="$work/keyring"
  # shellcheck source=/dev/null
  release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  newer_keys=''
  if update_lists "$url" "$(keyring)" "${release:-stable}" &&
    (cd "$work/debs" && APT_CONFIG="$work/apt.conf" apt-get -q download debian-archive-keyring) >&2; then
    dpkg-deb -x "$work"/debs/debian-archive-keyring_*.deb "$tree"
    newer_keys=$(find "$tree" -path '*/keyrings/debian-archive-keyring.*' | sort | head -n 1)
  fi
  [[ -n $newer_keys ]] || die "the package lists could not be read, or not verified" \
    "look at the messages above; if a key is missing: 'apt-get update && apt-get install debian-archive-keyring'"
}

# keyring prints the file of Debian's archive keys on this machine.
keyring() {
  local file
  for file in /usr/share/keyrings/debian-archive-keyring.{gpg,pgp}; do
    [[ -r $file ]] && { echo "$file"; return; }
  done
  echo /usr/share/keyrings/debian-archive-keyring.gpg
}

# update_lists reads the package lists of some suites of a mirror, verified with a keyring; fails if any can't be.
update_lists() {
  local url=$1 keys=$2 suite
  shift 2
  for suite in "$@"; do printf 'deb [signed-by=%s] %s %s main\n' "$keys" "$url" "$suite"; done >"$work/sources.list"
  APT_CONFIG="$work/apt.conf" apt-get -q -o APT::Update::Error-Mode=any update >&2
}

# newest prints the newest version of a package whose version starts with the given text.
newest() {
  APT_CONFIG="$work/apt.conf" apt-cache madison "$1" | awk -F'|' -v want="$2" '
    { gsub(/ /, "", $2); if (index($2, want) == 1 && !seen[$2]++) print $2 }' | sort -V | tail -n 1
}

# depends_on prints the libraries that a package (or package=version) names. Everything else in a Depends line serves an
# installed system (users, init scripts), not the program.
depends_on() {
  APT_CONFIG="$work/apt.conf" apt-cache depends --no-recommends --no-suggests --no-conflicts --no-breaks \
    --no-replaces --no-enhances "$1" | awk '$1 ~ /^\|?(Pre)?Depends:$/ && $2 ~ /^(lib|zlib1g)/ { print $2 }'
}

# fetch_tree unpacks a package and, transitively, the libraries it needs into a folder.
fetch_tree() {
  local package=$1 into=$2 queue=("$1") all=("$1") next name
  while [[ ${#queue[@]} -gt 0 ]]; do
    next=${queue[0]}
    queue=("${queue[@]:1}")
    while read -r name; do
      [[ -n $name && " ${all[*]} " != *" $name "* ]] || continue
      all+=("$name")
      queue+=("$name")
    done < <(depends_on "$next")
  done
  rm -rf "$work/debs"
  mkdir -p "$work/debs" "$into"
  say "downloading ${all[*]}"
  (cd "$work/debs" && APT_CONFIG="$work/apt.conf" apt-get -q download "${all[@]}") >&2 ||
    die "the packages of $package could not be downloaded" "look at the messages above; the command can be run again"
  local deb
  for deb in "$work"/debs/*.deb; do dpkg-deb -x "$deb" "$into"; done
}

# --- a tree --------------------------------------------------------------------------------------------------------

# loader prints the dynamic loader of an unpacked tree; library_dirs the folders of its libraries, joined by colons.
loader() { find "$1" -name 'ld-linux*.so.*' -print 2>/dev/null | sort | head -n 1; }
library_dirs() { find "$1" -name '*.so.*' -printf '%h\n' | grep -v -e /gconv -e /engines- -e /ossl-modules | sort -u | paste -sd: -; }

# patchelf_ready sets the array patchelf to the command to use: the machine's, or one unpacked beside our packages.
patchelf_ready() {
  [[ -n ${patchelf:-} ]] && return
  if command -v patchelf >/dev/null; then
    patchelf=(patchelf)
    return
  fi
  fetch_tree patchelf "$work/patchelf"
  patchelf=("$(loader "$work/patchelf")" --library-path "$(library_dirs "$work/patchelf")" "$work/patchelf/usr/bin/patchelf")
}

# intact says whether a tree is complete and stands where it was patched for (the loader's path is absolute).
intact() {
  local tree=$1 binary="$1/usr/sbin/haproxy" stamp="$1/.stamp"
  [[ -r $stamp && -x $binary ]] || return 1
  local made_by='' version='' sum='' place=''
  # shellcheck disable=SC2034  # version is for people who look at the file
  read -r made_by version sum place <"$stamp"
  [[ $made_by == "$recipe" && $place == "$tree" ]] && echo "$sum  $binary" | sha256sum --check --status
}

build_tree() {
  local branch=$1 tree=$2 version new binary ld
  apt_ready
  version=$(newest haproxy "$branch.")
  [[ -n $version ]] || die "none of ${suites[*]} has HAProxy $branch" \
    "install it yourself and set SLUICE_HAPROXY_${branch/./} to its path, or SLUICE_HAPROXY for 'make run'"
  say "installing HAProxy $version into $tree"
  new="$work/haproxy-$branch"
  fetch_tree "haproxy=$version" "$new"
  patchelf_ready

  # Moved first and patched then, so that the paths written into the binary are those of the final place. The stamp
  # comes last: a tree without it is made again.
  rm -rf "$tree"
  mkdir -p "$(dirname "$tree")"
  cp -a "$new" "$tree"
  rm -rf "$new"
  binary="$tree/usr/sbin/haproxy"
  ld=$(loader "$tree")
  [[ -n $ld ]] || die "the packages of HAProxy $branch hold no dynamic loader" "report this: the recipe in $0 needs work"
  # An rpath (not a runpath) counts for the libraries of libraries, too. It is relative, the loader can't be.
  "${patchelf[@]}" --set-interpreter "$ld" --force-rpath --set-rpath "$(library_dirs "$tree")" "$binary"
  if "$ld" --list "$binary" | grep -q 'not found'; then
    "$ld" --list "$binary" | grep 'not found' >&2
    die "HAProxy $branch lacks the libraries above" "report this: the recipe in $0 needs work"
  fi
  "$binary" -v >/dev/null || die "HAProxy $branch does not start on this machine" "try '$binary -vv'"
  printf '%s %s %s %s\n' "$recipe" "$version" "$(sha256sum "$binary" | cut -d' ' -f1)" "$tree" >"$tree/.stamp"
}

# ensure makes sure that a branch is installed and linked below .tools, and prints nothing when it already was.
ensure() {
  local branch=$1 tree="$cache/haproxy-$1"
  if ! intact "$tree"; then
    mkdir -p "$cache" || die "the folder $cache can't be made" "set SLUICE_TOOLS_CACHE to a folder that can be written"
    # One installer at a time: clones share the cache.
    exec 9>"$cache/.lock"
    flock 9
    intact "$tree" || build_tree "$branch" "$tree"
    exec 9>&-
    say "HAProxy $branch is in $tree"
  fi
  mkdir -p "$tools/bin"
  link "$tree" "$tools/haproxy-$branch"
  link "../haproxy-$branch/usr/sbin/haproxy" "$tools/bin/haproxy-$branch"
}

# link makes a symlink unless it is there: making one anew removes it for a moment, under the feet of running tests.
link() { [[ "$(readlink "$2" || true)" == "$1" ]] || ln -sfn "$1" "$2"; }

# --- commands ------------------------------------------------------------------------------------------------------

# recent_enough says whether a binary is an HAProxy of 3.2 or later.
recent_enough() {
  local version
  version=$("$1" -v 2>/dev/null | sed -n 's/^HAProxy version \([0-9]*\.[0-9]*\).*/\1/p') || return 1
  [[ -n $version && $(printf '%s\n3.2\n' "$version" | sort -V | head -n 1) == 3.2 ]]
}

find_any() {
  local branch=$1 system
  if [[ -n ${SLUICE_HAPROXY:-} ]]; then
    recent_enough "$SLUICE_HAPROXY" || die "SLUICE_HAPROXY=$SLUICE_HAPROXY is no HAProxy of 3.2 or later" "correct it or unset it"
    echo "$SLUICE_HAPROXY"
    return
  fi
  system=$(command -v haproxy || true)
  if [[ -n $system ]]; then
    recent_enough "$system" && { echo "$system"; return; }
    say "$system is older than 3.2, which sluice needs; using one in .tools"
  fi
  ensure "$branch"
  echo "$tools/bin/haproxy-$branch"
}

main() {
  local command=${1:-install} branch=${2:-}
  case $command in
    install)
      [[ ${branch:-all} == all ]] || known_branch "$branch"
      for b in "${branches[@]}"; do
        if [[ ${branch:-all} == all || $branch == "$b" ]]; then
          ensure "$b"
          say "$tools/bin/haproxy-$b ($(cut -d' ' -f2 "$tools/haproxy-$b/.stamp"))"
        fi
      done
      ;;
    path)
      known_branch "$branch"
      ensure "$branch"
      echo "$tools/bin/haproxy-$branch"
      ;;
    find)
      known_branch "${branch:-3.4}"
      find_any "${branch:-3.4}"
      ;;
    -h | --help | help) sed -n '2,/^$/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" ;;
    *) die "unknown command '$command'" "try '$0 --help'" ;;
  esac
}

# Other scripts here source this one for its functions.
[[ ${BASH_SOURCE[0]} != "$0" ]] || main "$@"
