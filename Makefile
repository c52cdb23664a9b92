# Actionist: build, test and run. `make help` lists the targets.
#
# One non-recursive makefile. Flavours (release, asan, crash, ...) live side by
# side in build/<flavour>/. Every .c file of a folder belongs to its program.

CC       ?= gcc
FLAVOUR  ?= release
BUILD    := build/$(FLAVOUR)
PREFIX   ?= /usr/local

IS_CLANG := $(findstring clang,$(shell $(CC) --version 2>/dev/null))
PKGS     := rdkafka libpq libcurl openssl libcjson libuv libmicrohttpd libseccomp

WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion \
	-Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition \
	-Wpointer-arith -Wcast-qual -Wcast-align -Wwrite-strings -Wformat=2 \
	-Wundef -Wvla -Wswitch-enum -Wimplicit-fallthrough -Wnull-dereference \
	-Wdouble-promotion -Wfloat-equal -Wredundant-decls
GCC_WARNINGS := -Wlogical-op -Wduplicated-cond -Wduplicated-branches \
	-Wjump-misses-init -Wtrampolines -Wstringop-overflow=4 \
	-Warray-bounds=2 -Wuse-after-free=3 -Walloc-zero -Wformat-overflow=2 \
	-Wformat-truncation=2
HARDENING := -fstack-protector-strong -fstack-clash-protection \
	-fcf-protection=full -fno-common -fPIE
OPTIMISE  := -O2 -D_FORTIFY_SOURCE=3
LINKING   := -pie -Wl,-z,relro,-z,now,-z,noexecstack,-z,separate-code \
	-Wl,--as-needed

ifeq ($(IS_CLANG),)
WARNINGS  += $(GCC_WARNINGS)
HARDENING += -ftrivial-auto-var-init=zero
endif
ifeq ($(FLAVOUR),asan)
OPTIMISE  := -O1 -fno-omit-frame-pointer -fsanitize=address,undefined \
	-fno-sanitize-recover=all
LINKING   += -fsanitize=address,undefined
# The sanitizers' own checks make gcc see null pointers that are not there.
WARNINGS  += -Wno-null-dereference
endif
ifeq ($(FLAVOUR),fuzz)
OPTIMISE  := -O1 -fno-omit-frame-pointer \
	-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
LINKING   += -fsanitize=address,undefined
endif
ifdef WERROR
WARNINGS  += -Werror
endif

CFLAGS   ?= -g
ALL_CFLAGS = -std=c17 -D_GNU_SOURCE -I. $(OPTIMISE) $(CFLAGS) $(WARNINGS) \
	$(HARDENING) $(PKG_CFLAGS) -MMD -MP
PKG_CFLAGS = $(patsubst -I%,-isystem %,$(shell pkg-config --cflags $(PKGS)))
PKG_LIBS   = $(shell pkg-config --libs $(PKGS)) -lcgroup -lpthread

sources   = $(filter-out $(1)/main.c,$(wildcard $(1)/*.c))
objects   = $(patsubst %.c,$(BUILD)/%.o,$(1))

COMMON_SRC    := $(call sources,common)
SCHEMA_SRC    := $(call sources,schema)
PRODUCER_SRC  := $(call sources,producer)
WORKER_SRC    := $(call sources,worker)
RUN_SRC       := $(filter-out %/runner_main.c,$(call sources,worker/run))
SCHEDULER_SRC := $(call sources,scheduler)
CTL_SRC       := $(call sources,scheduler/ctl)
# The audit, in the scheduler and in the command.
VERIFY_SRC    := $(call sources,scheduler/verify)
REPLAY_SRC    := $(call sources,scheduler/replay)
DOUBLE_SRC    := $(wildcard tests/double/*.c)
UNIT_SRC      := $(wildcard tests/unit/test_*.c)
MODEL_SRC     := $(wildcard tests/model/*.c)
FUZZ_SRC      := $(wildcard tests/fuzz/fuzz_*.c)

LIBRARY  := $(BUILD)/libactionist.a
BIN      := $(BUILD)/bin
PROGRAMS := $(BIN)/actionist $(BIN)/actionist-producer \
	$(BIN)/actionist-worker $(BIN)/actionist-runner \
	$(BIN)/actionist-scheduler $(BIN)/provider-double
UNITS    := $(patsubst tests/unit/%.c,$(BUILD)/tests/unit/%,$(UNIT_SRC))
# Kills a program at a chosen call; loaded in front of it by `make fault`.
CRASHLIB := $(BUILD)/lib/libactionist-crash.so
FUZZERS  := $(patsubst tests/fuzz/%.c,$(BUILD)/tests/fuzz/%,$(FUZZ_SRC))

.DELETE_ON_ERROR:
.SECONDARY:
.PHONY: all programs unit-programs fuzz-programs install-tools help
.PHONY: unit test check lint asan fuzz cases demo dev bench history reports \
	fault mutants install clean

all: programs ## build every program (the default)

programs: $(PROGRAMS)

unit-programs: $(UNITS)

fuzz-programs: $(FUZZERS)

# -- programs ---------------------------------------------------------------
# The shared code and the rooms of each program go into one archive a program
# links from; so a unit test can link any of them.

$(LIBRARY): $(call objects,$(COMMON_SRC) $(SCHEMA_SRC))
	@rm -f $@
	$(AR) qcs $@ $^

define program # name, objects
$(BIN)/$(1): $(2) $$(LIBRARY)
	@mkdir -p $$(@D)
	$$(CC) $$(LINKING) -o $$@ $(2) $$(LIBRARY) $$(PKG_LIBS)
endef

SQL_OBJECT := $(BUILD)/schema/migrations.o

$(eval $(call program,actionist,$(call objects,scheduler/ctl/main.c \
	$(CTL_SRC) $(VERIFY_SRC) scheduler/positions.c) $(SQL_OBJECT)))
$(eval $(call program,actionist-producer,$(call objects,producer/main.c \
	$(PRODUCER_SRC))))
$(eval $(call program,actionist-worker,$(call objects,worker/main.c \
	$(WORKER_SRC) $(RUN_SRC))))
$(eval $(call program,actionist-runner,$(call objects,\
	worker/run/runner_main.c $(RUN_SRC))))
$(eval $(call program,actionist-scheduler,$(call objects,scheduler/main.c \
	$(SCHEDULER_SRC) $(VERIFY_SRC) $(REPLAY_SRC))))

$(BIN)/provider-double: $(call objects,$(DOUBLE_SRC))
	@mkdir -p $(@D)
	$(CC) $(LINKING) -o $@ $^ $(shell pkg-config --libs libcjson) -lpthread

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -c -o $@ $<

# The migrations are carried inside the command, so that it needs no files.
$(BUILD)/schema/migrations.c: schema/sql/embed $(wildcard schema/sql/*.sql)
	@mkdir -p $(@D)
	schema/sql/embed schema/sql/*.sql > $@

$(SQL_OBJECT): $(BUILD)/schema/migrations.c
	$(CC) $(ALL_CFLAGS) -c -o $@ $<

# -- tests ------------------------------------------------------------------

# A unit test may reach into the rooms of any program, but never its main.
ROOMS := $(BUILD)/librooms.a
$(ROOMS): $(call objects,$(PRODUCER_SRC) $(WORKER_SRC) $(RUN_SRC) \
	$(SCHEDULER_SRC) $(VERIFY_SRC) $(REPLAY_SRC) $(CTL_SRC)) $(SQL_OBJECT)
	@rm -f $@
	$(AR) qcs $@ $^

$(BUILD)/tests/unit/%: $(BUILD)/tests/unit/%.o $(call objects,$(MODEL_SRC)) \
		$(ROOMS) $(LIBRARY)
	$(CC) $(LINKING) -o $@ $< $(call objects,$(MODEL_SRC)) $(ROOMS) \
		$(LIBRARY) $(PKG_LIBS) -lcmocka

$(BUILD)/tests/fuzz/%: $(BUILD)/tests/fuzz/%.o $(ROOMS) $(LIBRARY)
	$(CC) $(LINKING) -fsanitize=fuzzer -o $@ $< $(ROOMS) $(LIBRARY) \
		$(PKG_LIBS)

$(CRASHLIB): tests/fault/libcrash.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -fPIC -U_FORTIFY_SOURCE -shared -o $@ $<

install-tools:
	@deploy/dev/install

unit: install-tools ## unit tests, in seconds and without a network
	@tests/run-unit

asan: install-tools ## unit tests under ASan and UBSan
	@tests/run-unit --flavour asan

fuzz: install-tools ## fuzz every parser (FUZZ="--seconds 60")
	@tests/run-fuzz $(FUZZ)

test: install-tools ## every test (TEST=--ci: then 5 minutes of crash points)
	@tests/run-all $(TEST)

cases: install-tools ## the numbered black-box cases (CASES="--whole")
	@tests/run-all --cases $(CASES)

fault: install-tools programs $(CRASHLIB) ## die at every call (FAULT="--quick")
	@tests/fault/crash $(FAULT)

mutants: install-tools ## break each rule, see it noticed (MUTANTS="NAME...")
	@tests/fault/mutants $(MUTANTS)

lint: install-tools ## formatting, clang, clang-tidy, cppcheck, house rules
	@tests/lint

check: lint test ## lint, then test

demo: install-tools ## a private fleet fires 40 actions (DEMO=once: and ends)
	@tests/demo/demo $(if $(filter once,$(DEMO)),--once)

dev: install-tools programs ## a private fleet to play with
	@$(BIN)/actionist dev up --dir build/dev

bench: install-tools programs ## measure against a floor (BENCH="--quick --json")
	@$(BIN)/actionist bench $(BENCH)

history: install-tools programs ## get, list and logs at 10 million actions
	@tests/bench/history $(HISTORY)

reports: install-tools programs ## dispatch beside a report over the ledger
	@tests/bench/reports $(REPORTS)

install: programs ## install the programs under DESTDIR and PREFIX
	install -d $(DESTDIR)$(PREFIX)/bin
	install -m 0755 $(filter-out %/provider-double,$(PROGRAMS)) \
		$(DESTDIR)$(PREFIX)/bin
	install -d $(DESTDIR)$(PREFIX)/share/man/man1 \
		$(DESTDIR)$(PREFIX)/share/bash-completion/completions \
		$(DESTDIR)$(PREFIX)/share/zsh/site-functions \
		$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	$(BIN)/actionist man > $(DESTDIR)$(PREFIX)/share/man/man1/actionist.1
	$(BIN)/actionist completion bash > \
		$(DESTDIR)$(PREFIX)/share/bash-completion/completions/actionist
	$(BIN)/actionist completion zsh > \
		$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_actionist
	$(BIN)/actionist completion fish > \
		$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/actionist.fish

clean: ## remove what was built (the tools that were fetched stay)
	rm -rf build/release build/asan build/fuzz build/clang build/mutants

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' \
		$(firstword $(MAKEFILE_LIST))

-include $(shell find build/$(FLAVOUR) -name '*.d' 2>/dev/null)
