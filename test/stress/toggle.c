/*
 * Sites are switched on and off by their one write, and led to other stubs,
 * thousands of times a second, while threads run through them
 * (doc/design/patching.md).
 *
 *     toggle [SECONDS [THREADS]]
 *
 * Every call's result is checked, and at the end every ring: the threads' own
 * count of calls is an upper bound for the entries in it, and each entry that
 * is still there has its exit.  Exit status 1, with a sentence, on any failure.
 */
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include <host/target/images.h>
#include "stress.h"
#include "support.h"

#define PAGE	    4096u
#define FUNCTIONS   24u
#define THREADS_MAX 64u
#define SUB	    16384u
#define PLANS	    3u /* plans of the same sites, with stubs of three kinds */

struct work {
	code_function functions[FUNCTIONS];
	struct calltap_site sites[PLANS][FUNCTIONS];
	struct patch_region regions[PLANS];
	uint32_t stop; /* atomic */
};

struct worker {
	struct work *work;
	pthread_t thread;
	uint64_t calls, wrong;
};

/* Function i adds i; all but every third call the one before. */
static int wanted(uint32_t i, int x)
{
	return x + (int)i + (i % 3 ? wanted(i - 1, 0) : 0);
}

static void make_functions(struct work *work)
{
	uint8_t *pages = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED)
		die("no memory");
	for (uint32_t i = 0; i < FUNCTIONS; i++)
		work->functions[i] = code_write(pages + i * CODE_STEP, (int)i, i % 4 == 3 ? CODE_SHORT : CODE_USUAL,
						i % 3 ? work->functions[i - 1] : NULL, &work->sites[0][i]);
	for (uint32_t i = 0; i < FUNCTIONS; i++) {
		work->sites[0][i].id = i + 1;
		work->sites[0][i].flags = i % 2 ? CALLTAP_SITE_GATED : 0;
		work->sites[1][i] = work->sites[2][i] = work->sites[0][i];
		work->sites[1][i].flags = CALLTAP_SITE_FULL_ENTRY | CALLTAP_SITE_FULL_EXIT;
		work->sites[2][i].flags = i % 2 ? 0 : CALLTAP_SITE_GATED | CALLTAP_SITE_FULL_EXIT;
	}
	code_seal(pages, PAGE);
}

static void patch(struct work *work, struct patch_poker *poker)
{
	uint64_t lo = work->sites[0][0].address & ~(uint64_t)(PAGE - 1);
	int64_t gate = (int64_t)((uint64_t)&probe_thread.gate - (uint64_t)__builtin_thread_pointer());
	struct patch_result result = {0};

	for (uint32_t i = PLANS; i-- > 0;) {
		struct calltap_msg_plan plan = {.near_lo = lo, .near_hi = lo + PAGE, .site_count = FUNCTIONS};

		if (layout_stubs(ARCH_ELF_MACHINE, work->sites[i], FUNCTIONS, &plan.stub_bytes) ||
		    patch_region_build(&result, &plan, work->sites[i], gate, 0))
			die("no stubs");
		work->regions[i] = result.region;
	}
	if (patch_sites_apply(&result, poker, work->sites[0], FUNCTIONS, NULL) || result.patched != FUNCTIONS)
		die("the sites were not patched");
}

static void *call(void *arg)
{
	struct worker *worker = arg;

	for (int x = 0; !__atomic_load_n(&worker->work->stop, __ATOMIC_RELAXED); x = (x + 1) & 0xffff)
		for (uint32_t i = 0; i < FUNCTIONS; i++) {
			worker->wrong += worker->work->functions[i](x) != wanted(i, x);
			worker->calls += i % 3 + 1;
		}
	return NULL;
}

/* All sites to another plan's stubs; a few are off before, as they may be. */
static uint64_t move_all(struct work *work, struct patch_poker *poker, uint32_t from, uint32_t to)
{
	struct patch_move moves[FUNCTIONS];

	for (uint32_t i = 0; i < FUNCTIONS; i++) {
		moves[i] = (struct patch_move){&work->regions[from], &work->regions[to], &work->sites[from][i],
					       &work->sites[to][i], false};
		if (i % 7 == 0 && patch_site_switch(poker, &work->regions[from], &work->sites[from][i], false))
			die("a site could not be switched off");
	}
	patch_sites_move(poker, moves, FUNCTIONS);
	for (uint32_t i = 0; i < FUNCTIONS; i++) {
		if (!moves[i].done)
			die("a site could not be led to another stub");
		if (patch_site_state(poker, &work->regions[to], &work->sites[to][i]) != PATCH_SITE_ON)
			die("a site that was led to another stub does not lead there");
	}
	return FUNCTIONS;
}

/* Do one round: switch all sites off, as the agent does it, and on again.  Returns the switches. */
static uint64_t toggle_all(struct work *work, struct patch_poker *poker, uint32_t plan)
{
	for (uint32_t i = 0; i < FUNCTIONS; i++) {
		if (patch_site_switch(poker, &work->regions[plan], &work->sites[plan][i], false))
			die("a site could not be switched off");
		if (i % 5 == 0 && patch_sync())
			die("the cores could not be made to refetch");
		if (patch_site_switch(poker, &work->regions[plan], &work->sites[plan][i], true))
			die("a site could not be switched on");
	}
	return 2 * FUNCTIONS;
}

/* Whatever plan they lead to now. */
static void restore(struct work *work, struct patch_poker *poker)
{
	struct patch_restored restored = {0};

	for (uint32_t i = 0; i < PLANS; i++)
		patch_sites_restore(&restored, poker, &work->regions[i], work->sites[i], FUNCTIONS, NULL);
	if (restored.restored != FUNCTIONS)
		die("the text has not got its own bytes back");
}

/* Entries and exits in what is left of a ring differ by the frames cut off at its ends at the most. */
static uint64_t check_ring(const struct calltap_ring *ring)
{
	uint64_t first = ring->opened > ring->sub_count ? ring->opened - ring->sub_count : 0;
	int64_t balance = 0;
	uint64_t entries = 0;

	for (uint64_t n = first; n < ring->opened; n++) {
		const struct calltap_subbuf *sub = fake_sub(ring, n);
		const uint64_t *word = (const uint64_t *)(sub + 1), *end = word + (SUB - sizeof(*sub)) / 8;

		if (sub->number != n + 1)
			die("a sub-buffer's head was overwritten");
		for (; word < end; word += calltap_record_words(*word)) {
			unsigned kind = calltap_record_kind(*word);

			if (kind != CALLTAP_REC_ENTRY && kind != CALLTAP_REC_EXIT)
				continue;
			if (calltap_record_id(*word) < 1 || calltap_record_id(*word) > FUNCTIONS)
				die("a record names no function that there is");
			entries += kind == CALLTAP_REC_ENTRY;
			balance += kind == CALLTAP_REC_ENTRY ? 1 : -1;
			if (balance < -3 || balance > 3)
				die("entries and exits do not pair");
		}
	}
	return entries;
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 3, start;
	uint32_t threads = argc > 2 ? (uint32_t)atoi(argv[2]) : 4;
	uint32_t plan = 0;
	uint64_t switches = 0, calls = 0, entries = 0;
	struct worker workers[THREADS_MAX] = {0};
	struct patch_poker poker;
	struct fake_arena fake;
	struct work work = {0};

	if (threads < 1 || threads > THREADS_MAX)
		die("1 to 64 threads");
	patch_poker_open(&poker);
	make_functions(&work);
	fake_arena_create(&fake, CALLTAP_MODE_OVERWRITE, threads, SUB, 4);
	fake_start(&fake);
	patch(&work, &poker);
	for (uint32_t i = 0; i < threads; i++) {
		workers[i].work = &work;
		if (pthread_create(&workers[i].thread, NULL, call, &workers[i]))
			die("no threads");
	}
	for (start = now(); now() - start < seconds; plan = (plan + 1) % PLANS) {
		switches += toggle_all(&work, &poker, plan);
		switches += move_all(&work, &poker, plan, (plan + 1) % PLANS);
	}
	restore(&work, &poker);
	__atomic_store_n(&work.stop, 1, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < threads; i++) {
		pthread_join(workers[i].thread, NULL);
		calls += workers[i].calls;
		if (workers[i].wrong)
			die("a call returned a wrong result");
	}
	for (uint32_t i = 0; i < threads; i++)
		entries += check_ring(fake_ring(&fake, i));
	if (!entries || entries > calls)
		die("the rings hold no calls, or more than there were");
	printf("%llu calls by %u threads, %.0f switches a second\n", (unsigned long long)calls, threads,
	       (double)switches / seconds);
	return 0;
}
