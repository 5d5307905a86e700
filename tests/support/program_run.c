/* SPDX-License-Identifier: MIT */
/* Runs a program's main(): see program_run.h. */
#include "tests/support/program_run.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define WORDS_MAX 32
#define SECONDS_MAX 300 /* of a run: a bug may make it endless */

struct program_files program_files;
struct program_result program_result;

static int notes_fd;

void program_note(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vdprintf(notes_fd, format, args);
	va_end(args);
}

/* A file without a name, or the one at @path. */
static int file_open(const char *path)
{
	const int fd = path ? open(path, O_RDWR | O_CLOEXEC) : memfd_create("run", MFD_CLOEXEC);

	return path && fd < 0 ? open(path, O_RDONLY | O_CLOEXEC) : fd;
}

static int input_open(void)
{
	const int fd = file_open(program_files.input_path);

	if (!program_files.input_path)
		assert_int_equal(pwrite(fd, program_files.input, program_files.input_len, 0),
				 program_files.input_len);
	return fd;
}

static size_t text_take(int fd, char *text, size_t size)
{
	const ssize_t len = pread(fd, text, size - 1, 0);

	text[len > 0 ? len : 0] = '\0';
	close(fd);
	return len > 0 ? (size_t)len : 0;
}

int program_run(int (*program)(int argc, char **argv), const char *name, const char *const *words)
{
	const int in = input_open(), out = file_open(program_files.output_path);
	const int err = file_open(NULL), notes = file_open(NULL);
	char *argv[WORDS_MAX] = { (char *)(uintptr_t)name };
	int argc = 1, status;
	pid_t pid;

	for (; argc < WORDS_MAX - 1 && words[argc - 1]; argc++)
		argv[argc] = (char *)(uintptr_t)words[argc - 1];
	assert_true(in >= 0 && out >= 0 && err >= 0 && notes >= 0);
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		alarm(SECONDS_MAX);
		notes_fd = notes;
		dup2(in, STDIN_FILENO);
		dup2(out, STDOUT_FILENO);
		dup2(err, STDERR_FILENO);
		exit(program(argc, argv));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	close(in);
	program_result.out_len = text_take(out, program_result.out, sizeof(program_result.out));
	text_take(err, program_result.err, sizeof(program_result.err));
	text_take(notes, program_result.notes, sizeof(program_result.notes));
	if (!WIFEXITED(status))
		fail_msg("%s ended by signal %d", name, WTERMSIG(status));
	return WEXITSTATUS(status);
}

void program_assert_said(const char *text)
{
	if (!strstr(program_result.err, text))
		fail_msg("'%s' is not in: %s", text, program_result.err);
}
