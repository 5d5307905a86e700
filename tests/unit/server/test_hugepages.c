/* SPDX-License-Identifier: MIT */
/*
 * Tests of the page sizes that are tried for regions of different sizes, on a host that has as many
 * huge pages of each size as are wanted: its files of them are ordinary ones here. test_region has
 * what this host does.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "tests/support/log_fixture.h"

static int plain_memfd(const char *name, unsigned int flags);

#define memfd_create plain_memfd
#include "server/store/hugepages.c"
#undef memfd_create

#define MIB ((uint64_t)1 << 20)

static int plain_memfd(const char *name, unsigned int flags)
{
	return memfd_create(name, flags & (MFD_CLOEXEC | MFD_ALLOW_SEALING));
}

/* The largest pages of which the region is a multiple; no more than part of 2 MiB is added. */
static void sizes(void **state)
{
	static const struct {
		enum hugepages_mode mode;
		uint64_t mib, page_mib, taken_mib;
	} cases[] = {
		{ HUGEPAGES_1G, 16, 2, 16 },	      { HUGEPAGES_1G, 17, 2, 18 },
		{ HUGEPAGES_1G, 1024, 1024, 1024 },   { HUGEPAGES_1G, 1536, 2, 1536 },
		{ HUGEPAGES_1G, 3072, 1024, 3072 },   { HUGEPAGES_AUTO, 16, 2, 16 },
		{ HUGEPAGES_AUTO, 1024, 1024, 1024 }, { HUGEPAGES_REQUIRE, 2048, 1024, 2048 },
		{ HUGEPAGES_REQUIRE, 48, 2, 48 },     { HUGEPAGES_2M, 1024, 2, 1024 },
	};
	const struct numa_policy policy = { .node = -1, .interleaved = 1, .text = "default" };
	const struct keep not_kept = { .head = NULL };
	struct mapping mapping;

	(void)state;
	assert_int_equal(test_log_begin(), 0);
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct store_options options = {
			.bytes = cases[i].mib * MIB,
			.hugepages = cases[i].mode,
		};

		assert_int_equal(hugepages_map(&mapping, &options, &policy, &not_kept), 0);
		assert_true(mapping.page_bytes == cases[i].page_mib * MIB);
		assert_true(mapping.count * mapping.extent_bytes == cases[i].taken_mib * MIB);
		hugepages_unmap(&mapping);
	}
	assert_int_equal(test_log_lines(), 0);
	log_release();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes),
	};

	return cmocka_run_group_tests(tests, test_log_group_setup, test_log_group_teardown);
}
