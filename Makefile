# Two commands: `make run` and `make test`. Both install what is missing and work a second time in seconds.

SHELL := /bin/bash
.DELETE_ON_ERROR:

# Runs a command with a Rust toolchain that is new enough.
WITH_RUST := packaging/with-rust
FARREACH := target/release/farreach
TOOL     := target/valgrind/farreach-amd64-linux
TEXT      = $(dir $(TOOL))farreach-text.so
GUARD     = $(dir $(TOOL))farreach-guard
PLUGIN   := target/qemu/farreach-qemu.so
DEMO     := target/demo
CC1       = $$(gcc -print-prog-name=cc1)

.PHONY: all run test test-long book man install uninstall deb accept-papers lint bench fuzz
.PHONY: deps lint-deps python-deps tool clean help python python-test python-env python-lint python-reference python-bench
.PHONY: notebooks wheel try system system-deps system-test

# Where Cargo has no work for all processors, the recorder is built.
all: deps
	@$(MAKE) --no-print-directory $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$$(nproc)) $(FARREACH) tool

help:
	@echo "make run    build, record a real compiler run, print the table"
	@echo "make try    the command in target/try, soon after an edit: few passes of the optimiser"
	@echo "make test   every test but those of the hardware, which make rtl-test runs"
	@echo "make test-long  the same with ten times the random cases, and the papers with every check"
	@echo "make accept-papers   take over changed numbers of \`farreach papers --all --small\`"
	@echo "make rtl    the structures as hardware against the simulator (installs Verilator, Yosys, OpenSTA);"
	@echo "            rtl-test does a part of it, rtl-formal proves properties, rtl-synth finds area, clock and energy in"
	@echo "            half an hour"
	@echo "make book   the book, as pages in target/book"
	@echo "make system  the recorder of whole systems, a plugin for QEMU, in target/qemu (installs QEMU 9.2 or newer);"
	@echo "            system-test boots guests of all architectures, and records them"
	@echo "make install PREFIX=/usr/local   command, recorder, presets, manual pages, completions;" \
	  "uninstall takes them away"
	@echo "make deb    a Debian package of the same, in target"
	@echo "make lint   formatting and clippy"
	@echo "make python  the Python package in target/python, and its tests; make python-test all of them"
	@echo "make wheel  a wheel for other machines, with command and recorder, in target/wheels"
	@echo "make notebooks  runs the notebooks and saves what they print"
	@echo "make bench  benchmarks, as ratios"
	@echo "make fuzz   fuzz every reader for ten minutes (needs a nightly toolchain and cargo-fuzz)"

# --- what must be there -----------------------------------------------------------------------------------------------

# A command or file, and the Debian package that has it.
NEEDS = gcc:gcc /usr/include/valgrind/pub_tool_basics.h:valgrind /usr/include/stdio.h:libc6-dev
# Where crates come from is known by its certificate.
CERTIFICATES := $(wildcard /etc/ssl/certs/*.crt /etc/pki/tls/certs/* /etc/ssl/*.pem)

find-missing = missing=""; \
  for need in $(1); do \
    command -v $${need%:*} >/dev/null || [ -e $${need%:*} ] || missing="$$missing $${need\#*:}"; \
  done

# Asks for root only if something is missing.
deps:
	@$(call find-missing,$(NEEDS)); \
	[ -n "$(CERTIFICATES)" ] || missing="$$missing ca-certificates"; \
	$(WITH_RUST) true 2>/dev/null || missing="$$missing rust"; \
	packaging/install-missing $$missing

# What `make lint` needs beside that.
lint-deps: deps
	@$(WITH_RUST) cargo fmt --version >/dev/null 2>&1 && $(WITH_RUST) cargo clippy --version >/dev/null 2>&1 || \
	  packaging/install-missing rust-lint

# The Python module is built by `make python` alone: other targets need no Python.
NO_PYTHON := --exclude farreach-py

# --- building ---------------------------------------------------------------------------------------------------------

# Cargo knows what is up to date.
.PHONY: $(FARREACH)
$(FARREACH): deps
	@echo "make: building farreach$(if $(wildcard $(FARREACH)),,; the first time this takes a few minutes)"
	@$(WITH_RUST) cargo build --release --quiet

tool: deps
	@$(MAKE) -s --no-print-directory -C capture/valgrind OUT=$(CURDIR)/target/valgrind
	@$(MAKE) -s --no-print-directory -C capture/text OUT=$(CURDIR)/target/valgrind
	@$(MAKE) -s --no-print-directory -C capture/guard OUT=$(CURDIR)/target/valgrind

# --- make system ------------------------------------------------------------------------------------------------------

# No other target needs QEMU. Its plugins are as of this version; where the distribution's is older, a newer one is
# taken from its backports.
QEMU_LEAST := 9.2

system-deps:
	@$(call find-missing,gcc:gcc /usr/include/stdio.h:libc6-dev aarch64-linux-gnu-as:binutils-aarch64-linux-gnu); \
	for need in x86_64:x86 aarch64:arm; do \
	  packaging/qemu-is-new $${need%:*} $(QEMU_LEAST) || missing="$$missing qemu-system-$${need#*:}"; \
	done; \
	QEMU_LEAST=$(QEMU_LEAST) packaging/install-missing $$missing
	@$(call find-missing,riscv64-linux-gnu-as:binutils-riscv64-linux-gnu); \
	packaging/qemu-is-new riscv64 $(QEMU_LEAST) || missing="$$missing qemu-system-riscv"; \
	QEMU_LEAST=$(QEMU_LEAST) packaging/install-missing $$missing || echo "make: so there are no guests of RISC-V"

# Not all distributions have what RISC-V needs, so it may be missing.
system: system-deps
	@$(MAKE) -s --no-print-directory -C capture/qemu OUT=$(CURDIR)/target/qemu
	@$(MAKE) -s --no-print-directory -C capture/qemu/marks OUT=$(CURDIR)/target/qemu
	@echo "make: the recorder of whole systems is $(PLUGIN);" \
	  "QEMU is $$(qemu-system-x86_64 --version | sed -n 's/.*version \([0-9.]*\).*/\1/p')"

# Boots guests of all architectures and records them, in some minutes. Kernels and programs come from Debian once, into
# target/tmp.
system-test: all system
	@echo "make: booting guests"
	$(call run-tests,$(SYSTEM_TEST),-p farreach-guest --test suite)
	$(call run-tests,$(SYSTEM_TEST),-p farreach-cli --test suite cli_guest)

SYSTEM_TEST = FARREACH_SYSTEM_TEST=1 FARREACH_QEMU_DIR=$(CURDIR)/target/qemu \
  FARREACH_VALGRIND_DIR=$(CURDIR)/target/valgrind

# --- make run ---------------------------------------------------------------------------------------------------------

run: all
	@mkdir -p $(DEMO)
	@echo "make: recording the C compiler (cc1) on fixtures/programs/demo.c and simulating five designs;" \
	  "nothing is stored"
	@$(FARREACH) run --html $(DEMO)/report.html -- $(CC1) -quiet fixtures/programs/demo.c -o $(DEMO)/demo.s

# --- make try ---------------------------------------------------------------------------------------------------------

try: deps
	$(WITH_RUST) cargo build --locked --profile try -p farreach-cli

# --- make test --------------------------------------------------------------------------------------------------------

TEST_ENV = FARREACH_VALGRIND_DIR=$(CURDIR)/target/valgrind

# Cargo puts the command with debug checks in the place of the optimised one. So that one is kept in OPTIMISED, for
# tests and to be put back. $(1): variables for the tests. $(2): which packages.
OPTIMISED := target/optimised/farreach
define run-tests
@mkdir -p $(dir $(OPTIMISED)) && ln -f $(FARREACH) $(OPTIMISED)
@$(TEST_ENV) $(1) $(WITH_RUST) cargo test --profile bench $(2) --no-fail-fast --quiet; \
status=$$?; ln -f $(OPTIMISED) $(FARREACH); exit $$status
endef

# Programs that tests record or run.
test test-long: NEEDS += python3:python3 xz:xz-utils zstd:zstd bzip2:bzip2

# The hardware needs tools that nothing else needs: its tests are `make rtl-test`.
test: all
	@echo "make: running every test"
	$(call run-tests,FARREACH_RELEASE=$(CURDIR)/$(OPTIMISED),--workspace $(NO_PYTHON) --exclude farreach-rtl)

# What it adds: ten times the random streams against the plain models and in the conformance suite; the whole small set
# of papers, with each lookup compared with the page table; and, as root, 100 kills while settings are changed.
test-long: all
	@echo "make: running every test at length; this takes an hour or more"
	$(call run-tests,FARREACH_TIMES=10,--workspace $(NO_PYTHON))
	@echo "make: killing farreach at random moments while it has changed settings of this machine, 100 times"
	@benches/killed.sh 100

# --- make rtl ---------------------------------------------------------------------------------------------------------

.PHONY: rtl rtl-test rtl-deps rtl-formal rtl-synth

RTL_NEEDS = verilator:verilator g++:g++ make:make yosys:yosys sta:opensta \
  /usr/include/zlib.h:zlib1g-dev /usr/share/qflow/tech/osu018/osu018_stdcells.lib:qflow-tech-osu018 \
  /usr/share/qflow/tech/osu035/osu035_stdcells.lib:qflow-tech-osu035

rtl-deps:
	@$(call find-missing,$(RTL_NEEDS)); packaging/install-missing $$missing

# Each module against the simulator, on random programs.
rtl: rtl-deps $(FARREACH)
	@echo "make: comparing all modules of rtl/ with the simulator; compiling them takes a few minutes the first time"
	@$(FARREACH) rtl check --cache target/rtl --waves target/rtl

# A part of that in a minute, with planted faults, a proof and a synthesis: where tools are missing, the tests say so
# and do nothing.
rtl-test: all
	@echo "make: running the tests of the hardware"
	$(call run-tests,,-p farreach-rtl)

rtl-formal: rtl-deps
	@rtl/formal.sh

# Excerpts of programs are kept, so that the same tools give the same results to the digit.
rtl-synth: rtl-deps $(FARREACH)
	@$(FARREACH) rtl synth $(addprefix --excerpt ,$(wildcard rtl/excerpts/*.txt)) --cache target/synth -o rtl/results.csv
	@echo "make: the results are in rtl/results.csv"

# Makes what `papers --all --small` finds now the result that tests expect: look at the difference before you commit it.
accept-papers: $(FARREACH)
	@mkdir -p fixtures/papers
	@$(FARREACH) papers --all --small --csv --cache target/papers -o fixtures/papers/small.csv
	@$(FARREACH) papers --all --small --csv --cache target/papers --limit 300K -o fixtures/papers/short.csv
	@$(FARREACH) papers --all --small --markdown --cache target/papers -o docs/papers-small.md
	@git --no-pager diff --stat -- fixtures/papers docs/papers-small.md

# mdBook is built once, into target/tools.
MDBOOK_VERSION := 0.5.4
MDBOOK := target/tools/bin/mdbook
$(MDBOOK): | deps
	@command -v mdbook >/dev/null && { mkdir -p $(@D); ln -sf "$$(command -v mdbook)" $@; } || { \
	  echo "make: building mdBook $(MDBOOK_VERSION), once"; \
	  $(WITH_RUST) cargo install mdbook --version $(MDBOOK_VERSION) \
	    --locked --quiet --root target/tools; }

# The list of all machine keys in it is what the command prints.
book: $(MDBOOK) $(FARREACH)
	@$(FARREACH) machines --keys --markdown > target/keys.md && cp target/keys.md docs/book/src/generated/keys.md
	@$(MDBOOK) build docs/book
	@echo "make: the book is in target/book/index.html"

# --- make python ------------------------------------------------------------------------------------------------------

PYTHON     ?= python3
# Optional parts of the package; continuous integration takes fewer.
EXTRAS     ?= all
PYTHON_ENV := target/python
# What tests need beside that.
PYTHON_TOOLS ?= pytest mypy ruff nbclient nbformat ipykernel moto[server] s3fs
IN_PYTHON  := $(CURDIR)/$(PYTHON_ENV)/bin/python

# Another Python that is named is there, with all it needs.
python-deps: deps
	@[ "$(PYTHON)" != python3 ] || python3 -c 'import ensurepip, venv' 2>/dev/null || packaging/install-missing python3-venv

# A virtual environment with the wheel, which is built as by any user: pip install ./python.
python-env: python-deps all
	@[ -x $(IN_PYTHON) ] || $(PYTHON) -m venv $(PYTHON_ENV)
	@echo "make: building the Python package"
	@$(WITH_RUST) $(IN_PYTHON) -m pip install --quiet --upgrade \
	  './python[$(EXTRAS)]' $(PYTHON_TOOLS)

# In another directory, so that the installed package is tested and not its sources.
python: python-env
	@echo "make: testing the Python package"
	@cd $(PYTHON_ENV) && $(IN_PYTHON) -m pytest -q -m "not long" $(CURDIR)/python/tests

# The module is no part of `make lint`, which needs no Python.
python-lint: lint-deps python-deps
	@$(WITH_RUST) cargo clippy -p farreach-py --all-targets --quiet -- -D warnings

# Faults, a Slurm of one node where it is installed, the wheel in a root of its own, notebooks, types: half an hour.
python-test: python-lint python-env
	@cd $(PYTHON_ENV) && $(IN_PYTHON) -m ruff check $(CURDIR)/python
	@cd $(PYTHON_ENV) && $(IN_PYTHON) -m ruff format --check $(CURDIR)/python
	@cd $(PYTHON_ENV) && $(IN_PYTHON) -m pytest -q $(CURDIR)/python/tests

# What Dask costs, as ratios; on a quiet machine.
python-bench: python-env
	@cd $(PYTHON_ENV) && $(IN_PYTHON) $(CURDIR)/python/benches/sweep.py

# A wheel for other machines, in target/wheels: for every Python from 3.9 and every Linux with this C library or a newer
# one. Zig links for it, independent of the library here.
WHEEL_GLIBC := 2.28
WHEEL_TARGET := x86_64-unknown-linux-gnu
WHEEL_TOOLS := $(CURDIR)/target/wheel-tools
wheel: python-deps tool
	@[ -x $(WHEEL_TOOLS)/bin/auditwheel ] || { $(PYTHON) -m venv $(WHEEL_TOOLS) && \
	  $(WHEEL_TOOLS)/bin/pip install --quiet 'maturin>=1.8,<2' ziglang cargo-zigbuild auditwheel; }
	@echo "make: building the wheel"
	@rm -rf target/wheels
	@PATH="$(WHEEL_TOOLS)/bin:$$PATH" FARREACH_WHEEL_TARGET=$(WHEEL_TARGET).$(WHEEL_GLIBC) \
	  MATURIN_PEP517_ARGS="--zig --target $(WHEEL_TARGET) --compatibility manylinux_$(subst .,_,$(WHEEL_GLIBC))" \
	  $(WITH_RUST) $(WHEEL_TOOLS)/bin/pip wheel --quiet --no-deps --no-build-isolation -w target/wheels ./python
	@$(WHEEL_TOOLS)/bin/auditwheel show target/wheels/*.whl > target/wheels/audit
	@grep -q '"manylinux_$(subst .,_,$(WHEEL_GLIBC))_x86_64"' target/wheels/audit || { cat target/wheels/audit; exit 1; }
	@echo "make: $$(ls target/wheels/*.whl)"

# The notebooks with what they print.
notebooks: python-env
	@$(IN_PYTHON) -I python/notebooks.py

python-reference: python-env
	@$(IN_PYTHON) -I python/reference.py > target/reference.md && cp target/reference.md docs/book/src/reference/python.md

# --- make install, make deb -------------------------------------------------------------------------------------------

# `make && sudo make install`: it builds only what is not there, so root needs no toolchain.
PREFIX   ?= /usr/local
DESTDIR  ?=
VERSION  := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
IN       := $(DESTDIR)$(PREFIX)
# All that an installation has; folders of these names are farreach's own.
OWN_DIRS  = $(IN)/lib/farreach $(IN)/share/farreach $(IN)/share/doc/farreach
BASH_WORDS = $(IN)/share/bash-completion/completions/farreach
ZSH_WORDS  = $(IN)/share/zsh/site-functions/_farreach
FISH_WORDS = $(IN)/share/fish/vendor_completions.d/farreach.fish

.PHONY: built
built:
	@[ -x $(FARREACH) ] && [ -x $(TOOL) ] && [ -e $(TEXT) ] && [ -x $(GUARD) ] || $(MAKE) --no-print-directory all

# One page for each subcommand, from the parser.
man: built
	@mkdir -p target/man && $(FARREACH) man target/man

install: built
	@install -d $(IN)/bin $(OWN_DIRS) $(IN)/share/man/man1 $(dir $(BASH_WORDS) $(ZSH_WORDS) $(FISH_WORDS))
	@install -m 755 $(FARREACH) $(IN)/bin/farreach
	@install -m 755 $(TOOL) $(IN)/lib/farreach/farreach-amd64-linux
	@install -m 644 $(TEXT) $(IN)/lib/farreach/farreach-text.so
	@install -m 755 $(GUARD) $(IN)/lib/farreach/farreach-guard
	@[ ! -e $(PLUGIN) ] || install -m 644 $(PLUGIN) $(IN)/lib/farreach/farreach-qemu.so
	@for mark in $(wildcard $(dir $(PLUGIN))farreach-mark-*); do \
	  install -m 755 $$mark $(IN)/lib/farreach || exit 1; done
	@[ ! -e $(PLUGIN) ] || install -D -m 644 capture/qemu/farreach-mark.h $(IN)/include/farreach-mark.h
	@for file in machines/*/*.toml; do install -D -m 644 $$file $(IN)/share/farreach/$$file || exit 1; done
	@install -m 644 LICENSE-APACHE LICENSE-MIT capture/LICENSE-GPL-2 README.md CHANGELOG.md CITATION.cff \
	  $(IN)/share/doc/farreach
	@install -m 644 packaging/copyright $(IN)/share/doc/farreach/copyright
	@umask 022; $(FARREACH) man $(IN)/share/man/man1
	@umask 022; $(FARREACH) completions bash > $(BASH_WORDS) && $(FARREACH) completions zsh > $(ZSH_WORDS) && \
	  $(FARREACH) completions fish > $(FISH_WORDS)
	@echo "make: installed $(IN)/bin/farreach, its recorder in $(IN)/lib/farreach"

uninstall:
	@rm -rf $(OWN_DIRS)
	@rm -f $(IN)/bin/farreach $(IN)/include/farreach-mark.h $(BASH_WORDS) $(ZSH_WORDS) $(FISH_WORDS)
	@rm -f $(IN)/share/man/man1/farreach.1* $(IN)/share/man/man1/farreach-*.1*

deb: all
	@VERSION=$(VERSION) packaging/deb

lint: lint-deps
	$(WITH_RUST) cargo fmt --all --check
	$(WITH_RUST) cargo clippy --workspace $(NO_PYTHON) --all-targets --quiet -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(WITH_RUST) cargo doc --workspace $(NO_PYTHON) --no-deps --quiet

bench: all
	$(WITH_RUST) cargo bench --profile release --workspace $(NO_PYTHON)

FUZZ_SECONDS ?= 600
fuzz:
	@for target in frt lackey drmemtrace champsim table lines perf gem5 cvp parquet arrow sift open live text; do \
	  echo "make: fuzzing $$target for $(FUZZ_SECONDS) s"; \
	  cargo +nightly fuzz run $$target -- -max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=2048 -timeout=20 || exit 1; \
	done

clean:
	$(WITH_RUST) cargo clean
