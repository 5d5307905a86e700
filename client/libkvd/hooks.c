/* SPDX-License-Identifier: MIT */
/* Functions of the program: which gets the lines that the library logs, and its heap. */
#include "client/libkvd/handle.h"
#include "common/util/heap.h"
#include "common/util/log.h"

static_assert((int)KVD_LOG_OFF == LOG_OFF && (int)KVD_LOG_ERROR == LOG_ERROR &&
		      (int)KVD_LOG_WARN == LOG_WARN && (int)KVD_LOG_NOTICE == LOG_NOTICE &&
		      (int)KVD_LOG_INFO == LOG_INFO && (int)KVD_LOG_DEBUG == LOG_DEBUG,
	      "levels are the log's");

static kvd_log_fn program_log;

static void log_pass(void *user, enum log_level level, const char *text)
{
	program_log(user, (enum kvd_log_level)level, text);
}

enum kvd_status kvd_set_log(enum kvd_log_level level, kvd_log_fn log, void *user)
{
	if ((unsigned int)level > KVD_LOG_DEBUG || (level && !log))
		return handle_error_set(NULL, KVD_ERR_INVALID,
					"no such level, or no function for the lines");
	log_set_level(LOG_OFF);
	program_log = log;
	log_set_hook(level ? log_pass : NULL, user);
	log_set_level((enum log_level)level);
	return KVD_OK;
}

enum kvd_status kvd_set_allocator(const struct kvd_allocator *allocator)
{
	struct heap_functions functions = { 0 };

	if (allocator && (!allocator->alloc || !allocator->realloc || !allocator->free))
		return handle_error_set(NULL, KVD_ERR_INVALID,
					"alloc, realloc and free are needed, all three");
	if (allocator)
		functions = (struct heap_functions){
			.alloc = allocator->alloc,
			.realloc = allocator->realloc,
			.free = allocator->free,
			.user = allocator->user,
		};
	if (heap_set(&functions))
		return handle_error_set(NULL, KVD_ERR_BUSY,
					"memory has been allocated already: call it before the "
					"first kvd_open()");
	return KVD_OK;
}
