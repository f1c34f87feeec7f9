/*
 * Coming into a running process on x86-64 (arch/generic/native/attach.h): the registers as ptrace has them, and
 * errand.S prepared for one thread.  Context: host.
 */
#include <cpuid.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <ucontext.h>

#include <calltap/abi/attach.h>

#include "../../generic/native/attach.h"
#include "../isa/stub_size.h"
#include "errand.h"

/* Results of a system call inside the kernel when a signal ends its wait (linux/errno.h of the kernel's own). */
#define ERESTARTSYS	      512 /* start again, unless a handler without SA_RESTART runs */
#define ERESTARTNOINTR	      513 /* start again */
#define ERESTARTNOHAND	      514 /* start again, unless a handler runs */
#define ERESTART_RESTARTBLOCK 516 /* start again by restart_syscall(), unless a handler runs */

/* MIRROR_BIT and MIRROR_SKEW of runtime/offsets.h. */
#define MIRROR_BIT  45
#define MIRROR_SKEW 0x840ull

#define PAGE 4096u /* regions begin at multiples of it */

#define LENGTH_OF_SYSCALL 2 /* bytes of the instruction */
#define USER_CS		  0x33
#define USER_SS		  0x2b
#define FLAG_TRAP	  0x100
#define FLAGS_BITS	  22 /* number of flag bits */

/* The words at the head of errand.S, in this order. */
struct errand_words {
	uint64_t magic, memory, load, load_error, errno_location, entry, entry_offset;
	uint64_t signal_mask, blocked;
	uint64_t pc, rax;		/* to go back to */
	uint64_t pc_broken, rax_broken; /* to go back to when the interrupted call has to fail with EINTR */
	uint64_t flags, rsp, rbx, rcx, rdx, rsi, rdi, rbp, r8, r9, r10, r11, r12, r13, r14, r15;
	uint32_t load_flags, memfd, breaks, mxcsr;
	char memfd_name[24];
};
_Static_assert(sizeof(struct errand_words) == ERRAND_WORDS, "errand.S");
_Static_assert(ATTACH_SIZE == CALLTAP_BORROWED_SIZE, "ABI");
_Static_assert(ATTACH_STATE == offsetof(struct calltap_attach, state), "ABI");
_Static_assert(ATTACH_LEFT == offsetof(struct calltap_attach, left), "ABI");
_Static_assert(ATTACH_RESULT == offsetof(struct calltap_attach, result), "ABI");
_Static_assert(ATTACH_MEMFD == offsetof(struct calltap_attach, memfd), "ABI");
_Static_assert(ATTACH_AGENT == offsetof(struct calltap_attach, agent), "ABI");
_Static_assert(ATTACH_ERROR == offsetof(struct calltap_attach, error), "ABI");
_Static_assert(ATTACH_ERROR_SIZE == sizeof(((struct calltap_attach *)0)->error), "ABI");
_Static_assert(ATTACH_NAPS == offsetof(struct calltap_attach, naps), "ABI");
_Static_assert(ERRAND_LONG_NAP_NS *NATIVE_NAPS_LEFT >= NATIVE_WAITS_NS && NATIVE_NAPS_LEFT < ERRAND_LONG_NAPS, "");
_Static_assert(ATTACH_PARTS == offsetof(struct calltap_attach, parts), "ABI");
_Static_assert(ATTACH_PART_SIZE == sizeof(struct calltap_attach_part), "ABI");
_Static_assert(ATTACH_SPARE >= sizeof(struct calltap_attach) && ATTACH_XSAVE > ATTACH_SPARE, "ABI");
_Static_assert(ATTACH_NONE == CALLTAP_ATTACH_NONE && ATTACH_READY == CALLTAP_ATTACH_READY &&
		       ATTACH_GO == CALLTAP_ATTACH_GO && ATTACH_LOADED == CALLTAP_ATTACH_LOADED &&
		       ATTACH_FAILED == CALLTAP_ATTACH_FAILED && ATTACH_ALONE == CALLTAP_ATTACH_ALONE,
	       "ABI");

const char *native_attach_refusal(void)
{
	unsigned a, b, c, d;

	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) || !__get_cpuid_count(0xd, 0, &a, &b, &c, &d))
		return "this CPU has no XSAVE instruction, and attaching needs it; start the program under "
		       "'calltap record'";
	if (b > ATTACH_XSAVE_SIZE)
		return "this CPU has more registers than attaching can keep; start the program under 'calltap record'";
	return NULL;
}

_Static_assert(sizeof(struct native_regs) == sizeof(struct user_regs_struct), "linux");

static struct user_regs_struct user_of(const struct native_regs *regs)
{
	struct user_regs_struct user;

	memcpy(&user, regs, sizeof(user));
	return user;
}

uint64_t native_pc(const struct native_regs *regs)
{
	return user_of(regs).rip;
}

uint64_t native_sp(const struct native_regs *regs)
{
	return user_of(regs).rsp;
}

uint64_t native_thread_pointer(const struct native_regs *regs)
{
	return user_of(regs).fs_base;
}

void native_dwarf(const struct native_regs *regs, uint64_t values[NATIVE_DWARF_REGISTERS])
{
	const struct user_regs_struct user = user_of(regs);
	const uint64_t all[NATIVE_DWARF_REGISTERS] = {user.rax, user.rdx, user.rcx, user.rbx, user.rsi, user.rdi,
						      user.rbp, user.rsp, user.r8,  user.r9,  user.r10, user.r11,
						      user.r12, user.r13, user.r14, user.r15, user.rip};

	memcpy(values, all, sizeof(all));
}

bool native_may_borrow(const struct native_regs *regs)
{
	const struct user_regs_struct user = user_of(regs);

	return user.cs == USER_CS && !(user.eflags & FLAG_TRAP);
}

bool native_call_waits(long number)
{
	static const short waits[] = {
		SYS_poll,	 SYS_ppoll,	      SYS_select,	   SYS_pselect6,       SYS_epoll_wait,
		SYS_epoll_pwait, SYS_epoll_pwait2,    SYS_accept,	   SYS_accept4,	       SYS_connect,
		SYS_recvfrom,	 SYS_recvmsg,	      SYS_recvmmsg,	   SYS_pause,	       SYS_wait4,
		SYS_waitid,	 SYS_rt_sigsuspend,   SYS_rt_sigtimedwait, SYS_semop,	       SYS_semtimedop,
		SYS_msgrcv,	 SYS_mq_timedreceive, SYS_io_getevents,	   SYS_io_uring_enter, SYS_read,
		SYS_readv,	 SYS_flock,
	};

	for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++)
		if (waits[i] == number)
			return true;
	return false;
}

/* True if the thread was asleep in such a call: its result is then one of the kernel's own codes. */
static bool was_asleep(const struct native_regs *regs, bool (*in)(long number))
{
	struct native_regs mended = *regs;
	struct user_regs_struct user;
	long result;

	native_call_mend(&mended);
	user = user_of(&mended);
	result = -(long)user.rax;
	if ((long)user.orig_rax < 0 || !in((long)user.orig_rax))
		return false;
	return result >= ERESTARTSYS && result <= ERESTART_RESTARTBLOCK;
}

bool native_waits(const struct native_regs *regs)
{
	return was_asleep(regs, native_call_waits);
}

static bool call_sleeps(long number)
{
	return number == SYS_nanosleep || number == SYS_clock_nanosleep;
}

bool native_sleeps(const struct native_regs *regs)
{
	return was_asleep(regs, call_sleeps);
}

/*
 * System calls that a stop of the thread ends with EINTR, and that have done
 * nothing then (signal(7), and the kernel's sources for those that it does not
 * list): sockets with a time limit, waits for events, semaphores and signals.
 */
static bool breaks_at_stop(long number)
{
	static const short breaks[] = {
		SYS_epoll_wait,	     SYS_epoll_pwait,  SYS_epoll_pwait2,   SYS_semop,	 SYS_semtimedop,
		SYS_rt_sigtimedwait, SYS_io_getevents, SYS_io_uring_enter, SYS_accept,	 SYS_accept4,
		SYS_connect,	     SYS_recvfrom,     SYS_recvmsg,	   SYS_recvmmsg, SYS_sendto,
		SYS_sendmsg,	     SYS_sendmmsg,     SYS_read,	   SYS_readv,	 SYS_pread64,
		SYS_write,	     SYS_writev,       SYS_msgrcv,	   SYS_msgsnd,
	};

	for (size_t i = 0; i < sizeof(breaks) / sizeof(breaks[0]); i++)
		if (breaks[i] == number)
			return true;
	return false;
}

/* The number of bytes that a transfer of one buffer is to move; 0: the call is none. */
static uint64_t bytes_to_move(long number, const uint64_t arguments[NATIVE_CALL_ARGUMENTS])
{
	switch (number) {
	case SYS_write:
	case SYS_pwrite64:
	case SYS_sendto:
		return arguments[2];
	case SYS_recvfrom:
		return arguments[3] & MSG_WAITALL ? arguments[2] : 0;
	case SYS_sendfile:
		return arguments[3];
	default:
		return 0;
	}
}

bool native_call_transfers(long number, const uint64_t arguments[NATIVE_CALL_ARGUMENTS])
{
	switch (number) {
	case SYS_writev:
	case SYS_pwritev:
	case SYS_pwritev2:
	case SYS_sendmsg:
	case SYS_sendmmsg:
	case SYS_vmsplice:
	case SYS_splice:
	case SYS_tee:
	case SYS_copy_file_range:
		return true;
	case SYS_recvmsg:
		return arguments[2] & MSG_WAITALL;
	case SYS_recvmmsg: /* how many messages, flags */
		return arguments[2] > 1 && !(arguments[3] & MSG_WAITFORONE);
	case SYS_io_uring_enter: /* how many to submit: then it returns that, without having waited */
	case SYS_io_getevents:	 /* how many to wait for */
		return arguments[1] > (number == SYS_io_getevents);
	default:
		return bytes_to_move(number, arguments) > 1;
	}
}

bool native_call_cut_short(const struct native_regs *regs)
{
	const struct user_regs_struct user = user_of(regs);
	const uint64_t arguments[] = {user.rdi, user.rsi, user.rdx, user.r10, user.r8, user.r9};
	long result = (long)user.rax;

	return (long)user.orig_rax >= 0 && result > 0 &&
	       (uint64_t)result < bytes_to_move((long)user.orig_rax, arguments);
}

/* Have the kernel make the call again, in the way of that code of its own. */
static bool make_again(struct native_regs *regs, struct user_regs_struct *user, long code)
{
	user->rax = (unsigned long long)-code;
	memcpy(regs, user, sizeof(*user));
	return true;
}

bool native_call_mend(struct native_regs *regs)
{
	struct user_regs_struct user = user_of(regs);

	return (long)user.orig_rax >= 0 && (long)user.rax == -EINTR && breaks_at_stop((long)user.orig_rax) &&
	       make_again(regs, &user, ERESTARTNOHAND);
}

bool native_call_anew(struct native_regs *regs)
{
	struct user_regs_struct user = user_of(regs);

	return (long)user.orig_rax >= 0 && (long)user.rax == -ERESTART_RESTARTBLOCK &&
	       make_again(regs, &user, ERESTARTNOHAND);
}

bool native_call_opens(long number)
{
	return number == SYS_open || number == SYS_openat || number == SYS_openat2 || number == SYS_creat;
}

bool native_call_reopen(struct native_regs *regs)
{
	struct user_regs_struct user = user_of(regs);

	return (long)user.rax == -EINTR && native_call_opens((long)user.orig_rax) &&
	       make_again(regs, &user, ERESTARTNOINTR);
}

unsigned native_call_size(void)
{
	return LENGTH_OF_SYSCALL;
}

bool native_call_again(const struct native_regs *regs)
{
	const struct user_regs_struct user = user_of(regs);
	long result = -(long)user.rax;

	return (long)user.orig_rax >= 0 && result >= ERESTARTSYS && result <= ERESTART_RESTARTBLOCK;
}

/* The instruction `syscall` puts the pc into rcx. */
void native_set_pc(struct native_regs *regs, uint64_t pc)
{
	struct user_regs_struct user = user_of(regs);

	if ((long)user.orig_rax >= 0 && user.rcx == user.rip)
		user.rcx = pc;
	user.rip = pc;
	memcpy(regs, &user, sizeof(user));
}

_Static_assert(REG_RSP + 1 == REG_RIP && REG_RIP + 1 == REG_EFL && REG_EFL + 1 == REG_CSGSFS,
	       "linux: struct sigcontext");

/*
 * Recognise a saved pc by the words behind it: flags, whose bit 1 is always set, and segments: cs is user code's, gs
 * and fs are 0, ss is 0 in old kernels.
 */
size_t native_find_saved(const uint64_t *words, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++) {
		uint64_t segments = words[i + 2], flags = words[i + 1], ss = segments >> 48;

		if ((segments & 0xffffffffffffu) == USER_CS && (ss == USER_SS || ss == 0) && flags & 2 &&
		    !(flags >> FLAGS_BITS))
			return i;
	}
	return to;
}

uint64_t native_saved_sp(const uint64_t *pc)
{
	return pc[-1];
}

void native_saved_dwarf(const uint64_t *pc, uint64_t values[NATIVE_DWARF_REGISTERS])
{
	static const uint8_t order[NATIVE_DWARF_REGISTERS] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI,
							      REG_RBP, REG_RSP, REG_R8,	 REG_R9,  REG_R10, REG_R11,
							      REG_R12, REG_R13, REG_R14, REG_R15, REG_RIP};

	for (unsigned i = 0; i < NATIVE_DWARF_REGISTERS; i++)
		values[i] = pc[order[i] - REG_RIP];
}

/* The index of a word of ucontext_t, counted from the pc. */
#define FROM_PC(member)                                                                                                \
	(((ptrdiff_t)offsetof(ucontext_t, member) - (ptrdiff_t)offsetof(ucontext_t, uc_mcontext.gregs[REG_RIP])) / 8)
_Static_assert(FROM_PC(uc_stack.ss_sp) == -NATIVE_SAVED_BEFORE && FROM_PC(uc_mcontext.fpregs) == NATIVE_SAVED_AFTER,
	       "linux: struct ucontext");

/* struct _fpstate: the offset of its sizes, and the marks within it and behind its end (asm/sigcontext.h). */
#define SAVED_SIZES 464
#define MARK	    0x46505853u /* FP_XSTATE_MAGIC1 */
#define SECOND_MARK 0x46505845u /* FP_XSTATE_MAGIC2 */
struct saved_sizes {
	uint32_t magic, extended_size;
	uint64_t features;
	uint32_t size, pad;
};
_Static_assert(sizeof(struct saved_sizes) == NATIVE_MARK_BYTES, "linux: struct _fpx_sw_bytes");

uint64_t native_saved_mark(const uint64_t *pc)
{
	uint64_t area = pc[FROM_PC(uc_mcontext.fpregs)];

	return area ? area + SAVED_SIZES : 0;
}

uint64_t native_second_mark(uint64_t first, const unsigned char bytes[NATIVE_MARK_BYTES])
{
	struct saved_sizes sizes;

	memcpy(&sizes, bytes, sizeof(sizes));
	return sizes.magic == MARK && sizes.size <= ATTACH_XSAVE_SIZE ? first - SAVED_SIZES + sizes.size : 0;
}

bool native_is_second_mark(uint32_t word)
{
	return word == SECOND_MARK;
}

bool native_saved_on_other_stack(const uint64_t *pc, uint64_t address)
{
	return address - pc[FROM_PC(uc_stack.ss_sp)] < pc[FROM_PC(uc_stack.ss_size)];
}

/* A frame begins with its return address, 8 bytes; a ucontext_t follows. */
uint64_t native_saved_pc_of_frame(uint64_t frame)
{
	return frame + 8 + offsetof(ucontext_t, uc_mcontext.gregs[REG_RIP]);
}

bool native_is_restorer(const unsigned char bytes[NATIVE_RESTORER_MAX])
{
	static const unsigned char glibc[] = {0x48, 0xc7, 0xc0, SYS_rt_sigreturn, 0, 0, 0, 0x0f, 0x05};
	static const unsigned char others[] = {0xb8, SYS_rt_sigreturn, 0, 0, 0, 0x0f, 0x05};

	return !memcmp(bytes, glibc, sizeof(glibc)) || !memcmp(bytes, others, sizeof(others));
}

uint64_t native_passes_result(const unsigned char bytes[NATIVE_PASSES_MAX], uint64_t pc)
{
	static const struct {
		unsigned char code[4], count;
	} moves[] = {
		{{0x89, 0xc7, 0xe8}, 3},       /* mov %eax, %edi; call */
		{{0x48, 0x89, 0xc7, 0xe8}, 4}, /* mov %rax, %rdi; call */
		{{0x48, 0x63, 0xf8, 0xe8}, 4}, /* movslq %eax, %rdi; call */
	};
	int32_t distance;

	for (size_t i = 0; i < sizeof(moves) / sizeof(moves[0]); i++) {
		if (memcmp(bytes, moves[i].code, moves[i].count) != 0)
			continue;
		memcpy(&distance, bytes + moves[i].count, sizeof(distance));
		return pc + moves[i].count + sizeof(distance) + (uint64_t)(int64_t)distance;
	}
	return 0;
}

uint64_t native_mirror_of(uint64_t slot)
{
	return slot ^ (1ull << MIRROR_BIT) ^ MIRROR_SKEW;
}

bool native_may_be_leaf_back(uint64_t back)
{
	return back % X86_STUB_UNIT == X86_STUB_AT_LEAF_BACK;
}

/* A debugger's breakpoint may be in the place of the first byte of `jmp *slot(%rip)`. */
uint64_t native_leaf_exit(uint64_t back, const unsigned char code[NATIVE_LEAF_CODE])
{
	uint64_t exit;
	int32_t distance;

	memcpy(&distance, code + 2, sizeof(distance));
	exit = back + NATIVE_LEAF_CODE + (uint64_t)(int64_t)distance;
	if ((code[0] != 0xff && code[0] != 0xcc) || code[1] != 0x25 || !native_may_be_leaf_back(back) ||
	    exit % PAGE != X86_STUB_LEAF_EXIT * sizeof(uint64_t))
		return 0;
	return exit;
}

/*
 * Set the address and the result with which the thread goes on: pc and rax as the kernel sets them if no handler runs,
 * *_broken if one does.
 */
static void set_return(struct errand_words *words, const struct user_regs_struct *regs)
{
	long number = (long)regs->orig_rax, result = number < 0 ? 0 : -(long)regs->rax;

	words->pc = words->pc_broken = regs->rip;
	words->rax = words->rax_broken = regs->rax;
	words->breaks = BREAKS_NEVER;
	if (result < ERESTARTSYS || result > ERESTART_RESTARTBLOCK)
		return;
	words->pc = regs->rip - LENGTH_OF_SYSCALL;
	words->rax = result == ERESTART_RESTARTBLOCK ? SYS_restart_syscall : (uint64_t)number;
	words->rax_broken = (uint64_t)-EINTR;
	if (result == ERESTARTSYS)
		words->breaks = BREAKS_UNLESS;
	else if (result != ERESTARTNOINTR)
		words->breaks = BREAKS_ALWAYS;
}

static void set_registers(struct errand_words *words, const struct user_regs_struct *regs)
{
	words->flags = regs->eflags;
	words->rsp = regs->rsp;
	words->rbx = regs->rbx;
	words->rcx = regs->rcx;
	words->rdx = regs->rdx;
	words->rsi = regs->rsi;
	words->rdi = regs->rdi;
	words->rbp = regs->rbp;
	words->r8 = regs->r8;
	words->r9 = regs->r9;
	words->r10 = regs->r10;
	words->r11 = regs->r11;
	words->r12 = regs->r12;
	words->r13 = regs->r13;
	words->r14 = regs->r14;
	words->r15 = regs->r15;
}

size_t native_code_size(void)
{
	return (size_t)(errand_end - errand_begin);
}

void native_code_make(unsigned char code[NATIVE_CODE_MAX], uint64_t at, const struct native_errand *errand,
		      struct native_regs *regs)
{
	struct user_regs_struct user;
	struct errand_words words;

	memset(code, 0, NATIVE_CODE_MAX);
	memcpy(code, errand_begin, native_code_size());
	memcpy(&words, code, sizeof(words));
	words.memory = errand->memory;
	words.load = errand->load;
	words.load_error = errand->load_error;
	words.errno_location = errand->errno_location;
	words.entry = errand->entry;
	words.entry_offset = errand->entry_offset;
	words.signal_mask = errand->signal_mask;
	words.blocked = errand->blocked;
	words.load_flags = errand->load_flags;
	words.memfd = errand->memfd;
	native_call_mend(regs);
	user = user_of(regs);
	set_return(&words, &user);
	set_registers(&words, &user);
	memcpy(code, &words, sizeof(words));
	user.rip = at + ERRAND_WORDS;
	user.orig_rax = (unsigned long long)-1; /* the kernel starts nothing again: errand.S does */
	memcpy(regs, &user, sizeof(user));
}

bool native_code_is(const unsigned char *bytes)
{
	return !memcmp(bytes, errand_begin, 8);
}
