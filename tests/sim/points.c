/* SPDX-License-Identifier: MIT */
/*
 * Points at accesses to memory: the functions that the compiler's instrumentation for
 * ThreadSanitizer calls. The library of ThreadSanitizer is not linked.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tests/sim/sched.h"

#define RELAX_NS 40

#define HERE __builtin_return_address(0)

/* The compiler calls these; no header declares them. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#pragma GCC diagnostic ignored "-Wmissing-declarations"

void __tsan_init(void)
{
}

void __tsan_func_entry(void *caller)
{
	(void)caller;
}

void __tsan_func_exit(void)
{
}

void sim_relax(void)
{
	sim_spin(RELAX_NS, HERE);
}

#define ACCESS(name)                                                                               \
	void __tsan_##name(void *address)                                                          \
	{                                                                                          \
		(void)address;                                                                     \
		sim_point(1, HERE);                                                                \
	}
#define ACCESSES(bytes)                                                                            \
	ACCESS(read##bytes)                                                                        \
	ACCESS(write##bytes)                                                                       \
	ACCESS(unaligned_read##bytes)                                                              \
	ACCESS(unaligned_write##bytes)                                                             \
	ACCESS(volatile_read##bytes)                                                               \
	ACCESS(volatile_write##bytes)

ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)

void __tsan_read_range(void *address, size_t bytes)
{
	(void)address;
	(void)bytes;
	sim_point(1, HERE);
}

void __tsan_write_range(void *address, size_t bytes)
{
	(void)address;
	(void)bytes;
	sim_point(1, HERE);
}

/* One thread runs at a time, and what it did is seen by the next: any order will do. */
#define ATOMIC_OP(bits, type, name, builtin)                                                       \
	type __tsan_atomic##bits##_##name(volatile type *p, type v, int order)                     \
	{                                                                                          \
		(void)order;                                                                       \
		sim_point_at(p, false, HERE);                                                      \
		return builtin(p, v, __ATOMIC_SEQ_CST);                                            \
	}
#define ATOMICS(bits, type)                                                                        \
	type __tsan_atomic##bits##_load(const volatile type *p, int order)                         \
	{                                                                                          \
		(void)order;                                                                       \
		sim_point_at(p, false, HERE);                                                      \
		return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                       \
	}                                                                                          \
	void __tsan_atomic##bits##_store(volatile type *p, type v, int order)                      \
	{                                                                                          \
		(void)order;                                                                       \
		sim_point_at(p, true, HERE);                                                       \
		__atomic_store_n(p, v, __ATOMIC_SEQ_CST);                                          \
	}                                                                                          \
	int __tsan_atomic##bits##_compare_exchange_strong(volatile type *p, type *expected,        \
							  type v, int order, int fails)            \
	{                                                                                          \
		(void)order;                                                                       \
		(void)fails;                                                                       \
		sim_point_at(p, false, HERE);                                                      \
		return __atomic_compare_exchange_n(p, expected, v, false, __ATOMIC_SEQ_CST,        \
						   __ATOMIC_SEQ_CST);                              \
	}                                                                                          \
	int __tsan_atomic##bits##_compare_exchange_weak(volatile type *p, type *expected, type v,  \
							int order, int fails)                      \
	{                                                                                          \
		(void)order;                                                                       \
		(void)fails;                                                                       \
		sim_point_at(p, false, HERE);                                                      \
		return __atomic_compare_exchange_n(p, expected, v, false, __ATOMIC_SEQ_CST,        \
						   __ATOMIC_SEQ_CST);                              \
	}                                                                                          \
	ATOMIC_OP(bits, type, exchange, __atomic_exchange_n)                                       \
	ATOMIC_OP(bits, type, fetch_add, __atomic_fetch_add)                                       \
	ATOMIC_OP(bits, type, fetch_sub, __atomic_fetch_sub)                                       \
	ATOMIC_OP(bits, type, fetch_and, __atomic_fetch_and)                                       \
	ATOMIC_OP(bits, type, fetch_or, __atomic_fetch_or)                                         \
	ATOMIC_OP(bits, type, fetch_xor, __atomic_fetch_xor)                                       \
	ATOMIC_OP(bits, type, fetch_nand, __atomic_fetch_nand)

ATOMICS(8, uint8_t)
ATOMICS(16, uint16_t)
ATOMICS(32, uint32_t)
ATOMICS(64, uint64_t)

void __tsan_atomic_thread_fence(int order)
{
	(void)order;
	sim_point(1, HERE);
}

void __tsan_atomic_signal_fence(int order)
{
	(void)order;
}
