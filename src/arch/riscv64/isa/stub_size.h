/*
 * riscv64: how many bytes arch_stub_build() writes.  The tool lays the stubs out
 * in their region, the agent writes them there: both take the sizes from here.
 */
#ifndef ARCH_RISCV64_ISA_STUB_SIZE_H
#define ARCH_RISCV64_ISA_STUB_SIZE_H

enum {
	RV_STUB_CALL = 16,  /* CALLTAP_SITE_CALL: the entry alone */
	RV_STUB_GRAPH = 40, /* entry and exit */
	RV_STUB_GATE = 20,  /* more, with CALLTAP_SITE_GATED */
	RV_VENEER = 24,	    /* in front of each stub: where its head jumps to when the stub leads to another one */
};

#endif
