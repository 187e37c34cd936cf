/* This file is part of farreach, a laboratory for virtual-memory address translation.
   Copyright (C) the farreach developers.
   SPDX-License-Identifier: GPL-2.0-or-later
   It is linked with Valgrind, so this directory is under the GNU GPL (../LICENSE-GPL-2), version 2 or later. */

/* What the files of the recorder use of each other. */

#ifndef FARREACH_RECORDER_H
#define FARREACH_RECORDER_H

#include "pub_tool_basics.h"
#include "pub_tool_aspacehl.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_clientstate.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_options.h"
#include "pub_tool_signals.h"
#include "pub_tool_threadstate.h"
#include "pub_tool_tooliface.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"
#include "libvex_guest_amd64.h"

#include "stream.h"

/* State that generated code keeps up to date, at the start of shadow area 1 of the running thread's guest state. */
struct hot {
   ULong* at;     /* next free word of the chunk */
   ULong* limit;  /* a superblock may begin if at is not beyond */
   ULong  tally;  /* see FR_TALLY */
};

/* Words kept free behind hot.limit: the largest superblock, and records made in the middle of it. */
#define SUPERBLOCK_WORDS 4096
#define SIGNAL_WORDS     2048

/* ---- ring.c ---- */
extern const HChar* run_dir;                /* --run-dir */
void   ring_attach_control(void);
UInt   ring_new_number(void);
void   ring_open(UInt number);              /* begins an empty ring; forgets the one before */
Bool   ring_is_open(void);
UInt   ring_foreign_namespace(void);
Bool   ring_give_to(UInt user, UInt* owner);
void   ring_publish(void);                  /* hands over the chunk being filled, unless it is empty */
ULong* ring_record(UInt type, UInt words);  /* appends a record; its payload is for the caller to fill at once */
ULong* ring_text(ULong* to, const HChar* text, UInt bytes);
UInt   ring_new_block(void);
ULong  ring_tally(void);
void   ring_enter(ThreadId tid);            /* generated code of this thread is about to run */
void   ring_leave(ThreadId tid);            /* and has stopped */
VG_REGPARM(1) void ring_turn(UChar* guest); /* called from generated code when hot.at is beyond hot.limit */
VG_REGPARM(2) void ring_fetch(UChar* guest, ULong block); /* likewise: runs a block of one instruction, no reference */
void   fail(const HChar* format, ...) PRINTF_CHECK(1, 2) __attribute__((noreturn));

/* ---- code.c: the bytes of instructions ---- */
struct code {
   UChar map;              /* of opcodes: 0 one byte, 1 behind 0F, 2 behind 0F 38, 3 behind 0F 3A */
   UChar opcode, modrm;
   UChar rex;              /* its low four bits, also of a VEX prefix: W R X B */
   UChar segment;          /* 64 (FS), 65 (GS), else 0 */
   UChar operand, address; /* sizes in bytes */
   Bool  vex, wide;        /* wide: VEX.L */
   Bool  p66, f2, f3;      /* prefixes, also those that VEX implies */
};
struct code code_at(Addr at, UInt len);
Bool code_is_string(const struct code*);
Bool code_repeats(const struct code*);
Bool code_is_gather(const struct code*);
Bool code_is_bit_test(const struct code*);
Bool code_is_masked_move(const struct code*);
Bool code_is_flush(const struct code*);
Bool code_is_xsave(const struct code*);
UInt code_whole_operand(const struct code*);
UInt code_words(const ULong* instr, UInt instrs);
void code_put(ULong* to, const ULong* instr, UInt instrs);

/* ---- prepare.c: the program's code before the core optimises it ---- */

/* Where generated code puts values that nobody uses: behind struct hot, 32 bytes. */
#define SINK (state_bytes + 64)

/* Marks between prepare.c and instrument.c: the lengths of AbiHints, which the core makes for other purposes. */
#define MARK_LOADED  0x46520001 /* its base derives from a value just loaded */
#define MARK_STATE   0x46520002 /* all registers are exact here */
#define MARK_OPERAND 0x46521000 /* plus a size: its base is the address of the instruction's memory operand */

/* ---- live.c: temporaries that are used ---- */
void live_find(const IRSB*);  /* looks at this code; marks do not count as uses */
Bool live(IRTemp);
Bool is_mark(const IRStmt*);

/* ---- instrument.c ---- */
IRSB* instrument(VgCallbackClosure*, IRSB*, const VexGuestLayout*, const VexGuestExtents*, const VexArchInfo*, IRType,
                 IRType);

/* ---- space.c: mappings ---- */
void space_start(ThreadId tid);
void space_syscall_begins(UInt number, UWord* args);
void space_syscall(UInt number, UWord* args, SysRes result);
void space_unmapped(Addr start, SizeT len);
void space_emptied(Addr start, SizeT len);
void space_code(Addr pc);
void space_kernel_stored(Addr start, SizeT len); /* the kernel stored to these bytes for the program */
void space_stack_grew(Addr start, SizeT len, const NSegment* stack);

/* ---- border.c: instructions that reach into a page which cannot be read ---- */
void border_syscall(UInt number); /* a system call has ended */

/* ---- changing.c: code that changes ---- */
void changing_file_shared(Int fd); /* a file was mapped shared */

/* ---- limits.c ---- */
/* The program has met a limit of the recorder: it goes, or is recorded, another way than natively. */
void limit_met(enum fr_limit kind, Addr at, const HChar* format, ...) PRINTF_CHECK(3, 4);
void limits_syscall(UInt number, const UWord* args, SysRes result);
void limits_fork_in_child(void);
void limit_masked_move(void);               /* such an instruction is translated */
void limits_end(void);                      /* what is not told yet */

/* ---- shm.c: System V segments of huge pages ---- */
void shm_syscall_begins(UInt number, const UWord* args);
void shm_syscall_ends(SysRes result);

/* ---- users.c ---- */
void users_syscall_begins(UInt number, const UWord* args);

/* ---- seccomp.c: filters of system calls ---- */
void seccomp_thread_created(ThreadId parent, ThreadId child);
void seccomp_fork_in_child(ThreadId tid);
Int  seccomp_exec_begins(ThreadId tid); /* a file that carries the filters over the exec, -1 if there are none */
void seccomp_image_begins(Int fd);      /* after the exec */

/* ---- heap.c ---- */
Bool heap_may_grow(SSizeT more);

/* ---- pool.c ---- */
extern Bool pool;                           /* --pool */
void  pool_syscall_begins(UInt number, UWord* args);
SizeT pool_syscall_ends(void);
Bool  addresses_refused(void);              /* the core found no place for the mapping of this system call */

/* ---- proc_maps.c: what only the system knows of mappings ---- */
SizeT proc_maps_protected(Addr start, SizeT len, UInt flags); /* bytes from start on that are mapped so */
void  proc_maps_detach_begins(Addr start);  /* before shmdt */
void  proc_maps_detached(void);             /* it succeeded */
void  proc_maps_children_differ(void);      /* MADV_DONTFORK or MADV_WIPEONFORK was given */
void  proc_maps_fork_begins(void);
void  proc_maps_fork_in_child(void);

/* ---- environment.c ---- */
void environment_restore(ThreadId tid);

/* ---- exec.c ---- */
void exec_begins(UWord arguments, UWord environment); /* the lists of an exec about to be tried */
void exec_failed(void);
void exec_image_begins(void);     /* takes over what the image before passed on */
const HChar* exec_own_path(void); /* of the program that runs */
Bool exec_link_read(UWord number, const ULong* args, Long* result); /* True: the call was a readlink of that path */
void exec_restore_arguments(ThreadId tid); /* removes blanks behind the argument in the first line of a script */

/* ---- main.c ---- */
extern UInt state_bytes; /* size of the guest state: offset of its shadow area 1 */

#endif
