/* SPDX-License-Identifier: MIT */
/* Writes the report of a fatal signal. All that it calls is async-signal-safe: no printf. */
#include "server/crash_report.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <limits.h>
#include <link.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include "common/util/clock.h"
#include "common/util/log.h"
#include "common/util/thread.h"
#include "server/config/version.h"
#include "server/control/net.h"

#define FRAMES_MAX 64

/* A full pipe gets no report: the core dump must not wait for its reader. */
#define WRITE_WAIT_MS 100

/* A line; a path that is longer is cut. */
struct text {
	char bytes[LOG_LINE_MAX];
	size_t used;
};

static char program[PATH_MAX]; /* the path that the program was started from */
static const struct net *_Atomic workers_of;

void crash_report_prepare(void)
{
	ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 1);
	void *frame;

	program[length < 0 ? 0 : length] = '\0';
	backtrace(&frame, 1);
}

void crash_report_workers(const struct net *net)
{
	atomic_store(&workers_of, net);
}

static void put(struct text *text, const char *string)
{
	while (*string && text->used < sizeof(text->bytes))
		text->bytes[text->used++] = *string++;
}

static void put_number(struct text *text, uint64_t value, unsigned int base)
{
	char digits[24], *at = digits + sizeof(digits) - 1;

	*at = '\0';
	do
		*--at = "0123456789abcdef"[value % base];
	while (value /= base);
	put(text, base == 16 ? "0x" : "");
	put(text, at);
}

static void line_begin(struct text *text)
{
	text->used = 0;
	put(text, "crash: ");
}

static void line_write(int fd, const char *line, size_t length)
{
	struct pollfd poller = { .fd = fd, .events = POLLOUT };

	if (poll(&poller, 1, WRITE_WAIT_MS) > 0 && write(fd, line, length) < 0)
		return;
}

static void line_end(const struct text *text)
{
	char line[LOG_LINE_MAX];
	size_t length = log_line(line, LOG_ERROR, text->bytes, text->used);

	line_write(STDERR_FILENO, line, length);
	if (log_descriptor() != STDERR_FILENO)
		line_write(log_descriptor(), line, length);
}

static void report_signal(const siginfo_t *info)
{
	const char *name = sigabbrev_np(info->si_signo);
	struct text text;

	line_begin(&text);
	put(&text, "signal ");
	put_number(&text, (uint64_t)info->si_signo, 10);
	put(&text, " (SIG");
	put(&text, name ? name : "?");
	if (info->si_code <= 0) {
		put(&text, ") sent by process ");
		put_number(&text, (uint64_t)info->si_pid, 10);
	} else {
		put(&text, ") at address ");
		put_number(&text, (uintptr_t)info->si_addr, 16);
	}
	put(&text, " in thread ");
	put(&text, thread_name());
	put(&text, " of kvd " KVD_SERVER_VERSION ", process ");
	put_number(&text, (uint64_t)getpid(), 10);
	line_end(&text);
}

static void report_worker(const struct worker *worker)
{
	uint64_t began_ns = __atomic_load_n(&worker->turn.began_ns, __ATOMIC_RELAXED);
	uint64_t now_ns = worker->env ? store_clock_ns(worker->env->store) : 0;
	uint32_t op = __atomic_load_n(&worker->turn.op, __ATOMIC_RELAXED);
	struct text text;

	line_begin(&text);
	put(&text, "worker ");
	put_number(&text, worker->number, 10);
	if (began_ns) {
		put(&text, ": in a turn for ");
		put_number(&text, now_ns > began_ns ? (now_ns - began_ns) / 1000 : 0, 10);
		put(&text, " us");
	} else {
		put(&text, ": between turns");
	}
	if (op) {
		put(&text, began_ns ? "; operation " : "; last operation ");
		put(&text, wire_op_name((enum wire_op)op));
		put(&text, " of connection ");
		put_number(&text, stat_read(&worker->turn.client), 10);
	}
	line_end(&text);
}

static void report_workers(void)
{
	const struct net *net = atomic_load(&workers_of);

	for (unsigned int i = 0; net && i < net->workers_made; i++)
		report_worker(&net->workers[i]);
}

/* Where the thread was; NULL: not known on this machine. */
static const void *context_pc(const void *context)
{
#if defined(__x86_64__)
	return (void *)((const ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
	return (void *)((const ucontext_t *)context)->uc_mcontext.pc;
#else
	(void)context;
	return NULL;
#endif
}

/* The file that the code at @pc is of, and its offset there, as addr2line wants it. */
static void put_place(struct text *text, const void *pc)
{
	struct dl_find_object object;
	const char *file;

	if (_dl_find_object((void *)pc, &object)) {
		put_number(text, (uintptr_t)pc, 16);
		return;
	}
	file = object.dlfo_link_map->l_name;
	put(text, *file ? file : program);
	put(text, " ");
	put_number(text, (uintptr_t)pc - object.dlfo_link_map->l_addr, 16);
}

/* The address of a call is the one that it returns to, which may be another line's. */
static void report_frame(unsigned int number, const char *pc, bool is_call)
{
	struct text text;

	line_begin(&text);
	put(&text, "#");
	put_number(&text, number, 10);
	put(&text, " ");
	put_place(&text, pc - is_call);
	line_end(&text);
}

static void report_calls(const void *context)
{
	const void *pc = context_pc(context);
	void *frames[FRAMES_MAX];
	int i, first = 0, count;
	struct text text;

	line_begin(&text);
	put(&text, "calls, the last one first; `addr2line -Cfipe FILE OFFSET` names the line of "
		   "code, if the debug information is there");
	line_end(&text);
	/* Before the walk, which ends here if the stack is damaged. */
	if (pc)
		report_frame(0, pc, false);
	count = backtrace(frames, FRAMES_MAX);
	/* The handler's own frames come before. */
	while (first < count && frames[first] != pc)
		first++;
	for (i = first < count ? first + 1 : 0; i < count; i++)
		report_frame((unsigned int)(first < count ? i - first : i + 1), frames[i], true);
}

void crash_report(const siginfo_t *info, const void *context)
{
	report_signal(info);
	report_workers();
	report_calls(context);
}
