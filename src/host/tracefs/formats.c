/*
 * events/: how the events of trace_pipe_raw are laid out, as text that libtraceevent parses.
 *
 * Names, ids and layouts are those of the kernel's tracers, so that tools which know these need nothing new.  The other
 * files of events/ are those of a kernel without further events.  Context: host.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "raw.h"
#include "tree.h"

#define COMMON                                                                                                         \
	"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"                                         \
	"\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"                                         \
	"\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"                                 \
	"\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"

/* Addresses of a stack, as the kernel describes and prints them. */
#define STACK_FIELD "\tfield:unsigned long caller[8];\toffset:16;\tsize:64;\tsigned:0;\n"
#define STACK_LINES "\\t=> %ps\\n\\t=> %ps\\n\\t=> %ps\\n"
#define STACK_PRINT                                                                                                    \
	"\"" STACK_LINES "\" \"" STACK_LINES "\" \"\\t=> %ps\\n\\t=> %ps\\n\""                                         \
	", (void *)REC->caller[0], (void *)REC->caller[1], (void *)REC->caller[2], (void *)REC->caller[3], (void "     \
	"*)REC->caller[4], (void *)REC->caller[5], (void *)REC->caller[6], (void *)REC->caller[7]"

static const struct {
	const char *name;
	unsigned id;
	const char *fields, *print;
} formats[] = {
	{"funcgraph_entry", RAW_ENTRY,
	 "\tfield:unsigned long func;\toffset:8;\tsize:8;\tsigned:0;\n"
	 "\tfield:int depth;\toffset:16;\tsize:4;\tsigned:1;\n",
	 "\"--> %ps (%d)\", (void *)REC->func, REC->depth"},
	{"funcgraph_exit", RAW_EXIT,
	 "\tfield:unsigned long func;\toffset:8;\tsize:8;\tsigned:0;\n"
	 "\tfield:int depth;\toffset:16;\tsize:4;\tsigned:1;\n"
	 "\tfield:unsigned int overrun;\toffset:20;\tsize:4;\tsigned:0;\n"
	 "\tfield:unsigned long long calltime;\toffset:24;\tsize:8;\tsigned:0;\n"
	 "\tfield:unsigned long long rettime;\toffset:32;\tsize:8;\tsigned:0;\n",
	 "\"<-- %ps (%d) (start: %llx  end: %llx) over: %d\", (void *)REC->func, REC->depth, REC->calltime, "
	 "REC->rettime, REC->depth"},
	{"func_repeats", RAW_REPEATS,
	 "\tfield:unsigned long ip;\toffset:8;\tsize:8;\tsigned:0;\n"
	 "\tfield:unsigned long parent_ip;\toffset:16;\tsize:8;\tsigned:0;\n"
	 "\tfield:u16 count;\toffset:24;\tsize:2;\tsigned:0;\n"
	 "\tfield:u16 top_delta_ts;\toffset:26;\tsize:2;\tsigned:0;\n"
	 "\tfield:u32 bottom_delta_ts;\toffset:28;\tsize:4;\tsigned:0;\n",
	 "\" %ps <-%ps\\t(repeats:%u  delta: -%llu)\", (void *)REC->ip, (void *)REC->parent_ip, REC->count, "
	 "(((u64)(REC)->top_delta_ts << 32) | (REC)->bottom_delta_ts)"},
	{"function", RAW_FUNCTION,
	 "\tfield:unsigned long ip;\toffset:8;\tsize:8;\tsigned:0;\n"
	 "\tfield:unsigned long parent_ip;\toffset:16;\tsize:8;\tsigned:0;\n",
	 "\" %ps <-- %ps\", (void *)REC->ip, (void *)REC->parent_ip"},
	{"kernel_stack", RAW_STACK, "\tfield:int size;\toffset:8;\tsize:4;\tsigned:1;\n" STACK_FIELD, STACK_PRINT},
	{"raw_data", RAW_DATA,
	 "\tfield:unsigned int id;\toffset:8;\tsize:4;\tsigned:0;\n"
	 "\tfield:char buf[];\toffset:12;\tsize:0;\tsigned:0;\n",
	 "\"id:%04x %08x\", REC->id, (int)REC->buf[0]"},
	{"print", RAW_PRINT,
	 "\tfield:unsigned long ip;\toffset:8;\tsize:8;\tsigned:0;\n"
	 "\tfield:char buf[];\toffset:16;\tsize:0;\tsigned:0;\n",
	 "\"%ps: %s\", (void *)REC->ip, REC->buf"},
	{"user_stack", RAW_USER_STACK, "\tfield:unsigned int tgid;\toffset:8;\tsize:4;\tsigned:0;\n" STACK_FIELD,
	 STACK_PRINT},
};

const char *formats_name(uint32_t which)
{
	return which < sizeof(formats) / sizeof(formats[0]) ? formats[which].name : NULL;
}

int formats_read(struct tree_open *open, struct tree_text *out)
{
	tree_text_format(out, "name: %s\nID: %u\nformat:\n%s%s\nprint fmt: %s\n", formats[open->which].name,
			 formats[open->which].id, COMMON, formats[open->which].fields, formats[open->which].print);
	return 0;
}

int formats_read_id(struct tree_open *open, struct tree_text *out)
{
	tree_text_format(out, "%u\n", formats[open->which].id);
	return 0;
}

int formats_read_page(struct tree_open *open, struct tree_text *out)
{
	tree_text_format(out,
			 "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"
			 "\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n"
			 "\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n"
			 "\tfield: char data;\toffset:16;\tsize:%u;\tsigned:0;\n",
			 open->instance->page_bytes - RAW_HEAD);
	return 0;
}

int formats_read_event(struct tree_open *open, struct tree_text *out)
{
	(void)open;
	tree_text_string(out, "# compressed entry header\n"
			      "\ttype_len    :    5 bits\n"
			      "\ttime_delta  :   27 bits\n"
			      "\tarray       :   32 bits\n\n"
			      "\tpadding     : type == 29\n"
			      "\ttime_extend : type == 30\n"
			      "\ttime_stamp : type == 31\n"
			      "\tdata max type_len  == 28\n");
	return 0;
}

int formats_read_none(struct tree_open *open, struct tree_text *out)
{
	(void)open;
	(void)out;
	return 0;
}

int formats_read_enable(struct tree_open *open, struct tree_text *out)
{
	(void)open;
	tree_text_string(out, "0\n");
	return 0;
}

/* There is nothing to be enabled: both words are carried out as soon as they are said. */
int formats_write_enable(struct tree_open *open, const char *text, size_t size)
{
	uint64_t value;
	int ret = control_number(open, text, &value);

	if (!ret && value > 1)
		ret = control_refuse(open, -EINVAL, "0 and 1 are what this file takes", text, 0);
	return ret ? ret : (int)size;
}
