/* SPDX-License-Identifier: MIT */
#include "server/memcached/forward_ahead.h"

#include "common/util/clock.h"
#include "server/memcached/classic_run.h"
#include "server/memcached/meta_run.h"

/* Commands between two looks at the clock. */
#define LOOK_EVERY 8

/*
 * Whether the command may be executed before those between it and the current one, which are reads
 * themselves. Touches of one line have the same time, so their order does not matter.
 */
static bool is_read(const struct mc_command *command, bool same_line, bool touches)
{
	if (command->op == MC_GET)
		return command->with_touch ? same_line : !touches;
	return command->op == MC_META_GET && !touches && !mc_has(command, 'T');
}

void forward_ahead(struct session *session, const struct mc_command *first, struct mc_parser parser,
		   const uint8_t *input, size_t len, uint64_t until_ns)
{
	const bool touches = first->op == MC_GET ? first->with_touch : mc_has(first, 'T');
	bool same_line = first->op == MC_GET && first->more;
	uint64_t number = session_command(session);
	struct mc_command command;
	unsigned int n = 0;
	size_t used;

	for (; (used = mc_parse(&parser, &command, input, len)); input += used, len -= used) {
		if (command.op == MC_NONE)
			continue;
		if (!is_read(&command, same_line, touches))
			return;
		number++;
		same_line = command.op == MC_GET && command.more;
		if (command.key &&
		    !(command.op == MC_GET ? classic_get_ahead(session, &command, number, used) :
					     meta_get_ahead(session, &command, number, used)))
			return;
		if (++n % LOOK_EVERY == 0 && clock_ns() >= until_ns)
			return;
	}
}
