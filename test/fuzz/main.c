/*
 * Runs a fuzzer's corpus with an ordinary compiler, and each file a number of times more with bytes changed; the
 * changes are the same in every run.
 *
 *     fuzz-NAME [--mutate N] [--taken N] FILE|FOLDER...
 *
 * With --taken the run fails if fewer than N files get past their first part (fuzz_taken): a corpus of files that are
 * refused at once shows nothing.
 *
 * Each file has a process of its own, which this one watches: when it dies, the input that killed it is left in
 * fuzz-crash.
 */
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fuzz.h"

#define CRASH_FILE "fuzz-crash"
#define PATIENCE_S 60 /* a run that takes as long hangs */
#define CHANGES	   4  /* at a time, at the most */

/* The current run, in memory that outlives the process. */
struct run {
	unsigned long number; /* 0 = the file as it is */
	unsigned taken;	      /* files so far that were, as they are */
	size_t size;
	uint8_t bytes[INPUT_MAX];
};

static uint64_t random_next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static uint64_t random_below(uint64_t *state, uint64_t end)
{
	return end ? random_next(state) % end : 0;
}

static void set_number(struct run *run, size_t at, uint64_t *state)
{
	static const uint64_t edges[] = {0,	 1,	     7,		 0x7f,	    0xff,      0x7fff,
					 0xffff, 0x7fffffff, UINT32_MAX, INT64_MAX, UINT64_MAX};
	uint64_t value = edges[random_below(state, sizeof(edges) / sizeof(edges[0]))];
	size_t size = (size_t)1 << random_below(state, 4);

	if (run->size - at >= size)
		memcpy(run->bytes + at, &value, size);
}

static void change(struct run *run, uint64_t *state)
{
	size_t at = random_below(state, run->size), from = random_below(state, run->size);
	size_t length = random_below(state, 1 + (run->size - at < 64 ? run->size - at : 64));

	if (!run->size)
		return;
	switch (random_below(state, 6)) {
	case 0:
		run->bytes[at] ^= (uint8_t)(1u << random_below(state, 8));
		break;
	case 1:
		run->bytes[at] = (uint8_t)random_next(state);
		break;
	case 2:
		set_number(run, at, state);
		break;
	case 3: /* leave a piece out */
		memmove(run->bytes + at, run->bytes + at + length, run->size - at - length);
		run->size -= length;
		break;
	case 4: /* replace a piece by another one */
		memmove(run->bytes + at, run->bytes + from, run->size - from < length ? run->size - from : length);
		break;
	default: /* a piece twice */
		if (run->size + length > INPUT_MAX)
			break;
		memmove(run->bytes + at + length, run->bytes + at, run->size - at);
		run->size += length;
	}
}

/* In the child: the file as it is, then changed. */
static void run_all(struct run *run, const uint8_t *bytes, size_t size, unsigned long mutations)
{
	for (unsigned long i = 0; i <= mutations; i++) {
		uint64_t state = 0x9e3779b97f4a7c15u * (i + 1);

		memcpy(run->bytes, bytes, size);
		run->size = size;
		run->number = i;
		for (uint64_t n = i ? 1 + random_below(&state, CHANGES) : 0; n; n--)
			change(run, &state);
		alarm(PATIENCE_S);
		(void)LLVMFuzzerTestOneInput(run->bytes, run->size);
		run->taken += !i && fuzz_taken;
	}
}

static void keep_input(const struct run *run)
{
	FILE *file = fopen(CRASH_FILE, "we");

	if (!file)
		return;
	fwrite(run->bytes, 1, run->size, file);
	fclose(file);
}

static size_t read_file(const char *path, uint8_t *bytes)
{
	FILE *file = fopen(path, "re");
	size_t size = file ? fread(bytes, 1, INPUT_MAX, file) : 0;

	if (!file) {
		perror(path);
		exit(2);
	}
	fclose(file);
	return size;
}

static bool run_file(struct run *run, const char *path, unsigned long mutations)
{
	static uint8_t bytes[INPUT_MAX];
	size_t size = read_file(path, bytes);
	pid_t child;
	int status;

	fflush(NULL);
	child = fork();
	if (child < 0) {
		perror("fork");
		exit(2);
	}
	if (!child) {
		run_all(run, bytes, size, mutations);
		_exit(0);
	}
	waitpid(child, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return true;
	printf("%s, changed %lu: %s %d; the input is in " CRASH_FILE "\n", path, run->number,
	       WIFSIGNALED(status) ? "killed by signal" : "exit status",
	       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	keep_input(run);
	return false;
}

/* Returns how many files failed; *count counts all. */
static unsigned run_path(struct run *run, const char *path, unsigned long mutations, unsigned *count)
{
	struct dirent **names;
	unsigned failed = 0;
	struct stat st;
	int n = 0;

	if (!stat(path, &st) && !S_ISDIR(st.st_mode)) {
		++*count;
		return run_file(run, path, mutations) ? 0 : 1;
	}
	n = scandir(path, &names, NULL, alphasort);
	for (int i = 0; i < n; i++) {
		char *inner = NULL;

		if (names[i]->d_name[0] != '.' && asprintf(&inner, "%s/%s", path, names[i]->d_name) >= 0)
			failed += run_path(run, inner, mutations, count);
		free(inner);
		free(names[i]);
	}
	if (n >= 0)
		free(names);
	return failed;
}

int main(int argc, char **argv)
{
	struct run *run = mmap(NULL, sizeof(*run), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned long mutations = 0, taken = 0;
	unsigned failed = 0, count = 0;
	int at = 1;

	for (; at + 1 < argc && !strncmp(argv[at], "--", 2); at += 2)
		*(strcmp(argv[at], "--taken") ? &mutations : &taken) = strtoul(argv[at + 1], NULL, 10);
	if (run == MAP_FAILED) {
		perror("mmap");
		return 2;
	}
	for (; at < argc; at++)
		failed += run_path(run, argv[at], mutations, &count);
	printf("%u inputs, %lu runs each, %u failed; %u taken\n", count, mutations + 1, failed, run->taken);
	if (run->taken < taken)
		printf("%lu inputs were to be taken: do the others have an older layout (corpus.py)?\n", taken);
	return failed || !count || run->taken < taken;
}
