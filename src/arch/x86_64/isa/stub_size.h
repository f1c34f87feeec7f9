/*
 * x86-64: how many bytes arch_stub_build() writes.  The tool lays the stubs out
 * in their region, the agent writes them there: both take the sizes from here.
 */
#ifndef ARCH_X86_64_ISA_STUB_SIZE_H
#define ARCH_X86_64_ISA_STUB_SIZE_H

enum {
	X86_STUB_CALL = 16,  /* CALLTAP_SITE_CALL: the entry alone */
	X86_STUB_GRAPH = 27, /* entry and exit */
	X86_STUB_GATE = 15,  /* more, with CALLTAP_SITE_GATED */
};

#endif
