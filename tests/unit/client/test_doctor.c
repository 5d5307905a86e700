/* SPDX-License-Identifier: MIT */
/* Tests of what kvctl doctor reads of a host, and of what it says of it and of a server. */
#include "client/kvctl/doctor_fleet.h"
#include "client/kvctl/doctor_host.h"
#include "client/kvctl/doctor_rdma.h"
#include "client/kvctl/doctor_server.h"
#include "client/kvctl/doctor_workers.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char root[64];
static struct doctor_host host;
static struct findings findings;

static void file_write(const char *path, const char *text)
{
	char name[256];
	FILE *out;

	snprintf(name, sizeof(name), "%s/%s", root, path);
	for (char *at = strchr(name + strlen(root) + 1, '/'); at; at = strchr(at + 1, '/')) {
		*at = '\0';
		mkdir(name, 0700);
		*at = '/';
	}
	out = fopen(name, "we");
	assert_non_null(out);
	assert_true(fputs(text, out) >= 0);
	assert_int_equal(fclose(out), 0);
}

static void host_read(void)
{
	char sys[80], proc[80], modules[80], dev[80];
	struct doctor_roots roots = { sys, proc, modules, dev };

	snprintf(sys, sizeof(sys), "%s/sys", root);
	snprintf(proc, sizeof(proc), "%s/proc", root);
	snprintf(modules, sizeof(modules), "%s/modules", root);
	snprintf(dev, sizeof(dev), "%s/dev", root);
	doctor_host_read(&host, &roots);
}

static void netdev_write(const char *flags, const char *mtu)
{
	file_write("sys/class/net/eth0/flags", flags);
	file_write("sys/class/net/eth0/mtu", mtu);
	file_write("sys/class/net/eth0/type", "1\n");
}

static int setup(void **state)
{
	(void)state;
	memset(&host, 0, sizeof(host));
	memset(&findings, 0, sizeof(findings));
	strcpy(root, "/tmp/doctor.XXXXXX");
	return mkdtemp(root) ? 0 : -1;
}

static int teardown(void **state)
{
	char command[96];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", root);
	return system(command);
}

static void assert_found(enum severity severity, const char *check, const char *text,
			 const char *fix)
{
	assert_int_equal(findings.count, 1);
	assert_int_equal(findings.list[0].severity, severity);
	assert_int_equal(findings.of[severity], 1);
	assert_string_equal(findings.list[0].check, check);
	assert_non_null(strstr(findings.list[0].text, text));
	assert_string_equal(findings.list[0].fix, fix);
	memset(&findings, 0, sizeof(findings));
}

static void an_empty_host(void **state)
{
	(void)state;
	host_read();
	assert_int_equal(host.netdevs, 0);
	assert_false(host.rdma_present || host.rxe_available || host.ucm_loaded);
	doctor_check_modules(&findings, &host);
	assert_found(SEVERITY_INFO, "device", "no Soft-RoCE", "kvd -d -o server.listen=softnic://");
	doctor_check_clock(&findings, &host);
	assert_found(SEVERITY_INFO, "clock", "unknown", "");
	doctor_check_memlock(&findings, &host);
	assert_found(SEVERITY_OK, "memlock", "no memory is locked", "");
}

static void soft_roce_can_be_had(void **state)
{
	(void)state;
	netdev_write("0x1002\n", "1500\n");
	file_write("sys/class/net/lo/type", "772\n");
	file_write("sys/class/net/lo/flags", "0x9\n");
	file_write("proc/sys/kernel/osrelease", "6.1.0\n");
	file_write("modules/6.1.0/modules.dep", "kernel/x.ko:\nkernel/rxe/rdma_rxe.ko: a.ko\n");
	host_read();
	assert_int_equal(host.netdevs, 2);
	doctor_check_modules(&findings, &host);
	assert_found(SEVERITY_INFO, "device", "no RDMA device",
		     "sudo modprobe rdma_rxe && sudo ip link set dev eth0 up && sudo rdma link add "
		     "rxe0 type rxe netdev eth0");
	netdev_write("0x1003\n", "1500\n");
	host_read();
	doctor_check_modules(&findings, &host);
	assert_found(SEVERITY_INFO, "device", "no RDMA device",
		     "sudo modprobe rdma_rxe && sudo rdma link add rxe0 type rxe netdev eth0");
}

static void connection_management(void **state)
{
	(void)state;
	file_write("sys/class/infiniband/rxe1/fw_ver", "\n");
	host_read();
	doctor_check_modules(&findings, &host);
	assert_found(SEVERITY_ERROR, "rdma_cm", "rdma_ucm", "sudo modprobe rdma_ucm");
	file_write("sys/module/rdma_ucm/refcnt", "0\n");
	host_read();
	doctor_check_modules(&findings, &host);
	assert_found(SEVERITY_ERROR, "rdma_cm", "may not use",
		     "sudo chmod a+rw /dev/infiniband/rdma_cm");
	file_write("dev/infiniband/rdma_cm", "");
	file_write("sys/module/rdma_rxe/refcnt", "0\n");
	host_read();
	doctor_check_modules(&findings, &host);
	assert_found(SEVERITY_OK, "rdma_cm", "Soft-RoCE (rdma_rxe) is loaded", "");
}

static void locked_memory(void **state)
{
	(void)state;
	host.rdma_present = true;
	host.memlock_soft = host.memlock_hard = 64 << 10;
	doctor_check_memlock(&findings, &host);
	assert_found(SEVERITY_ERROR, "memlock", "64 KiB, too little for any connection",
		     "sudo prlimit --pid $$ --memlock=unlimited");
	host.memlock_soft = 8 << 20;
	host.memlock_hard = UINT64_MAX;
	doctor_check_memlock(&findings, &host);
	assert_found(SEVERITY_WARNING, "memlock", "8192 KiB, too little for large values",
		     "ulimit -Sl hard");
	host.memlock_lifted = true;
	doctor_check_memlock(&findings, &host);
	assert_found(SEVERITY_OK, "memlock", "CAP_IPC_LOCK", "");
	host.memlock_lifted = false;
	host.memlock_soft = UINT64_MAX;
	doctor_check_memlock(&findings, &host);
	assert_found(SEVERITY_OK, "memlock", "what it needs", "");
}

static void huge_pages(void **state)
{
	(void)state;
	file_write("proc/meminfo", "HugePages_Total:       4\nHugePages_Free:        3\n"
				   "Hugepagesize:       2048 kB\n");
	host_read();
	doctor_check_hugepages(&findings, &host);
	assert_found(SEVERITY_OK, "hugepages", "3 of 4 pages of 2048 KiB", "");
	file_write("proc/meminfo", "HugePages_Total:       4\nHugePages_Free:        0\n");
	host_read();
	doctor_check_hugepages(&findings, &host);
	assert_found(SEVERITY_INFO, "hugepages", "no more huge", "sudo sysctl vm.nr_hugepages=600");
}

static void slow_clocks(void **state)
{
	const char *current = "sys/devices/system/clocksource/clocksource0/current_clocksource";
	const char *all = "sys/devices/system/clocksource/clocksource0/available_clocksource";

	(void)state;
	file_write(current, "hpet\n");
	file_write(all, "tsc hpet acpi_pm\n");
	host_read();
	doctor_check_clock(&findings, &host);
	assert_found(SEVERITY_WARNING, "clock", "hpet",
		     "echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/"
		     "current_clocksource");
	file_write(all, "hpet acpi_pm\n");
	host_read();
	doctor_check_clock(&findings, &host);
	assert_found(SEVERITY_WARNING, "clock", "hpet", "sudo dmesg | grep -i clocksource");
	file_write(current, "kvm-clock\n");
	host_read();
	doctor_check_clock(&findings, &host);
	assert_found(SEVERITY_OK, "clock", "kvm-clock", "");
}

static void network_devices(void **state)
{
	(void)state;
	netdev_write("0x1002\n", "4200\n");
	host_read();
	doctor_check_netdev(&findings, &host, "rxe1", "eth0", 4096);
	assert_found(SEVERITY_ERROR, "netdev", "eth0 is down", "sudo ip link set dev eth0 up");
	netdev_write("0x1003\n", "4200\n");
	host_read();
	doctor_check_netdev(&findings, &host, "rxe1", "eth0", 4096);
	assert_found(SEVERITY_OK, "mtu", "active MTU 4096", "");
	doctor_check_netdev(&findings, &host, "rxe1", "eth0", 512);
	assert_found(SEVERITY_WARNING, "mtu", "512", "sudo ip link set dev eth0 mtu 4200");
	doctor_check_netdev(&findings, &host, "rxe1", "eth1", 4096);
	assert_found(SEVERITY_ERROR, "netdev", "eth1 does not exist", "rdma link");
	netdev_write("0x1003\n", "1500\n");
	host_read();
	doctor_check_netdev(&findings, &host, "rxe1", "eth0", 4096);
	assert_found(SEVERITY_ERROR, "mtu", "do not fit", "sudo ip link set dev eth0 mtu 4200");
}

/* Over eth0, with all that kvd wants. */
static struct doctor_port good_port(void)
{
	struct doctor_port port = {
		.rdma = { .name = "rxe1",
			  .number = 1,
			  .has_gid = true,
			  .gid = { .gid.raw = { [10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1 },
				   .gid_index = 3,
				   .gid_type = IBV_GID_TYPE_ROCE_V2 },
			  .inline_bytes = 220,
			  .attr = { .max_qp = 1024,
				    .max_srq = 8,
				    .max_srq_wr = 4096,
				    .max_qp_rd_atom = 16,
				    .max_qp_init_rd_atom = 16,
				    .max_mr_size = UINT64_C(1) << 40 },
			  .port = { .state = IBV_PORT_ACTIVE,
				    .active_mtu = IBV_MTU_4096,
				    .link_layer = IBV_LINK_LAYER_ETHERNET } },
		.netdev = "eth0",
		.numa_node = -1,
	};

	return port;
}

static void assert_port(const struct doctor_port *port, enum severity severity, const char *check,
			const char *text, const char *fix)
{
	unsigned int at = FINDINGS_MAX;

	doctor_check_port(&findings, &host, port);
	assert_int_equal(findings.of[severity], 1);
	for (unsigned int i = 0; i < findings.count; i++)
		if (findings.list[i].severity == severity)
			at = i;
	assert_string_equal(findings.list[at].group, "RDMA device rxe1, port 1");
	assert_string_equal(findings.list[at].check, check);
	assert_non_null(strstr(findings.list[at].text, text));
	assert_string_equal(findings.list[at].fix, fix);
	memset(&findings, 0, sizeof(findings));
}

static void ports_and_gids(void **state)
{
	struct doctor_port port = good_port();

	(void)state;
	netdev_write("0x1003\n", "4200\n");
	host_read();
	doctor_check_port(&findings, &host, &port);
	assert_int_equal(findings.of[SEVERITY_OK], findings.count);
	assert_string_equal(findings.list[1].text,
			    "connections use GID 3, ::ffff:10.0.0.1, RoCE v2");
	memset(&findings, 0, sizeof(findings));
	port.rdma.port.state = IBV_PORT_DOWN;
	assert_port(&port, SEVERITY_ERROR, "state", "not active but down",
		    "sudo ip link set dev eth0 up");
	port = good_port();
	port.rdma.gid.gid_type = IBV_GID_TYPE_ROCE_V1;
	assert_port(&port, SEVERITY_WARNING, "gid", "RoCE v1",
		    "sudo cma_roce_mode -d rxe1 -p 1 -m 2");
	port.rdma.gid.gid = (union ibv_gid){ .raw = { 0xfe, 0x80 } };
	assert_port(&port, SEVERITY_WARNING, "gid", "link-local",
		    "sudo ip address add 10.9.0.1/24 dev eth0");
	port.rdma.has_gid = false;
	assert_port(&port, SEVERITY_ERROR, "gid", "no GID",
		    "sudo ip address add 10.9.0.1/24 dev eth0");
	port = good_port();
	port.rdma.port.link_layer = IBV_LINK_LAYER_INFINIBAND;
	port.rdma.port.state = IBV_PORT_INIT;
	*port.netdev = '\0';
	assert_port(&port, SEVERITY_ERROR, "state", "no subnet manager",
		    "sudo systemctl start opensm");
	port = good_port();
	port.rdma.error = -EACCES;
	assert_port(&port, SEVERITY_ERROR, "device", "Permission denied",
		    "sudo chmod a+rw /dev/infiniband/uverbs* /dev/infiniband/rdma_cm");
}

static void limits_of_devices(void **state)
{
	struct doctor_port port = good_port();

	(void)state;
	netdev_write("0x1003\n", "4200\n");
	host_read();
	port.rdma.attr.max_srq_wr = 512;
	port.rdma.attr.max_qp = 100;
	assert_port(&port, SEVERITY_WARNING, "limits", "100 queue pairs",
		    "kvd -o request.srq_depth=512 -o server.max_connections=84");
	port.rdma.attr.max_srq = 0;
	assert_port(&port, SEVERITY_ERROR, "limits", "no shared receive queues",
		    "kvd -o server.listen=softnic://");
	port = good_port();
	port.rdma.attr.max_mr_size = 256 << 20;
	assert_port(&port, SEVERITY_WARNING, "max_mr_size", "256 MiB", "kvd -o memory.size=256m");
	port = good_port();
	port.rdma.attr.max_qp_rd_atom = 1;
	assert_port(&port, SEVERITY_INFO, "reads", "1 READs to", "");
	port = good_port();
	port.rdma.inline_bytes = 0;
	assert_port(&port, SEVERITY_ERROR, "inline", "less than 220",
		    "kvd -d -o server.listen=softnic://");
	port.rdma.qp_error = -ENOMEM;
	assert_port(&port, SEVERITY_ERROR, "inline", "create a queue pair", "ulimit -Sl hard");
}

static void where_ports_are(void **state)
{
	struct doctor_port port = good_port();
	struct doctor_roots roots = { 0 };
	char sys[80];

	(void)state;
	snprintf(sys, sizeof(sys), "%s/sys", root);
	roots.sys = sys;
	doctor_port_read(&port, &roots);
	assert_string_equal(port.netdev, "");
	assert_int_equal(port.numa_node, -1);
	file_write("sys/class/infiniband/rxe1/parent", "eth7\n");
	file_write("sys/class/infiniband/rxe1/device/numa_node", "1\n");
	file_write("sys/devices/system/node/node1/cpulist", "8-15\n");
	doctor_port_read(&port, &roots);
	assert_string_equal(port.netdev, "eth7");
	assert_int_equal(port.numa_node, 1);
	assert_string_equal(port.node_cpus, "8-15");
	file_write("sys/class/infiniband/rxe1/ports/1/gid_attrs/ndevs/0", "eth8\n");
	doctor_port_read(&port, &roots);
	assert_string_equal(port.netdev, "eth8");
}

static void worker_write(const char *thread, const char *name, const char *cpus)
{
	char path[64], text[64];

	snprintf(path, sizeof(path), "proc/77/task/%s/comm", thread);
	file_write(path, name);
	snprintf(path, sizeof(path), "proc/77/task/%s/status", thread);
	snprintf(text, sizeof(text), "Cpus_allowed:\tff\nCpus_allowed_list:\t%s\n", cpus);
	file_write(path, text);
}

static void workers_of_another_node(void **state)
{
	struct doctor_workers list[2];
	char proc[80], fd[96];

	(void)state;
	snprintf(proc, sizeof(proc), "%s/proc", root);
	file_write("proc/77/comm", "kvd\n");
	file_write("proc/77/fd/1", "");
	file_write("proc/78/comm", "bash\n");
	worker_write("77", "kvd\n", "0-31");
	worker_write("78", "worker-0\n", "8");
	worker_write("79", "worker-1\n", "8-9,12");
	worker_write("80", "worker-2\n", "15,24");
	worker_write("81", "worker-3\n", "7");
	assert_int_equal(doctor_workers_read(list, 2, proc, "8-15"), 0);
	snprintf(fd, sizeof(fd), "%s/77/fd/2", proc);
	assert_int_equal(symlink("/dev/infiniband/uverbs0", fd), 0);
	assert_int_equal(doctor_workers_read(list, 2, proc, "8-15"), 1);
	assert_int_equal(list[0].count, 4);
	doctor_check_workers(&findings, "rxe1", "8-15", list, 1);
	assert_found(SEVERITY_WARNING, "numa", "2 of the 4 workers of kvd, process 77",
		     "sudo taskset -acp 8-15 77");
	assert_int_equal(doctor_workers_read(list, 2, proc, "0-15,24-31"), 1);
	doctor_check_workers(&findings, "rxe1", "0-15,24-31", list, 1);
	assert_int_equal(findings.count, 0);
}

#define SOFT "softnic:///run/s"

static void servers_that_do_not_answer(void **state)
{
	static const struct {
		const char *url, *fix;
		enum kvd_status status;
	} cases[] = {
		{ SOFT, "kvd -d -o server.listen=softnic:///run/s", KVD_ERR_UNREACHABLE },
		{ "rdma://[fe80::1]:7471", "ssh fe80::1 sudo systemctl start kvd",
		  KVD_ERR_UNREACHABLE },
		{ "rdma+tcp://ten:7472?gid_index=3", "ip route get ten; rdma link",
		  KVD_ERR_DEVICE },
		{ "rdma+tls://10.0.0.1:7473", "ping -c 3 10.0.0.1", KVD_ERR_TIMEOUT },
		{ SOFT, "sudo systemctl restart kvd", KVD_ERR_TIMEOUT },
		{ SOFT, "sudo usermod -aG kvd \"$USER\"", KVD_ERR_REFUSED },
		{ "rdma://10.0.0.1:7471", "", KVD_ERR_REFUSED },
		{ SOFT, "kvctl -V; kvd -V", KVD_ERR_PROTOCOL },
		{ SOFT, "", KVD_ERR_AUTH },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct doctor_server server = { .url = cases[i].url,
						.open_status = cases[i].status,
						.open_error = "the reason" };

		doctor_check_server(&findings, &server, "0.4.0");
		assert_found(SEVERITY_ERROR, "connect", "the reason", cases[i].fix);
	}
}

/* All is well with it. */
static struct doctor_server good_server(void)
{
	struct doctor_server server = { .url = SOFT,
					.device = "softnic softnic",
					.message_max = 2048,
					.value_max = 1 << 20,
					.clock_error_ns = 5000,
					.version = "0.4.0" };

	for (unsigned int i = 0; i < DOCTOR_PATH_COUNT; i++)
		server.loop[i] = (struct doctor_loop){
			.count = 50, .p50_ns = 1500, .max_ns = 9000, .bytes = 100
		};
	server.loop[DOCTOR_PATH_PULL].bytes = 1 << 20;
	return server;
}

/* The finding of this check, which is the only one with such a severity. */
static void assert_server(const struct doctor_server *server, enum severity severity,
			  const char *check, const char *text, const char *fix)
{
	unsigned int at = FINDINGS_MAX;

	doctor_check_server(&findings, server, "0.4.0");
	assert_int_equal(findings.of[severity], 1);
	for (unsigned int i = 0; i < findings.count; i++)
		if (findings.list[i].severity == severity)
			at = i;
	assert_string_equal(findings.list[at].check, check);
	assert_non_null(strstr(findings.list[at].text, text));
	assert_string_equal(findings.list[at].fix, fix);
	memset(&findings, 0, sizeof(findings));
}

static void servers_that_answer(void **state)
{
	struct doctor_server server = good_server();

	(void)state;
	doctor_check_server(&findings, &server, "0.4.0");
	assert_int_equal(findings.of[SEVERITY_OK], 3 + DOCTOR_PATH_COUNT);
	assert_int_equal(findings.count, findings.of[SEVERITY_OK]);
	assert_string_equal(findings.list[findings.count - 1].text,
			    "PUT by READs of the server, 1048576 bytes: median 1.5 us, longest "
			    "9.0 us of 50, 699.05 GB/s");
	memset(&findings, 0, sizeof(findings));
	strcpy(server.version, "0.2.9");
	assert_server(&server, SEVERITY_WARNING, "version", "0.2.9, and this program 0.4.0",
		      "make && sudo make install");
	server = good_server();
	server.clock_error_ns = 10000001;
	assert_server(&server, SEVERITY_WARNING, "clock", "10000 us",
		      "kvctl stats | grep worker.turn");
	server = good_server();
	strcpy(server.link, "gid=::1 mtu=512 pkey_index=0");
	assert_server(&server, SEVERITY_WARNING, "path", "MTU is small", "ip -d link");
	server = good_server();
	server.stats_status = KVD_ERR_NOT_ALLOWED;
	assert_server(&server, SEVERITY_INFO, "version", "not allowed", "");
}

static void paths_that_do_not_work(void **state)
{
	struct doctor_server server = good_server();

	(void)state;
	server.loop[DOCTOR_PATH_READ].count = 0;
	assert_server(&server, SEVERITY_INFO, "READ", "GETs are requests", "");
	server = good_server();
	server.loop[DOCTOR_PATH_PULL] = (struct doctor_loop){ .bytes = 2048 };
	assert_server(&server, SEVERITY_INFO, "PULL", "a message of 2048 bytes", "");
	server = good_server();
	server.loop[DOCTOR_PATH_PULL].status = KVD_ERR_NO_MEMORY;
	strcpy(server.loop[DOCTOR_PATH_PULL].error, "the limit");
	assert_server(&server, SEVERITY_ERROR, "PULL", "the limit", "ulimit -Sl hard");
	server = good_server();
	server.loop[DOCTOR_PATH_REQUEST].status = KVD_ERR_NOT_ALLOWED;
	assert_server(&server, SEVERITY_INFO, "REQUEST", "GET by request", "");
	server = good_server();
	server.loop[DOCTOR_PATH_PING].status = KVD_ERR_TIMEOUT;
	assert_server(&server, SEVERITY_ERROR, "PING", "an empty request",
		      "kvctl stats | grep -E 'failures|errors'");
}

static const char *printed(void (*print)(const struct findings *findings, FILE *out))
{
	static char text[1000];
	FILE *out = fmemopen(text, sizeof(text), "w");

	assert_non_null(out);
	print(&findings, out);
	assert_int_equal(fclose(out), 0);
	return text;
}

static void findings_for_people_and_programs(void **state)
{
	(void)state;
	findings_group(&findings, "This %s", "host");
	findings_add(&findings, SEVERITY_OK, "clock", NULL, "clock source tsc");
	assert_string_equal(printed(findings_print), "This host\n"
						     "  ok       clock       clock source tsc\n"
						     "\n"
						     "Nothing is wrong.\n");
	findings_add(&findings, SEVERITY_WARNING, "memlock", "ulimit -Sl hard", "%d KiB", 8);
	findings_group(&findings, "The server %s", "\x1b[2J"); /* no terminal obeys it */
	findings_add(&findings, SEVERITY_ERROR, "connect", "kvd \"-d\"", "refused\xc2\x9b");
	findings_add(&findings, SEVERITY_ERROR, "clock", NULL,
		     "a text of more than seventy-seven letters is in two lines, and no line is "
		     "longer than 100");
	assert_string_equal(
		printed(findings_print),
		"This host\n"
		"  ok       clock       clock source tsc\n"
		"  warning  memlock     8 KiB\n"
		"                       fix: ulimit -Sl hard\n"
		"\n"
		"The server ?[2J\n"
		"  error    connect     refused??\n"
		"                       fix: kvd \"-d\"\n"
		"  error    clock       a text of more than seventy-seven letters is in two "
		"lines, and no line is\n"
		"                       longer than 100\n"
		"\n"
		"2 errors, 1 warning\n");
	findings.list[0] = findings.list[2];
	findings.count = 1;
	findings.dropped = 3;
	assert_string_equal(printed(findings_print_json),
			    "{\"group\": \"The server ?[2J\", \"severity\": \"error\", "
			    "\"check\": \"connect\", \"text\": \"refused??\", "
			    "\"fix\": \"kvd \\\"-d\\\"\"}\n"
			    "{\"dropped\": 3}\n");
}

static void more_findings_than_room(void **state)
{
	(void)state;
	for (int i = 0; i < FINDINGS_MAX; i++)
		findings_add(&findings, SEVERITY_OK, "x", NULL, "%d", i);
	findings_add(&findings, SEVERITY_ERROR, "x", "fix", "one more");
	assert_int_equal(findings.count, FINDINGS_MAX);
	assert_int_equal(findings.dropped, 1);
	assert_int_equal(findings.of[SEVERITY_ERROR], 1);
}

#define MIB (UINT64_C(1) << 20)

static void assert_member_finding(unsigned int i, enum severity severity, const char *check,
				  const char *text)
{
	assert_true(i < findings.count);
	assert_string_equal(findings.list[i].check, check);
	assert_string_equal(findings.list[i].text, text);
	assert_int_equal(findings.list[i].severity, severity);
}

static void members_that_agree(void **state)
{
	const struct doctor_member members[] = {
		{ "a", "1.2.3", 64 * MIB, 1, true, -20000000, "name=default x=1\nname=t x=2\n" },
		{ "b", "1.2.3", 128 * MIB, 2, true, 80000000, "name=t x=7\nname=default\n" },
		{ "c", "1.2.3", 64 * MIB, 0, false, 1 << 30, NULL },
	};

	(void)state;
	findings = (struct findings){ 0 };
	doctor_check_members(&findings, members, 3);
	assert_int_equal(findings.count, 4);
	assert_member_finding(0, SEVERITY_OK, "versions", "all members have 1.2.3");
	assert_member_finding(1, SEVERITY_OK, "clocks",
			      "the members' times of day are within 0.100 s");
	assert_member_finding(2, SEVERITY_OK, "memory",
			      "the members' shares are as their memory is");
	assert_member_finding(3, SEVERITY_OK, "tenants", "all members have the same tenants");
	/* There is nothing to compare one with. */
	findings = (struct findings){ 0 };
	doctor_check_members(&findings, members, 1);
	assert_int_equal(findings.count, 0);
}

static void members_that_differ(void **state)
{
	struct doctor_member members[] = {
		{ "a", "1.2.3", 64 * MIB, 1, true, -INT64_C(900000000), "name=default x\n" },
		{ "b", "1.2.4", 64 * MIB, 2, true, INT64_C(700000000), "name=default\nname=t 1\n" },
	};

	(void)state;
	findings = (struct findings){ 0 };
	doctor_check_members(&findings, members, 2);
	assert_int_equal(findings.count, 4);
	assert_member_finding(0, SEVERITY_WARNING, "versions",
			      "a has 1.2.3, and b has 1.2.4: update one member after another, as "
			      "kvd's manual of operations says");
	assert_member_finding(
		1, SEVERITY_WARNING, "clocks",
		"b's time of day is 1.6 s ahead of a's: versions of keys may decrease "
		"after a failover");
	assert_member_finding(2, SEVERITY_WARNING, "memory",
			      "b has 64.0 MiB and the weight 2, a has 64.0 MiB and 1: it is full "
			      "before the other; weights should be as memory.size is");
	assert_member_finding(3, SEVERITY_ERROR, "tenants",
			      "b has the tenant t, and a has not: shards do not move to it");
	/* The beginning of a name is another one. */
	members[0].tenants = "name=default\nname=t\n";
	members[1].tenants = "name=default\nname=tt\n";
	findings = (struct findings){ 0 };
	doctor_check_members(&findings, members, 2);
	assert_member_finding(3, SEVERITY_ERROR, "tenants",
			      "a has the tenant t, and b has not: shards do not move to it");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(an_empty_host),
		TEST(soft_roce_can_be_had),
		TEST(connection_management),
		TEST(locked_memory),
		TEST(huge_pages),
		TEST(slow_clocks),
		TEST(network_devices),
		TEST(ports_and_gids),
		TEST(limits_of_devices),
		TEST(where_ports_are),
		TEST(workers_of_another_node),
		TEST(servers_that_do_not_answer),
		TEST(servers_that_answer),
		TEST(paths_that_do_not_work),
		TEST(findings_for_people_and_programs),
		TEST(more_findings_than_room),
		TEST(members_that_agree),
		TEST(members_that_differ),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
