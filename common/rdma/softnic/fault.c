/* SPDX-License-Identifier: MIT */
/* The fault plan that is in force, its parser and the faults themselves: see fault.h. */
#include "common/rdma/softnic/fault.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/log.h"
#include "common/util/parse.h"
#include "common/util/splitmix.h"

#define FAULT_TEXT_MAX 256
#define FAULT_DELAY_MAX 10000000000ull /* ns */
#define FAULT_KEY_COUNT (sizeof(fault_keys) / sizeof(fault_keys[0]))
#define FAULT_YIELD 4 /* the thread yields in one of this many gaps between torn pieces */

_Atomic bool fault_active;

/*
 * Threads that are inside the device read the plan while it is set: word by word, and without order
 * between these.
 */
static struct fault_plan fault_plan;
#define PLAN(field) __atomic_load_n(&fault_plan.field, __ATOMIC_RELAXED)
static_assert(sizeof(struct fault_plan) % sizeof(uint64_t) == 0, "a plan is stored in words");
static _Atomic uint64_t fault_counts[FAULT_CALL_COUNT];
static _Atomic uint64_t fault_kind_counts[FAULT_KIND_COUNT];
static _Atomic uint64_t fault_total;
static _Atomic uint64_t fault_random;
static _Atomic uint64_t fault_completions;
static _Atomic bool fault_killed;

static const char *const fault_names[FAULT_CALL_COUNT] = {
#define FAULT_NAME(name) #name,
	FAULT_CALLS(FAULT_NAME)
#undef FAULT_NAME
};

const char *fault_call_name(enum fault_call call)
{
	return fault_names[call];
}

static void plan_store(const struct fault_plan *plan)
{
	uint64_t words[sizeof(*plan) / sizeof(uint64_t)];
	uint64_t *to = (uint64_t *)(void *)&fault_plan;

	memcpy(words, plan, sizeof(words));
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		__atomic_store_n(&to[i], words[i], __ATOMIC_RELAXED);
}

void fault_set(const struct fault_plan *plan)
{
	unsigned int i;

	plan_store(plan);
	for (i = 0; i < FAULT_CALL_COUNT; i++)
		atomic_store(&fault_counts[i], 0);
	for (i = 0; i < FAULT_KIND_COUNT; i++)
		atomic_store(&fault_kind_counts[i], 0);
	atomic_store(&fault_total, 0);
	atomic_store(&fault_random, plan->seed);
	atomic_store(&fault_completions, 0);
	atomic_store(&fault_killed, false);
	atomic_store(&fault_active, true);
}

void fault_reset(void)
{
	atomic_store(&fault_active, false);
}

uint64_t fault_count(enum fault_call call)
{
	return atomic_load(&fault_counts[call]);
}

uint64_t fault_kind_count(enum fault_kind kind)
{
	return atomic_load(&fault_kind_counts[kind]);
}

static void fault_did(enum fault_kind kind)
{
	atomic_fetch_add_explicit(&fault_kind_counts[kind], 1, memory_order_relaxed);
}

uint64_t fault_completions_count(void)
{
	return atomic_load(&fault_completions);
}

/* The next number of a sequence that depends on the seed alone. */
static uint64_t fault_next(void)
{
	return splitmix_mix(atomic_fetch_add(&fault_random, SPLITMIX_STEP) + SPLITMIX_STEP);
}

/* Calls that a dead device still executes: those that take what is left, or end it. */
static bool fault_survives(enum fault_call call)
{
	switch (call) {
	case FAULT_get_async_event:
	case FAULT_get_cq_event:
	case FAULT_cm_get_event:
	case FAULT_query_qp:
	case FAULT_disconnect:
	case FAULT_post_send:
	case FAULT_post_recv:
	case FAULT_post_srq_recv:
	case FAULT_poll_cq:
	case FAULT_req_notify_cq:
		return true;
	default:
		return false;
	}
}

static void fault_stall(enum fault_call call, uint64_t count)
{
	uint64_t ns = PLAN(stall_ns);
	const struct timespec time = {
		.tv_sec = (time_t)(ns / 1000000000u),
		.tv_nsec = (long)(ns % 1000000000u),
	};

	log_warn("softnic: fault plan: %s number %llu takes %llu ms", fault_names[call],
		 (unsigned long long)count, (unsigned long long)(ns / 1000000));
	nanosleep(&time, NULL);
	fault_did(FAULT_KIND_stall);
}

int fault_hit(enum fault_call call, struct sn_context *ctx)
{
	uint64_t count = atomic_fetch_add(&fault_counts[call], 1) + 1;
	uint64_t total = atomic_fetch_add(&fault_total, 1) + 1;
	uint64_t kill_at = PLAN(kill_at);
	int fail_errno;

	if (kill_at && total >= kill_at && ctx && !atomic_exchange(&fault_killed, true)) {
		log_warn("softnic: fault plan: the device dies at call %llu, %s",
			 (unsigned long long)total, fault_names[call]);
		sn_context_kill(ctx);
		fault_did(FAULT_KIND_kill);
	}
	if (kill_at && ctx && sn_context_is_dead(ctx) && !fault_survives(call))
		return -EIO;
	if (PLAN(stall_at) == count && PLAN(stall_call) == call)
		fault_stall(call, count);
	if (PLAN(fail_at) != count || PLAN(fail_call) != call)
		return 0;
	log_warn("softnic: fault plan: %s number %llu fails", fault_names[call],
		 (unsigned long long)count);
	fault_did(FAULT_KIND_fail);
	fail_errno = PLAN(fail_errno);
	return fail_errno ? -fail_errno : -ENOMEM;
}

bool fault_drops(void)
{
	if (!PLAN(drop_at) || fault_count(FAULT_post_send) != PLAN(drop_at))
		return false;
	fault_did(FAULT_KIND_drop);
	return true;
}

bool fault_reuses(void)
{
	return PLAN(reuse);
}

uint64_t fault_mr_max(void)
{
	uint64_t bytes = fault_on() ? PLAN(mr_max) : 0;

	return bytes ? bytes : SIZE_MAX;
}

static uint64_t random_below(uint64_t ns, enum fault_kind kind)
{
	if (!ns)
		return 0;
	fault_did(kind);
	return fault_next() % ns;
}

uint64_t fault_delay_ns(void)
{
	return random_below(PLAN(delay_ns), FAULT_KIND_delay);
}

bool fault_defers(void)
{
	return PLAN(late_ns) || PLAN(lose_at);
}

uint64_t fault_late_ns(void)
{
	return random_below(PLAN(late_ns), FAULT_KIND_late);
}

uint64_t fault_loses_ns(void)
{
	uint64_t count = atomic_fetch_add(&fault_completions, 1) + 1;

	if (!PLAN(lose_at) || count != PLAN(lose_at))
		return 0;
	log_warn("softnic: fault plan: completion number %llu does not come",
		 (unsigned long long)count);
	fault_did(FAULT_KIND_lose);
	return PLAN(lose_ns);
}

bool fault_reorders(void)
{
	return PLAN(reorder);
}

uint32_t fault_pick(uint32_t count)
{
	if (!PLAN(reorder) || count < 2)
		return 0;
	fault_did(FAULT_KIND_reorder);
	return (uint32_t)(fault_next() % count);
}

uint32_t fault_part(uint32_t length)
{
	uint32_t tear = PLAN(tear);

	if (!tear || tear >= length)
		return length;
	fault_did(FAULT_KIND_tear);
	return tear;
}

void fault_copy(void *to, const void *from, size_t length)
{
	void (*hook)(void *arg) = PLAN(tear_hook);
	void *arg = PLAN(tear_arg);
	uint32_t tear = PLAN(tear);
	size_t done, part;

	if (!tear) {
		memcpy(to, from, length);
		return;
	}
	if (tear < length)
		fault_did(FAULT_KIND_tear);
	for (done = 0; done < length; done += part) {
		part = length - done < tear ? length - done : tear;
		if (done && hook)
			hook(arg);
		else if (done && fault_next() % FAULT_YIELD == 0)
			sched_yield();
		memcpy((uint8_t *)to + done, (const uint8_t *)from + done, part);
	}
}

/* CALL:N */
static int parse_call(char *value, enum fault_call *number, uint64_t *at, struct parse_why *why)
{
	char *colon = strchr(value, ':');
	unsigned int call;

	if (!colon) {
		snprintf(why->text, sizeof(why->text), "'%s' is not CALL:N", value);
		return -EINVAL;
	}
	*colon = 0;
	for (call = 0; call < FAULT_CALL_COUNT && strcmp(value, fault_names[call]); call++)
		;
	if (call == FAULT_CALL_COUNT) {
		snprintf(why->text, sizeof(why->text), "'%s' is not a call of the device", value);
		return -EINVAL;
	}
	*number = (enum fault_call)call;
	return parse_uint(colon + 1, 1, UINT64_MAX, at, why);
}

/* CALL:N:TIME */
static int parse_stall(struct fault_plan *plan, char *value, struct parse_why *why)
{
	char *colon = strrchr(value, ':');
	int ret;

	if (!colon) {
		snprintf(why->text, sizeof(why->text), "'%s' is not CALL:N:TIME", value);
		return -EINVAL;
	}
	*colon = 0;
	ret = parse_call(value, &plan->stall_call, &plan->stall_at, why);
	return ret ? ret : parse_time(colon + 1, 1, FAULT_DELAY_MAX, &plan->stall_ns, why);
}

/* N:TIME */
static int parse_lose(struct fault_plan *plan, char *value, struct parse_why *why)
{
	char *colon = strchr(value, ':');
	int ret;

	if (!colon) {
		snprintf(why->text, sizeof(why->text), "'%s' is not N:TIME", value);
		return -EINVAL;
	}
	*colon = 0;
	ret = parse_uint(value, 1, UINT64_MAX, &plan->lose_at, why);
	return ret ? ret : parse_time(colon + 1, 1, FAULT_DELAY_MAX, &plan->lose_ns, why);
}

static const char *const fault_keys[] = { "seed",  "fail",  "tear",   "drop", "delay",	 "kill",
					  "stall", "reuse", "mr_max", "late", "reorder", "lose" };

/* Takes the key down in @given, a bit for each. */
static int parse_key(const char *key, unsigned int *given, struct parse_why *why)
{
	unsigned int i;

	for (i = 0; i < FAULT_KEY_COUNT && strcmp(key, fault_keys[i]); i++)
		;
	if (i == FAULT_KEY_COUNT) {
		snprintf(why->text, sizeof(why->text),
			 "it is not one of seed, fail, tear, drop, delay, kill, stall, reuse, "
			 "mr_max, late, reorder, lose");
		return -EINVAL;
	}
	if (*given & 1u << i) {
		snprintf(why->text, sizeof(why->text), "it is given twice");
		return -EINVAL;
	}
	*given |= 1u << i;
	return 0;
}

static int parse_item(struct fault_plan *plan, const char *key, char *value, struct parse_why *why)
{
	uint64_t number;
	int ret;

	if (!strcmp(key, "seed"))
		return parse_uint(value, 0, UINT64_MAX, &plan->seed, why);
	if (!strcmp(key, "fail"))
		return parse_call(value, &plan->fail_call, &plan->fail_at, why);
	if (!strcmp(key, "drop"))
		return parse_uint(value, 1, UINT64_MAX, &plan->drop_at, why);
	if (!strcmp(key, "kill"))
		return parse_uint(value, 1, UINT64_MAX, &plan->kill_at, why);
	if (!strcmp(key, "reuse"))
		return parse_uint(value, 0, 1, &plan->reuse, why);
	if (!strcmp(key, "mr_max"))
		return parse_uint(value, 1, SIZE_MAX, &plan->mr_max, why);
	if (!strcmp(key, "stall"))
		return parse_stall(plan, value, why);
	if (!strcmp(key, "delay"))
		return parse_time(value, 1, FAULT_DELAY_MAX, &plan->delay_ns, why);
	if (!strcmp(key, "late"))
		return parse_time(value, 1, FAULT_DELAY_MAX, &plan->late_ns, why);
	if (!strcmp(key, "reorder"))
		return parse_uint(value, 0, 1, &plan->reorder, why);
	if (!strcmp(key, "lose"))
		return parse_lose(plan, value, why);
	/* tear */
	ret = parse_uint(value, 1, UINT32_MAX, &number, why);
	if (!ret)
		plan->tear = (uint32_t)number;
	return ret;
}

int fault_parse(struct fault_plan *plan, const char *text, char *why, size_t why_size)
{
	char copy[FAULT_TEXT_MAX];
	struct parse_why item_why = { "it is not KEY=VALUE" };
	unsigned int given = 0;
	char *rest = copy;
	char *item;

	*plan = (struct fault_plan){ .seed = 0 };
	if (!*text || strlen(text) >= sizeof(copy)) {
		snprintf(why, why_size, "A fault plan has 1 to %d characters.", FAULT_TEXT_MAX - 1);
		return -EINVAL;
	}
	memcpy(copy, text, strlen(text) + 1);
	while ((item = strsep(&rest, ","))) {
		char *equals = strchr(item, '=');

		if (equals)
			*equals = 0;
		if (!equals || parse_key(item, &given, &item_why) ||
		    parse_item(plan, item, equals + 1, &item_why)) {
			snprintf(why, why_size, "In the fault plan, %s: %s.", item, item_why.text);
			return -EINVAL;
		}
	}
	return 0;
}

static int fault_init_result;

static void fault_init_once(void)
{
	const char *text = getenv(FAULT_ENV);
	struct fault_plan plan;
	char why[FAULT_TEXT_MAX + PARSE_WHY_MAX];

	if (!text)
		return;
	fault_init_result = fault_parse(&plan, text, why, sizeof(why));
	if (fault_init_result) {
		log_error("softnic: " FAULT_ENV ": %s", why);
		return;
	}
	log_warn("softnic: FAULTS ARE INJECTED ON PURPOSE (unset it to stop): " FAULT_ENV "=%s",
		 text);
	fault_set(&plan);
}

int fault_init(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, fault_init_once);
	return fault_init_result;
}
