/* The ring's write side by way of probe_record(): wraps, modes, losses, waits, and signal handlers that record too. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "support.h"

#define SUB	    4096u
#define SUB_MAX	    ((SUB - sizeof(struct calltap_subbuf)) / 8) /* words */
#define HANDLER	    (1u << 27)					/* ids from here on are a handler's */
#define RECORDS	    2000000u
#define HANDLED_MAX 60000u
#define WAIT_MAX    40

static struct fake_arena fake;
static struct probe_thread thread;
static struct ring_writer writer;

/* Whoever counts words wants no TIME record among them, which comes when the clock's lower 32 bits are over: begin
 * where that is half a second away, or a quarter of the bits' span where the clock is so fast that this is less. */
static void await_time(void)
{
	uint64_t ticks = arch_clock();

	usleep(1000);
	ticks = (arch_clock() - ticks) * 500;
	if (ticks > UINT32_MAX / 4)
		ticks = UINT32_MAX / 4;
	while ((uint32_t)~arch_clock() < ticks)
		usleep(1000);
}

static struct calltap_ring *begin(enum calltap_mode mode, uint32_t sub_count)
{
	await_time();
	fake_arena_create(&fake, mode, 1, SUB, sub_count);
	fake_start(&fake);
	memset(&writer, 0, sizeof(writer));
	memset(&thread, 0, sizeof(thread));
	thread.writer = &writer;
	ring_attach(&writer, fake_ring(&fake, 0), 42, true);
	return fake_ring(&fake, 0);
}

static void end(void)
{
	fake_stop();
	fake_arena_destroy(&fake);
}

static bool record(uint32_t id)
{
	return probe_record(&thread, CALLTAP_REC_ENTRY, id, 1, 0);
}

/* A reader of a ring, record by record. */
struct reading {
	const struct calltap_ring *ring;
	uint64_t number, stop; /* sub-buffers */
	uint64_t word;
};

static bool next_record(struct reading *reading, unsigned *kind, uint32_t *id, uint64_t *second)
{
	while (reading->number < reading->stop) {
		const struct calltap_subbuf *sub = fake_sub(reading->ring, reading->number);
		const uint64_t *words = (const uint64_t *)(sub + 1);

		assert_true(sub->number == reading->number + 1);
		while (reading->word < SUB_MAX) {
			uint64_t head = words[reading->word++];

			*kind = calltap_record_kind(head);
			*id = calltap_record_id(head);
			if (*kind == CALLTAP_REC_NONE)
				continue;
			if (calltap_record_words(head) == 2) {
				assert_true(reading->word < SUB_MAX);
				*second = words[reading->word++];
			}
			return true;
		}
		reading->number++;
		reading->word = 0;
	}
	return false;
}

static void records_in_order(void **state)
{
	struct calltap_ring *ring = begin(CALLTAP_MODE_BLOCK, 8);
	struct reading reading = {ring, 0, 0, 0};
	uint64_t second;
	unsigned kind;
	uint32_t id, n = 0;

	for (uint32_t i = 0; i < 3 * SUB_MAX; i++)
		assert_true(record(i));
	assert_int_equal(ring->opened, 3); /* full to the last word, and not one sub-buffer more */
	assert_int_equal(ring->owner, 1);
	assert_int_equal(fake_sub(ring, 2)->tid, 42);
	reading.stop = ring->opened;
	while (next_record(&reading, &kind, &id, &second)) {
		assert_int_equal(kind, CALLTAP_REC_ENTRY);
		assert_int_equal(id, n++);
	}
	assert_int_equal(n, 3 * SUB_MAX);
	end();
}

/* A record of two words is not cut by the end of its sub-buffer. */
static void two_words_stay_together(void **state)
{
	struct calltap_ring *ring = begin(CALLTAP_MODE_BLOCK, 8);
	struct reading reading = {ring, 0, 0, 0};
	uint64_t second, n = 0;
	unsigned kind;
	uint32_t id;

	assert_true(record(0)); /* an odd or even number of words, so that one word is left over, or none */
	for (uint32_t i = 0; i < SUB_MAX; i++)
		assert_true(probe_record(&thread, CALLTAP_REC_CALL, i, 2, ~(uint64_t)i >> 4));
	reading.stop = ring->opened;
	assert_true(next_record(&reading, &kind, &id, &second));
	for (; next_record(&reading, &kind, &id, &second); n++) {
		assert_int_equal(kind, CALLTAP_REC_CALL);
		assert_int_equal(id, n);
		assert_true(second == ~n >> 4);
	}
	assert_int_equal(n, SUB_MAX);
	end();
}

static void drop_counts_and_says_where(void **state)
{
	struct calltap_ring *ring = begin(CALLTAP_MODE_DROP, 2);
	struct reading reading = {ring, 2, 3, 0};
	uint64_t second = 0;
	unsigned kind;
	uint32_t id;

	for (uint32_t i = 0; i < 2 * SUB_MAX; i++)
		assert_true(record(i));
	for (uint32_t i = 0; i < 5; i++)
		assert_false(record(99));
	assert_int_equal(ring->lost, 5);
	__atomic_store_n(&ring->released, 1, __ATOMIC_RELEASE);
	assert_true(record(7));
	assert_int_equal(ring->opened, 3);
	assert_true(next_record(&reading, &kind, &id, &second));
	assert_int_equal(kind, CALLTAP_REC_LOST);
	assert_int_equal(second, 5);
	assert_true(next_record(&reading, &kind, &id, &second));
	assert_int_equal(kind, CALLTAP_REC_ENTRY);
	assert_int_equal(id, 7);
	assert_false(next_record(&reading, &kind, &id, &second)); /* the sub-buffer's first lap is gone */
	__atomic_store_n(&ring->released, 3, __ATOMIC_RELEASE);
	while (ring->opened < 4)
		assert_true(record(8));
	assert_int_equal(calltap_record_kind(*(const uint64_t *)(fake_sub(ring, 3) + 1)),
			 CALLTAP_REC_ENTRY); /* told once */
	end();
}

static void overwrite_keeps_the_newest(void **state)
{
	struct calltap_ring *ring = begin(CALLTAP_MODE_OVERWRITE, 3);
	struct reading reading = {ring, 0, 0, 0};
	uint64_t second;
	unsigned kind;
	uint32_t id, n = 7 * SUB_MAX, first = 0;

	for (uint32_t i = 0; i < 10 * SUB_MAX; i++)
		assert_true(record(i));
	assert_int_equal(ring->opened, 10);
	assert_int_equal(ring->lost, 0);
	reading.number = 7;
	reading.stop = 10;
	for (first = n; next_record(&reading, &kind, &id, &second); n++)
		assert_int_equal(id, n);
	assert_int_equal(n - first, 3 * SUB_MAX);
	end();
}

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* A full ring in mode block: a thread waits that long for a tool that makes no progress. */
static struct calltap_ring *begin_full(uint32_t wait_max_ms)
{
	struct calltap_ring *ring = begin(CALLTAP_MODE_BLOCK, 2);

	probe_context.shared.wait_max_ms = wait_max_ms;
	for (uint32_t i = 0; i < 2 * SUB_MAX; i++)
		assert_true(record(i));
	return ring;
}

static void block_does_not_wait_for_ever(void **state)
{
	struct calltap_ring *ring = begin_full(WAIT_MAX);
	uint64_t start;

	start = now_ms();
	assert_false(record(1));
	assert_in_range(now_ms() - start, WAIT_MAX - 5, 100 * WAIT_MAX);
	start = now_ms();
	for (int i = 0; i < 1000; i++)
		assert_false(record(1));		      /* after one wait in vain nobody waits again */
	assert_in_range(now_ms() - start, 0, 100 * WAIT_MAX); /* not 1000 of them */
	assert_int_equal(ring->lost, 1001);
	assert_int_equal(ring->waiting, 0);
	end();
}

#define PATIENCE_MS 1000 /* without progress */
#define ELSEWHERE   250	 /* sub-buffers that the tool takes of other rings, 10 ms apart: for longer than that */

/* The tool takes what others have recorded for a while, then what this ring has. */
static void *take_others_first(void *arg)
{
	struct calltap_ring *ring = arg;

	for (int i = 0; i < ELSEWHERE; i++) {
		usleep(10000);
		__atomic_add_fetch(&probe_context.shared.board->heartbeat, 1, __ATOMIC_RELAXED);
	}
	__atomic_store_n(&ring->released, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void block_waits_as_long_as_the_tool_works(void **state)
{
	struct calltap_ring *ring = begin_full(PATIENCE_MS);
	pthread_t reader;

	assert_int_equal(pthread_create(&reader, NULL, take_others_first, ring), 0);
	assert_true(record(1));
	pthread_join(reader, NULL);
	assert_int_equal(ring->lost, 0);
	end();
}

/*
 * The tool says goodbye and reads on.  A thread that has seen that recording goes on, and then finds its ring full, has
 * lost nothing: its record is behind the end.
 */
static void nothing_is_lost_behind_the_end(void **state)
{
	struct calltap_ring *ring = begin(CALLTAP_MODE_BLOCK, 2);

	for (uint32_t i = 0; i < 2 * SUB_MAX; i++)
		assert_true(record(i));
	probe_context.enabled = 0;
	probe_context.shared.reader_gone = 1;
	assert_false(record(1));
	assert_int_equal(ring->lost, 0);
	assert_int_equal(writer.lost, 0);
	end();
}

struct drainer {
	struct calltap_ring *ring;
	uint32_t next;	/* id expected */
	uint64_t waits; /* WAIT records */
	bool wrong;
	uint32_t *stop;
};

/* As the tool does: complete sub-buffers only, then the release and the wake. */
static void *drain(void *arg)
{
	struct drainer *drainer = arg;
	struct calltap_ring *ring = drainer->ring;
	struct reading reading = {ring, 0, 0, 0};
	bool stop = false;

	while (!__atomic_load_n(&ring->waiting, __ATOMIC_ACQUIRE)) /* however slow the writer is, it must wait once */
		usleep(100);
	while (!stop) {
		uint64_t opened, second = 0;
		unsigned kind;
		uint32_t id;

		stop = __atomic_load_n(drainer->stop, __ATOMIC_ACQUIRE);
		opened = __atomic_load_n(&ring->opened, __ATOMIC_ACQUIRE);
		reading.stop = stop ? opened : opened - (opened > 0);
		while (next_record(&reading, &kind, &id, &second)) {
			drainer->waits += kind == CALLTAP_REC_WAIT && second;
			if (kind == CALLTAP_REC_ENTRY && id != drainer->next++)
				drainer->wrong = true;
			drainer->wrong |= kind == CALLTAP_REC_LOST;
		}
		if (reading.number > ring->released) {
			__atomic_store_n(&ring->released, reading.number, __ATOMIC_RELEASE);
			__atomic_add_fetch(&ring->wake, 1, __ATOMIC_SEQ_CST);
		}
		usleep(100); /* slow: the writer must wait; and it is not woken, so its own time-out must do */
	}
	return NULL;
}

static void block_loses_nothing(void **state)
{
	struct calltap_ring *ring = begin(CALLTAP_MODE_BLOCK, 16);
	uint32_t stop = 0;
	struct drainer drainer = {.ring = ring, .stop = &stop};
	pthread_t reader;

	assert_int_equal(pthread_create(&reader, NULL, drain, &drainer), 0);
	for (uint32_t i = 0; i < RECORDS / 8; i++)
		assert_true(record(i));
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	pthread_join(reader, NULL);
	assert_false(drainer.wrong);
	assert_int_equal(drainer.next, RECORDS / 8);
	assert_true(drainer.waits > 0);
	assert_int_equal(ring->lost, 0);
	end();
}

/* The clock's high half is marked when it moves on; no record is left under the old one. */
static void clock_marks(void **state)
{
	struct calltap_ring *ring = begin(CALLTAP_MODE_BLOCK, 4);
	struct reading reading = {ring, 0, 1, 0};
	uint64_t second = 0;
	unsigned kind;
	uint32_t id;

	assert_true(record(1));
	writer.time_hi--;
	assert_true(record(2));
	assert_true(record(3));
	assert_true(next_record(&reading, &kind, &id, &second));
	assert_true(next_record(&reading, &kind, &id, &second));
	assert_int_equal(kind, CALLTAP_REC_TIME);
	assert_true(second >> 32 == writer.time_hi);
	assert_true(next_record(&reading, &kind, &id, &second));
	assert_int_equal(id, 2);
	assert_true(next_record(&reading, &kind, &id, &second));
	assert_int_equal(id, 3);
	assert_false(next_record(&reading, &kind, &id, &second));
	end();
}

static __thread uint32_t noted_cpu; /* as the kernel would keep it in struct rseq */

/* A move is told by a TIME record, once; a CPU that nobody has noted is not taken for one. */
static void moves_are_told(void **state)
{
	struct calltap_ring *ring = begin(CALLTAP_MODE_BLOCK, 4);
	const uint64_t *words = (const uint64_t *)(fake_sub(ring, 0) + 1);
	size_t at = 0;

	probe_context.shared.cpu_offset = (int32_t)((char *)&noted_cpu - (char *)__builtin_thread_pointer());
	noted_cpu = 5;
	assert_true(record(1));
	assert_int_equal(fake_sub(ring, 0)->cpu, 6);
	assert_true(record(2));
	noted_cpu = 0;
	assert_true(record(3));
	assert_true(record(4));
	noted_cpu = (uint32_t)-1; /* not registered (any more) */
	assert_true(record(5));
	noted_cpu = 5;
	assert_true(record(6));
	assert_int_equal(calltap_record_id(words[at++]), 1);
	assert_int_equal(calltap_record_id(words[at++]), 2);
	assert_int_equal(calltap_record_kind(words[at]), CALLTAP_REC_TIME);
	assert_int_equal(calltap_record_id(words[at]), 1);
	assert_true(words[at + 1] >> 32 == writer.time_hi);
	at += 2;
	for (uint32_t id = 3; id <= 5; id++)
		assert_int_equal(calltap_record_id(words[at++]), id);
	assert_int_equal(calltap_record_kind(words[at]), CALLTAP_REC_TIME);
	assert_int_equal(calltap_record_id(words[at]), 6);
	assert_int_equal(calltap_record_id(words[at + 2]), 6);
	assert_int_equal(fake_sub(ring, 0)->cpu, 6);
	/* The next sub-buffer tells where it was opened, and nothing comes in front of its first record. */
	noted_cpu = 7;
	while (ring->opened < 2)
		assert_true(record(7));
	assert_int_equal(fake_sub(ring, 1)->cpu, 8);
	probe_context.shared.cpu_offset = 0;
	end();
}

/* Where libc notes no CPU the kernel is asked, at a sub-buffer's opening alone; not where no system call may be made.
 */
static void the_kernel_is_asked(void **state)
{
	struct calltap_ring *ring = begin(CALLTAP_MODE_BLOCK, 4);
	cpu_set_t all, one;

	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	CPU_ZERO(&one);
	CPU_SET((unsigned)sched_getcpu(), &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	assert_true(record(1));
	assert_int_equal(fake_sub(ring, 0)->cpu, sched_getcpu() + 1);
	assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
	probe_context.shared.quiet = 1;
	while (ring->opened < 2)
		assert_true(record(2));
	assert_int_equal(fake_sub(ring, 1)->cpu, 0);
	probe_context.shared.quiet = 0;
	probe_context.shared.frugal = 1;
	while (ring->opened < 3)
		assert_true(record(2));
	assert_int_equal(fake_sub(ring, 2)->cpu, 0);
	probe_context.shared.frugal = 0;
	end();
}

static void put_half(uint32_t id)
{
	uint32_t *half = (uint32_t *)arch_local_add(&writer.cursor, sizeof(*half));

	*half = (uint32_t)CALLTAP_REC_BRIEF_ENTRY << CALLTAP_RECORD_ID_BITS | id;
}

/* Records begin at whole words; half a one that is left over says that it holds none. */
static void half_a_word_becomes_a_pad(void **state)
{
	struct calltap_ring *ring = begin(CALLTAP_MODE_BLOCK, 4);
	const uint64_t *words = (const uint64_t *)(fake_sub(ring, 0) + 1);

	assert_true(record(1));
	put_half(2);
	put_half(3);
	assert_true(record(4));
	put_half(5);
	assert_true(probe_record(&thread, CALLTAP_REC_CALL, 6, 2, 7));
	assert_int_equal(calltap_record_id(words[0]), 1);
	assert_true(calltap_record_has_brief(words[1]));
	assert_int_equal((uint32_t)words[1] & CALLTAP_RECORD_ID_MAX, 2);
	assert_int_equal(calltap_record_id(words[1]), 3);
	assert_int_equal(calltap_record_id(words[2]), 4);
	assert_int_equal((uint32_t)words[3] & CALLTAP_RECORD_ID_MAX, 5);
	assert_true(words[3] >> 32 == CALLTAP_RECORD_PAD);
	assert_int_equal(calltap_record_kind(words[4]), CALLTAP_REC_CALL);
	assert_true(words[5] == 7);
	/* At the sub-buffer's end: what is left over there has no room for a record. */
	while (writer.cursor < writer.base + writer.span - 4)
		put_half(8);
	assert_int_equal(ring->opened, 1);
	assert_true(record(9));
	assert_int_equal(ring->opened, 2);
	assert_int_equal(calltap_record_id(*(const uint64_t *)(fake_sub(ring, 1) + 1)), 9);
	assert_true(words[SUB_MAX - 1] >> 32 == 0);
	end();
}

/* After a fork in a signal handler the interrupted recorder goes on with a wiped writer. */
static void wiped_writer_is_left_alone(void **state)
{
	begin(CALLTAP_MODE_BLOCK, 4);
	assert_true(record(1));
	memset(&writer, 0, sizeof(writer));
	assert_false(record(2));
	end();
}

static volatile uint32_t handled;
static timer_t storm;

/* An emulated CPU, for which a signal is slow, would do nothing else. */
static void on_timer(int signal)
{
	const struct itimerspec never = {0};

	if (handled >= HANDLED_MAX)
		timer_settime(storm, 0, &never, NULL);
	for (int i = 0; i < 3; i++)
		if (record(HANDLER + handled))
			handled++;
}

static void start_timer(int signal, long ns, void (*handler)(int))
{
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = signal};
	struct itimerspec often = {{0, ns}, {0, ns}};
	struct sigaction action = {.sa_handler = handler};

	assert_int_equal(sigaction(signal, &action, NULL), 0);
	assert_int_equal(timer_create(CLOCK_MONOTONIC, &event, &storm), 0);
	assert_int_equal(timer_settime(storm, 0, &often, NULL), 0);
}

/* A handler records between any two instructions of the recorder: each record is there once, in its own order. */
static void signal_storm(void **state)
{
	struct calltap_ring *ring = begin(CALLTAP_MODE_BLOCK, 3 * RECORDS / SUB_MAX);
	struct reading reading = {ring, 0, 0, 0};
	uint32_t id, mine = 0, handlers = 0;
	uint64_t second = 0;
	unsigned kind;

	handled = 0;
	start_timer(SIGALRM, 20000, on_timer);
	for (uint32_t i = 0; i < RECORDS; i++)
		assert_true(record(i));
	timer_delete(storm);
	reading.stop = ring->opened;
	while (next_record(&reading, &kind, &id, &second)) {
		if (kind != CALLTAP_REC_ENTRY)
			continue;
		if (id >= HANDLER)
			assert_int_equal(id - HANDLER, handlers++);
		else
			assert_int_equal(id, mine++);
	}
	assert_int_equal(mine, RECORDS);
	assert_int_equal(handlers, handled);
	assert_true(handled > 100);
	print_message("%u records of handlers between %u\n", handled, RECORDS);
	end();
}

#define EVENT_TYPE 77u

/* How many words the n-th event has behind its head: all sizes come, small ones more often. */
static uint32_t event_words(uint32_t n)
{
	uint32_t mixed = n * 2654435761u >> 8;

	return mixed % (mixed >> 16 & 7 ? 12 : CALLTAP_EVENT_WORDS_MAX);
}

/* All 56 bits of a word are in use. */
static uint64_t event_word(uint32_t n, uint32_t i)
{
	return (n * 0x9e3779b97f4a7c15u ^ i * 0xc2b2ae3d27d4eb4fu) >> 8;
}

static bool put_event(uint32_t n)
{
	uint64_t words[CALLTAP_EVENT_WORDS_MAX];
	uint32_t count = event_words(n);

	words[0] = n;
	for (uint32_t i = 1; i < count; i++)
		words[i] = event_word(n, i);
	return probe_event(&thread, 0, EVENT_TYPE, words, count);
}

/* The words behind an event's head are those of one event; its number, or UINT32_MAX for one without. */
static bool event_is_whole(uint64_t head, const uint64_t *behind, uint32_t *n)
{
	uint32_t count = calltap_record_words(head) - 1;

	*n = UINT32_MAX;
	if (calltap_event_type(calltap_record_id(head)) != EVENT_TYPE)
		return false;
	if (!count)
		return true;
	*n = (uint32_t)__atomic_load_n(&behind[0], __ATOMIC_RELAXED);
	if (event_words(*n) != count)
		return false;
	for (uint32_t i = 1; i < count; i++)
		if (__atomic_load_n(&behind[i], __ATOMIC_RELAXED) != event_word(*n, i))
			return false;
	return true;
}

/* The events that a reader finds in the sub-buffers from first on; *entries counts the other records. */
struct finding {
	uint32_t next[2]; /* number of the next event of the program's and of its handler's, if none is missing */
	uint32_t events, entries, without;
	bool wrong;
};

static void find_events(struct finding *found, const uint64_t *word, const uint64_t *end)
{
	while (word < end) {
		uint64_t head = __atomic_load_n(word, __ATOMIC_ACQUIRE);
		unsigned words = calltap_record_words(head);
		uint32_t n;

		found->wrong |= words > end - word;
		if (found->wrong)
			return;
		found->entries += calltap_record_kind(head) == CALLTAP_REC_ENTRY;
		if (calltap_record_kind(head) == CALLTAP_REC_EVENT) {
			found->wrong |= !event_is_whole(head, word + 1, &n);
			found->events++;
			if (n == UINT32_MAX) {
				found->without++;
			} else {
				uint32_t *next = &found->next[n >= HANDLER];

				found->wrong |= n < *next; /* events without words behind the head are left out */
				*next = n + 1;
			}
		}
		word += words;
	}
}

static bool taken_back(uint32_t id)
{
	return probe_take_back(&writer, id, arch_clock(), UINT32_MAX);
}

/*
 * The writer takes one frame's ENTRY and TAILs back together.  Where a frame has too many TAILs, or where other records
 * lie behind them, it takes none back.
 */
static void tails_are_taken_back_with_their_entry(void **state)
{
	uint64_t began, chain;
	uint32_t id;

	begin(CALLTAP_MODE_BLOCK, 8);
	assert_true(record(1));
	began = writer.cursor;
	assert_true(record(2));
	assert_true(probe_record(&thread, CALLTAP_REC_TAIL, 3, 1, 0));
	assert_true(taken_back(3));
	assert_int_equal(writer.cursor, began);
	assert_int_equal(((uint64_t *)began)[0], 0);
	assert_int_equal(((uint64_t *)began)[1], 0);
	for (uint32_t tails = 0; tails < 9; tails++) {
		assert_true(record(2));
		for (id = 3; id < 3 + tails; id++)
			assert_true(probe_record(&thread, CALLTAP_REC_TAIL, id, 1, 0));
		chain = writer.cursor;
		assert_false(taken_back(2 + tails + 1)); /* another function's exit */
		assert_false(probe_take_back(&writer, 2 + tails, arch_clock(), 0));
		assert_int_equal(writer.cursor, chain);
		assert_int_equal(taken_back(2 + tails), tails < 8);
		assert_int_equal(writer.cursor, tails < 8 ? began : chain);
	}
	/* A callee's records are in between: they, and what they are in, stay. */
	assert_true(probe_record(&thread, CALLTAP_REC_EXIT, 9, 1, 0));
	assert_true(probe_record(&thread, CALLTAP_REC_TAIL, 10, 1, 0));
	assert_false(taken_back(10));
	end();
}

/* An event is not cut by the end of its sub-buffer, whatever its size, and all of them are there. */
static void events_stay_together(void **state)
{
	struct calltap_ring *ring = begin(CALLTAP_MODE_BLOCK, 2000);
	struct finding found = {.next = {0, HANDLER}};
	const uint32_t count = 20000;

	for (uint32_t i = 0; i < count; i++) {
		assert_true(put_event(i));
		assert_true(record(i));
	}
	for (uint64_t n = 0; n < ring->opened; n++) {
		const uint64_t *words = (const uint64_t *)(fake_sub(ring, n) + 1);

		assert_true(fake_sub(ring, n)->number == n + 1);
		find_events(&found, words, words + SUB_MAX);
	}
	assert_false(found.wrong);
	assert_int_equal(found.events, count);
	assert_int_equal(found.entries, count);
	assert_true(ring->opened > 20);
	/* An event that fits into no sub-buffer is refused, and takes no slot. */
	assert_false(
		probe_event(&thread, 0, EVENT_TYPE, (uint64_t[CALLTAP_EVENT_WORDS_MAX]){0}, CALLTAP_EVENT_WORDS_MAX));
	assert_int_equal(ring->lost, 0);
	end();
}

static void on_timer_events(int signal)
{
	if (handled >= HANDLED_MAX / 10)
		return;
	for (int i = 0; i < 3; i++)
		if (put_event(HANDLER + handled))
			handled++;
}

struct watcher {
	const struct calltap_ring *ring;
	struct finding found;
	uint32_t stop, rounds;
};

/* Reads the open sub-buffer over and over, as far as it is written, as the tool does for who follows. */
static void *watch(void *arg)
{
	struct watcher *watcher = arg;

	while (!__atomic_load_n(&watcher->stop, __ATOMIC_ACQUIRE)) {
		uint64_t opened = __atomic_load_n(&watcher->ring->opened, __ATOMIC_ACQUIRE);
		const uint64_t *words;

		if (!opened)
			continue;
		/* Holes among them: what stands in them is no head. */
		watcher->found.next[0] = 0;
		watcher->found.next[1] = HANDLER;
		words = (const uint64_t *)(fake_sub(watcher->ring, opened - 1) + 1);
		find_events(&watcher->found, words, words + SUB_MAX);
		watcher->rounds++;
	}
	return NULL;
}

/*
 * A handler writes events between any two instructions of the recorder that
 * writes one, and a reader looks on: what has a head is whole at any time, and
 * in the end all are there.
 */
static void events_in_a_storm(void **state)
{
	struct calltap_ring *ring = begin(CALLTAP_MODE_BLOCK, 24000);
	struct watcher watcher = {.ring = ring};
	struct finding found = {.next = {0, HANDLER}};
	const uint32_t count = 200000;
	pthread_t reader;
	sigset_t alarm;

	handled = 0;
	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &alarm, NULL); /* for the reader: the ring is this thread's */
	assert_int_equal(pthread_create(&reader, NULL, watch, &watcher), 0);
	pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
	start_timer(SIGALRM, 20000, on_timer_events);
	for (uint32_t i = 0; i < count; i++)
		assert_true(put_event(i));
	timer_delete(storm);
	__atomic_store_n(&watcher.stop, 1, __ATOMIC_RELEASE);
	pthread_join(reader, NULL);
	for (uint64_t n = 0; n < ring->opened; n++) {
		const uint64_t *words = (const uint64_t *)(fake_sub(ring, n) + 1);

		find_events(&found, words, words + SUB_MAX);
	}
	assert_false(watcher.found.wrong);
	assert_false(found.wrong);
	assert_int_equal(found.events, count + handled);
	assert_int_equal(ring->lost, 0);
	assert_true(handled > 100);
	assert_true(watcher.found.events > 1000);
	print_message("%u events of handlers between %u, seen %u times\n", handled, count, watcher.found.events);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(records_in_order),
		cmocka_unit_test(two_words_stay_together),
		cmocka_unit_test(drop_counts_and_says_where),
		cmocka_unit_test(overwrite_keeps_the_newest),
		cmocka_unit_test(block_does_not_wait_for_ever),
		cmocka_unit_test(block_waits_as_long_as_the_tool_works),
		cmocka_unit_test(nothing_is_lost_behind_the_end),
		cmocka_unit_test(block_loses_nothing),
		cmocka_unit_test(clock_marks),
		cmocka_unit_test(moves_are_told),
		cmocka_unit_test(the_kernel_is_asked),
		cmocka_unit_test(half_a_word_becomes_a_pad),
		cmocka_unit_test(wiped_writer_is_left_alone),
		cmocka_unit_test(signal_storm),
		cmocka_unit_test(tails_are_taken_back_with_their_entry),
		cmocka_unit_test(events_stay_together),
		cmocka_unit_test(events_in_a_storm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
