/*
 * The CPU's part of coming into a running process: registers, system calls that a stop interrupted, and the code that a
 * borrowed thread runs.
 *
 * A CPU's native directory defines these functions, or attach.c beside this file, which says that attaching is not
 * supported.  Caller: host/attach.  Context: host.
 */
#ifndef ARCH_GENERIC_NATIVE_ATTACH_H
#define ARCH_GENERIC_NATIVE_ATTACH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/procfs.h>

/* Registers as PTRACE_GETREGSET has them (NT_PRSTATUS). */
struct native_regs {
	elf_gregset_t set;
};

#define NATIVE_DWARF_REGISTERS 17 /* general ones in DWARF's order, then the pc */
#define NATIVE_DWARF_SP	       7
#define NATIVE_RETURN_BELOW    8 /* bytes from the address that a callee returns to up to its caller's sp */

/* The reason why this CPU's processes cannot be attached to, one sentence; NULL: they can. */
const char *native_attach_refusal(void);

uint64_t native_pc(const struct native_regs *regs);
uint64_t native_sp(const struct native_regs *regs);
uint64_t native_thread_pointer(const struct native_regs *regs);
void native_dwarf(const struct native_regs *regs, uint64_t values[NATIVE_DWARF_REGISTERS]);

/* True if a thread with these registers can be sent somewhere else and back. */
bool native_may_borrow(const struct native_regs *regs);
/*
 * True if the thread was stopped in a system call that waits for something other than a lock or a time: no allocator
 * makes such calls.
 */
bool native_waits(const struct native_regs *regs);
/* True if the thread was stopped in a sleep for a time. */
bool native_sleeps(const struct native_regs *regs);
/* native_waits() by the number of a call that has been seen in /proc/PID/task/TID/syscall. */
bool native_call_waits(long number);

/*
 * Transfers: system calls that move several pieces, and wait between them.  A stop ends such a wait, and the call then
 * returns what it has moved by then; nothing can take that back.
 */
#define NATIVE_CALL_ARGUMENTS 6
/* True if a sleep in this call, as /proc/PID/task/TID/syscall tells it, may be one between two pieces. */
bool native_call_transfers(long number, const uint64_t arguments[NATIVE_CALL_ARGUMENTS]);
/* True if the thread was stopped on its way out of a transfer that has moved a part. */
bool native_call_cut_short(const struct native_regs *regs);

/*
 * Mend a system call that a stop made return EINTR: change the registers such that the kernel makes it again, unless a
 * handler runs first.  False: no such call.
 */
bool native_call_mend(struct native_regs *regs);
/*
 * A call that the kernel would let go on with another one, restart_syscall(), for the time that was left: have it made
 * again as it was.  False: no such call.
 */
bool native_call_anew(struct native_regs *regs);
/* True if the call opens a file by its name. */
bool native_call_opens(long number);
/*
 * If such a call has failed with EINTR, as the tool has answered it so, have the kernel make it again, whether a
 * handler runs before that or not.
 */
bool native_call_reopen(struct native_regs *regs);

/* Bytes of the instruction that makes a system call. */
unsigned native_call_size(void);
/* True if the kernel will move the pc back by that much, to make an interrupted call again, if no handler runs first.
 */
bool native_call_again(const struct native_regs *regs);
/* Change the pc, and the copy of it that the system call which the thread is in has left in another register. */
void native_set_pc(struct native_regs *regs, uint64_t pc);

/*
 * Registers that the kernel has saved in a signal's frame, recognised by the words around the pc: so many in front of
 * it, and behind it.  The handler's return address does not matter: in a traced handler it leads to a stub, and in some
 * programs to code of their own.
 */
#define NATIVE_SAVED_BEFORE 19
#define NATIVE_SAVED_AFTER  7
/* The index of the first saved pc from `from` on; `to`: there is none before. */
size_t native_find_saved(const uint64_t *words, size_t from, size_t to);
uint64_t native_saved_sp(const uint64_t *pc);
void native_saved_dwarf(const uint64_t *pc, uint64_t values[NATIVE_DWARF_REGISTERS]);
/*
 * The kernel saves the other registers farther up in the frame, between two marks. native_saved_mark(): the address of
 * the first mark, 0 = none. native_second_mark(): the address of the second, by the bytes of the first, 0 = those are
 * no mark. native_is_second_mark(): whether the word there is the second mark.
 */
#define NATIVE_MARK_BYTES 24 /* of the first mark */
uint64_t native_saved_mark(const uint64_t *pc);
uint64_t native_second_mark(uint64_t first, const unsigned char bytes[NATIVE_MARK_BYTES]);
bool native_is_second_mark(uint32_t word);
/* True if the saved pc, which lies at address, is on the stack that sigaltstack() has made known for handlers. */
bool native_saved_on_other_stack(const uint64_t *pc, uint64_t address);

/*
 * native_saved_pc_of_frame(): where a signal's frame has the pc that it goes back to. native_is_restorer(): whether
 * these bytes, to which a frame's return address leads, make the system call that ends a handler.
 */
#define NATIVE_RESTORER_MAX 9
uint64_t native_saved_pc_of_frame(uint64_t frame);
bool native_is_restorer(const unsigned char bytes[NATIVE_RESTORER_MAX]);

/* The function to which code at pc passes on a result that it has just been returned; 0 = none. */
#define NATIVE_PASSES_MAX 8
uint64_t native_passes_result(const unsigned char bytes[NATIVE_PASSES_MAX], uint64_t pc);

/*
 * The address in the mirror where the return address of a traced frame's slot is kept (arch.h of the CPU's runtime);
 * the word there is 0 for other slots.
 */
uint64_t native_mirror_of(uint64_t slot);

/*
 * The address of the word in a region's table by which a leaf leaves that returns to `back`, an address in the region
 * with that code; 0 = no leaf returns there.  The stack of a leaf's body is lower by NATIVE_LEAF_BYTES than its caller
 * left it.
 */
#define NATIVE_LEAF_CODE  6
#define NATIVE_LEAF_BYTES 16
bool native_may_be_leaf_back(uint64_t back);
uint64_t native_leaf_exit(uint64_t back, const unsigned char code[NATIVE_LEAF_CODE]);

/* Orders to the borrowed thread's code; addresses are the target's. */
struct native_errand {
	uint64_t memory;	 /* where struct calltap_attach is to be */
	uint64_t load;		 /* dlopen() */
	uint64_t load_error;	 /* dlerror(), 0 = none */
	uint64_t errno_location; /* __errno_location() */
	uint64_t entry;		 /* calltap_agent_attach(); 0: load the agent first */
	uint64_t entry_offset;	 /* where entry is 0: the entry's place in the agent; 0: load a library, call nothing */
	uint64_t signal_mask;	 /* the thread's own signal mask */
	uint64_t blocked;	 /* signals blocked while the thread is on its errand */
	uint32_t load_flags;
	bool memfd; /* the agent comes in a memfd that the thread makes */
};

#define NATIVE_CODE_MAX 2048u
/* A thread with NATIVE_NAPS_LEFT naps left (struct calltap_attach) waits at least NATIVE_WAITS_NS for the tool. */
#define NATIVE_NAPS_LEFT 10u
#define NATIVE_WAITS_NS	 100000000u

size_t native_code_size(void);
/*
 * Make the code, which will lie at `at`, and change regs such that the thread runs it and comes back to the old
 * registers.
 */
void native_code_make(unsigned char code[NATIVE_CODE_MAX], uint64_t at, const struct native_errand *errand,
		      struct native_regs *regs);
/* True if these bytes, at least 8, begin code of native_code_make(). */
bool native_code_is(const unsigned char *bytes);

#endif
