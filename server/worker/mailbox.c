/* SPDX-License-Identifier: MIT */
/*
 * A mailbox: a locked list of notes, a flag for an owner that polls, an eventfd for one that
 * sleeps.
 */
#include "server/worker/mailbox.h"

#include <errno.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/util/log.h"

int mailbox_init(struct mailbox *mailbox)
{
	mailbox->first = NULL;
	mailbox->last = &mailbox->first;
	atomic_init(&mailbox->pending, false);
	mailbox->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (mailbox->event_fd < 0) {
		int err = -errno;

		log_error("can't create an eventfd for a thread's mailbox: %m: %slower "
			  "server.workers",
			  err == -EMFILE ? ADVICE_OPEN_FILES " or " : "");
		return err;
	}
	pthread_mutex_init(&mailbox->lock, NULL);
	return 0;
}

void mailbox_release(struct mailbox *mailbox)
{
	pthread_mutex_destroy(&mailbox->lock);
	close(mailbox->event_fd);
}

void mailbox_wake(struct mailbox *mailbox)
{
	uint64_t one = 1;

	/*
	 * The fd comes first. If it became readable after the owner took the note, the owner would
	 * not know that it has to read it, and each of its sleeps would end at once. write() fails
	 * only when the counter is full, and then the fd is readable.
	 */
	if (write(mailbox->event_fd, &one, sizeof(one)) < 0)
		log_debug("mailbox: %m");
	atomic_store_explicit(&mailbox->pending, true, memory_order_release);
}

void mailbox_send(struct mailbox *mailbox, struct note *note)
{
	pthread_mutex_lock(&mailbox->lock);
	note->next = NULL;
	*mailbox->last = note;
	mailbox->last = &note->next;
	pthread_mutex_unlock(&mailbox->lock);
	mailbox_wake(mailbox);
}

struct note *mailbox_take(struct mailbox *mailbox)
{
	struct note *notes;
	uint64_t count;

	atomic_store_explicit(&mailbox->pending, false, memory_order_relaxed);
	atomic_fetch_add_explicit(&mailbox->taken, 1, memory_order_relaxed);
	/* Before the list is read: a note sent from here on makes the fd readable again. */
	if (read(mailbox->event_fd, &count, sizeof(count)) < 0)
		count = 0;
	pthread_mutex_lock(&mailbox->lock);
	notes = mailbox->first;
	mailbox->first = NULL;
	mailbox->last = &mailbox->first;
	pthread_mutex_unlock(&mailbox->lock);
	return notes;
}
