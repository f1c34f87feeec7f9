/*
 * aarch64: how many bytes arch_stub_build() writes.  The tool lays the stubs out
 * in their region, the agent writes them there: both take the sizes from here.
 */
#ifndef ARCH_AARCH64_ISA_STUB_SIZE_H
#define ARCH_AARCH64_ISA_STUB_SIZE_H

enum {
	A64_STUB_CALL = 24,  /* CALLTAP_SITE_CALL: the entry alone */
	A64_STUB_GRAPH = 48, /* entry and exit */
	A64_STUB_GATE = 24,  /* more, with CALLTAP_SITE_GATED */
};

#endif
