# SPDX-License-Identifier: MIT
# kvd's build. `make help` lists the targets.
#
# Knobs: V=1       show the commands
#        WERROR=1  warnings are errors
#        DEBUG=1   -O0 and KVD_DEBUG, in build/debug
#        SAN=address,undefined | SAN=thread   sanitizers, in build/asan, build/tsan
#        CC=clang  CFLAGS= CPPFLAGS= LDFLAGS= LDLIBS= (yours; never overwritten)
#        PREFIX= DESTDIR= SYSCONFDIR= UNITDIR= SYSUSERSDIR= TMPFILESDIR= ... for install
#        JOBS=2    jobs of check and demo at a time; by default tests/run-all chooses
#        T=pattern only the tests whose name matches, in check
#        FUZZ_SECONDS=20 for each target, in fuzz
#        VERBS=1  the tests in the Soft-RoCE VM too, in coverage
#        MUTANTS='limbo pull' only the mutants whose name contains one of these, in mutants
#        F=server/store/limbo.c the files to break, in survivors; T=test_limbo the tests, or one
#                  command; N=7 shows that break

VERSION = $(shell awk '/^.define KVD_VERSION_(MAJOR|MINOR|PATCH)/ { v = v s $$3; s = "." } \
	END { print v }' client/kvd.h)
# While the major version is 0 every minor one has an ABI of its own.
SOMAJOR := 0.4

PREFIX     ?= /usr/local
BINDIR     ?= $(PREFIX)/bin
LIBDIR     ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
DOCDIR     ?= $(PREFIX)/share/doc/kvd
MANDIR     ?= $(PREFIX)/share/man
# As in the GNU coding standards; what is installed in /usr is configured in /etc.
SYSCONFDIR ?= $(if $(filter /usr,$(PREFIX:/=)),/etc,$(PREFIX)/etc)
UNITDIR    ?= $(PREFIX)/lib/systemd/system
SYSUSERSDIR ?= $(PREFIX)/lib/sysusers.d
TMPFILESDIR ?= $(PREFIX)/lib/tmpfiles.d
PKGCONFIG  ?= pkg-config
INSTALL    ?= install
OBJCOPY    ?= objcopy
JOBS       ?= $(shell nproc)

# One folder per flavour, so that objects of two flavours are never mixed.
ifdef SAN
comma   := ,
SANNAME := $(subst $(comma),-,$(SAN))
FLAVOUR := /$(if $(filter address address-undefined,$(SANNAME)),asan,$(if $(filter \
	thread,$(SANNAME)),tsan,san-$(SANNAME)))
else ifdef DEBUG
FLAVOUR := /debug
else
FLAVOUR :=
endif
B ?= build$(FLAVOUR)
O := $(B)/obj

# The build with AddressSanitizer is clang's, which has warnings of its own, and compiles in half of
# gcc's time where it need not optimize. The debug information of sanitized programs is for the
# lines in reports.
ifeq ($(FLAVOUR) $(origin CC),/asan default)
CC := clang
endif
CFLAGS ?= $(or $(if $(filter /asan,$(FLAVOUR)),-O0 -g1),$(if $(SIM)$(filter \
	/tsan,$(FLAVOUR)),-O1 -g1),-O2 -g)
WARN   := -Wall -Wextra -Wshadow -Wmissing-prototypes -Wstrict-prototypes -Wold-style-definition \
	-Wvla -Wwrite-strings -Wformat=2 -Wpointer-arith
# libxxhash is used by its header alone, so no library of it is linked.
K_CPPFLAGS := -I. -D_GNU_SOURCE $(if $(DEBUG),-DKVD_DEBUG=1)
K_CFLAGS   := -std=gnu11 -fno-common -fno-strict-aliasing -fno-omit-frame-pointer -pthread $(WARN) \
	$(if $(WERROR),-Werror) $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all)
K_CFLAGS_LAST := $(if $(DEBUG),-O0)
# Hardening against exploits of bugs; tests/hardening.sh checks that the programs have it. The
# checks of _FORTIFY_SOURCE need an optimizer, and would hide calls from sanitizers and the
# simulation. CFLAGS and CPPFLAGS may say otherwise.
HARDEN := -fstack-protector-strong -fstack-clash-protection
machine := $(shell $(CC) -dumpmachine 2>/dev/null)
# gcc copies a few bytes, if it does not know how many, by "rep movsq" on x86, which takes a hundred
# cycles to start; the C library's memcpy() takes ten.
STRINGS := $(if $(filter x86_64%,$(machine)),$(if $(shell $(CC) --version 2>/dev/null | \
	grep -i clang),,-mstringop-strategy=libcall))
HARDEN += $(if $(filter x86_64%,$(machine)),-fcf-protection=full) \
	$(if $(filter aarch64%,$(machine)),-mbranch-protection=standard)
FORTIFY = $(if $(SAN)$(DEBUG)$(SIM)$(filter -O0,$(CFLAGS))$(findstring \
	_FORTIFY_SOURCE,$(CPPFLAGS) $(CFLAGS)),,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
COMPILE     = $(CC) $(K_CPPFLAGS) $(FORTIFY) $(CPPFLAGS) $(K_CFLAGS) $(HARDEN) $(STRINGS) \
	$(CFLAGS) $(K_CFLAGS_LAST)
K_LDFLAGS  := -pthread -Wl,-z,relro,-z,now,-z,noexecstack,-z,separate-code -Wl,--as-needed \
	$(if $(SAN),-fsanitize=$(SAN))
# Programs are loaded at random addresses, whatever the compiler's default is.
LINK = $(CC) -pie $(K_LDFLAGS)
# clang leaves its sanitizer runtime undefined in a shared object, so -z,defs is for plain builds.
SO_LDFLAGS := -shared -Wl,-soname,libkvd.so.$(SOMAJOR) -Wl,--version-script=client/libkvd/kvd.map \
	$(if $(SAN),,-Wl,-z,defs)

# Evaluated at first use: `make deps` must run on a machine without pkg-config.
libs = $(eval $(1) := $$(shell $(PKGCONFIG) --libs $(2)))$($(1))
DEVICE_LIBS   = $(call libs,DEVICE_LIBS,libibverbs librdmacm libssl libcrypto)
STORE_LIBS  = $(call libs,STORE_LIBS,liburcu-qsbr liburcu-cds inih jemalloc numa libcrypt)
CMOCKA_LIBS = $(call libs,CMOCKA_LIBS,cmocka)
# Of the server alone, which talks to etcd and answers HTTP.
WEB_LIBS    = $(call libs,WEB_LIBS,libcurl jansson zlib libmicrohttpd gnutls)
# Of kvctl alone: typing, and archives.
KVCTL_LIBS  = $(call libs,KVCTL_LIBS,libedit ncursesw zlib)
UV_LIBS     = $(call libs,UV_LIBS,libuv)
REDIS_LIBS  = $(call libs,REDIS_LIBS,hiredis)

ifneq ($(findstring s,$(firstword -$(MAKEFLAGS))),s)
ifndef V
Q  = @
QC = @printf '  %-7s %s\n' CC $@;
QL = @printf '  %-7s %s\n' LINK $@;
QA = @printf '  %-7s %s\n' AR $@;
QR = @printf '  %-7s %s\n' RUST $@;
endif
endif

# Sources are found by folder; the file with a program's main() is not part of its library.
COMMON_SRC := $(sort $(wildcard common/*.c common/*/*.c common/*/*/*.c))
CLIENT_SRC := $(sort $(wildcard client/libkvd/*.c))
KVCTL_SRC  := $(filter-out %/main.c,$(sort $(wildcard client/kvctl/*.c)))
SERVER_SRC := $(filter-out server/main.c,$(sort $(wildcard server/*.c server/*/*.c)))
BENCH_SRC  := $(filter-out %/main.c,$(sort $(wildcard bench/*.c bench/kvtrace/*.c)))
MAIN_SRC   := $(wildcard client/kvctl/main.c server/main.c bench/main.c bench/kvtrace/main.c)
# test_*, race_*, conformance_* and sys_* are programs; all of them link the other files in
# tests/.
TEST_SRC   := $(sort $(wildcard $(foreach p,test race conformance sys, \
	tests/*/$(p)_*.c tests/*/*/$(p)_*.c)))
PRELOAD_SRC := $(wildcard tests/support/preload_*.c)
HELPER_SRC := $(filter-out $(TEST_SRC) $(PRELOAD_SRC) tests/fuzz/% tests/nth/% tests/sim/%, \
	$(sort $(wildcard tests/*/*.c)))
NTH_SRC    := $(sort $(wildcard tests/nth/*.c))
SIM_SRC    := $(sort $(wildcard tests/sim/*.c))
FUZZ_SRC   := $(sort $(wildcard tests/fuzz/*.c))
# The extension that makes kvd for Python faster, if the system has the headers of python3.
PYTHON_HOT_SRC := client/python/hot.c
PYTHON_H := $(lastword $(wildcard /usr/include/python3.*/Python.h))
HOT = $(if $(PYTHON_H),$(if $(SAN)$(DEBUG)$(SIM),,$(B)/python/_hot.abi3.so))
EXAMPLE_SRC := $(sort $(wildcard client/examples/*.c))
ALL_SRC    := $(COMMON_SRC) $(CLIENT_SRC) $(KVCTL_SRC) $(SERVER_SRC) $(BENCH_SRC) $(MAIN_SRC) \
	$(TEST_SRC) $(HELPER_SRC) $(FUZZ_SRC) $(NTH_SRC) $(SIM_SRC) $(EXAMPLE_SRC) \
	$(PYTHON_HOT_SRC) $(PRELOAD_SRC)
HDRS       := $(sort $(wildcard common/*.h common/*/*.h common/*/*/*.h client/*.h client/*/*.h \
	server/*.h server/*/*.h bench/*.h bench/*/*.h tests/*/*.h))
SCRIPTS    := $(wildcard conf/abi conf/deb conf/install-deps conf/upgrade conf/debian/tests/* \
	conf/debian/kvd.postrm conf/debian/kvd.prerm tests/run-all tests/*.sh tests/system/*.sh \
	tests/vm/run tests/vm/suite tests/vm/selftest tests/vm/pair tests/vm/two-hosts \
	client/rust/cargo client/rust/package client/rust/programs \
	client/rust/kvd-sys/bindgen.sh tests/vm/*.sh tests/coverage tests/mutants/run \
	tests/mutants/*.sh tests/memcached/memcached-debug bench/*.sh .ci/run)

# The Rust crates: built once, if the system has rustc, whichever compiler builds the C.
RUST_SRC := $(sort $(wildcard client/rust/Cargo.* client/rust/*/Cargo.toml client/rust/*/build.rs \
	client/rust/*/src/*.rs client/rust/*/tests/*.rs client/rust/*/tests/*/*.rs \
	client/rust/*/examples/*.rs))
RUST := $(if $(filter build,$(B)),$(if $(wildcard /usr/bin/cargo),$(B)/rust/programs))

obj    = $(patsubst %.c,$(O)/%.o,$(1))
TESTS := $(patsubst tests/%.c,$(B)/tests/%,$(TEST_SRC))
FUZZERS := $(patsubst tests/fuzz/%.c,$(B)/%,$(FUZZ_SRC))
EXAMPLES := $(patsubst client/%.c,$(B)/%,$(EXAMPLE_SRC))
PRELOADS := $(patsubst tests/%.c,$(B)/tests/%.so,$(PRELOAD_SRC))
NTH := $(B)/tests/nth/kvd.sites $(B)/tests/nth/client.sites
# The tests are more than two hundred programs, which lld links in a quarter of the time.
LLD := $(if $(shell command -v ld.lld),-fuse-ld=lld)
TEST_LINK = $(LINK) $(LLD)
# In link order: each may use those to its right.
TEST_AR := $(O)/libtests.a $(O)/libbench.a $(O)/libkvctl.a $(O)/libserver.a $(O)/libclient.a \
	$(O)/libcommon.a

# For the make that check or demo starts; under `make -j` it shares our jobs instead.
SUBJOBS = $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(JOBS))

.DELETE_ON_ERROR:
.SUFFIXES:
.SECONDARY:
.PHONY: all tests examples nth kvtrace rust fuzzers fuzz test check check-long record coverage \
	mutants demo demo-rdma demo-fleet deps deps-test deps-fleet deps-coverage lint headers \
	layers format fmt \
	columns links rules words errors cppcheck cost scripts python patches man install \
	install-python uninstall uninstall-python clean help FORCE

PRODUCTS := $(B)/kvd $(B)/kvctl $(B)/kvbench $(B)/libkvd.so.$(SOMAJOR) $(B)/libkvd.a
all: $(PRODUCTS) $(HOT)  ## the programs and the library (default)
	@:

tests: $(TESTS) $(PRELOADS) nth examples kvtrace rust  ## the test programs, not run
	@:
examples: $(EXAMPLES)  ## the programs of client/examples, in build/examples
nth: $(NTH)
kvtrace: $(B)/kvtrace
rust: $(RUST)

# The flags are in a file that changes only when they do: changed CFLAGS rebuild all, nothing else
# does.
$(O)/flags: FORCE
	@mkdir -p $(@D); f='$(COMPILE)'; f="$$f "'$(K_LDFLAGS) $(LDFLAGS) $(LDLIBS)'; \
	[ "$$f" = "$$(cat $@ 2>/dev/null)" ] || printf '%s\n' "$$f" >$@

# Without a header hundreds of lines of errors would hide that one command installs it. `missing`
# prints which of the given programs and headers are not there.
BUILD_HEADERS := infiniband/verbs.h rdma/rdma_cma.h urcu-qsbr.h urcu/rculfhash.h ini.h \
	jemalloc/jemalloc.h numa.h xxhash.h curl/curl.h jansson.h zlib.h crypt.h \
	microhttpd.h gnutls/gnutls.h
missing = command -v $(PKGCONFIG) >/dev/null || printf ' %s' '$(PKGCONFIG)'; \
	command -v $(firstword $(CC)) >/dev/null || { printf ' %s' '$(firstword $(CC))'; exit; }; \
	for h in $(1); do echo "\#include <$$h>" | $(COMPILE) -E -x c - >/dev/null 2>&1 || \
		printf ' %s' "$$h"; done
$(O)/found: $(O)/flags
	@m=$$($(call missing,$(BUILD_HEADERS))); [ -z "$$m" ] || { echo "missing:$$m;" \
		"run \`make deps\` first (conf/install-deps lists the packages)" >&2; exit 1; }
	@touch $@
$(O)/found-test: $(O)/found
	@m=$$($(call missing,setjmp.h cmocka.h uv.h)); [ -z "$$m" ] || { echo "missing:$$m;" \
		"run \`make deps-test\` first (conf/install-deps lists the packages)" >&2; exit 1; }
	@touch $@
$(call obj,$(TEST_SRC) $(HELPER_SRC) $(NTH_SRC) $(EXAMPLE_SRC)): | $(O)/found-test

$(O)/%.o: %.c $(O)/flags | $(O)/found
	@mkdir -p $(@D)
	$(QC)$(COMPILE) -fPIC -MMD -MP -c -o $@ $<

# Where the tests spend their time, the build with AddressSanitizer optimizes, too.
ifeq ($(FLAVOUR),/asan)
$(call obj,$(wildcard $(addsuffix /*.c,common server/store tests/linearizability tests/stress \
	tests/support))): private K_CFLAGS_LAST += -O1
endif
# Unit tests are compiled more often than they run: without optimizing, which _FORTIFY_SOURCE needs.
$(O)/tests/unit/%.o: private K_CFLAGS_LAST += -O0 -g1
$(O)/tests/unit/%.o: private FORTIFY :=

# The page of server.http is within the program.
$(O)/server/http/files.o: $(wildcard server/http/page/*)

# The variants of the sum for wider registers: common/sum_variant.c chooses one at run time.
ifneq ($(filter x86_64%,$(machine)),)
$(O)/common/sum_avx2.o: K_CFLAGS += -mavx2
# Not on the stack to which AddressSanitizer moves frames: GCC 12 aligns them too little (its bug
# 110027).
$(O)/common/sum_avx512.o: K_CFLAGS += -mavx512f \
	$(if $(findstring clang,$(CC)),,--param asan-stack=0)
endif

$(O)/libcommon.a: $(call obj,$(COMMON_SRC))
$(O)/libclient.a: $(call obj,$(CLIENT_SRC))
$(O)/libkvctl.a: $(call obj,$(KVCTL_SRC))
$(O)/libserver.a: $(call obj,$(SERVER_SRC))
$(O)/libbench.a: $(call obj,$(BENCH_SRC))
$(O)/libtests.a: $(call obj,$(HELPER_SRC))
# q, not r: two folders may have files of the same name.
$(O)/lib%.a: $(O)/flags
	$(QA)rm -f $@; $(AR) qcs $@ $(filter %.o,$^)

# One object in which only kvd_* is global: an archive has no symbol map, and a program that links
# libkvd.a may define its own log_error().
$(B)/libkvd.a: $(call obj,$(CLIENT_SRC) $(COMMON_SRC))
	$(QA)$(LD) -r -o $(O)/libkvd.o $(filter %.o,$^) && \
	$(OBJCOPY) --wildcard --keep-global-symbol='kvd_*' $(O)/libkvd.o && \
	rm -f $@ && $(AR) rcs $@ $(O)/libkvd.o
$(B)/libkvd.so.$(SOMAJOR): $(call obj,$(CLIENT_SRC) $(COMMON_SRC)) client/libkvd/kvd.map
	$(QL)$(CC) $(SO_LDFLAGS) $(K_LDFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) \
		$(DEVICE_LIBS) $(LDLIBS)
	@ln -sf $(@F) $(B)/libkvd.so

# A member of a fleet gives its items to another one as a client (server/fleet/mover.h).
$(B)/kvd: $(O)/server/main.o $(O)/libserver.a $(O)/libclient.a $(O)/libcommon.a
	$(QL)$(LINK) $(LDFLAGS) -o $@ $^ $(STORE_LIBS) $(WEB_LIBS) $(DEVICE_LIBS) $(LDLIBS)
$(B)/kvctl: $(O)/client/kvctl/main.o $(O)/libkvctl.a $(O)/libclient.a $(O)/libcommon.a
	$(QL)$(LINK) $(LDFLAGS) -o $@ $^ $(DEVICE_LIBS) $(KVCTL_LIBS) $(LDLIBS)
$(B)/kvbench: $(O)/bench/main.o $(O)/libbench.a $(O)/libclient.a $(O)/libcommon.a
	$(QL)$(LINK) $(LDFLAGS) -o $@ $^ $(DEVICE_LIBS) -lm $(LDLIBS)
# Built like a user's program: <kvd.h> and the library.
$(call obj,$(EXAMPLE_SRC)): K_CPPFLAGS += -Iclient
$(B)/examples/%: $(O)/client/examples/%.o $(B)/libkvd.a
	@mkdir -p $(@D)
	$(QL)$(LINK) $(LDFLAGS) -o $@ $^ $(DEVICE_LIBS) $(UV_LIBS) $(LDLIBS)
# The calls that test_client_nth lets fail.
WRAPPED := malloc calloc realloc mmap memfd_create eventfd epoll_create1 timerfd_create socket
$(B)/tests/unit/client/test_client_nth: K_LDFLAGS += $(WRAPPED:%=-Wl,--wrap=%)
# The tests of kvctl replace libkvd and some calls of the C library.
KVCTL_WRAP = $(shell sed -n 's/^[a-z].*[ *]__wrap_\([a-z_]*\)[^a-z_].*/-Wl,--wrap=\1/p' \
	tests/support/kvctl_test.h)
$(patsubst tests/%.c,$(B)/tests/%,$(wildcard tests/unit/client/test_kvctl*.c)): \
	private K_LDFLAGS += $(KVCTL_WRAP)
# test_client_open replaces the search for RDMA devices.
$(B)/tests/unit/client/test_client_open: K_LDFLAGS += -Wl,--wrap=verbs_open \
	-Wl,--wrap=device_verbs_present
# What these do at a moment that they choose, and instead of starting a thread or connecting.
$(B)/tests/unit/server/test_mailbox: K_LDFLAGS += -Wl,--wrap=pthread_mutex_unlock
COPY_CALLS := kvd_open kvd_close kvd_error copy_put copy_clear copy_settle copy_move
$(B)/tests/unit/server/test_mover: K_LDFLAGS += $(COPY_CALLS:%=-Wl,--wrap=%)
$(B)/tests/unit/server/test_moves_in: K_LDFLAGS += -Wl,--wrap=moving_clear \
	-Wl,--wrap=table_raise_versions
$(B)/tests/unit/server/test_region: K_LDFLAGS += -Wl,--wrap=pthread_create -Wl,--wrap=madvise
$(addprefix $(B)/tests/unit/server/,test_stats test_metrics test_http): K_LDFLAGS += \
	-Wl,--wrap=membership_thread_status
$(B)/tests/unit/server/test_filling: K_LDFLAGS += -Wl,--wrap=madvise -Wl,--wrap=pthread_join
# A server and a client of which any call can be made to fail, and lists of their calls.
NTH_WRAP = $(shell sed -n 's/^\tX.\([A-Za-z0-9_]*\), NTH_.*/-Wl,--wrap=\1/p' tests/nth/calls.h)
# The sanitizers' calls are not the program's: clang would link them into it, and wrap them.
SHARED_SAN = $(if $(SAN),$(if $(findstring clang,$(CC)),-shared-libsan \
	-Wl$(comma)-rpath$(comma)$(shell $(CC) -print-runtime-dir)))
$(B)/tests/nth/kvd: $(O)/server/main.o $(O)/tests/nth/interpose.o $(O)/libserver.a \
	$(O)/libclient.a
$(B)/tests/nth/client: $(O)/tests/nth/client.o $(O)/tests/nth/interpose.o $(O)/libclient.a
$(B)/tests/nth/kvd $(B)/tests/nth/client: $(O)/libcommon.a tests/nth/calls.h
	@mkdir -p $(@D)
	$(QL)$(LINK) $(SHARED_SAN) $(NTH_WRAP) $(LDFLAGS) -o $@ $(filter %.o,$^) \
		$(filter-out %/libcommon.a,$(filter %.a,$^)) $(O)/libcommon.a $(STORE_LIBS) \
		$(WEB_LIBS) $(DEVICE_LIBS) $(LDLIBS)
$(B)/tests/nth/%.sites: $(B)/tests/nth/% tests/nth/sites tests/nth/never
	$(Q)tests/nth/sites $< >$@
# The wrapped function runs a unit test's cases: tests/support/order.c.
$(B)/tests/%: $(O)/tests/%.o $(TEST_AR)
	@mkdir -p $(@D)
	$(QL)$(TEST_LINK) $(LDFLAGS) -Wl,--wrap=_cmocka_run_group_tests -o $@ $^ \
		$(STORE_LIBS) $(WEB_LIBS) $(DEVICE_LIBS) $(CMOCKA_LIBS) $(KVCTL_LIBS) -lm $(LDLIBS)
# Libraries for LD_PRELOAD: no sanitizer's, since the program may have none.
$(PRELOADS): $(B)/tests/%.so: tests/%.c $(wildcard tests/support/host_clocks.h)
	@mkdir -p $(@D)
	$(QL)$(CC) $(K_CPPFLAGS) $(filter-out -fsanitize%,$(K_CFLAGS)) -O2 -fPIC -shared -o $@ $<
$(FUZZERS): $(B)/%: $(O)/tests/fuzz/%.o $(TEST_AR)
	@mkdir -p $(@D)
	$(QL)$(TEST_LINK) -fsanitize=fuzzer $(LDFLAGS) -o $@ $^ $(STORE_LIBS) $(WEB_LIBS) \
		$(DEVICE_LIBS) $(CMOCKA_LIBS) $(KVCTL_LIBS) -lm $(LDLIBS)

# Tests and examples of the Rust crates, where the system has the compiler: a line for each program
# with its name and path.
$(B)/python/_hot.abi3.so: $(PYTHON_HOT_SRC) client/kvd.h $(O)/flags
	@mkdir -p $(@D)
	$(QL)$(COMPILE) -isystem $(dir $(PYTHON_H)) -fPIC -fvisibility=hidden -shared \
		$(filter-out -pie,$(K_LDFLAGS)) $(LDFLAGS) -o $@ $<

$(B)/rust/programs: $(B)/libkvd.so.$(SOMAJOR) $(RUST_SRC) client/rust/cargo client/rust/programs
	@mkdir -p $(@D)
	$(QR)KVD_BUILD=$(B) client/rust/programs >$@
crates: $(B)/libkvd.so.$(SOMAJOR)  ## the Rust crates as packages, in build/crates/
	@KVD_BUILD=$(B) client/rust/package $(B)/crates
.PHONY: crates

# libFuzzer is part of clang. It has its own folder, since every object is instrumented.
fuzz_make = $(MAKE) --no-print-directory $(SUBJOBS) CC=clang B=build/fuzz \
	SAN=fuzzer-no-link,address,undefined
fuzzers:  ## the fuzz targets in build/fuzz/, by clang
	@+$(fuzz_make) fuzz-programs
.PHONY: fuzz-programs

FUZZ_SECONDS ?= 20
fuzz: fuzzers  ## runs each fuzz target for FUZZ_SECONDS; findings and new inputs in build/fuzz/
	@for f in $(notdir $(FUZZ_SRC:.c=)); do mkdir -p build/fuzz/new/$$f && \
		build/fuzz/$$f -max_total_time=$(FUZZ_SECONDS) -artifact_prefix=build/fuzz/ \
		-verbosity=0 -print_final_stats=1 \
		build/fuzz/new/$$f tests/fuzz/corpus/$$f || exit 1; done
fuzz-programs: $(FUZZERS)

# The simulation has its own folder, since every access to memory is instrumented: by gcc, for
# ThreadSanitizer, whose functions tests/sim/points.c has. The tests' own objects are not.
SIM_CPPFLAGS := -include tests/sim/points.h -U__SANITIZE_THREAD__ -DKVD_DEBUG=1
SIM_UNSEEN := $(SIM_SRC) $(filter-out %exhaustive.c,$(wildcard tests/linearizability/lin*.c)) \
	tests/support/local_server.c
SIM_WRAPPED := accept4 clock_gettime close connect epoll_ctl epoll_wait getpid getrandom \
	host_memory_read kill memcpy memmove mkdtemp mmap nanosleep poll ppoll pthread_cond_signal \
	pthread_cond_timedwait pthread_cond_wait pthread_create pthread_detach \
	pthread_getcpuclockid pthread_join pthread_mutex_lock pthread_mutex_trylock \
	pthread_mutex_unlock pthread_once pthread_setaffinity_np read recvmmsg recvmsg \
	sched_getaffinity sched_getcpu sched_yield send sendmsg timerfd_create timerfd_gettime \
	timerfd_settime urcu_qsbr_quiescent_state urcu_qsbr_register_thread \
	urcu_qsbr_synchronize_rcu urcu_qsbr_thread_offline urcu_qsbr_thread_online \
	urcu_qsbr_unregister_thread usleep write
sim:  ## the simulation in build/sim/
	@+$(MAKE) --no-print-directory $(SUBJOBS) CC=gcc B=build/sim SIM=1 build/sim/sim
.PHONY: sim
ifdef SIM
K_CPPFLAGS += $(SIM_CPPFLAGS)
K_CFLAGS += -fsanitize=thread
$(call obj,$(SIM_UNSEEN)): private K_CFLAGS += -fno-sanitize=thread
$(B)/sim: $(call obj,$(SIM_UNSEEN)) $(O)/libserver.a $(O)/libclient.a $(O)/libcommon.a
	$(QL)$(LINK) $(LDFLAGS) $(SIM_WRAPPED:%=-Wl,--wrap=%) -o $@ $^ $(STORE_LIBS) \
		$(WEB_LIBS) $(DEVICE_LIBS) $(LDLIBS)
endif

deps:  ## installs what the build needs and is missing (Debian, Ubuntu)
	@conf/install-deps build
deps-test:  ## installs what lint, check and the Soft-RoCE VM need
	@conf/install-deps build test deb

deps-fleet:
	@conf/install-deps build fleet
deps-deb:
	@conf/install-deps build deb
deps-coverage:
	@conf/install-deps coverage

# tests/run-all builds what the chosen tests need.
run_all = @+$(if $(filter file,$(origin JOBS)),,JOBS=$(JOBS)) T='$(T)' tests/run-all
test: $(O)/found-test  ## the quick tests of a developer, in two minutes: no root, no VM, no network
	$(run_all) test
check: deps-test  ## release, ASan+UBSan and TSan, software device and Soft-RoCE: every test
	$(run_all)
record:  ## records what each case of the last `make check` cost, for lint
	@tests/lint/record --write
check-long:  ## every test in its long form and on each device: hours
	@+KVD_TEST_LONG=1 $(MAKE) --no-print-directory check

# Clang's coverage, with counters that stay when a process is killed. VERBS=1: in the VM, too.
COVER := -fprofile-instr-generate -fcoverage-mapping -mllvm -runtime-counter-relocation
coverage: deps-test deps-coverage  ## the share of each file's lines that the tests execute
	@+$(MAKE) --no-print-directory $(SUBJOBS) CC=clang B=build/coverage \
		CFLAGS='-O1 -g $(COVER)' LDFLAGS=-fprofile-instr-generate \
		OBJCOPY='$(OBJCOPY) --keep-global-symbol=__llvm_*' all tests
	@$(if $(filter file,$(origin JOBS)),,JOBS=$(JOBS)) T='$(T)' MAKEFLAGS= tests/coverage \
		$(if $(VERBS),-v)

MUTANTS ?=
mutants: deps-test  ## the bugs of tests/mutants/, each of which the tests must notice: half an hour
	@WERROR= tests/mutants/run -j $(JOBS) $(MUTANTS)

survivors:  ## code in F= that can be broken without any test (or any of T=) noticing
	@$(if $(F),,$(error give the files: make survivors F=server/store/limbo.c))
	@CC='$(CC)' tests/mutants/schemata -j $(JOBS) $(N:%=-n %) $(F) \
		$(if $(filter /%,$(firstword $(T))),-t '$(T)',$(T:%=-t %))
.PHONY: survivors

demo: deps  ## a server and YCSB A and C on the software device
	@+$(MAKE) --no-print-directory $(SUBJOBS) all
	@bench/demo.sh
demo-rdma: deps-test  ## the demo over libibverbs and librdmacm, in a VM if there is no device
	@+$(MAKE) --no-print-directory $(SUBJOBS) all
	@if [ -n "$$(ls -A /sys/class/infiniband 2>/dev/null)" ]; then bench/demo.sh --rdma; \
	else tests/vm/run -- bench/demo.sh --rdma; fi

demo-fleet: deps-fleet  ## members of a fleet and an etcd; one is killed, added, drained under load
	@+$(MAKE) --no-print-directory $(SUBJOBS) all
	@bench/demo-fleet.sh

deb: deps-deb  ## builds the Debian packages and their source package in build/deb
	@conf/deb build/deb
.PHONY: deb deps-deb

abi: $(B)/libkvd.so.$(SOMAJOR)  ## records the ABI of libkvd after an announced change
	@conf/abi record $<
.PHONY: abi

lint: headers layers format columns links rules words errors  ## all static checks
lint: scripts python cppcheck cost patches

# Every header compiles on its own; kvd.h does so in C++ too.
headers:
	@printf '%s\n' $(HDRS) | xargs -P $(JOBS) -I {} sh -c 'echo "#include \"{}\"" | \
		$(CC) $(K_CPPFLAGS) $(CPPFLAGS) -std=gnu11 -Wall -Wextra -Werror -fsyntax-only \
		-x c - || exit 255'
	@echo '#include "client/kvd.h"' | $(CXX) -I. -Wall -Wextra -Werror -fsyntax-only -x c++ -
	@echo '  headers ok'

# What the tests cost is what tests/record says.
cost:
	@tests/lint/record
	@echo '  cost ok'

# Folders include each other in one direction only, which the script defines.
layers:
	@tests/lint/includes

format:
	@printf '%s\n' $(ALL_SRC) $(HDRS) | xargs -P $(JOBS) -n 16 clang-format --dry-run -Werror
	@[ ! -x /usr/bin/rustfmt ] || client/rust/cargo fmt --check
	@echo '  format ok'

# No line of code, script or document is wider than 100 columns.
columns:
	@tests/lint/columns
	@echo '  columns ok'

# Links of the documents lead somewhere.
links:
	@tests/lint/links
	@echo '  links ok'

# Each rule has a label of its own, and texts cite labels that exist.
rules:
	@tests/lint/rules
	@echo '  rules ok'

# Comments, messages and documents have no words that are known to be hard to read.
words:
	@tests/lint/words
	@echo '  words ok'

# Each mutant applies, so that a change of the code that it breaks updates it, too.
patches:
	@f=; for p in tests/mutants/patches/*.patch; do \
		patch -p1 --dry-run -s -f <$$p >/dev/null || \
			{ echo "$$p: it does not apply: make the same mistake in today's code, or" \
			"delete it if that is impossible now (tests/mutants/README.md)"; f=1; }; \
		done; [ -z "$$f" ]
	@echo '  patches ok'

# kvctl prints errors through client/kvctl/error.h, which masks what a terminal would obey.
errors:
	@! grep -nw -e stderr -e perror $(filter-out %/error.c %/progress.c,$(KVCTL_SRC)) | \
		grep -v 'help_print(stderr)\|el_init('
	@echo '  errors ok'

fmt:  ## formats all C and Rust sources as lint requires
	@clang-format -i $(ALL_SRC) $(HDRS)
	@[ ! -x /usr/bin/rustfmt ] || client/rust/cargo fmt

scripts:
	@for s in $(SCRIPTS); do \
		[ -x $$s ] || ! head -c 2 $$s | grep -q '#!' || \
			{ echo "$$s: chmod +x it"; exit 1; }; \
		bash -n $$s || exit 1; done
	@echo '  scripts ok'

# Programs are checked against the package's type hints.
PYTHON_FILES = $(wildcard client/python/kvd/*.py client/python/kvd/names/*/*.py tests/*/*.py \
	tests/python/*/*.py bench/python/*.py conf/man/*.py) conf/man/generate client/python/wheel \
	tests/mutants/schemata
python:
	@/usr/bin/python3 -m pyflakes $(PYTHON_FILES)
	@MYPYPATH=client/python /usr/bin/python3 -m mypy --strict --no-error-summary \
		--cache-dir=$(B)/mypy client/python/kvd tests/python/user.py
	@echo '  python ok'

# warning, performance, portability: the checks with few false positives. Not style, which is a
# matter of taste, and not unusedFunction, since a library has functions that only its users call.
# cppcheck reads no system headers, which keeps it quick; so the loop macros of <sys/queue.h> and
# liburcu are defined here.
CPPCHECK_FLAGS := --enable=warning,performance,portability --inline-suppr --std=c11 --quiet \
	--error-exitcode=1 -I. -D_GNU_SOURCE -D__x86_64__ -D__LP64__ \
	-D'TAILQ_FOREACH(v,h,f)=while((v)=each_of(h))' \
	-D'LIST_FOREACH(v,h,f)=while((v)=each_of(h))' \
	-D'chain_for_each(t,b,h)=while((b)=each_of(h))' \
	-D'cds_lfht_for_each_entry(t,i,p,m)=while((p)=each_of(t))'
cppcheck:
	@cppcheck -j $(JOBS) $(CPPCHECK_FLAGS) $(filter-out tests/%,$(ALL_SRC))
	@echo '  cppcheck ok'

D = $(DESTDIR)
WORKLOADS := $(sort $(wildcard bench/workloads/*))
WORKLOADDIR = $(PREFIX)/share/kvd/workloads
SHARED := prometheus/kvd.rules.yml grafana/kvd.json kubernetes/kvd.yaml kubernetes/prometheus.yml
SHAREDIR = $(PREFIX)/share/kvd
COMPLETIONS = $(addprefix $(D)$(PREFIX)/share/,bash-completion/completions/kvctl \
	zsh/site-functions/_kvctl)
# The linker's cache must know a new library. Not where a package is built, in DESTDIR.
LDCONFIG = PATH="$$PATH:/usr/sbin:/sbin" ldconfig
ldconfig_run = $(if $(D),:,[ "$$(id -u)" != 0 ] || $(LDCONFIG))
MAN := build/man
man: $(B)/kvd $(B)/kvctl $(B)/kvbench  ## the manual pages, to build/man (needs markdown-it-py)
	$(Q)DOCDIR='$(DOCDIR)' conf/man/generate $(B) $(MAN)

unit_paths = -e 's|@BINDIR@|$(BINDIR)|; s|@SYSCONFDIR@|$(SYSCONFDIR)|'
install: all man  ## uses DESTDIR and PREFIX; keeps an existing kvd.ini
	$(Q)$(INSTALL) -Dm755 $(B)/kvd $(D)$(BINDIR)/kvd
	$(Q)$(INSTALL) -Dm755 $(B)/kvctl $(D)$(BINDIR)/kvctl
	$(Q)$(INSTALL) -Dm755 $(B)/kvbench $(D)$(BINDIR)/kvbench
	$(Q)$(INSTALL) -d $(dir $(COMPLETIONS))
	$(Q)$(B)/kvctl completion bash >$(word 1,$(COMPLETIONS))
	$(Q)$(B)/kvctl completion zsh >$(word 2,$(COMPLETIONS))
	$(Q)$(INSTALL) -Dm644 client/kvd.h $(D)$(INCLUDEDIR)/kvd.h
	$(Q)for s in 1 3 5 7 8; do $(INSTALL) -d $(D)$(MANDIR)/man$$s && \
		cp -d --no-preserve=ownership $(MAN)/*.$$s $(D)$(MANDIR)/man$$s/ || exit; done
	$(Q)$(INSTALL) -d $(D)$(DOCDIR)/examples
	$(Q)$(INSTALL) -m644 $(EXAMPLE_SRC) client/examples/Makefile $(D)$(DOCDIR)/examples
	$(Q)$(INSTALL) -Dm644 $(B)/libkvd.a $(D)$(LIBDIR)/libkvd.a
	$(Q)$(INSTALL) -Dm755 $(B)/libkvd.so.$(SOMAJOR) $(D)$(LIBDIR)/libkvd.so.$(VERSION)
	$(Q)ln -sf libkvd.so.$(VERSION) $(D)$(LIBDIR)/libkvd.so.$(SOMAJOR)
	$(Q)ln -sf libkvd.so.$(SOMAJOR) $(D)$(LIBDIR)/libkvd.so
	$(Q)mkdir -p $(D)$(LIBDIR)/pkgconfig $(D)$(UNITDIR)
	$(Q)sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@VERSION@|$(VERSION)|' \
		-e 's|@INCLUDEDIR@|$(INCLUDEDIR)|' client/libkvd/kvd.pc.in \
		>$(D)$(LIBDIR)/pkgconfig/kvd.pc
	$(Q)sed $(unit_paths) -e 's|@NAME@|kvd|; s|@RUNDIR@|kvd|' conf/kvd.service \
		>$(D)$(UNITDIR)/kvd.service
	$(Q)sed $(unit_paths) -e 's|@NAME@|%i|; s|@RUNDIR@|kvd-%i|' conf/kvd.service \
		>$(D)$(UNITDIR)/kvd@.service
	$(Q)$(INSTALL) -Dm644 conf/kvd.sysusers $(D)$(SYSUSERSDIR)/kvd.conf
	$(Q)$(INSTALL) -Dm644 conf/kvd.tmpfiles $(D)$(TMPFILESDIR)/kvd.conf
	$(Q)$(INSTALL) -d $(D)$(WORKLOADDIR)
	$(Q)$(INSTALL) -m644 $(WORKLOADS) $(D)$(WORKLOADDIR)
	$(Q)for f in $(SHARED); do \
		$(INSTALL) -Dm644 conf/$$f $(D)$(SHAREDIR)/$$f || exit; done
	$(Q)$(INSTALL) -Dm755 conf/upgrade $(D)$(SHAREDIR)/upgrade
	$(Q)[ -e $(D)$(SYSCONFDIR)/kvd/kvd.ini ] || \
		$(INSTALL) -Dm644 conf/kvd.ini $(D)$(SYSCONFDIR)/kvd/kvd.ini
	$(Q)$(ldconfig_run)
	$(Q)[ -n "$(D)" ] || { l=$(LIBDIR)/libkvd.so.$(SOMAJOR); for f in $$($(LDCONFIG) -p | \
		sed -n 's|.* => \(.*/libkvd[.]so[.]$(SOMAJOR)\)$$|\1|p'); do \
			[ ! "$$f" -ef "$$l" ] || l=; done; [ -z "$$l" ]; } || \
		echo "The dynamic linker does not search $(LIBDIR): link programs with" \
		"-Wl,-rpath,$(LIBDIR), set LD_LIBRARY_PATH, or add it to /etc/ld.so.conf.d."

# Where Debian's python3 looks: Debian's packages are in one folder for all versions.
PYTHONDIR ?= $(if $(filter /usr,$(PREFIX:/=)),/usr/lib/python3/dist-packages,$(PREFIX)/lib/$(shell \
	python3 -c 'import sys; print("python%d.%d" % sys.version_info[:2])')/dist-packages)
PYTHON_SRC := $(sort $(wildcard client/python/kvd/*.py)) client/python/kvd/py.typed
PYTHON_NAMES := names/mooncake
install-python: $(HOT)  ## the Python package, to PYTHONDIR
	$(Q)$(INSTALL) -d $(D)$(PYTHONDIR)/kvd/$(PYTHON_NAMES)
	$(Q)$(INSTALL) -m644 $(wildcard client/python/kvd/$(PYTHON_NAMES)/*.py) \
		$(D)$(PYTHONDIR)/kvd/$(PYTHON_NAMES)
	$(Q)$(INSTALL) -m644 $(PYTHON_SRC) $(HOT) $(D)$(PYTHONDIR)/kvd

.PHONY: wheel
WHEELDIR ?= $(B)/wheel
wheel: $(B)/libkvd.so.$(SOMAJOR) $(HOT)  ## the Python package with libkvd inside, in build/wheel/
	$(Q)rm -f $(WHEELDIR)/kvd-*.whl
	$(Q)client/python/wheel $(WHEELDIR) $^

uninstall-python:  ## removes what install-python installed
	$(Q)rm -rf $(D)$(PYTHONDIR)/kvd

uninstall:  ## removes what install installed; keeps a changed kvd.ini
	$(Q)rm -f $(COMPLETIONS) $(addprefix $(D)$(MANDIR)/,man1/kvctl.1 man1/kvbench.1 \
		man3/libkvd.3 man5/kvd.ini.5 man7/kvd-protocol.7 man8/kvd.8) \
		$(D)$(MANDIR)/man3/kvd_*.3
	$(Q)rm -f $(addprefix $(D)$(BINDIR)/,kvd kvctl kvbench) $(D)$(INCLUDEDIR)/kvd.h \
		$(addprefix $(D)$(LIBDIR)/,libkvd.a libkvd.so libkvd.so.$(SOMAJOR) \
		libkvd.so.$(VERSION) pkgconfig/kvd.pc) \
		$(addprefix $(D)$(UNITDIR)/,kvd.service kvd@.service) \
		$(D)$(SYSUSERSDIR)/kvd.conf $(D)$(TMPFILESDIR)/kvd.conf \
		$(addprefix $(D)$(WORKLOADDIR)/,$(notdir $(WORKLOADS))) \
		$(addprefix $(D)$(SHAREDIR)/,$(SHARED) upgrade) \
		$(addprefix $(D)$(DOCDIR)/examples/,$(notdir $(EXAMPLE_SRC)) Makefile)
	$(Q)rmdir -p $(D)$(DOCDIR)/examples $(D)$(WORKLOADDIR) \
		$(addprefix $(D)$(SHAREDIR)/,$(dir $(SHARED))) 2>/dev/null || true
	$(Q)! cmp -s conf/kvd.ini $(D)$(SYSCONFDIR)/kvd/kvd.ini || \
		rm -f $(D)$(SYSCONFDIR)/kvd/kvd.ini
	$(Q)rmdir $(D)$(SYSCONFDIR)/kvd 2>/dev/null || true
	$(Q)$(ldconfig_run)

clean:  ## removes build/
	$(Q)rm -rf build

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*  ## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t14

# Programs that the scripts in bench/ need besides kvbench: the player of traces, and measurements
# of libkvd and of the storage engine. Programs in bench/engine link the server library and include
# no headers of server/ but those of the storage engine.
MICRO_SRC := $(sort $(wildcard bench/micro/*.c))
ALL_SRC   += $(MICRO_SRC) bench/engine/table-bench.c
.PHONY: benchmarks
benchmarks: all $(addprefix $(B)/,kvtrace micro table-bench)  ## the other programs of bench/*.sh
	@:
$(B)/kvtrace: $(O)/bench/kvtrace/main.o $(O)/libbench.a $(O)/libclient.a $(O)/libcommon.a
	$(QL)$(LINK) $(LDFLAGS) -o $@ $^ $(DEVICE_LIBS) -lm $(LDLIBS)
$(B)/micro: $(call obj,$(MICRO_SRC)) $(O)/libbench.a $(O)/libclient.a $(O)/libcommon.a
	$(QL)$(LINK) $(LDFLAGS) -o $@ $^ $(DEVICE_LIBS) $(REDIS_LIBS) -lm $(LDLIBS)
$(B)/table-bench: $(O)/bench/engine/table-bench.o $(O)/libbench.a $(O)/libserver.a $(O)/libcommon.a
	$(QL)$(LINK) $(LDFLAGS) -o $@ $^ $(STORE_LIBS) $(DEVICE_LIBS) -lm $(LDLIBS)

-include $(patsubst %.o,%.d,$(call obj,$(ALL_SRC)))
