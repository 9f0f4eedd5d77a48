# `make` lists the targets: the comment behind each is its help.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GO ?= go
# No C compiler is needed, and binaries run on any Linux. For the race detector: make test CGO_ENABLED=1 TEST_FLAGS=-race
export CGO_ENABLED ?= 0

# Tests: flags and packages of `go test`. The whole suite is meant to stay below five minutes on two cores.
TEST_FLAGS ?=
TEST_PACKAGES ?= ./...
# If set, the stream of `go test -json` goes to the first and the numbers of passed, failed and skipped tests to the second.
TEST_JSON ?=
TEST_COUNTS ?=
# How long each fuzz target runs.
FUZZ_TIME ?= 30s
# How long each load of make soak lasts at least.
SOAK_TIME ?= 1m
BENCH_FLAGS ?=
# Conformance: flags of the suite (-run-test NAME, -debug, ...), and of `go test` (-run 'TestConformance/HTTPRoute', -v).
CONFORMANCE_FLAGS ?=
CONFORMANCE_TEST_FLAGS ?=
# If set, the suite runs with its own timeouts and writes its report.
CONFORMANCE_REPORT ?=
# The image: its name, its tag, which is the version that the program tells, and what builds it.
IMAGE ?= ghcr.io/sluice-proxy/sluice
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
CONTAINER_TOOL ?= docker

# need_go stops with advice where the go command is missing; where it is too old it says so itself.
need_go = command -v $(GO) >/dev/null || { \
  echo "Go is missing. Install Go $$(sed -n 's/^go //p' go.mod) or later: from https://go.dev/doc/install, or the package" >&2; \
  echo "golang of your distribution if it is new enough ('apt-cache policy golang-go'), and put it on PATH." >&2; exit 2; }

# haproxies exports the paths of both HAProxy branches for tests. Those that are set already are kept.
haproxies = \
  export SLUICE_HAPROXY_32="$${SLUICE_HAPROXY_32:-$$(tests/tools/haproxy.sh path 3.2)}"; \
  export SLUICE_HAPROXY_34="$${SLUICE_HAPROXY_34:-$$(tests/tools/haproxy.sh path 3.4)}"

.PHONY: help build run test lint generate check golden manifests image e2e traffic soak conformance bench bench-cluster fuzz tools clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build all programs into bin/
	@$(need_go)
	@mkdir -p bin
	$(GO) build -trimpath -o bin/ ./cmd/...

run: build ## run sluice on examples/shop with a HAProxy in front of toy backends (Ctrl-C stops it all)
	@./examples/run.sh

# The tests of what is deployed are a module of their own. Those of tests/traffic need root and measure time, so they run
# for themselves: make traffic.
test: ## vet and test everything, with both branches of HAProxy
	@$(need_go)
	@$(haproxies); \
	vet=0; $(GO) vet ./... || vet=$$?; \
	tests() { \
	  local code=0; \
	  local packages="$(TEST_PACKAGES)"; \
	  if [[ "$$packages" == ./... ]]; then packages="$$($(GO) list ./... | grep -v '/tests/traffic$$')"; fi; \
	  $(GO) test "$$@" $(TEST_FLAGS) $$packages || code=$$?; \
	  if [[ "$(TEST_PACKAGES)" == ./... ]]; then (cd tests/deploy && $(GO) test "$$@" $(TEST_FLAGS) ./...) || code=$$?; fi; \
	  return $$code; \
	}; \
	if [[ -n "$(TEST_JSON)" ]]; then \
	  tests -json 2>&1 | $(GO) run ./tests/testjson -save "$(TEST_JSON)" -counts "$(TEST_COUNTS)"; \
	else \
	  tests; \
	fi; \
	exit $$vet

lint: ## look for what the conventions forbid
	@$(need_go)
	@lint="$$(tests/tools/gotool.sh golangci-lint)"; "$$lint" run ./...; \
	for module in tests/deploy tests/kube tests/conformance; do (cd "$$module" && "$$lint" run --build-tags bench ./...); done

generate: ## write the reference pages in docs/ anew
	@$(need_go)
	$(GO) generate ./...

check: ## what CI runs: lint, generated files are current, test
	@$(need_go)
	@tests/tools/check.sh

golden: ## write what golden cases expect, and the pages, anew; look at the diff before you commit it
	@$(need_go)
	@$(haproxies); \
	packages=$$(grep -rlE --include='*_test.go' 'flag\.Bool(Var)?\(.*"update"' cmd pkg tests | xargs -r -n 1 dirname | sort -u); \
	[[ -n "$$packages" ]] || { echo "no test has an -update flag" >&2; exit 2; }; \
	for package in $$packages; do (cd "$$package" && $(GO) test . -update); done

manifests: ## write what the Helm chart gives anew: deploy/manifests, golden files, the table of values
	@$(need_go)
	@cd tests/deploy && $(GO) test . -update

image: ## build the container image (IMAGE=..., VERSION=..., CONTAINER_TOOL=docker)
	@command -v $(CONTAINER_TOOL) >/dev/null || { echo "$(CONTAINER_TOOL) is missing: install Docker, or name another tool with CONTAINER_TOOL" >&2; exit 2; }
	$(CONTAINER_TOOL) build -f rootfs/Dockerfile -t "$(IMAGE):$(VERSION)" --build-arg "VERSION=$(VERSION)" .

e2e: ## test with a real Kubernetes control plane and pods (as root; builds it once, 12 to 22 CPU-minutes)
	@$(need_go)
	@tests/tools/controlplane.sh path >/dev/null
	@cd tests/kube && $(GO) vet ./...
	@$(haproxies); cd tests/kube && $(GO) test -count=1 -timeout 30m $(TEST_FLAGS) ./...

traffic: ## test that no request is lost while pods come and go and HAProxy reloads (as root, a few minutes)
	@$(need_go)
	@$(haproxies); $(GO) test -count=1 -timeout 10m $(TEST_FLAGS) ./tests/traffic

soak: ## the same in full size, each load for SOAK_TIME (default 1m) at least (as root)
	@$(need_go)
	@$(haproxies); SOAK_TIME=$(SOAK_TIME) $(GO) test -count=1 -timeout 0 -v $(TEST_FLAGS) ./tests/traffic

conformance: ## run the Gateway API's conformance suite (as root; CONFORMANCE_FLAGS=..., CONFORMANCE_REPORT=1 writes docs/conformance)
	@$(need_go)
	@tests/tools/controlplane.sh path >/dev/null
	@cd tests/conformance && $(GO) vet ./...
	@$(haproxies); flags=(); \
	[[ -z "$(CONFORMANCE_REPORT)" ]] || flags=(-report=docs/conformance/gateway-api-v1.6.3.yaml -sluice-version="$(VERSION)"); \
	cd tests/conformance && $(GO) test -count=1 -timeout 90m -parallel 4 $(CONFORMANCE_TEST_FLAGS) . -args "$${flags[@]}" $(CONFORMANCE_FLAGS)

bench: ## measure conversion, rendering and each kind of change (BENCH_FLAGS=...)
	@$(need_go)
	@$(haproxies); $(GO) run ./tests/bench $(BENCH_FLAGS)

bench-cluster: ## measure with a real control plane what a write takes until traffic shows it (as root; BENCH_FLAGS=...)
	@$(need_go)
	@tests/tools/controlplane.sh path >/dev/null
	@$(haproxies); cd tests/kube && $(GO) test -tags bench -count=1 -timeout 60m -v ./bench -args $(BENCH_FLAGS)

fuzz: ## run each fuzz target for FUZZ_TIME (default 30s)
	@$(need_go)
	@grep -rnoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' cmd pkg tests | \
	while IFS=: read -r file _ func; do \
	  $(GO) test "./$$(dirname "$$file")" -run '^$$' -fuzz "^$${func#func }\$$" -fuzztime $(FUZZ_TIME) </dev/null; \
	done

tools: ## install HAProxy 3.2 and 3.4 below .tools/ and build the linter
	@$(need_go)
	@tests/tools/haproxy.sh install all
	@tests/tools/gotool.sh golangci-lint

clean: ## remove what was built and run here (not the tools' cache outside the clone)
	rm -rf bin .run .tools coverage.* *.out *.prof *.test.json
