/* SPDX-License-Identifier: MIT */
/* Judges the facts of this host: see doctor_host.h. */
#include <inttypes.h>
#include <string.h>

#include "client/kvctl/doctor_host.h"

/* The most memory that handles lock without values above 16 MiB: libkvd(3), Memory. */
#define CLIENT_BYTES (UINT64_C(129) << 20)
/* Below this not even one handle can be opened. */
#define HANDLE_BYTES (UINT64_C(512) << 10)
/* RoCE v2 over IPv6: headers of IPv6, UDP, BTH, RETH and the sum, and some room. */
#define ROCE_HEADERS 80u
/* The least active MTU at which values are READ at a good rate; an MTU of 1500 gives it. */
#define MTU_GOOD 1024u

static const struct doctor_netdev *rxe_netdev(const struct doctor_host *host)
{
	const struct doctor_netdev *best = NULL;

	for (unsigned int i = 0; i < host->netdevs; i++)
		if (host->netdev[i].ethernet && (!best || (host->netdev[i].up && !best->up)))
			best = &host->netdev[i];
	return best;
}

static void no_device(struct findings *findings, const struct doctor_host *host)
{
	const struct doctor_netdev *netdev = rxe_netdev(host);
	char fix[256];

	if (!host->rxe_available || !netdev) {
		findings_add(findings, SEVERITY_INFO, "device",
			     "kvd -d -o server.listen=softnic://",
			     "no RDMA device, and %s: clients on this host can use the software "
			     "device",
			     host->rxe_available ? "no Ethernet device for Soft-RoCE" :
						   "this kernel has no Soft-RoCE (rdma_rxe)");
		return;
	}
	snprintf(fix, sizeof(fix),
		 "sudo modprobe rdma_rxe && %s%s%ssudo rdma link add rxe0 type rxe netdev %s",
		 netdev->up ? "" : "sudo ip link set dev ", netdev->up ? "" : netdev->name,
		 netdev->up ? "" : " up && ", netdev->name);
	findings_add(findings, SEVERITY_INFO, "device", fix,
		     "no RDMA device: clients on this host can use the software device (kvd -d -o "
		     "server.listen=softnic://), others Soft-RoCE");
}

void doctor_check_modules(struct findings *findings, const struct doctor_host *host)
{
	if (!host->rdma_present) {
		no_device(findings, host);
		return;
	}
	if (host->ucm_loaded && host->cm_usable)
		findings_add(findings, SEVERITY_OK, "rdma_cm", NULL,
			     "the kernel has rdma_ucm, and you may use it%s",
			     host->rxe_loaded ? "; Soft-RoCE (rdma_rxe) is loaded" : "");
	else if (host->ucm_loaded)
		findings_add(findings, SEVERITY_ERROR, "rdma_cm",
			     "sudo chmod a+rw /dev/infiniband/rdma_cm",
			     "you may not use /dev/infiniband/rdma_cm, so rdma:// does not work");
	else
		findings_add(findings, SEVERITY_ERROR, "rdma_cm", "sudo modprobe rdma_ucm",
			     "the module rdma_ucm is not loaded, so rdma:// does not work");
}

void doctor_check_memlock(struct findings *findings, const struct doctor_host *host)
{
	const char *fix = host->memlock_hard >= CLIENT_BYTES ?
				  "ulimit -Sl hard" :
				  "sudo prlimit --pid $$ --memlock=unlimited";
	uint64_t kib = host->memlock_soft / 1024;
	enum severity severity;

	if (!host->rdma_present || host->memlock_lifted || host->memlock_soft >= CLIENT_BYTES) {
		findings_add(
			findings, SEVERITY_OK, "memlock", NULL, "%s",
			!host->rdma_present  ? "without an RDMA device no memory is locked" :
			host->memlock_lifted ? "CAP_IPC_LOCK: this process may lock all memory" :
					       "a client may lock what it needs");
		return;
	}
	severity = host->memlock_soft < HANDLE_BYTES ? SEVERITY_ERROR : SEVERITY_WARNING;
	findings_add(findings, severity, "memlock", fix,
		     "a process of this shell may lock %" PRIu64 " KiB, %s; a server has to lock "
		     "memory.size (kvd.service has LimitMEMLOCK=infinity)",
		     kib,
		     severity == SEVERITY_ERROR ? "too little for any connection" :
						  "too little for large values");
}

void doctor_check_hugepages(struct findings *findings, const struct doctor_host *host)
{
	if (host->hugepages_free)
		findings_add(findings, SEVERITY_OK, "hugepages", NULL,
			     "%" PRIu64 " of %" PRIu64 " pages of %" PRIu64 " KiB are free",
			     host->hugepages_free, host->hugepages, host->hugepage_kib);
	else
		findings_add(findings, SEVERITY_INFO, "hugepages",
			     "sudo sysctl vm.nr_hugepages=600",
			     "%s huge pages are free: kvd takes transparent ones, and "
			     "memory.hugepages = require fails (600 of 2 MiB are for memory.size "
			     "= 1g)",
			     host->hugepages ? "no more" : "no");
}

void doctor_check_clock(struct findings *findings, const struct doctor_host *host)
{
	static const char *const fast[] = { "tsc", "kvm-clock", "hyperv_clocksource_tsc_page",
					    "arch_sys_counter" };
	bool tsc = strstr(host->clocks, "tsc");

	for (size_t i = 0; i < sizeof(fast) / sizeof(fast[0]); i++)
		if (!strcmp(host->clock, fast[i])) {
			findings_add(findings, SEVERITY_OK, "clock", NULL, "clock source %s",
				     host->clock);
			return;
		}
	findings_add(findings, *host->clock ? SEVERITY_WARNING : SEVERITY_INFO, "clock",
		     !*host->clock ? NULL :
		     tsc ? "echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/"
			   "current_clocksource" :
			   "sudo dmesg | grep -i clocksource",
		     "clock source %s%s", *host->clock ? host->clock : "unknown",
		     *host->clock ? ": each reading of the clock is a system call" : "");
}

void doctor_check_host(struct findings *findings, const struct doctor_host *host)
{
	findings_group(findings, "This host");
	doctor_check_modules(findings, host);
	doctor_check_memlock(findings, host);
	doctor_check_hugepages(findings, host);
	doctor_check_clock(findings, host);
}

void doctor_check_netdev(struct findings *findings, const struct doctor_host *host,
			 const char *device, const char *name, uint32_t mtu)
{
	const struct doctor_netdev *netdev = doctor_netdev_find(host, name);
	char fix[128];

	if (!netdev) {
		findings_add(findings, SEVERITY_ERROR, "netdev", "rdma link",
			     "%s: its network device %s does not exist", device, name);
		return;
	}
	if (!netdev->up) {
		snprintf(fix, sizeof(fix), "sudo ip link set dev %s up", name);
		findings_add(findings, SEVERITY_ERROR, "netdev", fix,
			     "%s: its network device %s is down", device, name);
		return;
	}
	snprintf(fix, sizeof(fix), "sudo ip link set dev %s mtu 4200", name);
	if (netdev->mtu < mtu + ROCE_HEADERS)
		findings_add(findings, SEVERITY_ERROR, "mtu", fix,
			     "%s: packets of its active MTU, %u, do not fit the MTU of %s, %u",
			     device, mtu, name, netdev->mtu);
	else if (mtu < MTU_GOOD)
		findings_add(findings, SEVERITY_WARNING, "mtu", fix,
			     "%s: its active MTU is %u, since that of %s is %u: READs are slow",
			     device, mtu, name, netdev->mtu);
	else
		findings_add(findings, SEVERITY_OK, "mtu", NULL,
			     "%s: active MTU %u, that of %s is %u", device, mtu, name, netdev->mtu);
}
