/* SPDX-License-Identifier: MIT */
/*
 * The calls of other libraries and of the kernel that can fail, and how: what tests/nth/interpose.c
 * lets fail in a server and in a client. tests/nth/sites fails the build if the product makes a
 * call that is neither here nor in tests/nth/never.
 *
 * X(name, how, error, other): the call returns as `how` says, with `error`, or, where it is not 0,
 * with `other`.
 */
#ifndef KVD_TESTS_NTH_CALLS_H
#define KVD_TESTS_NTH_CALLS_H

/* clang-format off */
enum nth_how {
	NTH_NULL,	/* returns NULL, and errno says why */
	NTH_MINUS,	/* returns -1, and errno says why */
	NTH_CODE,	/* returns the error itself */
	NTH_LATE_MINUS,	/* does what it is for and then returns -1, as close(2) may */
	NTH_LATE_CODE,	/* does what it is for and then returns the error */
};

#define NTH_CALLS(X)							\
	/* memory */							\
	X(malloc, NTH_NULL, ENOMEM, 0)					\
	X(calloc, NTH_NULL, ENOMEM, 0)					\
	X(realloc, NTH_NULL, ENOMEM, 0)					\
	X(aligned_alloc, NTH_NULL, ENOMEM, 0)				\
	X(heap_alloc, NTH_NULL, ENOMEM, 0)				\
	X(heap_calloc, NTH_NULL, ENOMEM, 0)				\
	X(heap_realloc, NTH_NULL, ENOMEM, 0)				\
	X(_cds_lfht_new, NTH_NULL, ENOMEM, 0)				\
	X(tsearch, NTH_NULL, ENOMEM, 0)					\
	X(mmap, NTH_MINUS, ENOMEM, EPERM)				\
	X(mremap, NTH_MINUS, ENOMEM, 0)					\
	X(munmap, NTH_MINUS, ENOMEM, 0)					\
	X(madvise, NTH_MINUS, EINVAL, ENOMEM)				\
	X(mbind, NTH_MINUS, ENOMEM, EPERM)				\
	X(memfd_create, NTH_MINUS, EMFILE, ENOSYS)			\
	X(ftruncate, NTH_MINUS, ENOSPC, EINTR)				\
	X(fallocate, NTH_MINUS, ENOSPC, EINTR)				\
	X(numa_available, NTH_MINUS, ENOSYS, 0)				\
	X(numa_allocate_nodemask, NTH_NULL, ENOMEM, 0)			\
	X(numa_get_mems_allowed, NTH_NULL, ENOMEM, 0)			\
	X(numa_parse_nodestring, NTH_NULL, ENOMEM, 0)			\
	X(numa_node_of_cpu, NTH_MINUS, EINVAL, 0)			\
	/* OpenSSL; those that return an int return 0 */		\
	X(CRYPTO_get_ex_new_index, NTH_MINUS, ENOMEM, 0)		\
	X(SSL_CTX_new, NTH_NULL, ENOMEM, 0)				\
	X(SSL_CTX_set_ex_data, NTH_NULL, ENOMEM, 0)			\
	X(SSL_CTX_set_ciphersuites, NTH_NULL, ENOMEM, 0)		\
	X(SSL_CTX_use_certificate_chain_file, NTH_NULL, ENOMEM, 0)	\
	X(SSL_CTX_use_PrivateKey, NTH_NULL, ENOMEM, 0)			\
	X(PEM_read_bio_PrivateKey, NTH_NULL, ENOMEM, 0)			\
	X(BIO_new_mem_buf, NTH_NULL, ENOMEM, 0)				\
	X(SSL_CTX_load_verify_locations, NTH_NULL, ENOMEM, 0)		\
	X(SSL_load_client_CA_file, NTH_NULL, ENOMEM, 0)			\
	X(SSL_new, NTH_NULL, ENOMEM, 0)					\
	X(SSL_set1_host, NTH_NULL, ENOMEM, 0)				\
	X(X509_VERIFY_PARAM_set1_ip_asc, NTH_NULL, ENOMEM, 0)		\
	X(BIO_new, NTH_NULL, ENOMEM, 0)					\
	X(BIO_meth_new, NTH_NULL, ENOMEM, 0)				\
	X(SSL_SESSION_new, NTH_NULL, ENOMEM, 0)				\
	X(EVP_MD_CTX_new, NTH_NULL, ENOMEM, 0)				\
	X(X509_STORE_CTX_new, NTH_NULL, ENOMEM, 0)			\
	/* files */							\
	X(open, NTH_MINUS, EMFILE, EACCES)				\
	X(fopen, NTH_NULL, EMFILE, EACCES)				\
	X(fdopen, NTH_NULL, ENOMEM, 0)					\
	X(open_memstream, NTH_NULL, ENOMEM, 0)				\
	X(close, NTH_LATE_MINUS, EIO, EINTR)				\
	X(fclose, NTH_LATE_MINUS, EIO, ENOSPC)				\
	X(fflush, NTH_LATE_MINUS, ENOSPC, 0)				\
	X(ferror, NTH_CODE, 1, 0)					\
	X(read, NTH_MINUS, EIO, EINTR)					\
	X(fread, NTH_NULL, EIO, 0)					\
	X(__fread_chk, NTH_NULL, EIO, 0)				\
	X(__realpath_chk, NTH_NULL, EACCES, ENOENT)			\
	X(mkostemp, NTH_MINUS, EACCES, EROFS)				\
	X(fchown, NTH_MINUS, EPERM, 0)					\
	X(fchmod, NTH_MINUS, EPERM, 0)					\
	X(fsync, NTH_MINUS, EIO, ENOSPC)				\
	X(getpwnam_r, NTH_CODE, EMFILE, EIO)				\
	X(fgets, NTH_NULL, EIO, 0)					\
	X(pread, NTH_MINUS, EIO, EINTR)					\
	X(preadv, NTH_MINUS, EIO, 0)					\
	X(write, NTH_MINUS, ENOSPC, EINTR)				\
	X(pwrite, NTH_MINUS, ENOSPC, EINTR)				\
	X(stat, NTH_MINUS, EACCES, ENOENT)				\
	X(lstat, NTH_MINUS, EACCES, ENOENT)				\
	X(fstat, NTH_MINUS, ENOMEM, 0)					\
	X(statfs, NTH_MINUS, EIO, EINTR)				\
	X(fstatfs, NTH_MINUS, EIO, EINTR)				\
	X(access, NTH_MINUS, EACCES, ENOENT)				\
	X(faccessat, NTH_MINUS, EACCES, 0)				\
	X(chmod, NTH_MINUS, EPERM, 0)					\
	X(mkdir, NTH_MINUS, EACCES, ENOSPC)				\
	X(rmdir, NTH_MINUS, EACCES, 0)					\
	X(unlink, NTH_MINUS, EACCES, 0)					\
	X(rename, NTH_MINUS, EACCES, ENOSPC)				\
	X(flock, NTH_MINUS, ENOLCK, EINTR)				\
	X(fcntl, NTH_MINUS, EMFILE, EINVAL)				\
	X(ioctl, NTH_MINUS, EINVAL, 0)					\
	X(dup2, NTH_MINUS, EBUSY, 0)					\
	X(dup3, NTH_MINUS, EBUSY, 0)					\
	X(pipe2, NTH_MINUS, EMFILE, 0)					\
	X(ini_parse_stream, NTH_CODE, -2, 0)				\
	X(getrandom, NTH_MINUS, ENOSYS, EINTR)				\
	/* events and sockets */					\
	X(eventfd, NTH_MINUS, EMFILE, 0)				\
	X(timerfd_create, NTH_MINUS, EMFILE, 0)				\
	X(timerfd_settime, NTH_MINUS, EINVAL, 0)			\
	X(timerfd_gettime, NTH_MINUS, EINVAL, 0)			\
	X(signalfd, NTH_MINUS, EMFILE, 0)				\
	X(epoll_create1, NTH_MINUS, EMFILE, 0)				\
	X(epoll_ctl, NTH_MINUS, ENOMEM, ENOSPC)				\
	X(epoll_wait, NTH_MINUS, EINTR, 0)				\
	X(poll, NTH_MINUS, EINTR, ENOMEM)				\
	X(ppoll, NTH_MINUS, EINTR, ENOMEM)				\
	X(nanosleep, NTH_MINUS, EINTR, 0)				\
	X(socket, NTH_MINUS, EMFILE, EACCES)				\
	X(bind, NTH_MINUS, EADDRINUSE, EACCES)				\
	X(listen, NTH_MINUS, EADDRINUSE, 0)				\
	X(accept4, NTH_MINUS, EMFILE, ECONNABORTED)			\
	X(connect, NTH_MINUS, EAGAIN, ECONNREFUSED)			\
	X(getsockname, NTH_MINUS, ENOBUFS, 0)				\
	X(getpeername, NTH_MINUS, ENOTCONN, 0)				\
	X(send, NTH_MINUS, ENOBUFS, 0)					\
	X(recv, NTH_MINUS, ECONNRESET, EINTR)				\
	X(sendto, NTH_MINUS, ENOBUFS, EAGAIN)				\
	X(sendmsg, NTH_MINUS, EPIPE, EAGAIN)				\
	X(recvmsg, NTH_MINUS, ECONNRESET, EINTR)			\
	X(recvmmsg, NTH_MINUS, ECONNRESET, EINTR)			\
	X(shutdown, NTH_MINUS, ENOTCONN, 0)				\
	X(setsockopt, NTH_MINUS, ENOBUFS, 0)				\
	X(getsockopt, NTH_MINUS, ENOBUFS, 0)				\
	X(getaddrinfo, NTH_CODE, EAI_MEMORY, EAI_AGAIN)			\
	X(getnameinfo, NTH_CODE, EAI_MEMORY, 0)				\
	X(getifaddrs, NTH_MINUS, EMFILE, 0)				\
	/* processes, threads, limits */				\
	X(fork, NTH_MINUS, EAGAIN, 0)					\
	X(setsid, NTH_MINUS, EPERM, 0)					\
	X(waitpid, NTH_MINUS, EINTR, 0)					\
	X(prctl, NTH_MINUS, EINVAL, 0)					\
	X(syscall, NTH_MINUS, ENOSYS, 0)				\
	X(sysconf, NTH_MINUS, EINVAL, 0)				\
	X(setrlimit, NTH_MINUS, EPERM, 0)				\
	X(sched_getcpu, NTH_MINUS, ENOSYS, 0)				\
	X(sched_getaffinity, NTH_MINUS, EINVAL, 0)			\
	X(pthread_create, NTH_CODE, EAGAIN, 0)				\
	X(pthread_atfork, NTH_CODE, ENOMEM, 0)				\
	X(pthread_attr_init, NTH_CODE, ENOMEM, 0)			\
	X(pthread_attr_setaffinity_np, NTH_CODE, ENOMEM, 0)		\
	X(pthread_attr_setstacksize, NTH_CODE, EINVAL, 0)		\
	X(pthread_setaffinity_np, NTH_CODE, EINVAL, 0)			\
	X(pthread_setname_np, NTH_CODE, EACCES, 0)			\
	X(pthread_getcpuclockid, NTH_CODE, ENOENT, 0)			\
	/* verbs */							\
	X(ibv_get_device_list, NTH_NULL, ENOMEM, EPERM)			\
	X(ibv_open_device, NTH_NULL, EMFILE, 0)				\
	X(ibv_close_device, NTH_LATE_MINUS, EIO, 0)			\
	X(ibv_query_device, NTH_CODE, ENOMEM, 0)			\
	X(ibv_query_port, NTH_CODE, ENOMEM, 0)				\
	X(_ibv_query_gid_ex, NTH_CODE, ENODATA, 0)			\
	X(_ibv_query_gid_table, NTH_CODE, -ENOMEM, 0)			\
	X(ibv_query_qp, NTH_CODE, ENOMEM, 0)				\
	X(ibv_get_async_event, NTH_MINUS, EIO, EINTR)			\
	X(ibv_alloc_pd, NTH_NULL, ENOMEM, 0)				\
	X(ibv_dealloc_pd, NTH_LATE_CODE, EBUSY, 0)			\
	X(ibv_reg_mr_iova2, NTH_NULL, ENOMEM, EINVAL)			\
	X(ibv_reg_mr, NTH_NULL, ENOMEM, EINVAL)				\
	X(ibv_dereg_mr, NTH_LATE_CODE, EIO, 0)				\
	X(ibv_create_comp_channel, NTH_NULL, EMFILE, 0)			\
	X(ibv_destroy_comp_channel, NTH_LATE_CODE, EBUSY, 0)		\
	X(ibv_create_cq, NTH_NULL, ENOMEM, EINVAL)			\
	X(ibv_destroy_cq, NTH_LATE_CODE, EBUSY, 0)			\
	X(ibv_get_cq_event, NTH_MINUS, EIO, EINTR)			\
	X(ibv_create_srq, NTH_NULL, ENOMEM, ENOSYS)			\
	X(ibv_modify_srq, NTH_CODE, ENOMEM, 0)				\
	X(ibv_destroy_srq, NTH_LATE_CODE, EBUSY, 0)			\
	X(ibv_create_qp, NTH_NULL, ENOMEM, EINVAL)			\
	X(ibv_modify_qp, NTH_CODE, ENOMEM, EINVAL)			\
	X(ibv_destroy_qp, NTH_LATE_CODE, EBUSY, 0)			\
	X(rdma_get_devices, NTH_NULL, ENOMEM, 0)			\
	X(rdma_create_event_channel, NTH_NULL, EMFILE, ENODEV)		\
	X(rdma_create_id, NTH_MINUS, ENOMEM, ENODEV)			\
	X(rdma_destroy_id, NTH_LATE_MINUS, EIO, 0)			\
	X(rdma_bind_addr, NTH_MINUS, EADDRINUSE, EADDRNOTAVAIL)		\
	X(rdma_listen, NTH_MINUS, EADDRINUSE, 0)			\
	X(rdma_resolve_addr, NTH_MINUS, ENETUNREACH, 0)			\
	X(rdma_resolve_route, NTH_MINUS, EHOSTUNREACH, 0)		\
	X(rdma_connect, NTH_MINUS, ECONNREFUSED, 0)			\
	X(rdma_establish, NTH_MINUS, ENOTCONN, 0)			\
	X(rdma_accept, NTH_MINUS, ECONNRESET, 0)			\
	X(rdma_reject, NTH_MINUS, EINVAL, 0)				\
	X(rdma_disconnect, NTH_LATE_MINUS, EINVAL, 0)			\
	X(rdma_get_cm_event, NTH_MINUS, EIO, EINTR)			\
	X(rdma_ack_cm_event, NTH_LATE_MINUS, EIO, 0)			\
	X(rdma_init_qp_attr, NTH_MINUS, EINVAL, 0)			\
	X(rdma_migrate_id, NTH_MINUS, ENOMEM, 0)

/* Inline functions of <infiniband/verbs.h>, which call the device's functions. */
#define NTH_OPS(X)							\
	X(post_send, NTH_CODE, ENOMEM, EIO)				\
	X(post_recv, NTH_CODE, ENOMEM, EIO)				\
	X(post_srq_recv, NTH_CODE, ENOMEM, EIO)				\
	X(poll_cq, NTH_MINUS, EIO, 0)					\
	X(req_notify_cq, NTH_CODE, EIO, 0)
/* clang-format on */

#endif /* KVD_TESTS_NTH_CALLS_H */
