/* SPDX-License-Identifier: MIT */
/*
 * Fuzz target of YCSB property files and -p arguments: the list is in bounds, errors have a text.
 */
#include "bench/props.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = exact_copy(data, size), *argument = malloc(size + 1), where[64];
	struct props props;
	size_t i;
	int err;

	must(argument);
	memcpy(argument, text, size);
	argument[size] = '\0';
	props_init(&props);
	err = props_parse(&props, text, size, "fuzz");
	must(!err || props.error[0]);
	must(props.count <= PROPS_MAX);
	for (i = 0; i < props.count; i++) {
		must(props.list[i].key && props.list[i].value);
		must(err || props_find(&props, props.list[i].key) == &props.list[i]);
		prop_where(&props.list[i], where, sizeof(where));
		must(memchr(where, '\0', sizeof(where)));
	}
	props_set(&props, argument);
	props_release(&props);
	free(argument);
	free(text);
	return 0;
}
