/* SPDX-License-Identifier: MIT */
/*
 * Tests of which GID a queue pair gets that is set up over TCP (common/rdma/tcp/gid.c). The file is
 * compiled here, with a table of the test in place of the device's.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/rdma/tcp/tcp.h"

static ssize_t test_query_table(struct ibv_context *context, struct ibv_gid_entry *entries,
				size_t max, uint32_t flags);
static int test_query_gid(struct ibv_context *context, uint32_t port, uint32_t index,
			  struct ibv_gid_entry *entry, uint32_t flags);

#define ibv_query_gid_table test_query_table
#define ibv_query_gid_ex test_query_gid
#include "common/rdma/tcp/gid.c"
#undef ibv_query_gid_table
#undef ibv_query_gid_ex

#define PORT 2
#define OTHER_PORT 1

static struct ibv_context context;
static struct verbs_port port;

static struct ibv_gid_entry table[8];
static unsigned int table_count;
static int query_err; /* of both queries: a negative errno, or 0 */

static ssize_t test_query_table(struct ibv_context *of, struct ibv_gid_entry *entries, size_t max,
				uint32_t flags)
{
	assert_ptr_equal(of, &context);
	assert_int_equal(flags, 0);
	assert_true(max >= 256); /* as many as a port of mlx5 has */
	if (query_err)
		return query_err;
	memcpy(entries, table, table_count * sizeof(table[0]));
	return table_count;
}

static int test_query_gid(struct ibv_context *of, uint32_t number, uint32_t index,
			  struct ibv_gid_entry *entry, uint32_t flags)
{
	assert_ptr_equal(of, &context);
	assert_int_equal(number, PORT);
	assert_int_equal(flags, 0);
	for (unsigned int i = 0; !query_err && i < table_count; i++)
		if (table[i].port_num == number && table[i].gid_index == index) {
			*entry = table[i];
			return 0;
		}
	return query_err ? -query_err : ENODATA;
}

/* An address: of IPv4 as ::ffff:a.b.c.d. */
static union ibv_gid gid(const char *text)
{
	union ibv_gid out;

	assert_int_equal(inet_pton(AF_INET6, text, out.raw), 1);
	return out;
}

static struct sockaddr_storage address(const char *text)
{
	struct sockaddr_storage out = { .ss_family = strchr(text, ':') ? AF_INET6 : AF_INET };
	struct sockaddr_in *v4 = (struct sockaddr_in *)&out;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&out;

	assert_int_equal(out.ss_family == AF_INET ? inet_pton(AF_INET, text, &v4->sin_addr) :
						    inet_pton(AF_INET6, text, &v6->sin6_addr),
			 1);
	return out;
}

/* A GID's index is 10 more than its place in the table. */
static void add(const char *text, uint32_t type, uint32_t number)
{
	table[table_count] = (struct ibv_gid_entry){
		.gid = gid(text),
		.gid_index = 10 + table_count,
		.gid_type = type,
		.port_num = number,
	};
	table_count++;
}

static int setup(void **state)
{
	(void)state;
	port = (struct verbs_port){
		.dev = { .name = "fake0", .verbs = &context, .port_number = PORT },
		.link_layer = IBV_LINK_LAYER_ETHERNET,
	};
	memset(table, 0, sizeof(table));
	table_count = 0;
	query_err = 0;
	return 0;
}

/* The index that is chosen for a connection from @local (or NULL), or a negative errno. */
static int chosen(const char *local, const struct tcp_end *peer)
{
	struct sockaddr_storage addr = local ? address(local) : (struct sockaddr_storage){ 0 };
	struct ibv_gid_entry entry = { .gid_index = 99 };
	int err = tcp_gid_choose(&port, local ? &addr : NULL, peer, &entry);

	if (err)
		return err;
	assert_true(entry.gid_index >= 10 && entry.gid_index < 10 + table_count);
	assert_memory_equal(&entry, &table[entry.gid_index - 10], sizeof(entry));
	return (int)entry.gid_index;
}

static struct tcp_end peer_of(const char *text, uint8_t type)
{
	return (struct tcp_end){ .gid = gid(text), .gid_type = type };
}

/* Whatever else speaks for the other one. */
static void roce_v2_first(void **state)
{
	(void)state;
	add("::ffff:10.0.0.1", IBV_GID_TYPE_ROCE_V1, PORT);
	add("fe80::1", IBV_GID_TYPE_ROCE_V2, PORT);
	assert_int_equal(chosen("10.0.0.1", NULL), 11);
	assert_int_equal(chosen(NULL, NULL), 11);
}

static void address_of_the_connection(void **state)
{
	(void)state;
	add("2001:db8::1", IBV_GID_TYPE_ROCE_V2, PORT);
	add("::ffff:10.0.0.1", IBV_GID_TYPE_ROCE_V2, PORT);
	add("::ffff:10.0.0.2", IBV_GID_TYPE_ROCE_V2, PORT);
	add("fe80::7", IBV_GID_TYPE_ROCE_V2, PORT);
	add("2001:db8::2", IBV_GID_TYPE_ROCE_V2, PORT);
	assert_int_equal(chosen("10.0.0.2", NULL), 12);
	assert_int_equal(chosen("2001:db8::2", NULL), 14);
	/* A socket for both families. */
	assert_int_equal(chosen("::ffff:10.0.0.1", NULL), 11);
	/* A link-local GID is preferred to others. */
	assert_int_equal(chosen("fe80::7", NULL), 13);
	/* Nobody's: the first one. */
	assert_int_equal(chosen("10.0.0.3", NULL), 10);
	assert_int_equal(chosen(NULL, NULL), 10);
}

/* The last 4 bytes of an IPv6 address are no IPv4 address. */
static void ipv6_that_ends_alike(void **state)
{
	(void)state;
	add("::ffff:10.0.0.9", IBV_GID_TYPE_ROCE_V2, PORT);
	add("2001:db8::a00:1", IBV_GID_TYPE_ROCE_V2, PORT); /* ends with 10.0.0.1 */
	assert_int_equal(chosen("10.0.0.1", NULL), 10);
}

static void not_link_local(void **state)
{
	(void)state;
	add("fe80::1", IBV_GID_TYPE_ROCE_V2, PORT);
	add("2001:db8::1", IBV_GID_TYPE_ROCE_V2, PORT);
	assert_int_equal(chosen("10.0.0.1", NULL), 11);
	/* The only one. */
	table_count = 1;
	assert_int_equal(chosen("10.0.0.1", NULL), 10);
}

/* The peer's RoCE version and address family decide, not what would be best. */
static void as_the_peer(void **state)
{
	struct tcp_end v1_ipv4 = peer_of("::ffff:10.0.0.7", IBV_GID_TYPE_ROCE_V1);
	struct tcp_end v1_ipv6 = peer_of("2001:db8::7", IBV_GID_TYPE_ROCE_V1);
	struct tcp_end v2_ipv4 = peer_of("::ffff:10.0.0.7", IBV_GID_TYPE_ROCE_V2);
	struct tcp_end v2_ipv6 = peer_of("2001:db8::7", IBV_GID_TYPE_ROCE_V2);

	(void)state;
	add("fe80::1", IBV_GID_TYPE_ROCE_V1, PORT);
	add("fe80::1", IBV_GID_TYPE_ROCE_V2, PORT);
	add("::ffff:10.0.0.1", IBV_GID_TYPE_ROCE_V1, PORT);
	add("::ffff:10.0.0.1", IBV_GID_TYPE_ROCE_V2, PORT);
	assert_int_equal(chosen("10.0.0.1", &v1_ipv6), 10);
	assert_int_equal(chosen("10.0.0.1", &v2_ipv6), 11);
	assert_int_equal(chosen("10.0.0.1", &v1_ipv4), 12);
	assert_int_equal(chosen("10.0.0.1", &v2_ipv4), 13);
	/* None of its kind. */
	table_count = 3;
	assert_int_equal(chosen("10.0.0.1", &v2_ipv4), -EADDRNOTAVAIL);
	table_count = 1;
	assert_int_equal(chosen("10.0.0.1", &v1_ipv4), -EADDRNOTAVAIL);
}

static void other_ports(void **state)
{
	(void)state;
	add("::ffff:10.0.0.1", IBV_GID_TYPE_ROCE_V2, OTHER_PORT);
	assert_int_equal(chosen("10.0.0.1", NULL), -EADDRNOTAVAIL);
	add("fe80::1", IBV_GID_TYPE_ROCE_V1, PORT);
	assert_int_equal(chosen("10.0.0.1", NULL), 11);
}

static void none(void **state)
{
	(void)state;
	assert_int_equal(chosen("10.0.0.1", NULL), -EADDRNOTAVAIL);
	add("::ffff:10.0.0.1", IBV_GID_TYPE_ROCE_V2, PORT);
	query_err = -EIO;
	assert_int_equal(chosen("10.0.0.1", NULL), -EIO);
}

/* The user's index, whatever would be better. */
static void index_of_the_user(void **state)
{
	struct tcp_end v2_ipv4 = peer_of("::ffff:10.0.0.7", IBV_GID_TYPE_ROCE_V2);
	struct tcp_end v1_ipv4 = peer_of("::ffff:10.0.0.7", IBV_GID_TYPE_ROCE_V1);
	struct tcp_end v1_ipv6 = peer_of("fe80::7", IBV_GID_TYPE_ROCE_V1);

	(void)state;
	add("::ffff:10.0.0.1", IBV_GID_TYPE_ROCE_V2, PORT);
	add("fe80::1", IBV_GID_TYPE_ROCE_V1, PORT);
	add("::ffff:10.0.0.3", IBV_GID_TYPE_ROCE_V2, OTHER_PORT);
	link_set(&port.link, LINK_GID_INDEX, 11);
	assert_int_equal(chosen("10.0.0.1", NULL), 11);
	assert_int_equal(chosen("10.0.0.1", &v1_ipv6), 11);
	/* The GID does not reach that peer: another version, another family. */
	assert_int_equal(chosen("10.0.0.1", &v2_ipv4), -EADDRNOTAVAIL);
	assert_int_equal(chosen("10.0.0.1", &v1_ipv4), -EADDRNOTAVAIL);
	/* The GID does not exist, or is of another port. */
	link_set(&port.link, LINK_GID_INDEX, 13);
	assert_int_equal(chosen("10.0.0.1", NULL), -EADDRNOTAVAIL);
	link_set(&port.link, LINK_GID_INDEX, 12);
	assert_int_equal(chosen("10.0.0.1", NULL), -EADDRNOTAVAIL);
	/* Index 0 can be asked for, too. */
	table[1].gid_index = 0;
	link_set(&port.link, LINK_GID_INDEX, 0);
	port.link_layer = IBV_LINK_LAYER_ETHERNET;
	assert_int_equal(tcp_gid_choose(&port, NULL, NULL, &table[7]), 0);
	assert_memory_equal(&table[7], &table[1], sizeof(table[1]));
}

/* Index 0, which the subnet manager gives, or the user's; subnets may differ. */
static void infiniband(void **state)
{
	struct tcp_end peer = peer_of("fec0::7", IBV_GID_TYPE_IB);
	struct ibv_gid_entry entry;

	(void)state;
	port.link_layer = IBV_LINK_LAYER_INFINIBAND;
	add("fe80::1", IBV_GID_TYPE_IB, PORT);
	add("fec0::1", IBV_GID_TYPE_IB, PORT);
	table[0].gid_index = 0;
	assert_int_equal(tcp_gid_choose(&port, NULL, &peer, &entry), 0);
	assert_memory_equal(&entry, &table[0], sizeof(entry));
	link_set(&port.link, LINK_GID_INDEX, 11);
	assert_int_equal(chosen("10.0.0.1", &peer), 11);
	/* Whatever the peer's looks like. */
	peer = peer_of("::ffff:10.0.0.7", IBV_GID_TYPE_IB);
	assert_int_equal(chosen("10.0.0.1", &peer), 11);
	port.link.set = 0;
	table_count = 0;
	assert_int_equal(tcp_gid_choose(&port, NULL, NULL, &entry), -EADDRNOTAVAIL);
}

/* 0: no port has it. */
static uint8_t found(const char *text)
{
	struct sockaddr_storage addr = address(text);
	uint8_t number = 0;
	bool has = tcp_gid_find(&context, &addr, &number);

	assert_int_equal(has, number != 0);
	return number;
}

static void port_of_an_address(void **state)
{
	(void)state;
	assert_int_equal(found("10.0.0.1"), 0);
	add("fe80::1", IBV_GID_TYPE_ROCE_V1, OTHER_PORT);
	add("::ffff:10.0.0.1", IBV_GID_TYPE_ROCE_V1, OTHER_PORT);
	add("::ffff:10.0.0.2", IBV_GID_TYPE_ROCE_V2, PORT);
	add("2001:db8::1", IBV_GID_TYPE_ROCE_V2, PORT);
	add("2001:db8::a00:3", IBV_GID_TYPE_ROCE_V2, PORT); /* ends with 10.0.0.3 */
	assert_int_equal(found("10.0.0.1"), OTHER_PORT);
	assert_int_equal(found("10.0.0.2"), PORT);
	assert_int_equal(found("::ffff:10.0.0.2"), PORT);
	assert_int_equal(found("2001:db8::1"), PORT);
	assert_int_equal(found("fe80::1"), OTHER_PORT);
	assert_int_equal(found("10.0.0.3"), 0);
	assert_int_equal(found("2001:db8::2"), 0);
	assert_int_equal(found("::"), 0);
	query_err = -EIO;
	assert_int_equal(found("10.0.0.1"), 0);
}

#define CASE(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(roce_v2_first),
		CASE(address_of_the_connection),
		CASE(ipv6_that_ends_alike),
		CASE(not_link_local),
		CASE(as_the_peer),
		CASE(other_ports),
		CASE(none),
		CASE(index_of_the_user),
		CASE(infiniband),
		CASE(port_of_an_address),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
