# A list of commands; what they do is in Rust (test/kit, test/tools).
CARGO ?= cargo
TARGET = $${CARGO_TARGET_DIR:-target}

.PHONY: help demo test test-otel scenarios test-faults test-operators test-classic-operators test-takeover e2e previous bench fuzz fuzz-check lint manifests kubernetes-types grpc install-manifest image release requirements check-rust check-tools

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: check-rust ## an operator installed and upgraded on a local control plane, or on KUBECONFIG's (DEMO_EXIT=1: end then)
	@$(CARGO) build --locked -p olm-test-programs --bin olm-demo-build
	@$(TARGET)/debug/olm-demo-build
	@OLM_TEST_BUILT=1 $(TARGET)/debug/olm-demo

# The requests of the program's ServiceAccount in the suites, which are compared with its table of permissions.
PERMISSIONS_USED ?= $(CURDIR)/target/permissions-used

# How many cases the compatibility tests compared, and the tests that were skipped because data are absent.
TEST_COUNTS ?= $(CURDIR)/target/test-counts

# Tests wait for clusters most of their time, so more of them than there are cores run at a time.
TEST_THREADS ?= $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN) + 4 )))

test: check-tools ## everything
	$(CARGO) build --locked --workspace --bins
	@rm -rf $(PERMISSIONS_USED) $(TEST_COUNTS) && mkdir -p $(dir $(PERMISSIONS_USED) $(TEST_COUNTS))
	OLM_TEST_BUILT=1 OLM_TEST_PERMISSIONS=$(PERMISSIONS_USED) OLM_TEST_COUNTS=$(TEST_COUNTS) RUST_TEST_THREADS=$(TEST_THREADS) \
		$(CARGO) test --locked --workspace --no-fail-fast
	$(TARGET)/debug/olm-permissions-used $(PERMISSIONS_USED)
	@sort $(TEST_COUNTS)
	@echo "$$(grep -c '^skipped ' $(TEST_COUNTS)) tests were skipped, or parts of them."

test-otel: check-tools ## traces, which only builds with the feature otel have
	$(CARGO) test --locked -p olm-runtime --features otel traces

scenarios: check-tools ## upstream's scenarios in our words, with counts (SCENARIOS=<regular expression>: some of them)
	$(CARGO) build --locked --workspace --bins
	OLM_TEST_BUILT=1 $(CARGO) test --locked -p olm-test --test scenarios -- $(SCENARIOS)

test-faults: check-tools ## everything that can go wrong at every write, and random changes; takes the better part of an hour
	$(CARGO) build --locked -p operator-controller -p olm-classic -p olm-test --bins
	OLM_TEST_LONG=1 OLM_TEST_BUILT=1 $(CARGO) test --locked -p olm-test --test faults -- --nocapture
	OLM_TEST_LONG=1 OLM_TEST_BUILT=1 $(CARGO) test --locked -p olm-test --test operator -- returning:: --nocapture

test-operators: check-tools ## the newest versions of all real operators at hand on a bare cluster
	$(CARGO) build --locked -p operator-controller -p olm-classic -p olm-cli -p olm-test --bins
	OLM_TEST_LONG=1 OLM_TEST_BUILT=1 $(CARGO) test --locked -p olm-test --test operators -- --nocapture

test-classic-operators: check-tools ## the real operators that upstream's OLM Classic installs, through Subscriptions
	$(CARGO) build --locked -p olm-classic -p olm-test --bins
	OLM_TEST_LONG=1 OLM_TEST_BUILT=1 $(CARGO) test --locked -p olm-test --test operators -- classic:: --nocapture

test-takeover: check-tools ## clusters on which upstream installed operators, taken over
	$(CARGO) build --locked -p operator-controller -p olm-test --bins
	OLM_TEST_LONG=1 OLM_TEST_BUILT=1 $(CARGO) test --locked -p olm-test --test takeover -- --nocapture --test-threads=1

e2e: check-tools ## on a cluster with nodes: KUBECONFIG, else kind in docker or podman (OLM_E2E_NODE=own: without an engine, root on Debian)
	@$(CARGO) build --quiet --locked --workspace --bins
	@rm -rf $(PERMISSIONS_USED)-e2e
	@OLM_TEST_PERMISSIONS=$(PERMISSIONS_USED)-e2e $(TARGET)/debug/olm-e2e
	@$(TARGET)/debug/olm-permissions-used --some $(PERMISSIONS_USED)-e2e

PREVIOUS ?= HEAD~1
PREVIOUS_FOLDER = $(CURDIR)/target/previous

previous: check-tools ## images and install.yaml of the commit PREVIOUS, from which make e2e upgrades
	@rm -rf $(PREVIOUS_FOLDER) && mkdir -p $(PREVIOUS_FOLDER)/tree && git archive $(PREVIOUS) | tar -x -C $(PREVIOUS_FOLDER)/tree
	@$(MAKE) --no-print-directory -C $(PREVIOUS_FOLDER)/tree image PROGRAMS=operator-controller \
		IMAGE_PREFIX=localhost/previous IMAGES=$(PREVIOUS_FOLDER)
	@cp $(PREVIOUS_FOLDER)/tree/config/install.yaml $(PREVIOUS_FOLDER) && rm -rf $(PREVIOUS_FOLDER)/tree

bench: check-tools ## of the programs as they are released, one line a figure: BENCH <name> <value> <unit>
	@$(STATIC) $(CARGO) build --quiet --locked --release --target $(HOST) \
		-p operator-controller -p catalogd -p olm-classic -p olm-cli -p olm-test \
		--bin operator-controller --bin catalogd --bin olm-classic --bin olm --bin olm-bench --bin olm-test-supervisor
	@OLM_TEST_BUILT=1 $(TARGET)/$(HOST)/release/olm-bench

FUZZ_SECONDS ?= 60

fuzz: check-tools ## readers of foreign input, fed with hostile inputs and mutated corpora for FUZZ_SECONDS each, and their cost
	@$(CARGO) run --quiet --locked -p olm-test --bin olm-fuzz -- --seconds $(FUZZ_SECONDS)

fuzz-check: check-tools ## compiles the entry points for cargo-fuzz (to run them: cargo +nightly fuzz run --fuzz-dir test/tools/fuzz NAME)
	@cp Cargo.lock test/tools/fuzz/Cargo.lock
	$(CARGO) check --manifest-path test/tools/fuzz/Cargo.toml --target-dir $(TARGET)/fuzz

lint: ## format, clippy, generated files
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

manifests: ## writes the generated part of config/
	$(CARGO) run --quiet --locked -p olm-config-gen

# Where the images are pushed to; kubelets find them under this name.
IMAGE_PREFIX ?= localhost/olmv1
PROGRAMS ?= operator-controller catalogd olm-classic olm
HOST = $(shell rustc -vV | sed -n 's/^host: //p')
IMAGE_TARGET ?= $(HOST)
IMAGE_BINARIES = $(TARGET)/$(IMAGE_TARGET)/release
IMAGES ?= target/images

# Static programs with glibc, and no folder of this machine in them; their relocations are packed, which glibc 2.36 and newer
# understand. Their target is named, so that nothing of this concerns build scripts and macros. The packer is built with
# them, as long as they can run here: a build of its own would compile most of it a second time.
FOLDERS = $(CURDIR)=/src $${CARGO_HOME:-$$HOME/.cargo}=/cargo $${CARGO_TARGET_DIR:-$(CURDIR)/target}=/target
STATIC = RUSTFLAGS="-C target-feature=+crt-static -C link-arg=-Wl,-z,pack-relative-relocs $(FOLDERS:%=--remap-path-prefix=%)" \
	CFLAGS="$(FOLDERS:%=-ffile-prefix-map=%)" SOURCE_DATE_EPOCH=0
PACK = $(if $(filter $(HOST),$(IMAGE_TARGET)),$(IMAGE_BINARIES)/olm-image-build,$(CARGO) run --locked --release -p olm-image-build --)

# The commit that olm version prints.
COMMIT = $(shell git describe --always --abbrev=40 --dirty --exclude='*' 2>/dev/null)

image: check-rust ## one OCI archive for each program, for ctr, podman, kind and docker
	@OLM_COMMIT=$(COMMIT) $(STATIC) $(CARGO) build --locked --release --target $(IMAGE_TARGET) \
		-p operator-controller -p catalogd -p olm-classic -p olm-cli -p olm-sample-operator -p olm-image-build \
		--bin olm-image-build $(PROGRAMS:%=--bin %)
	@$(PACK) --binaries $(IMAGE_BINARIES) --out $(IMAGES) --prefix $(IMAGE_PREFIX) $(PROGRAMS)

RELEASE_PROFILE ?= release
# The version of cargo-cyclonedx, which writes the bills of materials.
CYCLONEDX = 0.5.9
# --tag, --repository and --builder of olm-release.
RELEASE_FLAGS ?=

# olm-release is built with the programs, as the packer of the images is, and they know the commit that it gives them: with
# another one it would link olm a second time. It builds those of other platforms itself.
release: check-rust ## programs, images, chart, manifests, bills of materials, provenance and checksums, in target/dist
	@$(NEED); need cargo-cyclonedx "cargo install --locked cargo-cyclonedx@$(CYCLONEDX)"; $$ok
	@OLM_COMMIT=$$(git rev-parse HEAD) $(STATIC) $(CARGO) build --locked --target $(HOST) --profile $(RELEASE_PROFILE) \
		-p operator-controller -p catalogd -p olm-classic -p olm-cli -p olm-release --bin olm-release $(PROGRAMS:%=--bin %)
	@$(STATIC) $(TARGET)/$(HOST)/$(RELEASE_PROFILE:dev=debug)/olm-release --out target/dist \
		--profile $(RELEASE_PROFILE) --prefix $(IMAGE_PREFIX) $(RELEASE_FLAGS)

grpc: ## writes the messages of the registry API from lib/infra/registry/proto
	$(CARGO) run --quiet --locked -p olm-grpc-gen

kubernetes-types: ## writes the table of Kubernetes' types, of the version in test/kit/controlplane/go.mod
	$(CARGO) run --quiet --locked -p olm-kubernetes-types

install-manifest: ## install.yaml with images of IMAGE_PREFIX, to standard output
	@sed 's#localhost/olmv1/#$(IMAGE_PREFIX)/#' config/install.yaml

requirements: ## checks test/requirements.md: every requirement has a test that exists; prints counts
	@$(CARGO) test --quiet --locked -p olm-test --test workspace -- requirements:: --nocapture

NEED = ok=true; need() { command -v "$$1" >/dev/null || { echo "$$1 is missing: $$2" >&2; ok=false; }; }

check-rust: # names what is missing before minutes are spent on building
	@$(NEED); \
	need $(CARGO) "install Rust with rustup (https://rustup.rs)"; \
	need cc "install a C compiler, for instance gcc or clang"; \
	$$ok

# What Go builds is built once, after which nothing needs it.
check-tools: check-rust
	@$(NEED); \
	[ -n "$$KUBECONFIG" ] || [ -d "$${XDG_CACHE_HOME:-$$HOME/.cache}/olm/controlplane" ] || \
	need go "install Go 1.26 or later (https://go.dev/dl), or set KUBECONFIG to a cluster for the tests"; \
	$$ok
