/* SPDX-License-Identifier: MIT */
/*
 * How the queue pairs of an RDMA device use the network, as far as a user may set it, in a URL
 * ("rdma+tcp://10.0.0.1:7472?gid_index=3&traffic_class=106") or in the server's configuration.
 * rdma_cm, or common/rdma/tcp/, chooses what is not set.
 */
#ifndef KVD_COMMON_RDMA_LINK_H
#define KVD_COMMON_RDMA_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * X(NAME, name, least, most, who). The ranges are those of struct ibv_qp_attr and ibv_ah_attr; an
 * ack_timeout of 0 would wait forever, and librdmacm gives 255 READs another meaning. "who" says
 * which schemes may set it: LINK_BY_TCP means rdma+tcp:// and rdma+tls://, since rdma_cm finds
 * these two itself.
 */
#define LINK_OPTIONS(X)                                                                            \
	X(GID_INDEX, gid_index, 0, 255, LINK_BY_TCP)                                               \
	X(PKEY_INDEX, pkey_index, 0, 255, LINK_BY_TCP)                                             \
	X(TRAFFIC_CLASS, traffic_class, 0, 255, LINK_BY_ANY)                                       \
	X(SERVICE_LEVEL, service_level, 0, 15, LINK_BY_ANY)                                        \
	X(ACK_TIMEOUT, ack_timeout, 1, 31, LINK_BY_ANY)                                            \
	X(RETRY_COUNT, retry_count, 0, 7, LINK_BY_ANY)                                             \
	X(RNR_RETRY, rnr_retry, 0, 7, LINK_BY_ANY)                                                 \
	X(MAX_RD_ATOMIC, max_rd_atomic, 1, 254, LINK_BY_ANY)

#define LINK_OPTION_NAME(upper, name, least, most, who) LINK_##upper,
enum link_option { LINK_OPTIONS(LINK_OPTION_NAME) LINK_OPTIONS_COUNT };

enum link_who { LINK_BY_ANY, LINK_BY_TCP };

/* Zeros: nothing is set. */
struct device_link {
	uint16_t set; /* bit n: option n is */
	uint8_t value[LINK_OPTIONS_COUNT];
};

/* The value of the option, or @otherwise if it is not set. */
static inline uint8_t link_or(const struct device_link *link, enum link_option option,
			      uint8_t otherwise)
{
	return link->set & (1u << option) ? link->value[option] : otherwise;
}

static inline void link_set(struct device_link *link, enum link_option option, uint8_t value)
{
	link->set |= (uint16_t)(1u << option);
	link->value[option] = value;
}

/*
 * Sets the options in @text, "name=value" separated by '&'. @over_tcp: for a scheme over TCP. 0, or
 * -EINVAL: then *link is unchanged, and @why (@why_size bytes) is a whole sentence.
 */
int link_parse(struct device_link *link, const char *text, bool over_tcp, char *why,
	       size_t why_size);

#endif /* KVD_COMMON_RDMA_LINK_H */
