/* Timed frames in the test's own process (timed.h). */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <host/target/images.h>
#include "timed.h"

#define CALLERS 64u
#define SUB	65536u

unsigned timed_landing_pad(const void *function)
{
	static const uint32_t pads[] = {0xfa1e0ff3, 0xd503245f};
	uint32_t word;

	memcpy(&word, function, sizeof(word));
	return word == pads[0] || word == pads[1] ? 4 : 0;
}

static int by_address(const void *a, const void *b)
{
	const struct calltap_site *left = a, *right = b;

	return left->address < right->address ? -1 : left->address > right->address;
}

void timed_patch(const struct timed_function *list, uint32_t count)
{
	struct calltap_site *sites = calloc(count, sizeof(*sites));
	int64_t gate = (int64_t)((uint64_t)&probe_thread.gate - (uint64_t)__builtin_thread_pointer());
	struct calltap_msg_plan plan = {.site_count = count};
	struct patch_result result = {0};
	struct patch_poker poker;

	for (uint32_t i = 0; i < count; i++) {
		struct calltap_site *site = &sites[i];

		site->address = (uint64_t)list[i].function + timed_landing_pad(list[i].function);
		site->id = i;
		site->flags = list[i].flags;
		site->length = site->body_off = code_length(CODE_USUAL);
		memcpy(site->old, (const void *)site->address, site->length);
	}
	qsort(sites, count, sizeof(*sites), by_address); /* as plans have them */
	plan.near_lo = sites[0].address & ~(uint64_t)4095;
	plan.near_hi = plan.near_lo + 4096;
	patch_poker_open(&poker);
	if (layout_stubs(ARCH_ELF_MACHINE, sites, count, &plan.stub_bytes) ||
	    patch_region_build(&result, &plan, sites, gate, 0) ||
	    patch_sites_apply(&result, &poker, sites, count, NULL) || result.patched != count)
		abort();
	probe_context.regions[0] = (struct probe_region){result.region.lo, result.region.hi};
	probe_context.region_count = 1;
	free(sites);
}

void timed_profile_start(struct fake_arena *fake, uint32_t rings, uint32_t functions, uint32_t histograms)
{
	uint64_t size = calltap_profile_size(functions, CALLERS, histograms);

	fake_arena_create(fake, CALLTAP_MODE_PROFILE, rings, SUB, (uint32_t)(size / SUB + 2));
	for (uint32_t i = 0; i < rings; i++) {
		*calltap_profile_shape(fake_ring(fake, i)) = (struct calltap_profile_shape){
			.functions = functions, .callers = CALLERS, .histograms = histograms};
	}
	probe_context.profile = 1;
	probe_context.timed = 1;
	fake_start(fake);
}

void timed_profile_stop(struct fake_arena *fake)
{
	fake_stop();
	fake_arena_destroy(fake);
	probe_context.profile = 0;
	probe_context.timed = 0;
}

static const char *data_of(const struct fake_arena *fake, uint32_t ring)
{
	return (const char *)fake_ring(fake, ring) + CALLTAP_PAGE;
}

const struct calltap_profile *timed_head(const struct fake_arena *fake, uint32_t ring)
{
	return (const void *)data_of(fake, ring);
}

const struct calltap_profile_entry *timed_entry(const struct fake_arena *fake, uint32_t ring, uint32_t id)
{
	return (const void *)(data_of(fake, ring) + calltap_profile_at_entry(id));
}

const struct calltap_profile_caller *timed_caller(const struct fake_arena *fake, uint32_t ring, uint32_t i)
{
	return (const void *)(data_of(fake, ring) +
			      calltap_profile_at_caller(calltap_profile_shape(fake_ring(fake, ring))->functions, i));
}

uint64_t timed_histogram_sum(const struct fake_arena *fake, uint32_t ring, uint32_t id)
{
	const struct calltap_profile_histogram *histogram =
		(const void *)(data_of(fake, ring) + timed_entry(fake, ring, id)->histogram);
	uint64_t sum = 0;

	if (!timed_entry(fake, ring, id)->histogram)
		return 0;
	for (uint32_t i = 0; i < CALLTAP_PROFILE_BUCKETS; i++)
		sum += histogram->calls[i] +
		       (data_of(fake, ring) + timed_head(fake, ring)->pending == (const char *)&histogram->calls[i]);
	return sum;
}

struct calltap_triggers *timed_triggers(uint32_t functions, uint32_t slots)
{
	uint64_t size = calltap_triggers_at_event(functions, slots);
	struct calltap_triggers *triggers =
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (triggers == MAP_FAILED)
		abort();
	triggers->magic = CALLTAP_TRIGGERS_MAGIC;
	triggers->functions = functions;
	triggers->slots = slots;
	if (probe_triggers_set(triggers, size))
		abort();
	return triggers;
}

struct calltap_limit *timed_limit(struct calltap_triggers *triggers, uint32_t id)
{
	return (void *)((char *)triggers + calltap_triggers_at_limit(id));
}

const struct calltap_event *timed_event(const struct calltap_triggers *triggers, uint32_t i)
{
	return (const void *)((const char *)triggers + calltap_triggers_at_event(triggers->functions, i));
}
