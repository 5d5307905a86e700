/* SPDX-License-Identifier: MIT */
#include "server/worker/piece.h"

#include "common/util/clock.h"

enum piece_next piece_room(struct room *room, uint64_t until_ns)
{
	enum room_next next;

	do
		next = room_step(room);
	while (next == ROOM_AGAIN && clock_ns() < until_ns);
	if (next == ROOM_DONE)
		return PIECE_DONE;
	return next == ROOM_WAIT ? PIECE_IDLE : PIECE_AGAIN;
}
