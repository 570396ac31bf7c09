# A list of commands; what they do is in Rust (test/src).
CARGO ?= cargo

.PHONY: demo test bench lint manifests requirements

demo: ## an operator installed and upgraded on a local control plane (DEMO_EXIT=1: end then)
	@$(CARGO) build --quiet --locked -p operator-controller -p olm-test --bins
	@$(CARGO) run --quiet --locked -p olm-test --bin olm-demo

test: ## everything
	$(CARGO) build --locked --workspace --bins
	$(CARGO) test --locked --workspace

bench: ## one line a figure: BENCH <name> <value> <unit>
	$(CARGO) build --quiet --locked --release -p operator-controller -p catalogd -p olm-cli -p olm-test --bins
	$(CARGO) run --quiet --locked --release -p olm-test --bin olm-bench

lint: ## format, clippy, generated files
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

manifests: ## writes the generated part of config/
	$(CARGO) run --quiet --locked -p olm-config-gen

requirements: ## the requirements that no test shows yet
	@$(CARGO) run --quiet --locked -p olm-test --bin olm-requirements
