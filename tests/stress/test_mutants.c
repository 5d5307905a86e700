/* SPDX-License-Identifier: MIT */
/*
 * Test of the torture itself: it must find each mutant of tests/stress/mutants.h by its own checks,
 * not by a crash or a sanitizer, and must find nothing wrong without a mutant.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "tests/stress/mutants.h"
#include "tests/support/form.h"

/* Most mutants are found within a second; it takes longer while other tests run. */
#define SECONDS_FOUND 120
/* Rounds of each kind, also under a sanitizer: the torture fails if it tested too little. */
#define SECONDS_CLEAN 8
#define OUTPUT_MAX 16384

static const char *program;
static char output[OUTPUT_MAX];

/* Runs the torture. Returns its exit status, or -1 if it did not exit. */
static int torture(unsigned int mutant, unsigned int seconds)
{
	char command[512], option[16] = "";
	size_t len;
	int status;
	FILE *pipe;

	if (mutant)
		snprintf(option, sizeof(option), "-b %u", mutant);
	snprintf(command, sizeof(command), "exec '%s' -t %u %s 2>&1", program, seconds, option);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	len = fread(output, 1, sizeof(output) - 1, pipe);
	output[len] = '\0';
	while (fgetc(pipe) != EOF)
		;
	status = pclose(pipe);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void is_found(void **state)
{
	unsigned int mutant = *(const unsigned int *)*state;
	int status = torture(mutant, SECONDS_FOUND);

	if (status != EXIT_FAILURE || !strstr(output, "WRONG: "))
		fail_msg("mutant %u (%s): status %d: %s", mutant, mutant_text(mutant), status,
			 output);
}

static void nothing_is_found(void **state)
{
	int status = torture(0, SECONDS_CLEAN);

	(void)state;
	if (status)
		fail_msg("status %d: %s", status, output);
}

/* race_torture is in the same folder as this program. */
static void find_program(const char *self)
{
	static char path[384];
	const char *slash = strrchr(self, '/');

	snprintf(path, sizeof(path), "%.*srace_torture", slash ? (int)(slash - self) + 1 : 0, self);
	program = path;
}

int main(int argc, char **argv)
{
	static unsigned int numbers[MUTANTS];
	static char names[MUTANTS][96];
	struct CMUnitTest tests[MUTANTS] = { cmocka_unit_test(nothing_is_found) };
	size_t count = 1;

	(void)argc;
	find_program(argv[0]);
	/* Mutants are data races, too. The checker is to find them. */
	setenv("TSAN_OPTIONS", "report_bugs=0", 1);
	for (unsigned int i = 1; i < MUTANTS; i++) {
		/*
		 * A reader seldom meets a chain that is being shortened: alone on a host it takes
		 * up to 42 seconds until one does, and beside other tests more.
		 */
		if (i == MUTANT_EPOCH_STAYS && !long_form())
			continue;
		numbers[i] = i;
		snprintf(names[i], sizeof(names[i]), "%u, %s", i, mutant_text(i));
		tests[count++] = (struct CMUnitTest){
			.name = names[i],
			.test_func = is_found,
			.initial_state = &numbers[i],
		};
	}
	return _cmocka_run_group_tests("tests", tests, count, NULL, NULL);
}
