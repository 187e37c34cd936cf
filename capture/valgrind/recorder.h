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
void   ring_publish(void);                  /* hands over the chunk being filled, unless it is empty */
ULong* ring_record(UInt type, UInt words);  /* appends a record; its payload is for the caller to fill at once */
ULong* ring_text(ULong* to, const HChar* text, UInt bytes);
UInt   ring_new_block(void);
ULong  ring_tally(void);
void   ring_enter(ThreadId tid);            /* generated code of this thread is about to run */
void   ring_leave(ThreadId tid);            /* and has stopped */
VG_REGPARM(1) void ring_turn(UChar* guest); /* called from generated code when hot.at is beyond hot.limit */
void   fail(const HChar* format, ...) PRINTF_CHECK(1, 2) __attribute__((noreturn));

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
void space_stack_grew(Addr start, SizeT len, const NSegment* stack);

/* ---- heap.c ---- */
Bool heap_may_grow(SSizeT more);

/* ---- pool.c ---- */
extern Bool pool;                           /* --pool */
void  pool_syscall_begins(UInt number, UWord* args);
SizeT pool_syscall_ends(void);

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
const HChar* exec_own_path(void); /* of the program that runs */
void exec_restore_arguments(ThreadId tid); /* removes blanks behind the argument in the first line of a script */

/* ---- main.c ---- */
extern UInt state_bytes; /* size of the guest state: offset of its shadow area 1 */

#endif
