/*
 * Recording a command: options in, a trace file and an exit status out.
 *
 * Caller: the command `record`.  Context: host.
 */
#ifndef HOST_RECORD_RECORD_H
#define HOST_RECORD_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <calltap/abi/ring.h>
#include <calltap/diag.h>

struct tracer;
struct filter_set;

struct record_options {
	size_t size;	      /* sizeof(struct record_options) */
	char *const *command; /* NULL-terminated */
	const char *output;   /* path of the trace file */
	const struct tracer *tracer;
	struct filter_set *filters;
	enum calltap_mode mode;
	uint64_t buffer_bytes; /* per thread */
	uint32_t depth_max;    /* 0 = no limit */
	uint64_t threshold_ns; /* 0 = none */
	uint32_t wait_max_ms;  /* block mode: longest wait without progress */
	bool no_fork, no_exec; /* do not follow */
	bool allow_no_sites;   /* run it although nothing can be traced now */
	bool allow_no_match;   /* run it although a filter matches nothing now */
	bool progress;	       /* show progress on stderr */
	bool verbose;
	const char *options_text; /* as typed, for the file */
	const char *agent_path;	  /* of libcalltap-agent.so */
};

struct record_result {
	int wait_status; /* the command's, as from waitpid(); valid when `ran` */
	bool ran;	 /* the command was started */
	bool unrunnable; /* it was not, as it cannot be */
	bool left;	 /* and runs on: the user ended the recording first */
	uint64_t records, lost;
	uint64_t untraced;   /* calls that no thread's buffer or no stack's mirror could take */
	uint64_t wait_ticks; /* that threads waited for the tool, in all */
	double ticks_per_ns;
	uint64_t file_bytes;
	uint32_t threads, processes;
	uint64_t patched, failed;
};

/* Names of enum calltap_mode, as typed and as in the file; NULL past the end. */
const char *record_mode_name(unsigned mode);

/*
 * Run the command under trace until it and its traced children have ended.
 * 0, or -errno with diag; result->ran tells whether the command ran.
 * -ENODATA: nothing to trace, before the program runs.
 */
int record_run(const struct record_options *options, struct record_result *result, struct calltap_diag *diag)
	__attribute__((warn_unused_result));

#endif
