/* SPDX-License-Identifier: MIT */
/*
 * Memory registrations: the table against which every key is checked, and the seals on files that
 * peers read.
 *
 * A key is the slot in the table and, in the bits above it, a tag that grows with each
 * registration, so a key is used again after half a million registrations at the earliest. lkey and
 * rkey are the same number. The highest bit is 0: keys with a 1 are those of memory windows (mw.c).
 *
 * The table is read without a lock for local keys: as with any device, a registration must not be
 * destroyed while requests that name it are outstanding. For keys that come from a peer, which is
 * not trusted, it is read under mr_lock.
 */
#include "common/rdma/softnic/memory_region.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/rdma/softnic/device_context.h"
#include "common/rdma/softnic/fault.h"
#include "common/rdma/softnic/file_grant.h"
#include "common/rdma/softnic/link.h"
#include "common/rdma/softnic/memory_window.h"
#include "common/rdma/softnic/queue_pair.h"
#include "common/rdma/softnic/softnic.h"
#include "common/util/heap.h"
#include "common/util/log.h"
#include "common/util/parse.h"

#define MR_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE)
#define MR_SLOT_BITS 12
#define MR_TAG_BITS 19
#define MR_ALLOWED                                                                                 \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND |                    \
	 IBV_ACCESS_OPTIONAL_RANGE)
/* Whether peers may get the region's file. */
#define MR_PASSED (IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND)

_Static_assert(SN_MR_MAX == 1 << MR_SLOT_BITS, "the slot is part of the key");

static int mr_check(const struct device_mem *mem, int access)
{
	if (access & ~MR_ALLOWED) {
		log_error("softnic: can't register memory with access %#x: softnic never writes a "
			  "peer's memory; use LOCAL_WRITE, REMOTE_READ and MW_BIND only",
			  (unsigned int)access);
		return -EINVAL;
	}
	if (mem->length > fault_mr_max())
		return -EINVAL;
	if (!mem->addr || !mem->length || (uintptr_t)mem->addr + mem->length < mem->length)
		return -EINVAL;
	return 0;
}

/*
 * Sets the seals that peers check: clients can neither write our file nor see it shrink under their
 * mapping; the length of a client's file stays.
 */
static int mr_seal(const struct sn_context *ctx, int fd, const struct device_mem *mem)
{
	bool listens = ctx->role == DEVICE_LISTEN;
	int seals = fcntl(fd, F_GET_SEALS);
	char size[PARSE_FORMAT_MAX];
	struct stat st;
	int ret;

	if (seals < 0 || fstat(fd, &st))
		goto fail;
	/* A file of a mounted tmpfs or hugetlbfs: memory.file. */
	if (listens && seals == F_SEAL_SEAL && link_file_owned(fd, &st, geteuid()))
		goto check;
	if (!(listens ? link_file_safe(seals) : link_file_fixed(seals)) &&
	    fcntl(fd, F_ADD_SEALS, listens ? MR_SEALS : LINK_SEALS_FIXED))
		goto fail;
check:
	if (mem->fd_offset > (uint64_t)st.st_size ||
	    mem->length > (uint64_t)st.st_size - mem->fd_offset) {
		log_error(
			"softnic: can't register %zu bytes at offset %llu: the file has %lld bytes",
			mem->length, (unsigned long long)mem->fd_offset, (long long)st.st_size);
		return -EINVAL;
	}
	return 0;

fail:
	ret = -errno;
	log_error("softnic: can't seal the file of %s of memory: %m; it must be a memfd created "
		  "with MFD_ALLOW_SEALING, or memory.file on tmpfs or hugetlbfs",
		  show_size(mem->length, size));
	return ret;
}

/*
 * Our descriptor for the peers. Servers get one that can't be written or mapped for writing: a seal
 * against that, as for clients, would keep the client from mapping its own memory again.
 */
static int mr_open(const struct sn_context *ctx, int fd)
{
	char path[32];

	if (ctx->role == DEVICE_LISTEN)
		return fcntl(fd, F_DUPFD_CLOEXEC, 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_RDONLY | O_CLOEXEC);
}

static int mr_take_file(const struct sn_context *ctx, struct sn_mr *mr,
			const struct device_mem *mem)
{
	int ret;

	mr->fd = -1;
	if (mem->fd < 0 || !(mr->access & MR_PASSED))
		return 0;
	ret = mr_seal(ctx, mem->fd, mem);
	if (ret)
		return ret;
	mr->fd = mr_open(ctx, mem->fd);
	/* Without /proc peers have no file to copy from: we serve their READs. */
	if (mr->fd < 0 && errno == ENOENT)
		return 0;
	if (mr->fd < 0) {
		ret = -errno;
		log_error(
			"softnic: can't duplicate the descriptor of registered memory: %m; if the "
			"limit of open files is reached, raise it (ulimit -n)");
		return ret;
	}
	mr->fd_offset = mem->fd_offset;
	mr->is_fixed = link_file_fixed(fcntl(mr->fd, F_GET_SEALS));
	return 0;
}

/* Puts @mr into the next free slot after the last one used. ctx->lock is held. */
static int do_mr_publish(struct sn_context *ctx, struct sn_mr *mr)
{
	uint32_t i;

	for (i = 0; i < SN_MR_MAX; i++) {
		uint32_t slot = (ctx->mr_next + i) % SN_MR_MAX;

		if (atomic_load_explicit(&ctx->mrs[slot], memory_order_relaxed))
			continue;
		ctx->mr_next = slot + 1;
		if (++ctx->mr_tag >= 1u << MR_TAG_BITS)
			ctx->mr_tag = 1;
		mr->verbs.lkey = ctx->mr_tag << MR_SLOT_BITS | slot;
		mr->verbs.rkey = mr->verbs.lkey;
		mr->verbs.handle = slot;
		pthread_mutex_lock(&ctx->mr_lock);
		atomic_store_explicit(&ctx->mrs[slot], mr, memory_order_release);
		pthread_mutex_unlock(&ctx->mr_lock);
		return 0;
	}
	return -ENOMEM;
}

/*
 * Updates the grants of all queue pairs of the PD of a registration that is new or gone. ctx->lock
 * is held. A queue pair declared for one thread may belong to another thread than this: grant.c.
 */
static void do_mr_announce(struct sn_context *ctx, const struct sn_mr *mr, bool gone)
{
	struct sn_qp *qp;

	if (mr->fd >= 0)
		atomic_fetch_add_explicit(&ctx->mr_changes, 1, memory_order_relaxed);
	TAILQ_FOREACH(qp, &ctx->qps, in_context) {
		if (qp->verbs.pd != mr->verbs.pd)
			continue;
		if (!qp->lock.single)
			do_sn_grants_update(qp);
		else if (gone)
			do_sn_grant_revoke(qp, mr->verbs.rkey);
	}
}

int sn_reg_mr(struct ibv_pd *pd, const struct device_mem *mem, int access, struct ibv_mr **out)
{
	struct sn_context *ctx = to_sn_context(pd->context);
	struct sn_mr *mr;
	int ret;

	ret = fault_check(FAULT_reg_mr, ctx);
	if (ret)
		return ret;
	ret = mr_check(mem, access);
	if (ret)
		return ret;
	ret = sn_object_add(ctx, SN_OBJECT_MR);
	if (ret)
		return ret;
	mr = heap_calloc(1, sizeof(*mr));
	if (!mr) {
		ret = -ENOMEM;
		goto remove_object;
	}
	mr->verbs.context = pd->context;
	mr->verbs.pd = pd;
	mr->verbs.addr = mem->addr;
	mr->verbs.length = mem->length;
	mr->access = access;
	ret = mr_take_file(ctx, mr, mem);
	if (ret)
		goto free_mr;
	pthread_mutex_lock(&ctx->lock);
	ret = do_mr_publish(ctx, mr);
	if (!ret && (access & IBV_ACCESS_REMOTE_READ))
		do_mr_announce(ctx, mr, false);
	pthread_mutex_unlock(&ctx->lock);
	if (ret)
		goto close_fd;
	*out = &mr->verbs;
	return 0;

close_fd:
	if (mr->fd >= 0)
		close(mr->fd);
free_mr:
	heap_free(mr);
remove_object:
	sn_object_remove(ctx, SN_OBJECT_MR);
	return ret;
}

void sn_dereg_mr(struct ibv_mr *verbs)
{
	struct sn_mr *mr = verbs ? sn_container(verbs, struct sn_mr, verbs) : NULL;
	struct sn_context *ctx;

	if (!mr)
		return;
	ctx = to_sn_context(verbs->context);
	pthread_mutex_lock(&ctx->lock);
	pthread_mutex_lock(&ctx->mr_lock);
	atomic_store_explicit(&ctx->mrs[verbs->handle], NULL, memory_order_release);
	pthread_mutex_unlock(&ctx->mr_lock);
	if (mr->access & IBV_ACCESS_MW_BIND)
		do_sn_mw_lose_mr(ctx, mr);
	if (mr->access & IBV_ACCESS_REMOTE_READ)
		do_mr_announce(ctx, mr, true);
	pthread_mutex_unlock(&ctx->lock);
	sn_object_remove(ctx, SN_OBJECT_MR);
	if (mr->fd >= 0)
		close(mr->fd);
	heap_free(mr);
}

bool sn_sges_valid(struct sn_qp *qp, const struct ibv_sge *sges, uint32_t count, int access)
{
	uint32_t i;

	for (i = 0; i < count; i++)
		if (sges[i].length && !sn_mr_find(qp->ctx, qp->verbs.pd, sges[i].lkey, sges[i].addr,
						  sges[i].length, access))
			return false;
	return true;
}
