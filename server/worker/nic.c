/* SPDX-License-Identifier: MIT */
/* Opens the devices, registers the region with them, and checks the limit on locked memory. */
#include "server/worker/nic.h"

#include <errno.h>
#include <sys/mman.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "common/util/clock.h"
#include "common/util/log.h"
#include "common/util/memlock.h"
#include "common/util/parse.h"
#include "server/config/listen_list.h"

/*
 * What the device's queues hold for each message buffer: a work request and a completion, of 64
 * bytes each with mlx5.
 */
#define QUEUE_BYTES_PER_BUFFER 128u

uint32_t nic_choose(const struct config *config, const char **why)
{
	const uint32_t configured = listen_list_kinds(config->server.listen);
	char name[IBV_SYSFS_NAME_MAX];

	if (configured & DEVICES_ALL) {
		*why = "the configuration asks for it";
		return configured & DEVICES_ALL;
	}
	if (configured) {
		*why = "server.listen names no device, and kvctl reaches the server there";
		return DEVICE_SOFTNIC;
	}
	if (device_verbs_present(name)) {
		*why = "server.listen = auto, and this host has an RDMA device";
		return DEVICE_RDMA;
	}
	*why = "server.listen = auto, and this host has no RDMA device";
	return DEVICE_SOFTNIC;
}

uint64_t nic_workers_bytes(const struct config *config)
{
	uint64_t buffers = 2 * config->request.srq_depth + config->request.srq_depth / 4;

	return config_workers(config) * buffers * (config->request.buffer + QUEUE_BYTES_PER_BUFFER);
}

enum memlock_verdict memlock_decide(const struct rlimit *limit, bool capable, uint64_t bytes)
{
	if (capable || limit->rlim_cur == RLIM_INFINITY || limit->rlim_cur >= bytes)
		return MEMLOCK_ENOUGH;
	if (limit->rlim_max == RLIM_INFINITY || limit->rlim_max >= bytes)
		return MEMLOCK_RAISE;
	return MEMLOCK_SHORT;
}

static uint64_t kib(uint64_t bytes)
{
	return bytes / 1024 + (bytes % 1024 != 0);
}

int nic_check_memlock(const struct config *config, uint64_t region_bytes)
{
	uint64_t workers = nic_workers_bytes(config), bytes = region_bytes + workers;
	struct rlimit limit, raised;
	char sizes[5][PARSE_FORMAT_MAX];

	if (getrlimit(RLIMIT_MEMLOCK, &limit))
		return 0;
	switch (memlock_decide(&limit, memlock_is_lifted(), bytes)) {
	case MEMLOCK_ENOUGH:
		return 0;
	case MEMLOCK_RAISE:
		raised = (struct rlimit){ limit.rlim_max, limit.rlim_max };
		if (!setrlimit(RLIMIT_MEMLOCK, &raised))
			return 0;
		break;
	case MEMLOCK_SHORT:
		break;
	}
	log_error("this process may lock %s of memory (RLIMIT_MEMLOCK), at most %s by its hard "
		  "limit, and must lock about %s to serve on an RDMA device: %s of regions, %s of "
		  "buffers and queues of %" PRIu32 " workers; allow it with `ulimit -l %" PRIu64
		  "` in the shell that starts kvd, LimitMEMLOCK=%" PRIu64 "K in its systemd unit, "
		  "or the capability CAP_IPC_LOCK, or lower memory.size or tenants.memory",
		  show_size(limit.rlim_cur, sizes[0]), show_size(limit.rlim_max, sizes[1]),
		  show_size(bytes, sizes[2]), show_size(region_bytes, sizes[3]),
		  show_size(workers, sizes[4]), config_workers(config), kib(bytes), kib(bytes));
	return -ENOMEM;
}

int nic_check_size(const struct ibv_device_attr *attr, const char *name, uint64_t bytes)
{
	char most[PARSE_FORMAT_MAX], has[PARSE_FORMAT_MAX];

	if (bytes <= attr->max_mr_size)
		return 0;
	log_error("device %s: it registers at most %s in one piece (max_mr_size), and the region "
		  "has %s: lower memory.size",
		  name, show_size(attr->max_mr_size, most), show_size(bytes, has));
	return -E2BIG;
}

/* Whether each connection gets a memory window. 0, or -EOPNOTSUPP after logging. */
static int windows_choose(struct nic *nic, enum windows_mode mode)
{
	bool has = nic->attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B &&
		   nic->attr.max_mw > 0;

	nic->windows = has && mode != WINDOWS_NO;
	if (has || mode != WINDOWS_YES)
		return 0;
	log_error("device %s: it has no memory windows of type 2B, and rdma.windows = yes wants "
		  "one for each connection: set it to auto or no, with which all clients READ by "
		  "one key",
		  nic->name);
	return -EOPNOTSUPP;
}

int nic_open(struct nic *nic, struct device *dev, const struct config *config, const char *why)
{
	int err;

	*nic = (struct nic){ .dev = dev, .why = why, .kind = dev->kind };
	memcpy(nic->name, dev->name, sizeof(nic->name));
	memcpy(nic->address, dev->address, sizeof(nic->address));
	err = dev->ops->query(dev, &nic->attr, &nic->port);
	if (err) {
		log_error(
			"device %s: can't query its limits: %s; restart kvd when the device works",
			dev->name, strerror(-err));
		return err;
	}
	err = windows_choose(nic, config->rdma.windows);
	if (!err && device_kind_is_rdma(dev->kind))
		err = nic_check_memlock(config, config->memory.size + config->tenants.memory);
	return err ? err : nic_check_size(&nic->attr, dev->name, config_extent_bytes(config));
}

static int extent_register(struct nic *nic, const struct region *region, uint32_t number,
			   struct ibv_mr **mr)
{
	const struct extent *extent = &region->extents[number];
	const struct device_mem mem = {
		.addr = region->base + number * region->extent_bytes,
		.length = region->extent_bytes,
		.fd = extent->fd,
		.fd_offset = extent->offset,
	};
	int access = nic->windows ? IBV_ACCESS_MW_BIND : IBV_ACCESS_REMOTE_READ;

	/* Shared memory, so a fork copies no page of it; but a child has no use for it. */
	if (madvise(mem.addr, mem.length, MADV_DONTFORK))
		return -errno;
	return nic->dev->ops->reg_mr(nic->pd, &mem, IBV_ACCESS_LOCAL_WRITE | access, mr);
}

int nic_register(struct nic *nic, const struct region *region, uint32_t count, struct ibv_mr **mrs)
{
	uint64_t start = clock_ns(), bytes = 0;
	char size[PARSE_FORMAT_MAX];
	/* An extent is whole pages, so one may be a little longer than configured. */
	int err = nic_check_size(&nic->attr, nic->dev->name, region->extent_bytes);

	if (err)
		return err;
	for (uint32_t i = 0; !err && i < count; i++) {
		if (mrs[i])
			continue;
		err = extent_register(nic, region, i, &mrs[i]);
		bytes += region->extent_bytes;
	}
	if (err)
		log_error("device %s: can't register %s of the region: %s; lower memory.size",
			  nic->dev->name, show_size(bytes, size), strerror(-err));
	else
		log_notice("device %s: %s of the region registered in %" PRIu64 " ms",
			   nic->dev->name, show_size(bytes, size), (clock_ns() - start) / 1000000u);
	return err;
}

void nic_deregister(struct nic *nic, uint32_t first, struct ibv_mr **mrs)
{
	for (uint32_t i = first; i < EXTENTS_MAX; i++) {
		if (mrs[i])
			nic->dev->ops->dereg_mr(mrs[i]);
		mrs[i] = NULL;
	}
}

int nic_numa_node(const char *devices, const char *name)
{
	char path[256];
	FILE *in;
	int node;

	snprintf(path, sizeof(path), "%s/%s/device/numa_node", devices, name);
	in = fopen(path, "re");
	if (!in)
		return -1;
	if (fscanf(in, "%d", &node) != 1 || node < 0)
		node = -1;
	fclose(in);
	return node;
}

static void windows_log(const struct nic *nic, const struct config *config)
{
	uint32_t conns = config->server.max_connections + ADMIN_CONNECTIONS;
	uint32_t windows = conns * (config->memory.max ? EXTENTS_MAX : 1);

	if (nic->windows && (uint32_t)nic->attr.max_mw < windows)
		log_warn("device %s: it has %d memory windows, fewer than the %" PRIu32
			 " that the %" PRIu32
			 " connections of server.max_connections and of administrators may want"
			 "%s: further ones are refused; lower server.max_connections, or set "
			 "rdma.windows = no",
			 nic->name, nic->attr.max_mw, windows, conns,
			 config->memory.max ? ", 16 each (memory.max)" : "");
	if (!nic->windows && config->rdma.windows == WINDOWS_AUTO)
		log_notice("device %s: it has no memory windows of type 2B, so all clients READ by "
			   "one key, which is good until the server ends",
			   nic->name);
	if (!nic->windows && config->tenants.memory)
		log_warn("device %s: without memory windows of type 2B (rdma.windows) it serves "
			 "the tenant default alone: nothing else would keep clients of one tenant "
			 "from the memory of another",
			 nic->name);
}

static int nic_alloc_pd(struct nic *nic)
{
	int err = nic->dev->ops->alloc_pd(nic->dev, &nic->pd);

	if (err)
		log_error("device %s: can't set up a protection domain: %s", nic->dev->name,
			  strerror(-err));
	return err;
}

int nic_init(struct nic *nic, const struct config *config)
{
	int err = nic_alloc_pd(nic);

	if (err)
		return err;
	log_notice("device %s %s: %s; %s", device_kind_name(nic->dev->kind), nic->dev->name,
		   nic->why,
		   nic->windows ? "a memory window for each connection" : "one key for all");
	windows_log(nic, config);
	return 0;
}

void nic_release(struct nic *nic)
{
	if (!nic->dev)
		return;
	nic->dev->ops->dealloc_pd(nic->pd);
	nic->pd = NULL;
	nic->dev = NULL;
	nic->watched = false;
}
