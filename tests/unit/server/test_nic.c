/* SPDX-License-Identifier: MIT */
/*
 * Tests of the check of the locked-memory limit: the verdict for each limit; and that a process
 * with the limit and without the capability raises it, or logs what to do. Each case runs in a
 * child process.
 */
#include "server/worker/nic.h"

#include <errno.h>
#include <linux/capability.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/util/log.h"
#include "tests/support/log_fixture.h"

#define MIB ((uint64_t)1 << 20)

static void verdicts(void **state)
{
	static const struct {
		rlim_t soft, hard;
		bool capable;
		enum memlock_verdict verdict;
	} cases[] = {
		{ 100, 100, false, MEMLOCK_ENOUGH },
		{ 99, 99, false, MEMLOCK_SHORT },
		{ 99, 100, false, MEMLOCK_RAISE },
		{ 0, 99, false, MEMLOCK_SHORT },
		{ 0, RLIM_INFINITY, false, MEMLOCK_RAISE },
		{ RLIM_INFINITY, RLIM_INFINITY, false, MEMLOCK_ENOUGH },
		{ 0, 0, true, MEMLOCK_ENOUGH },
	};

	(void)state;
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct rlimit limit = { cases[i].soft, cases[i].hard };

		assert_int_equal(memlock_decide(&limit, cases[i].capable, 100), cases[i].verdict);
	}
}

static int drop_lock_capability(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	if (syscall(SYS_capget, &header, data))
		return -1;
	data[CAP_TO_INDEX(CAP_IPC_LOCK)].effective &= ~CAP_TO_MASK(CAP_IPC_LOCK);
	return (int)syscall(SYS_capset, &header, data);
}

#define NOT_CAPABLE 77

/*
 * The exit status of a child with these limits: 0 if the check passes, 1 for -ENOMEM; NOT_CAPABLE
 * if the kernel does not let it lock a byte in spite of @capable; any other is an error of the
 * test.
 */
static int child_checks(rlim_t soft, rlim_t hard, bool capable, rlim_t soft_after)
{
	const struct rlimit limit = { soft, hard };
	struct config config;
	struct rlimit after;
	int err;

	if (setrlimit(RLIMIT_MEMLOCK, &limit) || (!capable && drop_lock_capability()) ||
	    log_init(LOG_NOTICE, test_log_path))
		return 2;
	if (capable && mlock(&config, 1))
		return NOT_CAPABLE;
	config_init(&config);
	if (config_set(&config, "server.workers=3") ||
	    config_set(&config, "request.srq_depth=64") || config_set(&config, "request.buffer=2k"))
		return 3;
	err = nic_check_memlock(&config, MIB - 512);
	if (getrlimit(RLIMIT_MEMLOCK, &after) || after.rlim_cur != soft_after)
		return 4;
	return err == -ENOMEM ? 1 : err ? 5 : 0;
}

static int check_in_child(rlim_t soft, rlim_t hard, bool capable, rlim_t soft_after)
{
	pid_t pid;
	int status;

	unlink(test_log_path);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(child_checks(soft, hard, capable, soft_after));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* 3 workers x 144 buffers x (2048 + 128 bytes) are 918 KiB, the region a little less than 1024. */
#define NEEDED_KIB 1942
#define KIB(n) ((rlim_t)(n) << 10)

/* Any process can lower its hard limit, few can raise it again. */
static void need_hard_limit(rlim_t bytes)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_MEMLOCK, &limit), 0);
	if (limit.rlim_max < bytes) {
		print_message("skipped: this process may lock %llu KiB at most\n",
			      (unsigned long long)limit.rlim_max / 1024);
		skip();
	}
}

static void limit_too_low(void **state)
{
	(void)state;
	need_hard_limit(KIB(NEEDED_KIB));
	assert_int_equal(check_in_child(KIB(16), KIB(64), false, KIB(16)), 1);
	assert_logged(
		" error this process may lock 16 KiB of memory (RLIMIT_MEMLOCK), at most 64 "
		"KiB by its hard limit, and must lock about 1.8 MiB to serve on an RDMA "
		"device: 1023.5 KiB of regions, 918 KiB of buffers and queues of 3 workers; allow "
		"it with `ulimit -l 1942` in the shell that starts kvd, LimitMEMLOCK=1942K in "
		"its systemd unit, or the capability CAP_IPC_LOCK, or lower memory.size or "
		"tenants.memory\n");
	/* One KiB less than it needs. */
	assert_int_equal(check_in_child(0, KIB(NEEDED_KIB - 1), false, 0), 1);
}

static void soft_limit_is_raised(void **state)
{
	(void)state;
	need_hard_limit(KIB(NEEDED_KIB));
	assert_int_equal(check_in_child(0, KIB(NEEDED_KIB), false, KIB(NEEDED_KIB)), 0);
	assert_int_equal(test_log_lines(), 0);
	assert_int_equal(check_in_child(KIB(NEEDED_KIB), KIB(NEEDED_KIB), false, KIB(NEEDED_KIB)),
			 0);
	assert_int_equal(test_log_lines(), 0);
}

static void capability_suffices(void **state)
{
	int status = check_in_child(0, 0, true, 0);

	(void)state;
	if (status == NOT_CAPABLE) {
		print_message("skipped: this process has no CAP_IPC_LOCK to try it with\n");
		skip();
	}
	assert_int_equal(status, 0);
	assert_int_equal(test_log_lines(), 0);
}

/* A device that can't register the region in one piece is refused with both figures. */
static void a_device_too_small(void **state)
{
	const struct ibv_device_attr attr = { .max_mr_size = 1000 };

	(void)state;
	assert_int_equal(test_log_begin(), 0);
	assert_int_equal(nic_check_size(&attr, "mlx9", 1000), 0);
	assert_int_equal(test_log_lines(), 0);
	assert_int_equal(nic_check_size(&attr, "mlx9", 1001), -E2BIG);
	assert_logged(
		" error device mlx9: it registers at most 1000 bytes in one piece (max_mr_size), "
		"and the region has 1001 bytes: lower memory.size\n");
	log_release();
}

/* A device that counts its objects and keeps what was asked for. */
static char made[16]; /* a letter each, as they were made; in capitals, as they were destroyed */
static char fails;    /* the one that can't be made */
static struct region *registered;
static int wanted_access;
static struct ibv_device_attr device_attr;
static struct ibv_pd pd;
static struct ibv_mr mr;

static int make(char letter)
{
	size_t n = strlen(made);

	assert_true(n + 1 < sizeof(made));
	made[n] = letter;
	return letter == fails ? -ENOMEM : 0;
}

static int alloc_pd(struct device *dev, struct ibv_pd **out)
{
	(void)dev;
	*out = &pd;
	return make('p');
}

static int query(struct device *dev, struct ibv_device_attr *attr, struct ibv_port_attr *port)
{
	(void)dev;
	*attr = device_attr;
	memset(port, 0, sizeof(*port));
	return 0;
}

static unsigned int reg_count;

/* Guarantee D: clients may read it, and nothing else. */
static int reg_mr(struct ibv_pd *of, const struct device_mem *mem, int access, struct ibv_mr **out)
{
	assert_ptr_equal(of, &pd);
	assert_ptr_equal(mem->addr, registered->base + reg_count * registered->extent_bytes);
	assert_int_equal(mem->length, registered->extent_bytes);
	assert_int_equal(mem->fd, registered->extents[reg_count].fd);
	assert_int_equal(mem->fd_offset, registered->extents[reg_count].offset);
	assert_int_equal(access, wanted_access);
	*out = &mr;
	reg_count++;
	return make('m');
}

static void dereg_mr(struct ibv_mr *of)
{
	make(of ? 'M' : '-');
}

static void dealloc_pd(struct ibv_pd *of)
{
	make(of ? 'P' : '-');
}

/* The region is registered, and all is released in reverse, once. */
static void a_device(void **state)
{
	static const struct device_ops ops = {
		.alloc_pd = alloc_pd,
		.reg_mr = reg_mr,
		.dereg_mr = dereg_mr,
		.dealloc_pd = dealloc_pd,
	};
	static struct device dev = { .name = "fake0", .ops = &ops };
	static const char letters[] = { 0, 'p', 'm' };
	static const char *const logged[] = {
		"device fake0: 1 MiB of the region registered in ",
		"can't set up a protection domain",
		"can't register 1 MiB of the region",
	};
	static struct store store;
	static struct config config;
	struct ibv_mr *registrations[EXTENTS_MAX];
	struct nic nic;

	(void)state;
	config_init(&config);
	dev.kind = DEVICE_SOFTNIC;
	wanted_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
	registered = &store.region;
	store.region.bytes = store.region.extent_bytes = MIB;
	store.region.extents[0].fd = 77;
	store.region.base = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
				 0);
	assert_true(store.region.base != MAP_FAILED);
	for (unsigned int i = 0; i < sizeof(letters); i++) {
		fails = letters[i];
		memset(made, 0, sizeof(made));
		memset(registrations, 0, sizeof(registrations));
		reg_count = 0;
		assert_int_equal(test_log_begin(), 0);
		nic = (struct nic){ .dev = &dev, .why = "asked", .attr.max_mr_size = MIB };
		assert_int_equal(nic_init(&nic, &config) ?:
					 nic_register(&nic, &store.region, 1, registrations),
				 fails ? -ENOMEM : 0);
		assert_logged(logged[i]);
		if (i != 1)
			assert_logged("device softnic fake0: asked; one key for all");
		assert_int_equal(strlen(made), i ? i : 2);
		if (!fails)
			dereg_mr(registrations[0]);
		/* A device's destroy functions accept NULL: what it has not made. */
		nic_release(&nic);
		assert_null(nic.dev);
		if (!fails)
			assert_string_equal(made, "pmMP");
	}
	/* One that is too small for the region, by a byte, is not asked. */
	fails = 0;
	memset(made, 0, sizeof(made));
	nic = (struct nic){ .dev = &dev, .why = "asked", .attr.max_mr_size = MIB - 1 };
	assert_int_equal(nic_register(&nic, &store.region, 1, registrations), -E2BIG);
	assert_string_equal(made, "");
	munmap(store.region.base, MIB);
	log_release();
}

/* Each connection's own window where there are some; then the region's key allows nothing. */
static void memory_windows(void **state)
{
	static const struct {
		const char *mode;
		unsigned int flags;
		int max;
		bool windows;
		int err;
		const char *logged;
	} cases[] = {
		{ "auto", IBV_DEVICE_MEM_WINDOW_TYPE_2B, 1028, true, 0, NULL },
		{ "yes", IBV_DEVICE_MEM_WINDOW_TYPE_2B, 1028, true, 0, NULL },
		{ "no", IBV_DEVICE_MEM_WINDOW_TYPE_2B, 1028, false, 0, NULL },
		{ "auto", IBV_DEVICE_MEM_WINDOW_TYPE_2B, 1027, true, 0,
		  "it has 1027 memory windows, fewer than the 1028 that the 1028 connections" },
		{ "auto", IBV_DEVICE_MEM_WINDOW_TYPE_2B, 0, false, 0, "all clients READ by one" },
		{ "auto", IBV_DEVICE_MEM_WINDOW, 1028, false, 0, "all clients READ by one key" },
		{ "no", 0, 0, false, 0, NULL },
		{ "yes", IBV_DEVICE_MEM_WINDOW, 1028, false, -EOPNOTSUPP,
		  "device fake0: it has no memory windows of type 2B, and rdma.windows = yes" },
		{ "yes", IBV_DEVICE_MEM_WINDOW_TYPE_2B, 0, false, -EOPNOTSUPP, "rdma.windows" },
	};
	static const struct device_ops ops = {
		.query = query,
		.alloc_pd = alloc_pd,
		.reg_mr = reg_mr,
		.dereg_mr = dereg_mr,
		.dealloc_pd = dealloc_pd,
	};
	static struct device dev = { .name = "fake0", .ops = &ops };
	static struct store store;
	struct config config;
	struct ibv_mr *registrations[EXTENTS_MAX];
	char option[32];
	struct nic nic;

	(void)state;
	dev.kind = DEVICE_SOFTNIC;
	fails = 0;
	registered = &store.region;
	store.region.bytes = MIB;
	store.region.base = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
				 0);
	assert_true(store.region.base != MAP_FAILED);
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		config_init(&config);
		snprintf(option, sizeof(option), "rdma.windows=%s", cases[i].mode);
		assert_int_equal(config_set(&config, option), 0);
		memset(made, 0, sizeof(made));
		memset(registrations, 0, sizeof(registrations));
		reg_count = 0;
		device_attr = (struct ibv_device_attr){
			.max_mr_size = UINT64_MAX,
			.device_cap_flags = cases[i].flags,
			.max_mw = cases[i].max,
		};
		wanted_access = IBV_ACCESS_LOCAL_WRITE |
				(cases[i].windows ? IBV_ACCESS_MW_BIND : IBV_ACCESS_REMOTE_READ);
		assert_int_equal(test_log_begin(), 0);
		assert_int_equal(nic_open(&nic, &dev, &config, "asked"), cases[i].err);
		if (!cases[i].err) {
			assert_int_equal(nic.windows, cases[i].windows);
			assert_int_equal(nic_init(&nic, &config), 0);
			assert_int_equal(nic_register(&nic, &store.region, 1, registrations), 0);
			nic_release(&nic);
		}
		if (cases[i].logged)
			assert_logged(cases[i].logged);
		assert_int_equal(test_log_lines(), 2 * !cases[i].err + !!cases[i].logged);
		log_release();
	}
	munmap(store.region.base, MIB);
}

/* What is configured is taken, without a look at this host. */
static void chosen(void **state)
{
	static const struct {
		const char *urls;
		uint32_t ways;
	} cases[] = {
		{ "rdma://", DEVICE_RDMA },
		{ "softnic:///s", DEVICE_SOFTNIC },
		{ "softnic://,rdma://:1,rdma://:2", DEVICE_RDMA | DEVICE_SOFTNIC },
		{ "rdma+tls://,rdma+tcp://[::]", DEVICES_OVER_TCP },
	};
	char name[IBV_SYSFS_NAME_MAX];
	struct config configured;
	const char *why;

	(void)state;
	config_init(&configured);
	assert_int_equal(nic_choose(&configured, &why),
			 device_verbs_present(name) ? DEVICE_RDMA : DEVICE_SOFTNIC);
	assert_memory_equal(why, "server.listen = auto, and this host has ", 40);
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		strcpy(configured.server.listen, cases[i].urls);
		assert_int_equal(nic_choose(&configured, &why), cases[i].ways);
		assert_string_equal(why, "the configuration asks for it");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(verdicts),
		cmocka_unit_test(limit_too_low),
		cmocka_unit_test(soft_limit_is_raised),
		cmocka_unit_test(capability_suffices),
		cmocka_unit_test(a_device_too_small),
		cmocka_unit_test(a_device),
		cmocka_unit_test(memory_windows),
		cmocka_unit_test(chosen),
	};

	return cmocka_run_group_tests(tests, test_log_group_setup, test_log_group_teardown);
}
