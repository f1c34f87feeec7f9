/*
 * Numbers that errand.S and attach.c share; the layout of struct
 * calltap_attach among them, which attach.c checks.
 */
#ifndef ARCH_X86_64_NATIVE_ERRAND_H
#define ARCH_X86_64_NATIVE_ERRAND_H

#define ERRAND_MAGIC 0x1d6b0e5c0a7ab10c /* the code's first 8 bytes, by which the tool knows it */
#define ERRAND_WORDS 272		/* bytes */

/* The wait for the tool is counted in naps, short ones first: on a busy machine each takes some milliseconds more. */
#define ERRAND_NAP_NS	   150000   /* with the timer's slack: 0.2 ms */
#define ERRAND_LONG_NAP_NS 10000000 /* of the last ERRAND_LONG_NAPS */
#define ERRAND_LONG_NAPS   48
#define ERRAND_NAPS	   148 /* 0.5 s */

#define ATTACH_SIZE	  0x40000
#define ATTACH_STATE	  4
#define ATTACH_LEFT	  8
#define ATTACH_RESULT	  12
#define ATTACH_MEMFD	  16
#define ATTACH_AGENT	  192
#define ATTACH_ERROR	  1216
#define ATTACH_ERROR_SIZE 512
#define ATTACH_NAPS	  1728
#define ATTACH_PARTS	  1744
#define ATTACH_PART_SIZE  32
#define ATTACH_SPARE	  4088 /* a word that nobody else uses, behind the structure */
#define ATTACH_XSAVE	  4096
#define ATTACH_XSAVE_SIZE 0x8000
#define ATTACH_NONE	  0
#define ATTACH_READY	  1
#define ATTACH_GO	  2
#define ATTACH_LOADED	  3
#define ATTACH_FAILED	  4
#define ATTACH_ALONE	  1 /* a result: no agent was called */

/* When a handler runs, the interrupted call returns EINTR: */
#define BREAKS_NEVER  0
#define BREAKS_UNLESS 1 /* unless it was installed with SA_RESTART */
#define BREAKS_ALWAYS 2

#ifndef __ASSEMBLER__
extern const unsigned char errand_begin[], errand_end[] __attribute__((visibility("hidden")));
#endif

#endif
