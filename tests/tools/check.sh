#!/usr/bin/env bash
# Runs everything that must hold before a change goes in, to the end even if a part fails, and sums up.
# `make check` runs it, and so does CI.
#
# $CHECK_SUMMARY, if set, is a file that gets the closing line, "N passed, N failed".

set -uo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
make=${MAKE:-make}
passed=0
failed=0
skipped=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# part runs one part of the check, which counts as one test.
part() {
  echo "=== $1"
  shift
  if "$@"; then passed=$((passed + 1)); else
    failed=$((failed + 1))
    echo "=== failed: $*"
  fi
}

# contents lists every file that git knows or would add, with a digest of what is in it. Files that are deleted but not
# committed give the same message before and after.
contents() { git ls-files --cached --others --exclude-standard -z | sort -z | xargs -0 sha256sum 2>&1; }

# generated_is_current says whether `make generate` changes nothing. It compares with the files as they stand, not with
# the last commit, so that it can be run before a commit, too.
generated_is_current() {
  contents >"$work/before"
  "$make" --no-print-directory generate || return 1
  contents >"$work/after"
  if ! diff "$work/before" "$work/after" >"$work/stale"; then
    echo "these generated files were stale; 'make generate' has written them anew, commit them:"
    awk '/^>/ { print "  " $3 }' "$work/stale"
    return 1
  fi
}

part "lint" "$make" --no-print-directory lint
part "generated files are current" generated_is_current

echo "=== test"
"$make" --no-print-directory test TEST_JSON="$work/tests.json" TEST_COUNTS="$work/counts"
code=$?
if [[ -s $work/counts ]]; then
  read -r p f s <"$work/counts"
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
  # Something around the tests failed (go vet, the tools): it must not be lost behind good counts.
  [[ $code -eq 0 || $f -gt 0 ]] || failed=$((failed + 1))
else
  failed=$((failed + 1))
fi

part "traffic: no request is lost" "$make" --no-print-directory traffic
part "e2e: a real control plane" "$make" --no-print-directory e2e
part "conformance: the Gateway API's suite" "$make" --no-print-directory conformance

line="$passed passed, $failed failed"
[[ $skipped -eq 0 ]] || line+=", $skipped skipped"
[[ -z ${CHECK_SUMMARY:-} ]] || echo "$line" >"$CHECK_SUMMARY"
echo "$line"
[[ $failed -eq 0 ]]
