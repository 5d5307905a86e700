/* SPDX-License-Identifier: MIT */
#include "server/fleet_options.h"

#include <assert.h>
#include <string.h>

#include "common/util/log.h"

static_assert(OPTION_ETCD_MAX == ETCD_ENDPOINTS_MAX, "as many as etcd_open() takes");

void fleet_options_init(struct fleet_options *options, const struct config *config)
{
	char *next;

	*options = (struct fleet_options){
		.etcd = {
			.urls = options->urls,
			.tls = {
				.certificate = config->fleet.etcd_certificate,
				.key = config->fleet.etcd_key,
				.ca = config->fleet.etcd_ca,
			},
			.user = config->fleet.etcd_user,
		},
	};
	strcpy(options->text, config->fleet.etcd);
	for (char *url = options->text; url; url = next) {
		next = strchr(url, ',');
		if (next)
			*next++ = '\0';
		options->urls[options->etcd.url_count++] = url;
	}
}

int fleet_options_check(const struct config *config)
{
	struct config_member member;
	char why[ETCD_WHY_MAX];
	struct fleet_options options;
	struct etcd *etcd;
	int err, member_err;

	if (!*config->fleet.etcd)
		return 0;
	member_err = config_member(config, &member);
	fleet_options_init(&options, config);
	err = etcd_open(&etcd, &options.etcd, why);
	if (err)
		log_error("fleet.etcd: %s", why);
	else
		etcd_close(etcd);
	return err ? err : member_err;
}
