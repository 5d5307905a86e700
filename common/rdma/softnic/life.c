/* SPDX-License-Identifier: MIT */
/*
 * A word of memory that says whether the process of a device that listens is alive. The memory that
 * a server has passed stays readable when it is killed, and a client that only READs sees nothing
 * else; so each READ looks at this word, which the kernel changes.
 *
 * The word is that of a robust mutex (pthread_mutexattr_setrobust(3)), which the thread that opened
 * the device locks and never unlocks. When a thread dies, however it does, the kernel goes through
 * the robust mutexes that it holds, takes the thread's id out of each word and sets
 * FUTEX_OWNER_DIED (Documentation/locking/robust-futex-ABI.rst of Linux). It does so before it
 * closes the process's sockets, hence before another server can listen at the same path.
 *
 * The word has its own page, in a file that no other process may write to. The mutex is never in
 * memory that a client could write, since the kernel's list of robust mutexes goes through it.
 */
#include "common/rdma/softnic/life_word.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/rdma/softnic/link.h"
#include "common/rdma/softnic/peer_file.h"
#include "common/rdma/softnic/queue_pair.h"
#include "common/util/log.h"

#define LIFE_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)

union life_page {
	pthread_mutex_t mutex;
	_Atomic uint32_t word;
	uint8_t bytes[LINK_LIFE_BYTES];
};

_Static_assert(sizeof(union life_page) == LINK_LIFE_BYTES, "one page");

static int page_map(struct sn_life *life)
{
	void *page;

	life->fd = memfd_create("softnic-life", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (life->fd < 0 || ftruncate(life->fd, LINK_LIFE_BYTES))
		return -errno;
	page = mmap(NULL, LINK_LIFE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, life->fd, 0);
	if (page == MAP_FAILED)
		return -errno;
	life->page = page;
	return fcntl(life->fd, F_ADD_SEALS, LIFE_SEALS) ? -errno : 0;
}

/*
 * Whether the word is where clients look, and the kernel knows of the mutex: the last one locked
 * comes first in its list. Another C library may place them elsewhere, and an emulator of another
 * CPU's kernel has no such list.
 */
static bool page_is_watched(const union life_page *page)
{
	struct robust_list_head *head = NULL;
	uintptr_t first;
	size_t bytes;

	if ((atomic_load(&page->word) & FUTEX_TID_MASK) != (uint32_t)gettid() ||
	    syscall(SYS_get_robust_list, 0, &head, &bytes) || !head)
		return false;
	first = (uintptr_t)head->list.next;
	return first >= (uintptr_t)page && first < (uintptr_t)(page + 1);
}

/* Locks with trylock: the mutex is free, and trylock adds nothing to the lock order. */
static int page_lock(union life_page *page)
{
	pthread_mutexattr_t attr;
	int err;

	pthread_mutexattr_init(&attr);
	err = pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	if (!err)
		err = pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	if (!err)
		err = pthread_mutex_init(&page->mutex, &attr);
	pthread_mutexattr_destroy(&attr);
	if (!err)
		err = pthread_mutex_trylock(&page->mutex);
	if (err)
		return -err;
	if (page_is_watched(page))
		return 0;
	pthread_mutex_unlock(&page->mutex);
	return -ENOTSUP;
}

void sn_life_begin(struct sn_life *life)
{
	int ret = page_map(life);

	if (!ret)
		ret = page_lock(life->page);
	if (!ret)
		return;
	log_warn("softnic: can't set up the word that says that kvd is alive: %s; after a "
		 "kill, clients may READ its memory for some milliseconds more",
		 strerrordesc_np(-ret));
	if (life->page)
		munmap(life->page, LINK_LIFE_BYTES);
	if (life->fd >= 0)
		close(life->fd);
	*life = SN_LIFE_NONE;
}

/* Another thread may not unlock it: then the page stays as long as the thread that locked it. */
void sn_life_end(struct sn_life *life)
{
	if (life->page && !pthread_mutex_unlock(&life->page->mutex))
		munmap(life->page, LINK_LIFE_BYTES);
	if (life->fd >= 0)
		close(life->fd);
	*life = SN_LIFE_NONE;
}

void do_sn_life_send(struct sn_qp *qp)
{
	const struct link_message message = {
		.magic = LINK_MAGIC,
		.version = LINK_VERSION,
		.type = LINK_MESSAGE_LIFE,
	};

	/* If the socket is full, the peer goes without the word and checks the socket. */
	if (qp->life_due && qp->ctx->life.fd >= 0)
		qp->life_due = link_send(qp->sock, &message, qp->ctx->life.fd);
}

int do_sn_life_take(struct sn_qp *qp, int fd)
{
	struct sn_map *map;
	struct stat st;
	int ret = -EPROTO;

	if (link_file_safe(fcntl(fd, F_GET_SEALS)) && !fstat(fd, &st) &&
	    st.st_size == LINK_LIFE_BYTES)
		ret = sn_map_get(qp->ctx, fd, &st, 0, LINK_LIFE_BYTES, &map);
	if (ret) {
		log_ratelimited(LOG_WARN, 1,
				"softnic: queue pair %#x: can't map the word that says whether the "
				"server is alive: %s; when it is killed its memory may be READ for "
				"some milliseconds more",
				qp->verbs.qp_num, strerrordesc_np(-ret));
		return ret;
	}
	do_sn_life_release(qp);
	qp->life_map = map;
	qp->life = map->base;
	return 0;
}

void do_sn_life_release(struct sn_qp *qp)
{
	if (qp->life_map)
		sn_map_put(qp->ctx, qp->life_map);
	qp->life_map = NULL;
	qp->life = NULL;
}
