/*
 * gen_trace: writes a synthetic trace that looks like a real one.
 *
 *     gen_trace OUT [--records N] [--threads T] [--functions F] [--depth D]
 *               [--seed S] [--tracer function_graph|function] [--brief TICKS]
 *
 * With --brief most records have no time, and TICKS is the greatest time from one that has to the last that has none
 * behind it; what happens is as without.
 * Run by tests and benchmarks of everything that reads traces.  Threads of several processes make nested calls of
 * random length, with now and then a tail call, an exception and a loss; some frames are open at the end.  Equal
 * arguments give equal files, but for the time of their making.
 */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <calltap/abi/record.h>

#include "host/trace/writer.h"

#define SUBBUF_WORDS  32768
#define START_TICKS   0x7ffffff00000ull /* near the end of a clock epoch */
#define START_NS      5000000000ull
#define TICKS_PER_NS  3
#define FANOUT	      4 /* callees of a function */
#define OBJECTS	      2
#define PROCESSES     3
#define OBJECT_BASE   0x555500000000ull
#define FUNCTION_SIZE 0x100u

struct options {
	const char *path;
	uint64_t records;
	uint32_t threads, functions, depth;
	uint64_t seed;
	bool calls; /* tracer "function" */
	uint64_t brief;
};

struct walker { /* one thread of the synthetic program */
	uint32_t index;
	uint64_t random;
	uint64_t ticks, high, head_ticks, start_ticks;
	uint64_t left; /* records to go */
	uint64_t number, lost;
	uint32_t depth;
	uint32_t *frames;
	bool *timed; /* per frame: its call has times */
	uint64_t *words;
	size_t used;
	uint64_t tick;	/* at the last record with a time */
	uint64_t picks; /* state of the choice of calls that have times */
	bool half;	/* the last word has room for a brief record */
	bool done;
};

struct gen {
	struct options opt;
	struct trace_writer *writer;
	struct record_encoder *encoder;
	struct walker *walkers;
	uint64_t records, lost, last_ticks;
};

static void check(int err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "gen_trace: %s: %s\n", what, strerror(-err));
	exit(1);
}

static void *get(size_t count, size_t size)
{
	void *memory = calloc(count, size);

	check(memory ? 0 : -ENOMEM, "allocating");
	return memory;
}

static uint64_t rnd(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state * 0x2545f4914f6cdd1dull >> 16;
}

static uint32_t callee(const struct gen *gen, struct walker *walker)
{
	uint64_t caller = walker->depth ? walker->frames[walker->depth - 1] : 0;

	return (uint32_t)((caller * FANOUT + 1 + rnd(&walker->random) % FANOUT) % gen->opt.functions);
}

static void flush(struct gen *gen, struct walker *walker)
{
	struct encode_result result;
	const void *payload;
	size_t size;

	check(record_encode(gen->encoder, walker->index, walker->number, walker->head_ticks, walker->words,
			    walker->used, &payload, &size, &result),
	      "encoding");
	if (size)
		check(trace_writer_chunk(gen->writer, CALLTAP_CHUNK_DATA, payload, size), "writing");
	walker->number += size != 0;
	walker->used = 0;
	walker->half = false;
	gen->records += result.records;
	gen->lost += result.lost;
	if (result.last_ticks > gen->last_ticks)
		gen->last_ticks = result.last_ticks;
}

/*
 * Ticks of a thread that counts every span / 2, and now and then is late, when it has LATE_PERIODS to sleep through.
 */
#define CYCLE_PERIODS 64u
#define LATE_PERIODS  8u

static uint64_t tick_at(const struct gen *gen, uint64_t ticks)
{
	uint64_t period = ticks / (gen->opt.brief / 2), late = CYCLE_PERIODS - LATE_PERIODS;

	return period % CYCLE_PERIODS >= late ? period / CYCLE_PERIODS * CYCLE_PERIODS + late : period;
}

static bool put_brief(struct gen *gen, struct walker *walker, enum calltap_record_kind kind, uint32_t id, bool timed)
{
	uint32_t brief = (kind == CALLTAP_REC_ENTRY ? CALLTAP_REC_BRIEF_ENTRY : CALLTAP_REC_BRIEF_EXIT)
				 << CALLTAP_RECORD_ID_BITS |
			 id;

	if (!gen->opt.brief)
		return false;
	if (timed || tick_at(gen, walker->ticks) != walker->tick) {
		if (walker->half)
			walker->words[walker->used - 1] |= (uint64_t)CALLTAP_RECORD_PAD << 32;
		walker->half = false;
		walker->tick = tick_at(gen, walker->ticks);
		return false;
	}
	if (walker->half)
		walker->words[walker->used - 1] |= (uint64_t)brief << 32;
	else
		walker->words[walker->used++] = brief;
	walker->half = !walker->half;
	return true;
}

static void put_as(struct gen *gen, struct walker *walker, enum calltap_record_kind kind, uint32_t id, uint64_t extra,
		   bool timed)
{
	uint64_t step = rnd(&walker->random);

	walker->ticks += 30 + step % 200;
	if (!(step >> 8 & 0x3ff))
		walker->ticks += (step >> 20) % 3000000; /* up to 1 ms */
	if (walker->used + 4 > SUBBUF_WORDS)
		flush(gen, walker);
	if (!walker->used) {
		walker->head_ticks = walker->ticks;
		walker->high = walker->ticks >> 32;
	}
	if (walker->left)
		walker->left--;
	if (put_brief(gen, walker, kind, id, timed))
		return;
	if (walker->ticks >> 32 != walker->high) {
		walker->high = walker->ticks >> 32;
		walker->words[walker->used++] = calltap_record_make(CALLTAP_REC_TIME, 0, (uint32_t)walker->ticks);
		walker->words[walker->used++] = walker->ticks;
	}
	walker->words[walker->used++] = calltap_record_make(kind, id, (uint32_t)walker->ticks);
	if (calltap_record_words(calltap_record_make(kind, 0, 0)) == 2)
		walker->words[walker->used++] = extra;
}

static void put(struct gen *gen, struct walker *walker, enum calltap_record_kind kind, uint32_t id, uint64_t extra)
{
	put_as(gen, walker, kind, id, extra, true);
}

/* Of every fourth function all calls have times, of others one in 16. */
static void enter(struct gen *gen, struct walker *walker)
{
	uint32_t id = callee(gen, walker);
	bool timed = id % 4 == 0 || rnd(&walker->picks) % 16 == 0;

	put_as(gen, walker, CALLTAP_REC_ENTRY, id, 0, timed);
	walker->timed[walker->depth] = timed;
	walker->frames[walker->depth++] = id;
}

static void leave(struct gen *gen, struct walker *walker)
{
	walker->depth--;
	put_as(gen, walker, CALLTAP_REC_EXIT, walker->frames[walker->depth], 0, walker->timed[walker->depth]);
}

/* The rare things; true if one happened. */
static bool surprise(struct gen *gen, struct walker *walker)
{
	uint64_t dice = rnd(&walker->random) & 0xffff;

	if (dice < 4) {
		walker->lost += dice + 1;
		put(gen, walker, CALLTAP_REC_LOST, 0, dice + 1);
		return true;
	}
	if (dice < 20 && walker->depth > 2) {
		uint32_t frames = 1 + (uint32_t)dice % 2;

		put(gen, walker, CALLTAP_REC_UNWIND, frames, 0);
		walker->depth -= frames;
		return true;
	}
	if (dice < 120 && walker->depth) {
		uint32_t id = callee(gen, walker);

		put(gen, walker, CALLTAP_REC_TAIL, id, 0);
		walker->frames[walker->depth - 1] = id;
		return true;
	}
	return false;
}

static uint64_t function_address(uint32_t id)
{
	return 0x1000 + (uint64_t)(id / OBJECTS) * FUNCTION_SIZE;
}

static void step_call(struct gen *gen, struct walker *walker)
{
	uint32_t caller = walker->frames[0];
	uint64_t base = OBJECT_BASE + (uint64_t)(caller % OBJECTS) * 0x10000000;

	walker->depth = 1;
	walker->frames[0] = callee(gen, walker);
	put(gen, walker, CALLTAP_REC_CALL, walker->frames[0], base + function_address(caller) + 0x12);
}

static void step(struct gen *gen, struct walker *walker)
{
	uint64_t choice = rnd(&walker->random) & 0xff;

	if (gen->opt.calls)
		step_call(gen, walker);
	else if (surprise(gen, walker))
		return;
	else if (!walker->depth || (walker->depth < gen->opt.depth && choice < 136))
		enter(gen, walker);
	else
		leave(gen, walker);
}

/* About a sub-buffer's worth of one thread, so that threads' chunks alternate in the file. */
static void run(struct gen *gen, struct walker *walker)
{
	uint64_t number = walker->number;

	while (walker->left && walker->number == number)
		step(gen, walker);
	if (walker->left)
		return;
	/* Every fourth thread is still inside its calls at the end. */
	while (!gen->opt.calls && walker->depth && walker->index % 4 != 3)
		leave(gen, walker);
	flush(gen, walker);
	walker->done = true;
}

static void write_objects(struct gen *gen)
{
	static const char *const paths[OBJECTS] = {"/usr/bin/synth", "/usr/lib/libsynth.so.1"};
	static const char *const exes[PROCESSES] = {"/usr/bin/synth", "/usr/bin/synth", "/usr/bin/synth-helper"};
	struct {
		struct calltap_file_object head;
		char path[32];
	} object;
	struct {
		struct calltap_file_process head;
		char exe[32];
	} process;
	struct calltap_file_map maps[PROCESSES * OBJECTS];

	for (uint32_t o = 0; o < OBJECTS; o++) {
		memset(&object, 0, sizeof(object));
		object.head.object = o;
		object.head.build_id_size = 20;
		memset(object.head.build_id, 0xa0 + (int)o, 20);
		strcpy(object.path, paths[o]);
		check(trace_writer_chunk(gen->writer, CALLTAP_CHUNK_OBJECT, &object,
					 sizeof(object.head) + strlen(object.path) + 1),
		      "writing");
	}
	for (uint32_t p = 0; p < PROCESSES; p++) {
		memset(&process, 0, sizeof(process));
		process.head = (struct calltap_file_process){.process = p,
							     .pid = p ? 4001 : 4000,
							     .parent = p ? p - 1 : UINT32_MAX,
							     .start = p, /* spawn, its fork, that one's exec */
							     .start_ticks = START_TICKS + p * 300000ull};
		strcpy(process.exe, exes[p]);
		check(trace_writer_chunk(gen->writer, CALLTAP_CHUNK_PROCESS, &process,
					 sizeof(process.head) + strlen(process.exe) + 1),
		      "writing");
		for (uint32_t o = 0; o < OBJECTS; o++) {
			uint64_t base = OBJECT_BASE + (uint64_t)o * 0x10000000;

			maps[p * OBJECTS + o] = (struct calltap_file_map){
				p, o, base, base, base + 0x10000000, START_TICKS + p * 300000ull};
		}
	}
	check(trace_writer_chunk(gen->writer, CALLTAP_CHUNK_MAP, maps, sizeof(maps)), "writing");
}

/* Symbols of C, C++ and Rust in turn; returns the bytes with the NUL. */
static size_t function_symbol(uint32_t id, char *text, size_t size)
{
	char class[16], method[16];

	if (id == 0)
		return (size_t)snprintf(text, size, "main") + 1;
	if (id % 4 < 2)
		return (size_t)snprintf(text, size, "synth_work_%u", id) + 1;
	snprintf(class, sizeof(class), "Widget%u", id / 8);
	snprintf(method, sizeof(method), "draw%u", id);
	if (id % 4 == 2)
		return (size_t)snprintf(text, size, "_ZN5synth%zu%sE", strlen(class), class) +
		       (size_t)snprintf(text + strlen(text) - 1, size - strlen(text), "%zu%sEiPKc", strlen(method),
					method);
	return (size_t)snprintf(text, size, "_ZN5synth%zu%s17h%016xE", strlen(method), method, id * 2654435761u) + 1;
}

static void write_functions(struct gen *gen)
{
	uint32_t count = gen->opt.functions;
	size_t size =
		sizeof(struct calltap_file_functions) + (size_t)count * (sizeof(struct calltap_file_function) + 80);
	size_t lines_size = sizeof(struct calltap_file_lines) + (size_t)count * sizeof(struct calltap_file_line) + 32;
	struct calltap_file_functions *functions = get(1, size);
	struct calltap_file_function *function = (void *)(functions + 1);
	char *strings = (char *)(function + count);
	struct calltap_file_lines *lines = get(1, lines_size);
	struct calltap_file_line *line = (void *)(lines + 1);

	functions->count = lines->count = count;
	for (uint32_t id = 0; id < count; id++) {
		function[id] = (struct calltap_file_function){id, id % OBJECTS, function_address(id),
							      FUNCTION_SIZE - 16, functions->strings_size};
		functions->strings_size += (uint32_t)function_symbol(id, strings + functions->strings_size, 80);
		line[id] = (struct calltap_file_line){id, 10 + id * 7, id % 3 ? 0 : 10};
	}
	memcpy(line + count, "src/wid.c\0src/main.cc", 22);
	lines->strings_size = 22;
	check(trace_writer_chunk(gen->writer, CALLTAP_CHUNK_FUNCTIONS, functions,
				 (size_t)(strings + functions->strings_size - (char *)functions)),
	      "writing");
	check(trace_writer_chunk(gen->writer, CALLTAP_CHUNK_LINES, lines,
				 sizeof(*lines) + (size_t)count * sizeof(*line) + lines->strings_size),
	      "writing");
	free(functions);
	free(lines);
}

static void write_threads(struct gen *gen, bool ended)
{
	struct calltap_file_thread *threads = get(gen->opt.threads, sizeof(*threads));

	for (uint32_t t = 0; t < gen->opt.threads; t++) {
		const struct walker *walker = &gen->walkers[t];
		uint32_t process = t % 8 == 6 ? 1 : t % 8 == 7 ? 2 : 0;
		char name[sizeof("worker-4294967295")] = "";

		threads[t] = (struct calltap_file_thread){.thread = t,
							  .process = process,
							  .tid = (process ? 4001 : 4000) + t,
							  .start_ticks = walker->start_ticks,
							  .end_ticks = ended ? walker->ticks : 0,
							  .lost = walker->lost};
		snprintf(name, sizeof(name), t ? "worker-%u" : "synth", t);
		memcpy(threads[t].name, name, sizeof(threads[t].name) - 1); /* the kernel cuts names there, too */
	}
	check(trace_writer_chunk(gen->writer, CALLTAP_CHUNK_THREAD, threads, gen->opt.threads * sizeof(*threads)),
	      "writing");
	free(threads);
}

static void write_clock(struct gen *gen, uint64_t ticks)
{
	struct calltap_file_clock clock = {.ticks = ticks};

	clock.mono_ns = START_NS + (ticks - START_TICKS) / TICKS_PER_NS;
	clock.real_ns = clock.mono_ns + 1700000000000000000ull;
	check(trace_writer_chunk(gen->writer, CALLTAP_CHUNK_CLOCK, &clock, sizeof(clock)), "writing");
}

static void write_head(struct gen *gen)
{
	write_clock(gen, START_TICKS);
	check(trace_writer_info(gen->writer, "tracer", "%s", gen->opt.calls ? "function" : "function_graph"), "info");
	check(trace_writer_info(gen->writer, "command", "synth --records %llu", (unsigned long long)gen->opt.records),
	      "info");
	check(trace_writer_info(gen->writer, "host", "synthetic"), "info");
	check(trace_writer_flush(gen->writer), "info");
	write_objects(gen);
	write_functions(gen);
	write_threads(gen, false);
}

/* All rows of the time of the trace, where the thread that counts was late. */
static void write_ticks(struct gen *gen)
{
	uint64_t cycle = gen->opt.brief / 2 * CYCLE_PERIODS, late = gen->opt.brief / 2 * LATE_PERIODS;
	uint64_t first = START_TICKS / cycle + 1, last = 0;
	struct calltap_file_ticks *ticks;
	struct calltap_file_late *rows;

	for (uint32_t t = 0; t < gen->opt.threads; t++)
		last = gen->walkers[t].ticks > last ? gen->walkers[t].ticks : last;
	last = last / cycle + 1;
	ticks = get(1, sizeof(*ticks) + (last - first + 1) * sizeof(*rows));
	rows = (void *)(ticks + 1);
	*ticks = (struct calltap_file_ticks){gen->opt.brief, (uint32_t)(last - first + 1), 0};
	for (uint64_t i = first; i <= last; i++)
		rows[i - first] = (struct calltap_file_late){i * cycle - late, i * cycle - 1};
	check(trace_writer_chunk(gen->writer, CALLTAP_CHUNK_TICKS, ticks,
				 sizeof(*ticks) + ticks->count * sizeof(*rows)),
	      "writing");
	free(ticks);
}

static void write_end(struct gen *gen)
{
	struct calltap_file_end end = {.status = 0};

	write_threads(gen, true);
	if (gen->opt.brief)
		write_ticks(gen);
	/* The last records may have no times in the file. */
	for (uint32_t t = 0; t < gen->opt.threads; t++)
		if (gen->walkers[t].ticks > gen->last_ticks)
			gen->last_ticks = gen->walkers[t].ticks;
	write_clock(gen, gen->last_ticks + 30000);
	end.records = gen->records;
	end.lost = gen->lost;
	end.ticks = gen->last_ticks + 30000;
	check(trace_writer_chunk(gen->writer, CALLTAP_CHUNK_END, &end, sizeof(end)), "writing");
}

static void make_walkers(struct gen *gen)
{
	gen->walkers = get(gen->opt.threads, sizeof(*gen->walkers));
	for (uint32_t t = 0; t < gen->opt.threads; t++) {
		struct walker *walker = &gen->walkers[t];

		walker->index = t;
		walker->random = (gen->opt.seed + 1) * 0x9e3779b97f4a7c15ull ^ (t + 1) * 0xd1342543de82ef95ull;
		walker->ticks = walker->start_ticks = START_TICKS + 1000000 + t * 5000ull;
		walker->left = gen->opt.records / gen->opt.threads;
		walker->frames = get(gen->opt.depth + 2, sizeof(*walker->frames));
		walker->timed = get(gen->opt.depth + 2, sizeof(*walker->timed));
		walker->picks = walker->random + 1;
		walker->words = get(SUBBUF_WORDS, sizeof(*walker->words));
		/* A fork's child starts inside calls that its parent made. */
		if (t % 8 == 6 && !gen->opt.calls)
			walker->frames[walker->depth++] = 0;
	}
}

static void parse(struct options *opt, int argc, char **argv)
{
	static const struct option longs[] = {{"records", 1, NULL, 'n'},   {"threads", 1, NULL, 't'},
					      {"functions", 1, NULL, 'f'}, {"depth", 1, NULL, 'd'},
					      {"seed", 1, NULL, 's'},	   {"tracer", 1, NULL, 'p'},
					      {"brief", 1, NULL, 'b'},	   {NULL, 0, NULL, 0}};
	int option;

	*opt = (struct options){.records = 100000, .threads = 4, .functions = 64, .depth = 24};
	while ((option = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		uint64_t value = optarg ? strtoull(optarg, NULL, 0) : 0;

		if (option == 'n')
			opt->records = value;
		else if (option == 't')
			opt->threads = (uint32_t)value;
		else if (option == 'f')
			opt->functions = (uint32_t)value;
		else if (option == 'd')
			opt->depth = (uint32_t)value;
		else if (option == 's')
			opt->seed = value;
		else if (option == 'p')
			opt->calls = strcmp(optarg, "function") == 0;
		else if (option == 'b')
			opt->brief = value;
		else
			exit(2);
	}
	if (optind + 1 != argc || !opt->threads || !opt->functions || !opt->depth || opt->brief == 1) {
		fprintf(stderr, "usage: gen_trace OUT [--records N] [--threads T] [--functions F] [--depth D]\n"
				"                 [--seed S] [--tracer function_graph|function] [--brief TICKS]\n");
		exit(2);
	}
	opt->path = argv[optind];
}

int main(int argc, char **argv)
{
	struct gen gen = {.last_ticks = START_TICKS};
	struct calltap_diag diag = {.code = 0};
	bool busy = true;

	parse(&gen.opt, argc, argv);
	if (trace_writer_create(&gen.writer, gen.opt.path, 62, &diag)) {
		calltap_diag_print(&diag, stderr);
		return 1;
	}
	check(record_encoder_create(&gen.encoder), "encoder");
	make_walkers(&gen);
	write_head(&gen);
	while (busy) {
		busy = false;
		for (uint32_t t = 0; t < gen.opt.threads; t++) {
			if (!gen.walkers[t].done)
				run(&gen, &gen.walkers[t]);
			busy |= !gen.walkers[t].done;
		}
	}
	write_end(&gen);
	check(trace_writer_close(gen.writer), "closing");
	record_encoder_destroy(gen.encoder);
	for (uint32_t t = 0; t < gen.opt.threads; t++) {
		free(gen.walkers[t].frames);
		free(gen.walkers[t].timed);
		free(gen.walkers[t].words);
	}
	free(gen.walkers);
	return 0;
}
