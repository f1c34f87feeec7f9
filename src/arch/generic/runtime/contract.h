/*
 * The contract of src/arch/<cpu>/runtime: the functions and constants that the portable rooms in the target need from a
 * CPU, and the declarations that are equal on all CPUs.
 *
 * Included at the end of every CPU's <arch.h>, which provides the inline functions and constants that are listed here
 * first.  A port gives the names the meaning they have here; doc/porting.md goes through them.
 *
 * Addresses and frames
 *   ARCH_ADDRESS_BITS   user addresses are below 1 << this
 *   ARCH_FRAME_REGISTER the frame pointer's word in struct calltap_registers
 *   ARCH_FRAME_PAIR     bytes below a frame pointer where the next one lies, and the return address behind it
 *   ARCH_ELF_MACHINE    e_machine of its ELF files
 *   ARCH_AUDIT          the CPU's number in the data of a system call filter (linux/audit.h)
 *   arch_mirror(S), arch_link(S)
 *                       a traced frame is known by S, an address on its stack that no other live frame has: the slot
 *                       of the return address where calls push one, else the stack pointer at the entry less 8.  The
 *                       words at these places, in planes parallel to the stacks, are its caller's address and the S of
 *                       the next outer traced frame
 *   arch_entered(S), arch_within(S)
 *                       the same for timed frames, in planes of their own: when the frame was entered, and the ticks
 *                       that its traced callees took
 *   arch_who(S), arch_data(S)
 *                       the same for frames that the dispatcher has entered: who waits for their end, and what a
 *                       handler, or a program (probe/program.h), keeps of the call
 *   ARCH_LEAF(recorder)        its address as a number where leaves have stubs of their own (CALLTAP_SITE_LEAF), else 0
 *   arch_is_leaf_back(address) of an address in a region of stubs: does a leaf's body return there?
 *   arch_frame_open(S, ret)    the frame is traced from now on; ret: the words that the recorder has for its return
 *   arch_frame_rename(S, ret)  the frame goes on as one of a function that was called in place of a return
 *   arch_frame_back(S)         the address in a stub that its body will return to
 *   arch_frame_holds(S, low)   what its memory, [low, S], says that it returns to; 0 = nothing to be found
 *   arch_frame_release(S)      let the frame return to its caller by itself; false where that cannot be done
 *   ARCH_FRAMES_GO_BACK        1: frames can be released, and the word at S is the address in a stub; 0: they cannot
 *   arch_shadow_stack()        true if the calling thread has one, which return addresses are compared with
 *   arch_stub_word(back)       of the stub that back lies in: the word of its exit record, 0 = no such stub
 *   arch_stub_is_handled(back, region)
 *                              does the stub that back lies in, of that region, leave by the dispatcher?
 *   arch_handled_slot(end, exit), arch_handled_return(end, exit), arch_handled_word(end, exit)
 *                              of a call whose handlers run, from the end of its struct probe_handled: S; the words for
 *                              its return, which at an exit are where the caller's address goes; and the stub's word
 *   arch_entry_sp(S)           the stack pointer at the function's first instruction
 *   arch_registers_show(registers, caller)
 *                              what handlers are to see in a link register
 *   arch_vectors_shown(area)   what they are to see of the vector registers that the agent has saved in the area
 *   arch_jump_sp(env, mixed)   the stack pointer that longjmp(env) will set; mixed: libc hides it, as glibc does
 *   ARCH_DWARF_RETURN          DWARF's column of the return address
 *
 * The CPU
 *   arch_clock()               its counter, raw
 *   arch_clock_behind(loaded)  from here on the CPU reads the counter not ahead of the load that has brought this
 *   arch_clock_hz()            ticks a second, 0 = it does not say
 *   arch_local_add(word, n), arch_local_cas(word, old, new)
 *                              on a word that only this thread writes: a signal handler cannot come in between
 *   arch_local_count(word, n)  arch_local_add() without the old value
 *   arch_first_bit(word)       the number of the lowest bit that is set in 32; one is
 *   arch_clear_words(at, n)    n words become 0, each by a whole store; a release store that follows is behind them all
 *   arch_string_forward()      string instructions go upwards from here on
 *   arch_pause()               for loops that wait for another CPU
 *   arch_syscall(nr, a..f)     the kernel's value
 *   arch_in_valgrind()         does valgrind run the program?
 *   arch_text_written(lo, n)   code was written at lo by ordinary stores: all that lies between there and the fetch of
 *                              instructions learns of it (each core refetches after patch_sync())
 *   arch_text_sync()           where the kernel has no membarrier for it: make every core refetch; 0 or -errno
 *   struct arch_action         a signal's disposition as rt_sigaction takes it: handler, flags, mask, 64 bits each
 *   ARCH_CONTROL_CALL          the system call that only this CPU's control thread makes, for sandbox.c's list
 *
 * Sites (doc/design/patching.md)
 *   ARCH_REACH                 how far a site's jump reaches
 *   ARCH_SITE_MIN, _MAX        lengths of a site, bytes
 *   ARCH_SITE_ALIGN            where it may begin
 *   ARCH_STEPS_MAX             writes that arch_site_restore() takes at the most
 *   arch_site_is_short(n)      a site that is shorter than a jump: a short one leads to a trampoline near by
 *   ARCH_LEAD_BYTES            of the jump from a head to its block
 *   ARCH_ISLAND_MAX            bytes of an island, to which heads lead that have no room for such a jump; 0: none
 *   ARCH_HOOK_BYTES, _REACH    of the jump that leads from an empty function of the loader's to another
 *   ARCH_VENEER_BYTES         in front of each stub, on CPUs where a stub's head leads to other stubs; else 0
 */
#ifndef ARCH_GENERIC_RUNTIME_CONTRACT_H
#define ARCH_GENERIC_RUNTIME_CONTRACT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <offsets.h>

/* entry.S: start fn(arg) on stack_top as a thread that exits with its result; returns the new tid or -errno. */
long arch_thread_start(unsigned long flags, void *stack_top, int (*fn)(void *), void *arg, int *child_tid);

/*
 * forward.S: makecontext(), whose arguments are passed on as they are: to
 * probe_context_made(context), then to arch_next_makecontext.
 * swapcontext(): probe_context_left(slot, return address) says where it is to
 * return to; then it goes on in arch_next_swapcontext as if the caller had
 * called that.
 */
extern void *arch_next_makecontext __attribute__((visibility("hidden")));
extern void *arch_next_swapcontext __attribute__((visibility("hidden")));

/* Entry points that stubs jump to, in the order of the region's pointer table (entry.S). */
enum arch_entry {
	ARCH_ENTRY_FAST,
	ARCH_EXIT_FAST,
	ARCH_ENTRY_FULL,
	ARCH_EXIT_FULL,
	ARCH_ENTRY_ROOT,
	ARCH_ENTRY_NOTREE,
	ARCH_EXIT_NOTREE,
	ARCH_CALL,
	ARCH_ENTRY_PROFILE,
	ARCH_EXIT_PROFILE,
	ARCH_ENTRY_TIMED,
	ARCH_EXIT_TRIGGER,
	ARCH_EXIT_TRIGGER_FULL,
	ARCH_ENTRY_HANDLED,
	ARCH_EXIT_HANDLED,
	ARCH_CALL_HANDLED,
	ARCH_ENTRY_BRIEF,
	ARCH_EXIT_BRIEF,
	ARCH_ENTRY_TICKED,
	ARCH_EXIT_TICKED,
	ARCH_GATED_FAST, /* from here on: where stubs do not test the gate (thread_block.h) */
	ARCH_GATED_FULL,
	ARCH_GATED_NOTREE,
	ARCH_GATED_PROFILE,
	ARCH_GATED_TIMED,
	ARCH_GATED_BRIEF,
	ARCH_GATED_TICKED,
	ARCH_ENTRY_LEAF, /* of CALLTAP_SITE_LEAF: ARCH_LEAF() */
	ARCH_EXIT_LEAF,
	ARCH_ENTRIES
};
extern const uintptr_t arch_entry_table[ARCH_ENTRIES];
/* Recorders keep to no calling convention. */
#define ARCH_RECORDER(name) extern void name(void) __attribute__((visibility("hidden")))
ARCH_RECORDER(arch_entry_fast);
ARCH_RECORDER(arch_exit_fast);
ARCH_RECORDER(arch_entry_full);
ARCH_RECORDER(arch_exit_full);
ARCH_RECORDER(arch_entry_root);
ARCH_RECORDER(arch_entry_notree);
ARCH_RECORDER(arch_exit_notree);
ARCH_RECORDER(arch_call);
ARCH_RECORDER(arch_entry_profile);
ARCH_RECORDER(arch_exit_profile);
ARCH_RECORDER(arch_entry_timed);
ARCH_RECORDER(arch_exit_trigger);
ARCH_RECORDER(arch_exit_trigger_full);
ARCH_RECORDER(arch_entry_handled);
ARCH_RECORDER(arch_exit_handled);
ARCH_RECORDER(arch_call_handled);
ARCH_RECORDER(arch_entry_brief);
ARCH_RECORDER(arch_exit_brief);
ARCH_RECORDER(arch_entry_ticked);
ARCH_RECORDER(arch_exit_ticked);
ARCH_RECORDER(arch_gated_fast);
ARCH_RECORDER(arch_gated_full);
ARCH_RECORDER(arch_gated_notree);
ARCH_RECORDER(arch_gated_profile);
ARCH_RECORDER(arch_gated_timed);
ARCH_RECORDER(arch_gated_brief);
ARCH_RECORDER(arch_gated_ticked);
ARCH_RECORDER(arch_entry_leaf);
ARCH_RECORDER(arch_exit_leaf);
/*
 * A thread whose handler has faulted goes on here, with the registers that agent_context_go_on() sets (agent/faults.h).
 */
ARCH_RECORDER(arch_handled_again_entry);
ARCH_RECORDER(arch_handled_again_exit);
#undef ARCH_RECORDER

/*
 * Run a program's code with its context and a stack that ends at stack_end, where CALLTAP_PROGRAM_SPARE bytes more are
 * its own, and return its result.  The unwind rules of the code are the ones that the tool writes (abi/program.h).
 */
struct calltap_program_context;
uint64_t arch_program_call(const struct calltap_program_context *context, uint64_t code, void *stack_end)
	__attribute__((visibility("hidden")));

/* Bytes at the start of a stub region that hold the pointer table. */
#define ARCH_REGION_HEAD 256

/* The entry points by which a stub enters and leaves, by its site's flags (CALLTAP_SITE_*). */
enum arch_entry arch_entry_of(uint16_t flags);
enum arch_entry arch_exit_of(uint16_t flags);

/* A write to code: bytes at an offset from the site's address. */
struct arch_write {
	uint8_t offset, size;
	uint8_t bytes[4];
};

/*
 * A page of the agent's text, 4096 bytes, that is never run but for the function `int f(void)` at its start, which
 * returns 0, and 1 after arch_scratch_change().
 */
extern const uint8_t arch_scratch_page[];
struct arch_write arch_scratch_change(void);

struct calltap_site;
/*
 * stub.c: write the stub of site to `at` (an ordinary writable buffer whose
 * bytes will run at address stub in the region whose pointer table is at
 * region).  tls_gate is the gate's offset from the thread pointer.  Returns
 * the bytes written.
 */
size_t arch_stub_build(uint8_t *at, uint64_t stub, uint64_t region, const struct calltap_site *site, int64_t tls_gate);
/* The jump (or call) to target that is written to a place of arch_hook_places(). */
void arch_jump_make(uint8_t *code, uint64_t address, uint64_t target);

/*
 * A site replaces whole instructions of the function's by what is a jump or
 * does nothing, and the step from one to the other is one write that no
 * thread is ever inside of (doc/design/patching.md).
 *
 * The site's code when on: a jump to target of that length.
 */
void arch_site_make(uint8_t *code, uint64_t address, uint8_t length, uint64_t target);
/*
 * A head of that length, whose own bytes are at code: put the jump to target in.  arch_lead_is_one(): no thread can be
 * within the jump, so that the head may get its own bytes back when all threads are stopped.
 */
void arch_lead_make(uint8_t *code, uint64_t address, uint8_t length, uint64_t target);
bool arch_lead_is_one(uint8_t length);
/*
 * Heads that lead to an island at a distance: how many bytes of the head that takes, those of the island with them if
 * it lies in the head; 0: there can be none.  arch_lead_to_island() puts the jump in, and such an island, which leads
 * to target.  arch_island_make(): the island alone; its bytes.
 */
uint8_t arch_island_lead_bytes(int64_t distance);
void arch_lead_to_island(uint8_t *code, uint64_t address, uint64_t island, uint64_t target);
uint8_t arch_island_make(uint8_t *code, uint64_t address, uint64_t target);
/* Switch a site, made as above, on or off. */
struct arch_write arch_site_switch(uint64_t address, uint8_t length, uint64_t target, bool on);
/*
 * A site that is to lead to another stub is written anew (patch/move.c), or leads to its first stub for good, whose
 * head leads on to the other one (patch/heads.c).
 *
 * move.c: the writes that make a site that is off, and was a jump to `from`, a jump to `to`, while threads run through
 * it, if all cores refetch before each; how many, at most ARCH_STEPS_MAX.  0 = it cannot be led there.
 */
unsigned arch_site_lead(struct arch_write *writes, uint64_t address, uint8_t length, uint64_t from, uint64_t to);
/* heads.c: the stub that the site's code leads to, or would if the site were on.  False: others' bytes are there. */
bool arch_site_target(uint64_t *target, const uint8_t *code, uint64_t address);
/*
 * heads.c: a stub's head is its first instruction, and a veneer of ARCH_VENEER_BYTES lies in front of the stub.  The
 * stub leads to another one where the head is a jump to the veneer.  `code` begins with the veneer, from which
 * offsets of writes count, and has ARCH_STUB_HEAD_BYTES.
 */
struct arch_head {
	bool led;	 /* the stub leads to another one */
	uint64_t target; /* the other one, or the stub itself */
};
/* Complete a stub that was just built, which leads to no other: the veneer is written, by the stub's head. */
void arch_veneer_make(uint8_t *code);
/* False: the bytes are others', a breakpoint, say. */
bool arch_head_read(struct arch_head *head, const uint8_t *code, uint64_t stub);
/* The write that makes the stub lead to another one, or to none. */
struct arch_write arch_head_switch(const uint8_t *code, bool led);
/* The write that chooses the other one, which comes first.  False: that is out of reach. */
bool arch_veneer_lead(struct arch_write *write, uint64_t stub, uint64_t target);
/*
 * The writes that turn a site that is off into the bytes that it replaced,
 * while threads run through it, if all cores refetch after each; returns how many.
 * Fewer than whole: what is left then differs in the first *inert bytes.
 */
unsigned arch_site_restore(struct arch_write *writes, uint8_t length, const uint8_t *old, uint8_t *inert);
/* True if a thread that stands before a trampoline can run these bytes, which the trampoline replaced, in its place. */
bool arch_falls_through(const uint8_t *old);

/*
 * The loader calls an empty function of its own for debuggers.  The places in
 * its text [lo, hi) where jumps make it call another instead: over the
 * function, or where that has no room over each call of it.  Returns how many;
 * 0 when it cannot be done, or takes more than max.
 */
unsigned arch_hook_places(uint64_t *places, unsigned max, uint64_t function, uint64_t lo, uint64_t hi);
/* As arch_site_restore(), for a place of arch_hook_places(); 0 = it cannot be restored while threads may run there. */
unsigned arch_hook_restore(struct arch_write *writes, uint64_t address, const uint8_t *old);
/* True if code is a function that only returns, with room for a jump of ARCH_HOOK_BYTES. */
bool arch_is_empty_function(const uint8_t *code);

/*
 * An unwinder in an object of another name may be libgcc's or LLVM's, linked
 * statically: the first needs libgcc's rules, the second aborts when a frame
 * has a personality and the stack pointer of the one that catches.
 */
enum arch_unwinder {
	ARCH_UNWINDER_LIBGCC,  /* libgcc_s */
	ARCH_UNWINDER_UNKNOWN, /* libgcc's rules, no personality */
	ARCH_UNWINDER_OTHER,   /* libunwind*, debuggers */
	ARCH_UNWINDERS
};

/* A rule of a call frame: DW_CFA_*, the register it is for (-1 = none), a DWARF expression. */
struct arch_unwind_rule {
	uint8_t rule;
	int8_t reg;
	uint8_t size;
	uint8_t bytes[128];
};
#define ARCH_UNWIND_RULES 3
/*
 * unwind.c: the rules that hold at every instruction of every stub in [lo, hi);
 * returns how many.  gated: some of these stubs have CALLTAP_SITE_GATED.
 */
unsigned arch_unwind_rules(struct arch_unwind_rule rules[ARCH_UNWIND_RULES], enum arch_unwinder unwinder, uint64_t lo,
			   uint64_t hi, bool gated);
#define ARCH_EH_FRAME_MAX 384
#define ARCH_EH_HDR_SIZE  20
/*
 * generic/runtime/eh_frame.c: write the unwind table for stubs in [lo, hi) to
 * at, where it will be read; returns its bytes, at most ARCH_EH_FRAME_MAX.  It
 * starts with an .eh_frame_hdr of ARCH_EH_HDR_SIZE bytes.  personality:
 * address of the routine that libgcc_s is to call for each stub frame that it
 * ends.
 */
size_t arch_eh_frame_build(uint8_t *at, enum arch_unwinder unwinder, uint64_t lo, uint64_t hi, bool gated,
			   uint64_t personality);

#endif
