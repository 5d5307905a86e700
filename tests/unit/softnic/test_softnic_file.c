/* SPDX-License-Identifier: MIT */
/*
 * Tests of the READs that the accepting side makes of a client's memory by its file: which files it
 * takes, what bounds their number and the work of a poll, and what happens when the client takes
 * the memory back, breaks the rules or dies meanwhile.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/rdma/softnic/completion_queue.h"
#include "common/rdma/softnic/device_context.h"
#include "common/rdma/softnic/fault.h"
#include "common/rdma/softnic/file_grant.h"
#include "common/rdma/softnic/link.h"
#include "common/rdma/softnic/lock.h"
#include "common/rdma/softnic/memory_region.h"
#include "common/rdma/softnic/peer_file.h"
#include "common/rdma/softnic/queue_pair.h"
#include "common/rdma/softnic/softnic.h"
#include "common/sum.h"
#include "common/util/large_page.h"
#include "tests/support/softnic_pair.h"

#define OPS (&softnic_ops)
#define REG_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ)
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define READ_BYTES (PAIR_MEM_BYTES / 2)
#define MANY 12
#define LARGE_BYTES (64u << 20)
#define RKEY 0x77001

static struct end server, client;
static const struct sum_key sum_key;
static struct cm_id *more[MANY];
static char path[64];

/* What the device's system calls did. */
static _Atomic uint64_t read_bytes, reads;
static _Atomic int closed_fd = -1;
static _Atomic pid_t closer;
static struct link_side *revoked; /* whose first registration ends when a copy has been made */

ssize_t preadv(int fd, const struct iovec *iov, int count, off_t offset)
{
	ssize_t got = syscall(SYS_preadv, fd, iov, count, offset, 0);

	reads++;
	if (got > 0)
		read_bytes += (uint64_t)got;
	if (revoked)
		side_store(&revoked->granted[0], 0);
	return got;
}

int close(int fd)
{
	if (fd == closed_fd)
		closer = (pid_t)syscall(SYS_gettid);
	return (int)syscall(SYS_close, fd);
}

static int setup(void **state)
{
	int ret;

	(void)state;
	snprintf(path, sizeof(path), "%s", pair_path());
	read_bytes = reads = 0;
	ret = end_init(&server, DEVICE_LISTEN, path, &END_DEFAULTS);
	if (!ret)
		ret = end_init(&client, DEVICE_CONNECT, path, &END_DEFAULTS);
	if (!ret)
		ret = ends_connect(&server, &client, &client.id, &END_DEFAULTS, &END_DEFAULTS);
	return ret;
}

static int teardown(void **state)
{
	unsigned int i;

	(void)state;
	fault_reset();
	for (i = 0; i < MANY; i++) {
		OPS->destroy_id(more[i]);
		more[i] = NULL;
	}
	end_release(&client);
	while (atomic_load(&dev_to_sn_context(server.dev)->objects[SN_OBJECT_ID]) > 1)
		end_serve_cm(&server, &END_DEFAULTS);
	/* No descriptor of a client's is left when its connections are gone. */
	assert_int_equal(dev_to_sn_context(server.dev)->file_count, 0);
	end_release(&server);
	return 0;
}

static uint32_t files(void)
{
	return dev_to_sn_context(server.dev)->file_count;
}

static void poll_server(void)
{
	struct ibv_wc wc;

	assert_int_equal(ibv_poll_cq(server.cq, 0, &wc), 0);
}

/* The server's queue pair takes what the client has passed. */
static void drain(void)
{
	struct sn_qp *qp = to_sn_qp(server.id->qp);

	sn_lock(&qp->lock);
	do_sn_qp_drain(qp, true);
	do_sn_qp_progress(qp);
	sn_unlock(&qp->lock);
}

/* A READ by the server while only the server polls; @serves: while the client polls, too. */
static enum ibv_wc_status read_status(uint64_t addr, uint32_t length, uint32_t rkey, bool serves)
{
	struct ibv_wc wc;

	assert_int_equal(end_post_read(&server, server.id->qp, 0, length, addr, rkey), 0);
	assert_int_equal(end_wait(&server, serves ? &client : NULL, &wc), 0);
	return wc.status;
}

static int memfd(size_t bytes, int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

/* Memory of the client's of @bytes with a file, not touched yet. */
static struct ibv_mr *client_mr(size_t bytes, int *fd)
{
	struct device_mem mem = { .length = bytes, .fd = memfd(bytes, 0) };
	struct ibv_mr *mr;

	mem.addr = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, mem.fd, 0);
	assert_true(mem.addr != MAP_FAILED);
	assert_int_equal(OPS->reg_mr(client.pd, &mem, REG_ACCESS, &mr), 0);
	*fd = mem.fd;
	return mr;
}

static void client_mr_release(struct ibv_mr *mr, int fd)
{
	void *addr = mr->addr;
	size_t bytes = mr->length;

	OPS->dereg_mr(mr);
	munmap(addr, bytes);
	close(fd);
}

static struct link_message grant_message(void)
{
	return (struct link_message){
		.magic = LINK_MAGIC,
		.version = LINK_VERSION,
		.type = LINK_MESSAGE_GRANT,
		.grant_slot = 5,
		.grant_rkey = RKEY,
		.grant_addr = 0x10000,
		.grant_length = 4096,
	};
}

/* What a client may send that does not keep to the rules. */
static void send_grant(const struct link_message *message, int fd)
{
	struct sn_qp *qp = to_sn_qp(client.id->qp);

	if (message->grant_slot < LINK_GRANTS_MAX)
		side_store(&qp->mine->granted[message->grant_slot], message->grant_rkey);
	assert_int_equal(link_send(qp->sock, message, fd), 0);
}

static void test_nobody_serves(void **state)
{
	uint32_t i;

	(void)state;
	for (i = 0; i < READ_BYTES; i++)
		client.mem[i] = (uint8_t)(i * 7 + i / 251);
	assert_int_equal(read_status((uintptr_t)client.mem, READ_BYTES, client.mr->rkey, false),
			 IBV_WC_SUCCESS);
	assert_memory_equal(server.mem, client.mem, READ_BYTES);
	assert_int_equal(read_status((uintptr_t)client.mem + 77, 1001, client.mr->rkey, false),
			 IBV_WC_SUCCESS);
	assert_memory_equal(server.mem, client.mem + 77, 1001);
	assert_int_equal(read_bytes, READ_BYTES + 1001);
	/* What the client writes later is seen. */
	memset(client.mem, 9, 64);
	assert_int_equal(read_status((uintptr_t)client.mem, 64, client.mr->rkey, false),
			 IBV_WC_SUCCESS);
	assert_memory_equal(server.mem, client.mem, 64);
}

/* Pieces of any length, and parts that end anywhere in them. */
static void test_pieces(void **state)
{
	struct fault_plan plan = { .tear = 777 };
	struct ibv_sge sges[2];
	struct ibv_send_wr *bad, wr = {
		.sg_list = sges,
		.num_sge = 2,
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_wc wc;
	uint32_t i;

	(void)state;
	for (i = 0; i < 10000; i++)
		client.mem[i] = (uint8_t)(i * 13 + i / 255);
	memset(server.mem, 0, 40000);
	sges[0] = (struct ibv_sge){ (uintptr_t)server.mem + 20000, 3001, server.mr->lkey };
	sges[1] = (struct ibv_sge){ (uintptr_t)server.mem + 1, 6999, server.mr->lkey };
	wr.wr.rdma.remote_addr = (uintptr_t)client.mem;
	wr.wr.rdma.rkey = client.mr->rkey;
	fault_set(&plan);
	assert_int_equal(ibv_post_send(server.id->qp, &wr, &bad), 0);
	assert_int_equal(end_wait(&server, NULL, &wc), 0);
	fault_reset();
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_memory_equal(server.mem + 20000, client.mem, 3001);
	assert_memory_equal(server.mem + 1, client.mem + 3001, 6999);
	assert_int_equal(server.mem[0] | server.mem[7000] | server.mem[23001], 0);
	assert_int_equal(reads, 10000 / 777 + 1);
}

static void test_bounds(void **state)
{
	uint64_t end = (uintptr_t)client.mem + PAIR_MEM_BYTES;

	(void)state;
	assert_int_equal(read_status(end - 64, 64, client.mr->rkey, false), IBV_WC_SUCCESS);
	assert_int_equal(read_status(end - 64, 65, client.mr->rkey, false), IBV_WC_REM_ACCESS_ERR);
}

/* Memory whose file begins in front of it. */
static void test_part_of_a_file(void **state)
{
	struct device_mem mem = {
		.addr = client.mem + 5000,
		.length = 1000,
		.fd = client.fd,
		.fd_offset = 5000,
	};
	struct ibv_mr *mr;

	(void)state;
	memset(client.mem, 0, 10000);
	memset(client.mem + 5000, 0x33, 1000);
	assert_int_equal(OPS->reg_mr(client.pd, &mem, REG_ACCESS, &mr), 0);
	assert_int_equal(read_status((uintptr_t)mem.addr, 1000, mr->rkey, false), IBV_WC_SUCCESS);
	assert_memory_equal(server.mem, client.mem + 5000, 1000);
	assert_int_equal(read_status((uintptr_t)mem.addr + 999, 1, mr->rkey, false),
			 IBV_WC_SUCCESS);
	assert_int_equal(*server.mem, 0x33);
	OPS->dereg_mr(mr);
}

static void test_below(void **state)
{
	(void)state;
	assert_int_equal(read_status((uintptr_t)client.mem, 64, client.mr->rkey, false),
			 IBV_WC_SUCCESS);
	assert_int_equal(read_status((uintptr_t)client.mem - 1, 64, client.mr->rkey, false),
			 IBV_WC_REM_ACCESS_ERR);
}

static int open_unlinked(const char *folder)
{
	char name[64];
	int fd;

	snprintf(name, sizeof(name), "%s/kvd-test-file-XXXXXX", folder);
	fd = mkstemp(name);
	assert_true(fd >= 0);
	unlink(name);
	assert_int_equal(ftruncate(fd, 65536), 0);
	return fd;
}

static int reopen(int fd, int flags)
{
	char name[32];

	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	return open(name, flags);
}

/* Whatever could keep a reader waiting, or change under it, is refused; the connection stays. */
static void test_refused_files(void **state)
{
	int pipes[2], fds[9], count = 0, i;
	struct link_message grant = grant_message();
	struct sn_file *file;

	(void)state;
	assert_int_equal(pipe(pipes), 0);
	fds[count++] = pipes[0];
	fds[count++] = open("/dev/zero", O_RDONLY);
	fds[count++] = open("/", O_RDONLY | O_DIRECTORY);
	fds[count++] = open_unlinked("/tmp");
	fds[count++] = open_unlinked("/dev/shm");
	fds[count++] = memfd(65536, F_SEAL_GROW);
	fds[count++] = memfd(65536, F_SEAL_SHRINK | F_SEAL_SEAL);
	fds[count++] = memfd(0, SEALS);
	fds[count++] = reopen(memfd(65536, SEALS), O_WRONLY);
	drain();
	for (i = 0; i < count; i++) {
		assert_true(fds[i] >= 0);
		assert_int_equal(sn_file_get(dev_to_sn_context(server.dev), fds[i], true, &file),
				 i < 4 ? -EBADF : -EPERM);
		send_grant(&grant, fds[i]);
		drain();
		assert_int_equal(files(), 1);
	}
	/* A message without its file. */
	send_grant(&grant, -1);
	drain();
	/* A range that the file does not have. */
	grant.grant_offset = 65536 - 4095;
	send_grant(&grant, memfd(65536, SEALS));
	drain();
	assert_int_equal(files(), 1);
	assert_int_equal(to_sn_qp(server.id->qp)->grants_open, 1);
	for (i = 0; i < count; i++)
		close(fds[i]);
	close(pipes[1]);
	assert_int_equal(read_status((uintptr_t)client.mem, 64, client.mr->rkey, false),
			 IBV_WC_SUCCESS);
	/* That memory is the client's to serve: it knows no such key. */
	assert_int_equal(read_status(grant.grant_addr, 64, RKEY, true), IBV_WC_REM_ACCESS_ERR);
}

/* A file that two registrations name is open once, until the last of them is gone. */
static void test_two_users(void **state)
{
	struct sn_context *ctx = dev_to_sn_context(server.dev);
	uint32_t before = files();
	int fd = memfd(65536, SEALS);
	struct sn_file *first, *second;
	char text[4] = "";
	struct iovec to = { .iov_base = text, .iov_len = sizeof(text) };

	(void)state;
	assert_int_equal(pwrite(fd, "abcd", 4, 100), 4);
	assert_int_equal(sn_file_get(ctx, fd, true, &first), 0);
	assert_int_equal(sn_file_get(ctx, fd, true, &second), 0);
	close(fd);
	assert_ptr_equal(first, second);
	assert_int_equal(files(), before + 1);
	sn_file_put(ctx, first);
	assert_int_equal(files(), before + 1);
	assert_int_equal(sn_file_read(ctx, second, 100, &to, 1), 4);
	assert_memory_equal(text, "abcd", 4);
	sn_file_put(ctx, second);
	assert_int_equal(files(), before);
}

/* A client that sends nonsense loses its connection. */
static void test_malformed(void **state)
{
	struct link_message grants[8];
	struct cm_id *id;
	unsigned int i;
	int fd = memfd(65536, SEALS);

	(void)state;
	for (i = 0; i < 8; i++)
		grants[i] = grant_message();
	grants[0].magic++;
	grants[1].type = LINK_MESSAGE_READY;
	grants[2].grant_slot = LINK_GRANTS_MAX;
	grants[3].grant_rkey = 0;
	grants[4].grant_length = 0;
	grants[5].grant_addr = UINT64_MAX - 4094;
	grants[6].grant_offset = UINT64_MAX - 4094;
	grants[7].reserved = 1;
	for (i = 0; i < 8; i++) {
		send_grant(&grants[i], fd);
		drain();
		assert_int_equal(server.id->qp->state, IBV_QPS_ERR);
		OPS->destroy_id(client.id);
		client.id = NULL;
		OPS->destroy_id(server.id);
		server.id = NULL;
		assert_int_equal(ends_connect(&server, &client, &id, &END_DEFAULTS, &END_DEFAULTS),
				 0);
		client.id = id;
	}
	close(fd);
	/* A packet of another length: a good GRANT and a byte. */
	grants[0] = grant_message();
	assert_int_equal(send(to_sn_qp(client.id->qp)->sock, grants, sizeof(grants[0]) + 1, 0),
			 sizeof(grants[0]) + 1);
	drain();
	assert_int_equal(server.id->qp->state, IBV_QPS_ERR);
}

/* LINK_GRANTS_MAX files, and one more for each SEND. */
static void test_flood(void **state)
{
	struct link_message grant = grant_message();
	int fd = memfd(65536, SEALS);
	struct ibv_wc wc;
	unsigned int i;

	(void)state;
	for (i = 0; i < 3; i++) {
		assert_int_equal(end_post_send(&client, client.id->qp, 0, 8, 0), 0);
		assert_int_equal(end_wait(&server, NULL, &wc), 0);
	}
	/* One is the client's own memory. */
	for (i = 0; i < LINK_GRANTS_MAX + 3 - 1; i++) {
		send_grant(&grant, fd);
		drain();
		assert_int_equal(server.id->qp->state, IBV_QPS_RTS);
	}
	assert_int_equal(files(), 2);
	send_grant(&grant, fd);
	drain();
	assert_int_equal(server.id->qp->state, IBV_QPS_ERR);
	close(fd);
}

/* A client that keeps to the rules registers as often as it likes: what it can't pass it serves. */
static void test_many_registrations(void **state)
{
	struct ibv_mr *mr;
	struct ibv_wc wc;
	unsigned int i;
	int fd;

	(void)state;
	for (i = 0; i < 3 * LINK_GRANTS_MAX; i++) {
		mr = client_mr(8192, &fd);
		memset(mr->addr, (int)i, 8192);
		assert_int_equal(read_status((uintptr_t)mr->addr + 1, 8191, mr->rkey, true),
				 IBV_WC_SUCCESS);
		assert_memory_equal(server.mem, mr->addr, 8191);
		client_mr_release(mr, fd);
		drain();
		assert_int_equal(files(), 1);
		if (i % 2)
			continue;
		assert_int_equal(end_post_send(&client, client.id->qp, 0, 8, IBV_SEND_SIGNALED), 0);
		assert_int_equal(end_wait(&server, NULL, &wc), 0);
		assert_int_equal(end_post_recv(&server, (unsigned int)wc.wr_id), 0);
		assert_int_equal(end_wait(&client, NULL, &wc), 0);
	}
	/* Each that could be passed was READ once, without the client. */
	assert_int_equal(reads, LINK_GRANTS_MAX - 1 + 3 * LINK_GRANTS_MAX / 2);
	assert_int_equal(server.id->qp->state, IBV_QPS_RTS);
}

struct mr_change {
	struct ibv_mr *mr;
	int fd;
};

static void *register_run(void *arg)
{
	struct mr_change *change = arg;

	change->mr = client_mr(8192, &change->fd);
	return NULL;
}

static void *deregister_run(void *arg)
{
	struct mr_change *change = arg;

	client_mr_release(change->mr, change->fd);
	return NULL;
}

static void run_elsewhere(void *(*run)(void *), void *arg)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, run, arg), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

/*
 * A connection of one thread passes memory that another one registered with its next SEND, which
 * may name it. Memory that another one deregisters is gone at once.
 */
static void test_connection_of_one_thread(void **state)
{
	struct end_options single = END_DEFAULTS;
	struct mr_change change;
	struct ibv_wc wc;
	uint32_t rkey;

	(void)state;
	OPS->destroy_id(client.id);
	client.id = NULL;
	while (server.id)
		end_serve_cm(&server, &END_DEFAULTS);
	end_release(&client);
	single.paired = true;
	assert_int_equal(end_init(&client, DEVICE_CONNECT, path, &single), 0);
	assert_int_equal(ends_connect(&server, &client, &client.id, &END_DEFAULTS, &single), 0);
	assert_int_equal(read_status((uintptr_t)client.mem, 64, client.mr->rkey, false),
			 IBV_WC_SUCCESS);
	run_elsewhere(register_run, &change);
	drain();
	assert_int_equal(files(), 1);
	assert_int_equal(end_post_send(&client, client.id->qp, 0, 8, IBV_SEND_SIGNALED), 0);
	assert_int_equal(end_wait(&server, NULL, &wc), 0);
	assert_int_equal(read_status((uintptr_t)change.mr->addr, 64, change.mr->rkey, false),
			 IBV_WC_SUCCESS);
	assert_int_equal(reads, 2);
	rkey = change.mr->rkey;
	run_elsewhere(deregister_run, &change);
	assert_int_equal(to_sn_qp(client.id->qp)->mine->granted[1], 0);
	assert_int_equal(read_status(0x10000, 64, rkey, true), IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(reads, 2);
}

/* All connections of a process use one descriptor for one file. */
static void test_shared(void **state)
{
	struct ibv_wc wc;
	unsigned int i;

	(void)state;
	for (i = 0; i < MANY; i++)
		assert_int_equal(
			ends_connect(&server, &client, &more[i], &END_DEFAULTS, &END_DEFAULTS), 0);
	poll_server();
	drain();
	assert_int_equal(files(), 1);
	memset(client.mem, 0x31, 4096);
	assert_int_equal(read_status((uintptr_t)client.mem, 4096, client.mr->rkey, false),
			 IBV_WC_SUCCESS);
	/* The file stays for the others when one connection ends. */
	OPS->destroy_id(more[0]);
	more[0] = NULL;
	while (end_serve_cm(&server, &END_DEFAULTS) != 0)
		assert_int_equal(end_wait(&server, NULL, &wc) == 0, 0);
	assert_int_equal(files(), 1);
}

/* The descriptors that clients can take are a quarter; half of these are for first files. */
static void test_descriptors(void **state)
{
	struct sn_context *ctx = dev_to_sn_context(server.dev);
	struct rlimit old, few = { 0 };
	struct sn_file *taken[32];
	unsigned int count;
	int fds[32], i;

	(void)state;
	drain();
	for (i = 0; i < 32; i++)
		fds[i] = memfd(4096, SEALS);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	few = old;
	few.rlim_cur = 128;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	for (count = 0; count < 32; count++)
		if (sn_file_get(ctx, fds[count], false, &taken[count]))
			break;
	assert_int_equal(count, 128 / 4 / 2 - 1); /* one is taken */
	for (; count < 32; count++)
		if (sn_file_get(ctx, fds[count], true, &taken[count]))
			break;
	assert_int_equal(count, 128 / 4 - 1);
	/* One that is open already costs none. */
	assert_int_equal(sn_file_get(ctx, fds[3], false, &taken[31]), 0);
	assert_ptr_equal(taken[31], taken[3]);
	sn_file_put(ctx, taken[31]);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	while (count--)
		sn_file_put(ctx, taken[count]);
	for (i = 0; i < 32; i++)
		close(fds[i]);
}

/* Deregistered while a READ is under way: it fails, and nothing more is read. */
static void test_deregistered_meanwhile(void **state)
{
	struct fault_plan plan = { .tear = 1000 };
	struct ibv_mr *mr;
	struct ibv_wc wc;
	uint64_t before;
	int fd;

	(void)state;
	mr = client_mr(65536, &fd);
	fault_set(&plan);
	assert_int_equal(
		end_post_read(&server, server.id->qp, 0, 65536, (uintptr_t)mr->addr, mr->rkey), 0);
	poll_server();
	poll_server();
	before = read_bytes;
	assert_int_equal(before, 2000);
	assert_int_equal(files(), 2);
	client_mr_release(mr, fd);
	assert_int_equal(end_wait(&server, &client, &wc), 0);
	assert_int_equal(wc.status, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(read_bytes, before);
	/* Nor does the server keep the memory allocated. */
	assert_int_equal(files(), 1);
}

/* The word counts, whether or not the client has raised its bell. */
static void test_revoked_in_silence(void **state)
{
	struct fault_plan plan = { .tear = 1000 };
	struct link_side *mine = to_sn_qp(client.id->qp)->mine;

	(void)state;
	fault_set(&plan);
	assert_int_equal(end_post_read(&server, server.id->qp, 0, READ_BYTES, (uintptr_t)client.mem,
				       client.mr->rkey),
			 0);
	poll_server();
	assert_int_equal(read_bytes, 1000);
	side_store(&mine->granted[0], 0);
	poll_server();
	assert_int_equal(read_bytes, 1000);
	assert_int_equal(files(), 0);
}

/*
 * Memory that was taken back while the last part was being copied may have been written to then:
 * the READ does not succeed.
 */
static void test_revoked_while_copied(void **state)
{
	struct ibv_wc wc;

	(void)state;
	revoked = to_sn_qp(client.id->qp)->mine;
	assert_int_equal(end_post_read(&server, server.id->qp, 0, 4096, (uintptr_t)client.mem,
				       client.mr->rkey),
			 0);
	poll_server();
	assert_int_equal(read_bytes, 4096);
	revoked = NULL;
	assert_int_equal(ibv_poll_cq(server.cq, 1, &wc), 0);
	assert_int_equal(to_sn_qp(server.id->qp)->verbs.state, IBV_QPS_RTS);
	/* The client's library serves it as memory without a file, while it is registered there. */
	assert_int_equal(end_wait(&server, &client, &wc), 0);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(read_bytes, 4096);
}

static int64_t read_now(uint64_t addr, uint32_t bytes, struct value_sum *sum)
{
	value_sum_begin(sum, &sum_key);
	return OPS->read_now(server.id->qp, client.mr->rkey, addr, server.mem, bytes, sum);
}

static uint64_t value_sum_of(const void *value, uint32_t bytes)
{
	struct value_sum sum;

	value_sum_begin(&sum, &sum_key);
	value_sum_add(&sum, value, bytes);
	return value_sum_end(&sum);
}

/* The call itself reads memory that the client has passed. */
static void test_now(void **state)
{
	const uint64_t addr = (uintptr_t)client.mem;
	struct value_sum sum;
	struct ibv_wc wc;
	uint32_t i;

	(void)state;
	/* What was passed is taken by a READ. */
	assert_int_equal(read_now(addr, 64, &sum), -EAGAIN);
	drain();
	assert_int_equal(read_now(addr, 0, &sum), 0);
	for (i = 0; i < READ_BYTES; i++)
		client.mem[i] = (uint8_t)(i * 7 + i / 251);
	assert_int_equal(read_now(addr, READ_BYTES, &sum), READ_BYTES);
	assert_memory_equal(server.mem, client.mem, READ_BYTES);
	assert_int_equal(value_sum_end(&sum), value_sum_of(client.mem, READ_BYTES));
	assert_int_equal(read_now(addr + 77, 20001, &sum), 20001);
	assert_memory_equal(server.mem, client.mem + 77, 20001);
	assert_int_equal(value_sum_end(&sum), sum_bytes(&sum_key, client.mem + 77, 20001));
	assert_int_equal(read_bytes, READ_BYTES + 20001);
	assert_int_equal(read_now(addr + PAIR_MEM_BYTES - 64, 65, &sum), -EACCES);
	assert_int_equal(read_bytes, READ_BYTES + 20001);
	assert_int_equal(ibv_poll_cq(server.cq, 1, &wc), 0);
}

/* While the client fills its memory, what is there already is READ, if it is worth it. */
static void test_now_filling(void **state)
{
	const uint64_t addr = (uintptr_t)client.mem;
	const uint32_t part = LINK_FILL_MIN;
	struct value_sum sum;

	(void)state;
	drain();
	memset(client.mem, 0x44, READ_BYTES);
	memset(server.mem, 0x33, READ_BYTES);
	assert_true(OPS->fill(client.id->qp, addr + part, 5 * part));
	assert_int_equal(read_now(addr, 0, &sum), 0);
	assert_int_equal(read_now(addr, 2 * part, &sum), part);
	assert_int_equal(value_sum_end(&sum), sum_bytes(&sum_key, client.mem, part));
	assert_int_equal(server.mem[part - 1], 0x44);
	assert_int_equal(server.mem[part], 0x33);
	/* Not a byte of it, and too few of them. */
	assert_int_equal(read_now(addr + part, 1, &sum), -EBUSY);
	assert_int_equal(read_now(addr + 6 * part - 1, 64, &sum), -EBUSY);
	assert_int_equal(read_now(addr + 1, part, &sum), -EBUSY);
	assert_int_equal(value_sum_end(&sum), sum_bytes(&sum_key, NULL, 0));
	/* All of it. */
	assert_int_equal(read_now(addr + 1, part - 1, &sum), part - 1);
	assert_int_equal(read_now(addr + 6 * part, part, &sum), part);
	assert_true(OPS->fill(client.id->qp, addr + 6 * part, 0));
	assert_int_equal(read_now(addr + part, 5 * part, &sum), 5 * part);
	/* The words have the low halves of addresses. */
	assert_true(OPS->fill(client.id->qp, addr + part + (UINT64_C(1) << 32), part));
	assert_int_equal(read_now(addr + part, 64, &sum), -EBUSY);
	assert_int_equal(read_now(addr + 2 * part, 64, &sum), 64);
}

/* An older server does not wait; and a side that connects neither fills nor waits. */
static void test_filling_is_not_known(void **state)
{
	(void)state;
	assert_false(OPS->fill(server.id->qp, (uintptr_t)server.mem, 64));
	side_store(&to_sn_qp(server.id->qp)->mine->follows, 0);
	assert_false(OPS->fill(client.id->qp, (uintptr_t)client.mem, 64));
}

/* A READ that is posted meanwhile is served by the client, when it has filled its memory. */
static void test_filling_is_served(void **state)
{
	const uint64_t addr = (uintptr_t)client.mem;
	struct ibv_wc wc;

	(void)state;
	drain();
	memset(server.mem, 0x33, 2048);
	assert_true(OPS->fill(client.id->qp, addr + 2047, 1));
	assert_int_equal(end_post_read(&server, server.id->qp, 0, 2048, addr, client.mr->rkey), 0);
	poll_server();
	assert_int_equal(read_bytes, 0);
	for (unsigned int i = 0; i < 3; i++) {
		assert_int_equal(ibv_poll_cq(client.cq, 1, &wc), 0);
		poll_server();
	}
	assert_int_equal(server.mem[0], 0x33);
	memset(client.mem, 0x44, 2048);
	/* The READ's owner need not poll for that. */
	assert_true(OPS->fill(client.id->qp, addr + 2048, 0));
	assert_int_equal(ibv_poll_cq(server.cq, 1, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_memory_equal(server.mem, client.mem, 2048);
	assert_int_equal(read_bytes, 0);
}

/* What was READ until then counts, and is in the sum; if that is nothing, the error is said. */
static void test_now_fails(void **state)
{
	struct fault_plan plan = { .fail_call = FAULT_read_file, .fail_at = 2, .fail_errno = EIO };
	const uint64_t addr = (uintptr_t)client.mem;
	struct value_sum sum;

	(void)state;
	drain();
	memset(client.mem, 0x44, READ_BYTES);
	memset(server.mem, 0x33, READ_BYTES);
	fault_set(&plan);
	assert_int_equal(read_now(addr, READ_BYTES, &sum), SN_NOW_BYTES);
	assert_int_equal(value_sum_end(&sum), sum_bytes(&sum_key, client.mem, SN_NOW_BYTES));
	assert_int_equal(server.mem[SN_NOW_BYTES - 1], 0x44);
	assert_int_equal(server.mem[SN_NOW_BYTES], 0x33);
	plan.fail_at = 1;
	fault_set(&plan);
	assert_int_equal(read_now(addr, READ_BYTES, &sum), -EIO);
	assert_int_equal(value_sum_end(&sum), sum_bytes(&sum_key, NULL, 0));
	fault_reset();
	assert_int_equal(to_sn_qp(server.id->qp)->verbs.state, IBV_QPS_RTS);
	assert_int_equal(read_now(addr, READ_BYTES, &sum), READ_BYTES);
}

/* Memory that was taken back meanwhile does not count. */
static void test_now_revoked(void **state)
{
	struct value_sum sum;
	int64_t got;

	(void)state;
	drain();
	memset(server.mem, 0x33, 4096);
	revoked = to_sn_qp(client.id->qp)->mine;
	got = read_now((uintptr_t)client.mem, 4096, &sum);
	revoked = NULL;
	assert_int_equal(got, -ESTALE);
	assert_int_equal(read_bytes, 4096);
	assert_int_equal(value_sum_end(&sum), sum_bytes(&sum_key, NULL, 0));
	assert_int_equal(server.mem[0], 0x33);
	assert_int_equal(read_now((uintptr_t)client.mem, 4096, &sum), -EAGAIN);
}

/* A client that has ended, and one of which only the socket says so. */
static void test_now_of_one_that_ended(void **state)
{
	const uint64_t deadline = pair_now_ms() + PAIR_WAIT_MS;
	struct value_sum sum;

	(void)state;
	drain();
	assert_int_equal(shutdown(to_sn_qp(client.id->qp)->sock, SHUT_RDWR), 0);
	while (read_now((uintptr_t)client.mem, 64, &sum) > 0)
		assert_true(pair_now_ms() < deadline);
	assert_int_equal(read_now((uintptr_t)client.mem, 64, &sum), -ENOTCONN);
	assert_int_equal(server.id->qp->state, IBV_QPS_ERR);
}

/* The server closes a file when the client takes it back, and does not wait for a READ for it. */
static void test_taken_back(void **state)
{
	struct ibv_mr *mr;
	int fd;

	(void)state;
	mr = client_mr(65536, &fd);
	drain();
	assert_int_equal(files(), 2);
	assert_int_equal(read_status((uintptr_t)mr->addr, 64, mr->rkey, false), IBV_WC_SUCCESS);
	client_mr_release(mr, fd);
	poll_server();
	assert_int_equal(files(), 1);
}

/* The rights count as for any memory: of the registration, the PD and the queue pair. */
static void test_rights(void **state)
{
	struct ibv_qp_attr attr = { .qp_access_flags = 0 };
	struct device_mem mem = { client.mem, 4096, client.fd, 0 };
	struct ibv_mr *local, *other;
	struct ibv_pd *pd;

	(void)state;
	assert_int_equal(OPS->reg_mr(client.pd, &mem, IBV_ACCESS_LOCAL_WRITE, &local), 0);
	assert_int_equal(OPS->alloc_pd(client.dev, &pd), 0);
	assert_int_equal(OPS->reg_mr(pd, &mem, REG_ACCESS, &other), 0);
	drain();
	assert_int_equal(to_sn_qp(server.id->qp)->grants_open, 1);
	assert_int_equal(OPS->modify_qp(client.id->qp, &attr, IBV_QP_ACCESS_FLAGS), 0);
	poll_server();
	assert_int_equal(to_sn_qp(server.id->qp)->grants_open, 0);
	assert_int_equal(read_status((uintptr_t)client.mem, 64, client.mr->rkey, true),
			 IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(reads, 0);
	OPS->dereg_mr(local);
	OPS->dereg_mr(other);
	OPS->dealloc_pd(pd);
}

/* The server gets a descriptor that it can't write with, of a file of one length. */
static void test_read_only(void **state)
{
	struct sn_mr *mr = sn_container(client.mr, struct sn_mr, verbs);
	struct ibv_mr *refused;
	struct device_mem mem = { client.mem, 4096, -1, 0 };

	(void)state;
	assert_int_equal(fcntl(mr->fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	assert_int_equal(fcntl(mr->fd, F_GET_SEALS) & SEALS, SEALS);
	assert_int_equal(fcntl(mr->fd, F_GET_SEALS) & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE), 0);
	mem.fd = open_unlinked("/tmp");
	assert_int_equal(OPS->reg_mr(client.pd, &mem, REG_ACCESS, &refused), -EINVAL);
	close(mem.fd);
}

/* Memory that the client never wrote is zeros, and reading it allocates none. */
static void test_holes(void **state)
{
	struct ibv_mr *mr;
	struct stat st;
	uint32_t at;
	int fd;

	(void)state;
	mr = client_mr(LARGE_BYTES, &fd);
	memset(server.mem, 1, READ_BYTES);
	for (at = 0; at < LARGE_BYTES; at += LARGE_BYTES / 64) {
		assert_int_equal(read_status((uintptr_t)mr->addr + at, READ_BYTES, mr->rkey, false),
				 IBV_WC_SUCCESS);
		assert_int_equal(server.mem[0] | server.mem[READ_BYTES - 1], 0);
	}
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_blocks, 0);
	client_mr_release(mr, fd);
}

/* What free_mem() frees is freed, although the server has the file open. */
static void test_freed_at_once(void **state)
{
	struct device_mem mem;
	struct ibv_mr *mr;
	struct stat st;
	int fd;

	(void)state;
	assert_int_equal(OPS->alloc_mem(client.dev, READ_BYTES, &mem), 0);
	memset(mem.addr, 7, READ_BYTES);
	assert_int_equal(OPS->reg_mr(client.pd, &mem, REG_ACCESS, &mr), 0);
	drain();
	assert_int_equal(files(), 2);
	fd = dup(mem.fd);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_blocks, READ_BYTES / 512);
	OPS->dereg_mr(mr);
	OPS->free_mem(client.dev, &mem);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_blocks, 0);
	close(fd);
}

static size_t alloc_length(size_t bytes)
{
	struct device_mem mem;
	size_t length;

	assert_int_equal(OPS->alloc_mem(client.dev, bytes, &mem), 0);
	length = mem.length;
	OPS->free_mem(client.dev, &mem);
	return length;
}

/* What is left of half a large page or more is in a whole one. */
static void test_large_page_for_rest(void **state)
{
	const size_t half = LARGE_PAGE_BYTES / 2;

	(void)state;
	assert_int_equal(alloc_length(1), 4096);
	assert_int_equal(alloc_length(half - 4096), half - 4096);
	assert_int_equal(alloc_length(half), LARGE_PAGE_BYTES);
	assert_int_equal(alloc_length(LARGE_PAGE_BYTES), LARGE_PAGE_BYTES);
	assert_int_equal(alloc_length(LARGE_PAGE_BYTES + half + 1), 2 * LARGE_PAGE_BYTES);
}

static void connect_many(void)
{
	unsigned int i;

	for (i = 0; i < MANY; i++)
		assert_int_equal(
			ends_connect(&server, &client, &more[i], &END_DEFAULTS, &END_DEFAULTS), 0);
}

/* The server's queue pair that is connected to the client's @id. */
static struct ibv_qp *server_qp(struct cm_id *id)
{
	struct sn_context *ctx = dev_to_sn_context(server.dev);
	uint32_t mark = to_sn_qp(id->qp)->mine->request_head + 0x5a5a;
	struct sn_qp *qp, *found = NULL;

	/* A word that nothing uses shows which one maps the same memory. */
	to_sn_qp(id->qp)->mine->pad0[0] = mark;
	TAILQ_FOREACH(qp, &ctx->qps, in_context)
		if (qp->theirs && qp->theirs->pad0[0] == mark)
			found = qp;
	to_sn_qp(id->qp)->mine->pad0[0] = 0;
	assert_non_null(found);
	return &found->verbs;
}

/* A post copies nothing and a poll a bounded number of bytes; all have their turn. */
static void test_work_of_a_poll(void **state)
{
	uint32_t length = READ_BYTES, before, i, done = 0, polls;
	struct ibv_wc wc[MANY];

	(void)state;
	connect_many();
	for (i = 0; i < MANY; i++)
		assert_int_equal(end_post_read(&server, server_qp(more[i]), 0, length,
					       (uintptr_t)client.mem, client.mr->rkey),
				 0);
	assert_int_equal(read_bytes, 0);
	for (polls = 0; done < MANY; polls++) {
		int got;

		before = (uint32_t)read_bytes;
		got = ibv_poll_cq(server.cq, MANY, wc);
		assert_true(got >= 0);
		assert_in_range(read_bytes - before, 0, SN_COPY_SCAN);
		/* Each needs two parts, so none is ready before all had the first one. */
		if (got)
			assert_true(read_bytes >= (MANY + 1) * SN_COPY_STEP);
		done += (uint32_t)got;
	}
	assert_int_equal(read_bytes, (uint64_t)length * MANY);
	assert_in_range(polls, MANY * length / SN_COPY_SCAN, 2 * MANY * length / SN_COPY_SCAN);
}

/* A thread that arms the CQ and sleeps is woken for each of them. */
static void test_sleeps_meanwhile(void **state)
{
	uint32_t done = 0, i;
	struct ibv_wc wc;

	(void)state;
	connect_many();
	for (i = 0; i < MANY; i++)
		assert_int_equal(end_post_read(&server, server_qp(more[i]), 0, READ_BYTES,
					       (uintptr_t)client.mem, client.mr->rkey),
				 0);
	while (done < MANY) {
		uint64_t before = pair_now_ms();

		assert_int_equal(ibv_req_notify_cq(server.cq, 0), 0);
		if (ibv_poll_cq(server.cq, 1, &wc) == 1) {
			done++;
			continue;
		}
		assert_true(OPS->sleep(server.comp, -1, PAIR_WAIT_MS) >= 0);
		assert_true(pair_now_ms() - before < PAIR_WAIT_MS);
	}
}

/* Armed once: wake-ups without a notification do not end that. */
static void sleep_for_wc(void)
{
	uint64_t deadline = pair_now_ms() + PAIR_WAIT_MS;
	struct ibv_wc wc;

	assert_int_equal(ibv_req_notify_cq(server.cq, 0), 0);
	/* No poll: nothing but the wake-ups moves the READs on. */
	while (to_sn_cq(server.cq)->head == to_sn_cq(server.cq)->tail) {
		assert_true(OPS->sleep(server.comp, -1, PAIR_WAIT_MS) >= 0);
		assert_true(pair_now_ms() < deadline);
	}
	assert_int_equal(ibv_poll_cq(server.cq, 1, &wc), 1);
}

/* The sleeper is woken for a READ of many parts, and for one after others that notify nobody. */
static void test_sleeps_for_one(void **state)
{
	struct fault_plan plan = { .tear = 1000 };
	struct ibv_sge sge = { (uintptr_t)server.mem, SN_COPY_STEP, server.mr->lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ };
	unsigned int i;

	(void)state;
	fault_set(&plan);
	assert_int_equal(end_post_read(&server, server.id->qp, 0, 20000, (uintptr_t)client.mem,
				       client.mr->rkey),
			 0);
	sleep_for_wc();
	fault_reset();
	connect_many();
	wr.wr.rdma.remote_addr = (uintptr_t)client.mem;
	wr.wr.rdma.rkey = client.mr->rkey;
	for (i = 0; i < MANY; i++) {
		wr.send_flags = i == MANY - 1 ? IBV_SEND_SIGNALED : 0;
		assert_int_equal(ibv_post_send(server_qp(more[i]), &wr, &bad), 0);
	}
	sleep_for_wc();
	assert_int_equal(read_bytes, 20000 + MANY * SN_COPY_STEP);
}

/* The client ends in the middle of a READ: it is flushed, and the file is closed. */
static void test_client_ends(void **state)
{
	struct fault_plan plan = { .tear = 1000 };
	struct ibv_wc wc;

	(void)state;
	fault_set(&plan);
	assert_int_equal(end_post_read(&server, server.id->qp, 0, READ_BYTES, (uintptr_t)client.mem,
				       client.mr->rkey),
			 0);
	poll_server();
	assert_int_equal(read_bytes, 1000);
	OPS->destroy_id(client.id);
	client.id = NULL;
	assert_int_equal(end_wait(&server, NULL, &wc), 0);
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
	assert_true(read_bytes < READ_BYTES);
}

/* A client that was killed says nothing: its socket does. */
static void test_client_is_killed(void **state)
{
	struct fault_plan plan = { .tear = 1 };
	struct ibv_wc wc;

	(void)state;
	fault_set(&plan);
	assert_int_equal(end_post_read(&server, server.id->qp, 0, READ_BYTES, (uintptr_t)client.mem,
				       client.mr->rkey),
			 0);
	poll_server();
	assert_int_equal(shutdown(to_sn_qp(client.id->qp)->sock, SHUT_RDWR), 0);
	assert_int_equal(end_wait(&server, NULL, &wc), 0);
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
}

static void test_faults(void **state)
{
	struct fault_plan take = { .fail_call = FAULT_take_file, .fail_at = 1 };
	struct fault_plan read = { .fail_call = FAULT_read_file, .fail_at = 2, .fail_errno = EIO };

	(void)state;
	/* Without the file the client is asked. */
	fault_set(&take);
	memset(client.mem, 0x44, 9000);
	assert_int_equal(read_status((uintptr_t)client.mem, 9000, client.mr->rkey, true),
			 IBV_WC_SUCCESS);
	assert_memory_equal(server.mem, client.mem, 9000);
	assert_int_equal(reads, 0);
	fault_reset();
	assert_int_equal(ends_connect(&server, &client, &more[0], &END_DEFAULTS, &END_DEFAULTS), 0);
	OPS->destroy_id(client.id);
	client.id = more[0];
	more[0] = NULL;
	while (server.id)
		end_serve_cm(&server, &END_DEFAULTS);
	fault_set(&read);
	{
		struct ibv_qp *qp = server_qp(client.id);
		struct ibv_wc wc;

		assert_int_equal(end_post_read(&server, qp, 0, READ_BYTES, (uintptr_t)client.mem,
					       client.mr->rkey),
				 0);
		assert_int_equal(end_wait(&server, NULL, &wc), 0);
		assert_int_equal(wc.status, IBV_WC_REM_OP_ERR);
		assert_int_equal(qp->state, IBV_QPS_ERR);
	}
}

/* The last one to close a large file frees its pages: another thread does. */
static void test_large_file_is_closed_elsewhere(void **state)
{
	uint64_t deadline = pair_now_ms() + PAIR_WAIT_MS;
	int fd = memfd(LARGE_BYTES / 4, SEALS), i;

	(void)state;
	for (i = 0; i < 2; i++) {
		closed_fd = fd;
		closer = 0;
		link_drop_file(fd, true);
		while (!closer)
			assert_true(pair_now_ms() < deadline);
		/* A file without pages is closed at once. */
		assert_true(i ? closer != syscall(SYS_gettid) : closer == syscall(SYS_gettid));
		closed_fd = -1;
		if (!i) {
			void *addr;

			fd = memfd(LARGE_BYTES / 4, SEALS);
			addr = mmap(NULL, LARGE_BYTES / 4, PROT_WRITE, MAP_SHARED, fd, 0);
			assert_true(addr != MAP_FAILED);
			memset(addr, 1, LARGE_BYTES / 4);
			munmap(addr, LARGE_BYTES / 4);
		}
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_nobody_serves),
		TEST(test_pieces),
		TEST(test_bounds),
		TEST(test_part_of_a_file),
		TEST(test_below),
		TEST(test_refused_files),
		TEST(test_two_users),
		TEST(test_malformed),
		TEST(test_flood),
		TEST(test_many_registrations),
		TEST(test_connection_of_one_thread),
		TEST(test_shared),
		TEST(test_descriptors),
		TEST(test_deregistered_meanwhile),
		TEST(test_revoked_in_silence),
		TEST(test_revoked_while_copied),
		TEST(test_now),
		TEST(test_now_fails),
		TEST(test_now_filling),
		TEST(test_filling_is_not_known),
		TEST(test_filling_is_served),
		TEST(test_now_revoked),
		TEST(test_now_of_one_that_ended),
		TEST(test_taken_back),
		TEST(test_rights),
		TEST(test_read_only),
		TEST(test_holes),
		TEST(test_freed_at_once),
		TEST(test_large_page_for_rest),
		TEST(test_work_of_a_poll),
		TEST(test_sleeps_meanwhile),
		TEST(test_sleeps_for_one),
		TEST(test_client_ends),
		TEST(test_client_is_killed),
		TEST(test_faults),
		TEST(test_large_file_is_closed_elsewhere),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	pair_path_release();
	return failed;
}
