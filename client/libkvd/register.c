/* SPDX-License-Identifier: MIT */
/*
 * The API of registered memory: kvd_register(), kvd_alloc() and what ends them.
 *
 * Memory of a fleet is registered with the device of each member that some handle of the process
 * uses, in a group. The first of its parts is the caller's; a member that is used later gets a part
 * then.
 */
#include "client/libkvd/register.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "client/libkvd/handle.h"
#include "client/libkvd/memory.h"
#include "client/libkvd/shared.h"
#include "common/util/clock.h"
#include "common/util/heap.h"
#include "common/util/log.h"

static struct memory_table *table_of(struct shared_device *device)
{
	struct memory_table *table = atomic_load(&device->memory), *made;

	if (table)
		return table;
	made = memory_table_create();
	if (!made || atomic_compare_exchange_strong(&device->memory, &table, made))
		return made;
	memory_table_destroy(made);
	return table;
}

/* The device of the handle; of a fleet's, that of some member. NULL: none could be opened. */
static struct device *device_of(struct kvd *handle)
{
	uint32_t at = 0;

	if (handle->fleet)
		handle = handle->fleet_ops->next(handle, &at);
	return handle ? handle->dev : NULL;
}

static enum kvd_status device_none(struct kvd *handle)
{
	return handle_fail(handle, KVD_ERR_DEVICE,
			   "no device for a member of the fleet could be opened yet");
}

static enum kvd_status register_failed(struct kvd *handle, size_t bytes, int err)
{
	const struct device *dev = device_of(handle);
	char why[MEMLOCK_WHY_BYTES];

	if (err == -EEXIST)
		return handle_fail(handle, KVD_ERR_INVALID,
				   "some of these %zu bytes are registered already", bytes);
	if (err == -ENOSPC)
		return handle_fail(handle, KVD_ERR_NO_MEMORY,
				   "%u memories are registered with the device, which is the "
				   "maximum: register fewer, larger ones",
				   MEMORIES_MAX);
	if (err == -EIO || err == -ENODEV)
		return handle_fail(handle, KVD_ERR_DEVICE,
				   "device %s: can't register %zu bytes: %s", dev->name, bytes,
				   strerror(-err));
	return handle_fail(handle, KVD_ERR_NO_MEMORY,
			   "can't register %zu bytes with device %s: %s%s", bytes, dev->name,
			   strerror(-err), mr_failed_why(dev, err, why));
}

/* Registers @memory as *@out, which is a user of the device. mem_open() is next. */
static int mem_register(struct kvd *handle, const struct device_mem *memory, size_t bytes,
			struct kvd_mem **out)
{
	struct memory_table *table = table_of(handle->shared_device);
	uint64_t start = clock_ns();
	struct kvd_mem *mem;
	int err;

	if (!table)
		return -ENOMEM;
	err = memory_place_take(table, (uintptr_t)memory->addr, bytes, &mem);
	if (err)
		return err;
	mem->device = handle->shared_device;
	mem->own = (struct device_mem){ .fd = -1 };
	mem->allocated = false;
	mem->group = NULL;
	err = memory_register(mem, mem->device->dev, mem->device->pd, memory, bytes);
	if (err) {
		memory_place_leave(table, mem);
		return err;
	}
	shared_device_hold(mem->device);
	mem->process = getpid();
	mem->register_ns = clock_ns() - start;
	*out = mem;
	return 0;
}

static void mem_open(struct kvd_mem *mem)
{
	atomic_store_explicit(&mem->use, MEMORY_OPEN, memory_order_release);
}

/* Memory of a fleet. */
struct memory_group {
	struct memory_group *next;
	char name[FLEET_NAME_MAX]; /* the fleet's */
	enum device_kind kind;	   /* of its members' devices */
	struct device_mem memory;
	size_t bytes;
	struct kvd_mem **parts;
	unsigned int count;
};

static pthread_mutex_t groups_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct memory_group *groups;

/* A child has none of its parent's memory, and a thread of the parent may have had the lock. */
static void groups_forget(void)
{
	pthread_mutex_init(&groups_mutex, NULL);
	groups = NULL;
}

static void groups_at_fork(void)
{
	pthread_atfork(NULL, NULL, groups_forget);
}

static void groups_lock(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, groups_at_fork);
	pthread_mutex_lock(&groups_mutex);
}

/* Registers the group's memory with the device of @member, unless it is there already. */
static int part_add(struct memory_group *group, struct kvd *member)
{
	struct kvd_mem **parts, *part;
	unsigned int i;
	int err;

	for (i = 0; i < group->count; i++)
		if (group->parts[i]->device == member->shared_device)
			return 0;
	parts = heap_realloc(group->parts, (group->count + 1) * sizeof(struct kvd_mem *));
	if (!parts)
		return -ENOMEM;
	group->parts = parts;
	err = mem_register(member, &group->memory, group->bytes, &part);
	if (err)
		return err;
	part->group = group;
	part->own = group->memory;
	mem_open(part);
	parts[group->count++] = part;
	return 0;
}

/* Ends the registration of a part that is closed, or of memory without a group. */
static void mem_release(struct kvd_mem *mem)
{
	struct shared_device *device = mem->device;

	memory_deregister(mem, device->dev);
	memory_place_leave(atomic_load(&device->memory), mem);
	shared_device_put(device);
}

static void group_free(struct memory_group *group)
{
	struct kvd_mem *part;

	while (group->count) {
		part = group->parts[--group->count];
		/* For a second kvd_deregister(), which is refused. */
		part->group = NULL;
		mem_release(part);
	}
	heap_free(group->parts);
	heap_free(group);
}

/* Registers @memory with the devices of the members that are used. 0 or a negative errno. */
static int group_make(struct kvd *handle, const struct device_mem *memory, size_t bytes,
		      struct kvd_mem **mem)
{
	struct memory_group *group = heap_calloc(1, sizeof(*group));
	struct kvd *member;
	uint32_t at = 0;
	int err = 0;

	if (!group)
		return -ENOMEM;
	handle->fleet_ops->name(handle, group->name, &group->kind);
	group->memory = *memory;
	group->bytes = bytes;
	groups_lock();
	while (!err && (member = handle->fleet_ops->next(handle, &at)))
		err = part_add(group, member);
	if (!err) {
		group->next = groups;
		groups = group;
		/* Other threads add parts from now on, and move the array. */
		*mem = group->parts[0];
	}
	pthread_mutex_unlock(&groups_mutex);
	if (err)
		group_free(group);
	return err;
}

/* Adds a part for @member, which is of the fleet @name, if the group is that fleet's. */
static void group_join(struct memory_group *group, struct kvd *member,
		       const char name[FLEET_NAME_MAX], enum device_kind kind)
{
	int err;

	if (group->kind != kind || memcmp(group->name, name, sizeof(group->name)))
		return;
	err = part_add(group, member);
	if (err)
		log_warn("can't register %zu bytes with device %s for %s: %s; values are copied "
			 "there",
			 group->bytes, member->dev->name, member->dev->address, strerror(-err));
}

void register_member(struct kvd *member)
{
	struct kvd *home = member->member.home;
	struct memory_group *group;
	char name[FLEET_NAME_MAX];
	enum device_kind kind;

	home->fleet_ops->name(home, name, &kind);
	groups_lock();
	for (group = groups; group; group = group->next)
		group_join(group, member, name, kind);
	pthread_mutex_unlock(&groups_mutex);
}

/* Closes all parts, or none if one is used. */
static bool group_close(struct memory_group *group)
{
	unsigned int i;
	uint64_t use;

	for (i = 0; i < group->count; i++) {
		use = MEMORY_OPEN;
		if (atomic_compare_exchange_strong_explicit(&group->parts[i]->use, &use, 0,
							    memory_order_acquire,
							    memory_order_relaxed))
			continue;
		while (i--)
			mem_open(group->parts[i]);
		return false;
	}
	return true;
}

/* Frees the memory, too, if it was allocated. */
static enum kvd_status group_end(struct memory_group *group, bool allocated)
{
	struct memory_group **at;
	struct shared_device *device;
	struct device_mem own;
	bool closed;

	groups_lock();
	device = group->parts[0]->device;
	own = group->parts[0]->own;
	closed = group_close(group);
	if (closed) {
		for (at = &groups; *at != group; at = &(*at)->next)
			;
		*at = group->next;
	}
	pthread_mutex_unlock(&groups_mutex);
	if (!closed)
		return handle_error_set(NULL, KVD_ERR_BUSY, "operations still use this memory");
	shared_device_hold(device);
	group_free(group);
	if (allocated)
		device->dev->ops->free_mem(device->dev, &own);
	shared_device_put(device);
	return KVD_OK;
}

static int mem_make(struct kvd *handle, const struct device_mem *memory, size_t bytes,
		    struct kvd_mem **mem)
{
	if (handle->fleet)
		return group_make(handle, memory, bytes, mem);
	return mem_register(handle, memory, bytes, mem);
}

/* The parts of a group are open, and may be in use. */
static void mem_made(struct kvd_mem *mem)
{
	if (!mem->group)
		mem_open(mem);
}

static enum kvd_status do_register(struct kvd *handle, void *addr, size_t bytes,
				   struct kvd_mem **mem)
{
	const struct device_mem memory = { .addr = addr, .length = bytes, .fd = -1 };
	int err;

	if (!mem)
		return handle_fail(handle, KVD_ERR_INVALID, "the pointer to the memory is NULL");
	*mem = NULL;
	if (!addr || !bytes || (uintptr_t)addr + bytes < bytes)
		return handle_fail(handle, KVD_ERR_INVALID, "no memory: NULL, or 0 bytes");
	if (!device_of(handle))
		return device_none(handle);
	err = mem_make(handle, &memory, bytes, mem);
	if (err)
		return register_failed(handle, bytes, err);
	mem_made(*mem);
	return KVD_OK;
}

enum kvd_status kvd_register(struct kvd *handle, void *addr, size_t bytes, struct kvd_mem **mem)
{
	enum kvd_status status = call_begin(handle);

	return status ? status : call_end(handle, do_register(handle, addr, bytes, mem));
}

static enum kvd_status do_alloc(struct kvd *handle, size_t bytes, void **addr, struct kvd_mem **mem)
{
	struct device *dev = device_of(handle);
	struct device_mem own;
	int err;

	if (!mem || !addr)
		return handle_fail(handle, KVD_ERR_INVALID, "the pointer to the memory is NULL");
	*mem = NULL;
	*addr = NULL;
	if (!bytes)
		return handle_fail(handle, KVD_ERR_INVALID, "no memory: 0 bytes");
	if (!dev)
		return device_none(handle);
	err = dev->ops->alloc_mem(dev, bytes, &own);
	if (err)
		return handle_fail(handle, KVD_ERR_NO_MEMORY, "can't allocate %zu bytes: %s", bytes,
				   strerror(-err));
	err = mem_make(handle, &own, own.length, mem);
	if (err) {
		dev->ops->free_mem(dev, &own);
		return register_failed(handle, bytes, err);
	}
	(*mem)->own = own;
	(*mem)->allocated = true;
	*addr = own.addr;
	mem_made(*mem);
	return KVD_OK;
}

enum kvd_status kvd_alloc(struct kvd *handle, size_t bytes, void **addr, struct kvd_mem **mem)
{
	enum kvd_status status = call_begin(handle);

	return status ? status : call_end(handle, do_alloc(handle, bytes, addr, mem));
}

/* Any thread may call it: the texts are the thread's own. */
static enum kvd_status mem_end(struct kvd_mem *mem, bool allocated)
{
	uint64_t use = MEMORY_OPEN;
	struct shared_device *device;
	struct device_mem own;

	if (!mem)
		return handle_error_set(NULL, KVD_ERR_INVALID, "the memory is NULL");
	if (mem->process != getpid())
		return handle_error_set(NULL, KVD_ERR_DISCONNECTED,
					"this memory was registered before fork(2), by the parent");
	if (mem->allocated != allocated)
		return handle_error_set(NULL, KVD_ERR_INVALID,
					"kvd_free() is for memory of kvd_alloc(), "
					"kvd_deregister() for that of kvd_register()");
	if (mem->group)
		return group_end(mem->group, allocated);
	if (!atomic_compare_exchange_strong_explicit(&mem->use, &use, 0, memory_order_acquire,
						     memory_order_relaxed))
		return use & MEMORY_OPEN ?
			       handle_error_set(NULL, KVD_ERR_BUSY,
						"%llu operations still use this memory",
						(unsigned long long)(use & ~MEMORY_OPEN)) :
			       handle_error_set(NULL, KVD_ERR_INVALID,
						"this memory is not registered any more");
	device = mem->device;
	own = mem->own;
	shared_device_hold(device);
	/* Before the memory is freed: another thread may get the same addresses at once. */
	mem_release(mem);
	if (allocated)
		device->dev->ops->free_mem(device->dev, &own);
	shared_device_put(device);
	return KVD_OK;
}

enum kvd_status kvd_deregister(struct kvd_mem *mem)
{
	return mem_end(mem, false);
}

enum kvd_status kvd_free(struct kvd_mem *mem)
{
	return mem_end(mem, true);
}

void kvd_mem_info(const struct kvd_mem *mem, struct kvd_mem_info *info)
{
	if (!mem || !info)
		return;
	*info = (struct kvd_mem_info){
		.addr = (void *)atomic_load_explicit(&mem->begin, memory_order_relaxed),
		.bytes = atomic_load_explicit(&mem->bytes, memory_order_relaxed),
		.registrations = mem->count,
		.register_ns = mem->register_ns,
	};
}
