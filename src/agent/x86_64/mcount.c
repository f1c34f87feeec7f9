/*
 * What mcount.S goes on in: libc's mcount() and _mcount(), and the function within them that counts.
 *
 * glibc's is a few instructions of assembly: it saves the registers that arguments are passed in, loads the two
 * addresses of the arc, and calls a function of C that has no name outside libc.  Where its bytes are the ones below,
 * that function is known.  A libc with others keeps the call as it came, and drops the arcs of traced calls.
 *
 * Called in the constructor, on the program's thread; context: control.
 */
#include <agent/agent.h>
#include <agent/libc.h>
#include <base/mem.h>

/* Known to mcount.S: 16 bytes each. */
struct agent_mcount {
	void *next;    /* libc's; NULL: there is none */
	uint64_t body; /* its inner function, of (caller's address, own address); 0 = not known */
};
extern struct agent_mcount agent_mcounts[2] __attribute__((visibility("hidden")));
struct agent_mcount agent_mcounts[2];

/* x86-64, from after a landing pad on, up to the displacement of the call. */
static const uint8_t glibcs[] = {
	0x48, 0x83, 0xec, 0x38,	      /* sub $56, %rsp */
	0x48, 0x89, 0x04, 0x24,	      /* mov %rax, (%rsp), and so on */
	0x48, 0x89, 0x4c, 0x24, 0x08, /* rcx */
	0x48, 0x89, 0x54, 0x24, 0x10, /* rdx */
	0x48, 0x89, 0x74, 0x24, 0x18, /* rsi */
	0x48, 0x89, 0x7c, 0x24, 0x20, /* rdi */
	0x4c, 0x89, 0x44, 0x24, 0x28, /* r8 */
	0x4c, 0x89, 0x4c, 0x24, 0x30, /* r9 */
	0x48, 0x8b, 0x74, 0x24, 0x38, /* mov 56(%rsp), %rsi: its return address */
	0x48, 0x8b, 0x7d, 0x08,	      /* mov 8(%rbp), %rdi: the caller's */
	0xe8,			      /* call */
};
static const uint8_t landing_pad[] = {0xf3, 0x0f, 0x1e, 0xfa};

/* True if the code begins so.  It is read no further than to the first difference: memory may end behind that. */
static bool begins(const uint8_t *code, const uint8_t *bytes, size_t size)
{
	size_t at = 0;

	while (at < size && code[at] == bytes[at])
		at++;
	return at == size;
}

/* The inner function of a function that begins with glibc's bytes; 0: it does not. */
static uint64_t body_of(const uint8_t *code)
{
	int32_t distance;

	if (!code)
		return 0;
	if (begins(code, landing_pad, sizeof(landing_pad)))
		code += sizeof(landing_pad);
	if (!begins(code, glibcs, sizeof(glibcs)))
		return 0;
	code += sizeof(glibcs);
	memcpy(&distance, code, sizeof(distance));
	return (uint64_t)code + sizeof(distance) + (uint64_t)(int64_t)distance;
}

static struct agent_mcount find(const char *name)
{
	void *next = agent_next(name);

	return (struct agent_mcount){next, body_of(next)};
}

void agent_mcount_init(void)
{
	agent_mcounts[0] = find("mcount");
	agent_mcounts[1] = find("_mcount");
	AGENT_FRONT(CALLTAP_POINTER_MCOUNT, mcount, agent_mcounts[0].next);
	AGENT_FRONT(CALLTAP_POINTER__MCOUNT, _mcount, agent_mcounts[1].next);
}
