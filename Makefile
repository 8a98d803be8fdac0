# SPDX-License-Identifier: Apache-2.0
# What a person types; the build itself is in CMakeLists.txt. TEST=part runs some tests only.
# One test program: build-dev/tests/unit_base_buf [part of a test's name].
PORT ?= 7379
DIR ?= ./data
ARGS ?=
AREA ?=
TEST ?=
SECONDS ?= 60
JOBS ?= 2

build = tools/build.sh $(1) $(JOBS)
quote = '$(subst ','\'',$(1))'
run_tests = /usr/bin/python3 tools/run_tests.py --jobs $(JOBS) --timeout 900 $(1) $(TEST)
# Those that need no build; `make test` runs them as well.
checks = $(filter-out tools/check_tidy.sh,$(wildcard tools/check_*))

.PHONY: all run test test-long bench check check-san fuzz format clean

all:
	tools/deps.sh build
	$(call build,release)

run: all
	exec build/terraced --port $(PORT) --dir $(call quote,$(DIR)) $(ARGS)

test:
	@tools/deps.sh test
	@$(call build,dev)
	@$(call run_tests,build-dev)

test-long:
	TERRACE_LONG=1 $(MAKE) --no-print-directory test

bench:
	tools/deps.sh bench
	$(call build,release) --target all benches
	tools/bench.sh build $(AREA)

check:
	tools/deps.sh check
	set -e; for check in $(checks); do echo $$check; $$check; done
	$(call build,dev)
	$(call build,clang)
	tools/build_without.sh $(JOBS)
	tools/check_tidy.sh build-clang

check-san:
	tools/deps.sh test
	$(call build,asan)
	TERRACE_CONFIG_SET=1 $(call run_tests,build-asan)
	$(call build,tsan)
	$(call run_tests,build-tsan)

fuzz:
	tools/deps.sh test
	@test -n "$(TARGET)" || { echo "make fuzz TARGET=resp SECONDS=60"; exit 2; }
	$(call build,fuzz) --target fuzz_$(TARGET)
	mkdir -p build-fuzz/corpus/$(TARGET) tests/fuzz/corpus/$(TARGET)
	build-fuzz/tests/fuzz_$(TARGET) -max_total_time=$(SECONDS) -artifact_prefix=build-fuzz/ \
	    build-fuzz/corpus/$(TARGET) tests/fuzz/corpus/$(TARGET)

format:
	tools/check_format.sh fix

clean:
	rm -rf build build-dev build-asan build-tsan build-fuzz build-clang build-without
