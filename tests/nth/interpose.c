/* SPDX-License-Identifier: MIT */
/*
 * The calls that fail: see interpose.h. Each wrapper takes and passes on as many words as any of
 * the calls has arguments; the ABIs of kvd's machines pass integers and pointers so, whatever their
 * number and type, and none of the calls takes anything else.
 */
#include "tests/nth/interpose.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/nth/calls.h"

#define FDS_MAX 1024
#define THREAD_PAUSE_US 1000
#define THREAD_LOOKS 1000

static struct nth_report none, *report = &none;
static bool fds_before[FDS_MAX];
static char plan_call[NTH_NAME_MAX];
static uint64_t plan_offset, plan_from, plan_count;
static bool plan_other;
static atomic_bool armed;

extern const char __executable_start[];

/* The site's row, which the first call makes; @call must be the same object for each. */
static struct nth_site *site_of(const char *call, uint64_t offset)
{
	uint32_t at = (uint32_t)(offset * 2654435761u) % NTH_SITES_MAX;

	for (;; at = (at + 1) % NTH_SITES_MAX) {
		uint64_t used = atomic_load(&report->sites[at].offset);

		if (!used &&
		    atomic_compare_exchange_strong(&report->sites[at].offset, &used, offset)) {
			strncpy(report->sites[at].call, call, NTH_NAME_MAX - 1);
			return &report->sites[at];
		}
		if (used == offset)
			return &report->sites[at];
	}
}

/* 0, or the error of a call that has to fail. */
static int fault(const char *call, const void *from, int error, int other)
{
	uint64_t offset = (uint64_t)((const char *)from - __executable_start), n;

	if (report == &none)
		return 0;
	n = atomic_fetch_add(&site_of(call, offset)->reached, 1) + 1;
	if (offset != plan_offset || !atomic_load(&armed) || strcmp(call, plan_call) != 0 ||
	    n < plan_from || (plan_count && n >= plan_from + plan_count))
		return 0;
	atomic_fetch_add(&report->failed, 1);
	return plan_other ? other : error;
}

static long fails(enum nth_how how, int error)
{
	if (how == NTH_CODE || how == NTH_LATE_CODE)
		return error;
	errno = error;
	return how == NTH_NULL ? 0 : -1;
}

/* What the program's own calls map and unmap; those at a fixed place replace what was there. */
static void count_mapping(const char *call, long result, long b, long c, long d)
{
	if (!strcmp(call, "mmap") && result != -1 && !(d & MAP_FIXED))
		atomic_fetch_add(&report->mappings, b);
	else if (!strcmp(call, "munmap") && !(int)result)
		atomic_fetch_sub(&report->mappings, b);
	else if (!strcmp(call, "mremap") && result != -1)
		atomic_fetch_add(&report->mappings, c - b);
}

static int (*real_post_send)(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);
static int (*real_post_recv)(struct ibv_qp *, struct ibv_recv_wr *, struct ibv_recv_wr **);
static int (*real_post_srq_recv)(struct ibv_srq *, struct ibv_recv_wr *, struct ibv_recv_wr **);
static int (*real_poll_cq)(struct ibv_cq *, int, struct ibv_wc *);
static int (*real_req_notify_cq)(struct ibv_cq *, int);

static int fault_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	int err = fault("post_send", __builtin_return_address(0), ENOMEM, EIO);

	if (!err)
		return real_post_send(qp, wr, bad);
	*bad = wr;
	return err;
}

static int fault_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	int err = fault("post_recv", __builtin_return_address(0), ENOMEM, EIO);

	if (!err)
		return real_post_recv(qp, wr, bad);
	*bad = wr;
	return err;
}

static int fault_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr,
			       struct ibv_recv_wr **bad)
{
	int err = fault("post_srq_recv", __builtin_return_address(0), ENOMEM, EIO);

	if (!err)
		return real_post_srq_recv(srq, wr, bad);
	*bad = wr;
	return err;
}

static int fault_poll_cq(struct ibv_cq *cq, int max, struct ibv_wc *wc)
{
	return fault("poll_cq", __builtin_return_address(0), EIO, 0) ? -1 :
								       real_poll_cq(cq, max, wc);
}

static int fault_req_notify_cq(struct ibv_cq *cq, int solicited)
{
	int err = fault("req_notify_cq", __builtin_return_address(0), EIO, 0);

	return err ? err : real_req_notify_cq(cq, solicited);
}

/* Contexts are opened by librdmacm too; of what has a queue, one is passed to us here. */
static void hook(const char *call, long first)
{
	struct ibv_context *context = NULL;

	if (!strcmp(call, "ibv_create_cq"))
		context = (struct ibv_context *)first;
	else if (!strcmp(call, "ibv_create_qp") || !strcmp(call, "ibv_create_srq"))
		context = ((struct ibv_pd *)first)->context;
	if (!context || context->ops.poll_cq == fault_poll_cq)
		return;
	real_poll_cq = context->ops.poll_cq;
	real_post_send = context->ops.post_send;
	real_post_recv = context->ops.post_recv;
	real_post_srq_recv = context->ops.post_srq_recv;
	real_req_notify_cq = context->ops.req_notify_cq;
	context->ops.post_send = fault_post_send;
	context->ops.post_recv = fault_post_recv;
	context->ops.post_srq_recv = fault_post_srq_recv;
	context->ops.req_notify_cq = fault_req_notify_cq;
	context->ops.poll_cq = fault_poll_cq;
}

#define MAPS(name) (#name[0] == 'm')
#define HAS_QUEUE(name) (#name[0] == 'i')

/* clang-format off */
#define WRAP(name, how, error, other)						\
	long __real_##name(long a, long b, long c, long d, long e, long f, long g); \
	long __wrap_##name(long a, long b, long c, long d, long e, long f, long g); \
	long __wrap_##name(long a, long b, long c, long d, long e, long f, long g) \
	{									\
		int err = fault(#name, __builtin_return_address(0), error, other); \
		long result;							\
										\
		if (err && ((how) < NTH_LATE_MINUS))				\
			return fails(how, err);					\
		if (HAS_QUEUE(name))						\
			hook(#name, a);						\
		result = __real_##name(a, b, c, d, e, f, g);			\
		if (MAPS(name))							\
			count_mapping(#name, result, b, c, d);		\
		return err ? fails(how, err) : result;				\
	}
/* clang-format on */

NTH_CALLS(WRAP)

void nth_disarm(void)
{
	atomic_store(&armed, false);
}

uint64_t nth_failed(void)
{
	return atomic_load(&report->failed);
}

/* Calls fn with each descriptor that is open, but for its own. */
static void each_fd(void (*fn)(int fd))
{
	DIR *dir = opendir("/proc/self/fd");
	const struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(dir))
			fn(atoi(entry->d_name));
	if (dir)
		closedir(dir);
}

static void fd_note(int fd)
{
	if (fd < FDS_MAX)
		fds_before[fd] = true;
}

static void fd_report(int fd)
{
	size_t used = strlen(report->left);
	char path[32], to[128];
	ssize_t len;

	if (fd < FDS_MAX && fds_before[fd])
		return;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	len = readlink(path, to, sizeof(to) - 1);
	to[len < 0 ? 0 : len] = '\0';
	report->fds++;
	snprintf(report->left + used, sizeof(report->left) - used, " %d=%s", fd, to);
}

static uint64_t threads(void)
{
	DIR *dir = opendir("/proc/self/task");
	uint64_t n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n - 2; /* . and .. */
}

/* One that was joined may be there for a moment yet. */
static uint64_t threads_left(void)
{
	uint64_t n = threads();

	for (int i = 0; n > 1 && i < THREAD_LOOKS; i++) {
		usleep(THREAD_PAUSE_US);
		n = threads();
	}
	return n;
}

static void plan_parse(const char *text)
{
	char other[8] = "";

	if (sscanf(text, "%31[^:]:%lu:%lu:%lu:%7s", plan_call, &plan_offset, &plan_from,
		   &plan_count, other) < 4) {
		fprintf(stderr, "KVD_NTH=%s: give CALL:OFFSET:FROM:COUNT[:other]\n", text);
		_exit(EXIT_FAILURE);
	}
	plan_other = other[0] != '\0';
	atomic_store(&armed, true);
}

/* clang's coverage: maps the file of its counters, if that is not mapped. */
__attribute__((weak)) void __llvm_profile_initialize(void);

__attribute__((constructor)) static void begin(void)
{
	const char *plan = getenv("KVD_NTH"), *path = getenv("KVD_NTH_REPORT");
	void *at;
	int fd;

	if (!path)
		return;
	if (__llvm_profile_initialize)
		__llvm_profile_initialize(); /* before ours begins to count */
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, sizeof(*report)) ||
	    (at = mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) ==
		    MAP_FAILED) {
		perror(path);
		_exit(EXIT_FAILURE);
	}
	close(fd);
	each_fd(fd_note);
	if (plan)
		plan_parse(plan);
	report = at;
}

__attribute__((destructor)) static void end(void)
{
	if (report == &none)
		return;
	nth_disarm();
	report->threads = threads_left();
	each_fd(fd_report);
	atomic_store(&report->ended, 1);
}
