/*
 * Applying a plan: stubs first, then the sites that jump to them.
 * Context: control (the agent's control thread, alone).
 */
#ifndef PATCH_SITES_H
#define PATCH_SITES_H

#include <stddef.h>
#include <stdint.h>

#include <calltap/abi/control.h>

#include <patch/poke.h>

struct patch_result {
	uint64_t region;     /* start of the stub region, 0 = none */
	uint64_t region_end; /* end of its stubs; its unwind table lies there */
	uint32_t patched;
	uint32_t failed;
	uint32_t first_failed_id;
};

/*
 * Map a region near [plan->near_lo, near_hi) and write the stubs of the
 * plan's sites into it; or take plan->region as it is.  The region ends up
 * readable and executable.  tls_gate: see arch_stub_build().
 */
int patch_region_build(struct patch_result *result, const struct calltap_msg_plan *plan,
		       const struct calltap_site *sites, int64_t tls_gate) __attribute__((warn_unused_result));
/*
 * Point the sites at their stubs.  No thread may be running in the object
 * (its constructors have not run).  A site whose bytes differ is left alone
 * and counted.
 */
int patch_sites_apply(struct patch_result *result, struct patch_poker *poker, const struct calltap_site *sites,
		      uint32_t count) __attribute__((warn_unused_result));
/*
 * Switch one site off while threads run through it.  -EINVAL when the bytes
 * there are not those of a site that is on and leads into [lo, hi): the object
 * may be gone, and anything else lie there.
 */
int patch_site_off(struct patch_poker *poker, uint64_t address, uint8_t length, uint64_t lo, uint64_t hi)
	__attribute__((warn_unused_result));

#endif
