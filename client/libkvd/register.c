/* SPDX-License-Identifier: MIT */
/* The API of registered memory: kvd_register(), kvd_alloc() and what ends them. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "client/libkvd/handle.h"
#include "client/libkvd/memory.h"
#include "client/libkvd/shared.h"
#include "common/util/clock.h"

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

static enum kvd_status register_failed(struct kvd *handle, size_t bytes, int err)
{
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
				   "device %s: can't register %zu bytes: %s", handle->dev->name,
				   bytes, strerror(-err));
	return handle_fail(handle, KVD_ERR_NO_MEMORY,
			   "can't register %zu bytes with device %s: %s%s", bytes,
			   handle->dev->name, strerror(-err), mr_failed_why(handle->dev, err, why));
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
	err = mem_register(handle, &memory, bytes, mem);
	if (err)
		return register_failed(handle, bytes, err);
	mem_open(*mem);
	return KVD_OK;
}

enum kvd_status kvd_register(struct kvd *handle, void *addr, size_t bytes, struct kvd_mem **mem)
{
	enum kvd_status status = call_begin_server(handle);

	return status ? status : call_end(handle, do_register(handle, addr, bytes, mem));
}

static enum kvd_status do_alloc(struct kvd *handle, size_t bytes, void **addr, struct kvd_mem **mem)
{
	const struct device_ops *ops = handle->dev->ops;
	struct device_mem own;
	int err;

	if (!mem || !addr)
		return handle_fail(handle, KVD_ERR_INVALID, "the pointer to the memory is NULL");
	*mem = NULL;
	*addr = NULL;
	if (!bytes)
		return handle_fail(handle, KVD_ERR_INVALID, "no memory: 0 bytes");
	err = ops->alloc_mem(handle->dev, bytes, &own);
	if (err)
		return handle_fail(handle, KVD_ERR_NO_MEMORY, "can't allocate %zu bytes: %s", bytes,
				   strerror(-err));
	err = mem_register(handle, &own, own.length, mem);
	if (err) {
		ops->free_mem(handle->dev, &own);
		return register_failed(handle, bytes, err);
	}
	(*mem)->own = own;
	(*mem)->allocated = true;
	*addr = own.addr;
	mem_open(*mem);
	return KVD_OK;
}

enum kvd_status kvd_alloc(struct kvd *handle, size_t bytes, void **addr, struct kvd_mem **mem)
{
	enum kvd_status status = call_begin_server(handle);

	return status ? status : call_end(handle, do_alloc(handle, bytes, addr, mem));
}

/* Any thread may call it: the texts are the thread's own. */
static enum kvd_status mem_end(struct kvd_mem *mem, bool allocated)
{
	uint64_t use = MEMORY_OPEN;
	struct shared_device *device;
	struct memory_table *table;
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
	if (!atomic_compare_exchange_strong_explicit(&mem->use, &use, 0, memory_order_acquire,
						     memory_order_relaxed))
		return use & MEMORY_OPEN ?
			       handle_error_set(NULL, KVD_ERR_BUSY,
						"%llu operations still use this memory",
						(unsigned long long)(use & ~MEMORY_OPEN)) :
			       handle_error_set(NULL, KVD_ERR_INVALID,
						"this memory is not registered any more");
	device = mem->device;
	table = atomic_load(&device->memory);
	memory_deregister(mem, device->dev);
	/* Before the memory is freed: another thread may get the same addresses at once. */
	own = mem->own;
	memory_place_leave(table, mem);
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
