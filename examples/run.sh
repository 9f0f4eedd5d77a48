#!/usr/bin/env bash
# Runs sluice on a folder of manifests, with an HAProxy of its own in front of toy backends: `make run`.
#
#   examples/run.sh [FOLDER]     default: examples/shop
#
# sluice-echo stands in for the pods of the folder's EndpointSlices and answers with what it was asked. Everything that
# is written goes to .run/. Ctrl-C stops all of it. Edit a manifest while it runs and watch what happens.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=${1:-examples/shop}

[[ -d $folder ]] || { echo "run.sh: there is no folder $folder; usage: examples/run.sh [FOLDER OF MANIFESTS]" >&2; exit 2; }
for program in sluice sluice-echo; do
  [[ -x bin/$program ]] || { echo "run.sh: there is no bin/$program; 'make run' builds it and runs this" >&2; exit 2; }
done
haproxy=$(tests/tools/haproxy.sh find 3.4)

mkdir -p .run
bin/sluice-echo --pods-of "$folder" &
echo=$!
# shellcheck disable=SC2064  # the pid of now
trap "kill $echo 2>/dev/null || true" EXIT
# sluice gets Ctrl-C from the terminal, too; it stops HAProxy and ends, and this script goes on to its trap.
trap : INT TERM

# A pod whose address is in use ends sluice-echo at once, and requests would be answered 503.
sleep 0.3
kill -0 $echo 2>/dev/null || { echo "run.sh: the toy backends did not start (see above); free their addresses and try again" >&2; exit 2; }

cat <<TEXT

The examples will be served in a moment. Then try, from another terminal:
  curl -i  --resolve shop.example:8080:127.0.0.1         http://shop.example:8080/
  curl -ik --resolve shop.example:8443:127.0.0.1         https://shop.example:8443/cart/items
  curl -i  --resolve api.shop.example:8080:127.0.0.1     http://api.shop.example:8080/cart/items -H 'Origin: https://shop.example'
  curl -i  --resolve canary.shop.example:8080:127.0.0.1  http://canary.shop.example:8080/ -u canary:chirp
  curl -s  http://127.0.0.1:9090/api/v1/state
The configuration that HAProxy runs on is .run/config/current. Ctrl-C stops everything.

TEXT
bin/sluice run --source "$folder" --allow-local-endpoints --config-dir "$PWD/.run/config" --state-dir "$PWD/.run/state" --run-dir "$PWD/.run/run" \
  --http-address 127.0.0.1:8080 --https-address 127.0.0.1:8443 --admin-address 127.0.0.1:9090 --haproxy "$haproxy"
