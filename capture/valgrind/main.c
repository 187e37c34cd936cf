/* This file is part of farreach, a laboratory for virtual-memory address translation.
   Copyright (C) the farreach developers.
   SPDX-License-Identifier: GPL-2.0-or-later
   It is linked with Valgrind, so this directory is under the GNU GPL (../LICENSE-GPL-2), version 2 or later. */

/* The tool as the core sees it: options, threads, processes, signals, the end. */

#include "recorder.h"

/* Functions of the core that the linker routes through here (--wrap, see the Makefile): the tool interface has no event
   for these. */
extern HChar* __real_vgPlain_getenv(const HChar* name);
extern void   __real_vgPlain_client_exit(Int status) __attribute__((noreturn));
extern void   __real_vgPlain_kill_self(Int signal);
extern void   __real_vgPlain_nuke_all_threads_except(ThreadId me, Int reason);
extern void   __real_vgPlain_logging_atfork_child(ThreadId tid);
extern const NSegment* __real_vgPlain_am_extend_into_adjacent_reservation_client(Addr addr, SSizeT delta,
                                                                                 Bool* overflow);

extern Bool VG_(in_generated_code);

#define RUN_DIR "--run-dir="

UInt state_bytes = sizeof(VexGuestAMD64State);

static ThreadId shown_thread;   /* the thread of the last FR_SWITCH, 0 before the first */
static UInt     fork_ring;      /* ring number of the child being made */
static Bool     forking, exec_tried;
static Bool     spawning;       /* the child being made has, natively, the memory of this process until its exec */
static Bool     spawned;        /* this process is such a child */
static Bool     spawn_failed;   /* and an exec failed here, which its parent does not see */
static Bool     keep_environment; /* --keep-environment */

static void one_word(UInt type, ULong a)
{
   ring_record(type, 1)[0] = a;
}

/* ---- Threads ---- */

static void start_program(ThreadId tid)
{
   const HChar* path = exec_own_path();
   UInt   bytes = VG_(strlen)(path);
   ULong* to = ring_record(FR_START, 1 + (bytes + 7) / 8);
   to[0] = (UInt)VG_(getpid)() | (ULong)bytes << 32;
   ring_text(to + 1, path, bytes);
   if (!keep_environment)
      environment_restore(tid);
   exec_restore_arguments(tid);
   space_start(tid);
   one_word(FR_THREAD_START, tid);
}

static void first_instruction(ThreadId tid)
{
   if (shown_thread == 0) {
      start_program(tid);
      one_word(FR_SWITCH, tid);
      shown_thread = tid;
   }
}

static void thread_created(ThreadId parent, ThreadId child)
{
   seccomp_thread_created(parent, child);
   if (shown_thread != 0)
      one_word(FR_THREAD_START, child);
}

static void thread_exits(ThreadId tid)
{
   one_word(FR_THREAD_EXIT, tid);
   if (exec_tried)
      ring_publish();
}

static void run_begins(ThreadId tid, ULong blocks)
{
   if (tid != shown_thread) {
      one_word(FR_SWITCH, tid);
      shown_thread = tid;
   }
   ring_enter(tid);
}

static void run_ends(ThreadId tid, ULong blocks)
{
   ring_leave(tid);
}

/* ---- Faults: the block in progress ends before the instruction that faulted ---- */

static void cut_block(ThreadId tid)
{
   if (!VG_(in_generated_code))
      return; /* a signal between blocks */
   UInt   id = ring_new_block();
   ULong* to = ring_record(FR_CUT, 2);
   to[0] = id;
   to[1] = VG_(get_IP)(tid);
}

static void signal_delivered(ThreadId tid, Int signal, Bool alternate_stack)
{
   cut_block(tid);
}

void __wrap_vgPlain_nuke_all_threads_except(ThreadId me, Int reason);
void __wrap_vgPlain_nuke_all_threads_except(ThreadId me, Int reason)
{
   cut_block(me);
   __real_vgPlain_nuke_all_threads_except(me, reason);
}

const NSegment* __wrap_vgPlain_am_extend_into_adjacent_reservation_client(Addr addr, SSizeT delta, Bool* overflow);
const NSegment* __wrap_vgPlain_am_extend_into_adjacent_reservation_client(Addr addr, SSizeT delta, Bool* overflow)
{
   if (delta > 0 && !heap_may_grow(delta)) {
      *overflow = False;
      return NULL;
   }
   const NSegment* s = __real_vgPlain_am_extend_into_adjacent_reservation_client(addr, delta, overflow);
   if (s && delta < 0)
      space_stack_grew(addr + delta, -delta, s);
   return s;
}

/* ---- Processes ---- */

static void fork_begins(ThreadId tid)
{
   fork_ring = ring_new_number();
   forking = True;
   proc_maps_fork_begins();
   one_word(FR_FORK, fork_ring);
   ring_publish(); /* before anything of the child */
}

/* A child begins a log of its own. One that changed its root cannot, and goes on with its parent's. */
void __wrap_vgPlain_logging_atfork_child(ThreadId tid);
void __wrap_vgPlain_logging_atfork_child(ThreadId tid)
{
   struct vg_stat about;
   if (!sr_isError(VG_(stat)(run_dir, &about)))
      __real_vgPlain_logging_atfork_child(tid);
}

static void fork_in_child(ThreadId tid)
{
   forking = False;
   spawned = spawning;
   ring_open(fork_ring);
   limits_fork_in_child();
   seccomp_fork_in_child(tid);
   one_word(FR_SWITCH, tid); /* a child has one thread, the one that forked, and it runs already */
   shown_thread = tid;
   proc_maps_fork_in_child();
}

#define SPAWN 0x4100UL /* flags of clone: CLONE_VM and CLONE_VFORK */

static void syscall_begins(ThreadId tid, UInt number, UWord* args, UInt n)
{
   switch (number) {
      case __NR_execve:
      case 322: /* execveat */
         if (number == __NR_execve)
            exec_begins(args[1], args[2]);
         else
            exec_begins(args[2], args[3]);
         limits_end();
         ring_record(FR_EXEC, 0);
         ring_publish();
         exec_tried = True;
         break;
      case __NR_clone:
         spawning = (args[0] & SPAWN) == SPAWN;
         break;
      case __NR_fork:
      case __NR_vfork:
         spawning = False;
         break;
      case __NR_wait4:
      case __NR_waitid:
         ring_publish(); /* all before the wait precedes the end of the child in the order of the run */
         break;
      default:
         users_syscall_begins(number, args);
         space_syscall_begins(number, args);
         break;
   }
}

static void syscall_ends(ThreadId tid, UInt number, UWord* args, UInt n, SysRes result)
{
   if (exec_tried && (number == __NR_execve || number == 322)) {
      /* Still here: it failed. */
      exec_tried = False;
      spawn_failed = spawned;
      exec_failed();
      ring_record(FR_EXEC_FAILED, 0);
      return;
   }
   if (forking && (number == __NR_fork || number == __NR_vfork || number == __NR_clone)) {
      forking = False;
      if (sr_isError(result))
         one_word(FR_FORK_FAILED, fork_ring);
      else
         one_word(FR_FORKED, fork_ring | (ring_foreign_namespace() ? 0 : sr_Res(result) << 32));
      ring_publish();
      return;
   }
   border_syscall(number);
   limits_syscall(number, args, result);
   space_syscall(number, args, result);
}

/* What the core does itself when it starts a program or thread, and when a client asks it to, is nothing of the kernel
   but for the stack at the start, of which space_start tells. */
static void memory_written(CorePart part, ThreadId tid, Addr start, SizeT len)
{
   if (shown_thread != 0 && (part == Vg_CoreSysCall || part == Vg_CoreSignal))
      space_kernel_stored(start, len);
}

/* ---- The end ---- */

static void end(UInt status, UInt signal)
{
   if (!ring_is_open())
      return;
   if (spawn_failed)
      limit_met(FR_LIMIT_EXEC, 0, "posix_spawn in its parent does not return the error with which its exec failed");
   limits_end();
   ULong* to = ring_record(FR_END, 2);
   to[0] = status | (ULong)signal << 32;
   to[1] = ring_tally();
   ring_publish();
}

void __wrap_vgPlain_client_exit(Int status);
void __wrap_vgPlain_client_exit(Int status)
{
   end(status & 0xff, 0);
   __real_vgPlain_client_exit(status);
}

void __wrap_vgPlain_kill_self(Int signal);
void __wrap_vgPlain_kill_self(Int signal)
{
   end(0, signal);
   __real_vgPlain_kill_self(signal);
}

static void finished(Int unused)
{
}

/* When out of memory, the core prints a table of all mappings, of use to its authors only. Not here. */
void __wrap_vgPlain_am_show_nsegments(Int level, const HChar* who);
void __wrap_vgPlain_am_show_nsegments(Int level, const HChar* who)
{
}

/* ---- Start ---- */

/* The directory of the run among the core's arguments, of which it reads the options only after it has made its
   temporary files. */
static HChar* early_run_dir(void)
{
   for (Word i = 0; VG_(args_for_valgrind) && i < VG_(sizeXA)(VG_(args_for_valgrind)); i++) {
      HChar* word = *(HChar**)VG_(indexXA)(VG_(args_for_valgrind), i);
      if (VG_(strncmp)(word, RUN_DIR, sizeof RUN_DIR - 1) == 0)
         return word + sizeof RUN_DIR - 1;
   }
   return NULL;
}

/* The core wants its launcher and library directory from the environment. This tool is its own launcher, also for the
   children, and lies in its own directory; so the program's environment need not carry them. Its temporary files are in
   the directory of the run, which farreach removes at every end. */
HChar* __wrap_vgPlain_getenv(const HChar* name);
HChar* __wrap_vgPlain_getenv(const HChar* name)
{
   static HChar self[VKI_PATH_MAX + 1], directory[VKI_PATH_MAX + 1];
   if (VG_(strcmp)(name, "TMPDIR") == 0) {
      HChar* early = early_run_dir();
      return early ? early : __real_vgPlain_getenv(name);
   }
   Bool launcher = VG_(strcmp)(name, "VALGRIND_LAUNCHER") == 0;
   if (!launcher && VG_(strcmp)(name, "VALGRIND_LIB") != 0)
      return __real_vgPlain_getenv(name);
   SSizeT n = VG_(readlink)("/proc/self/exe", self, VKI_PATH_MAX);
   if (n <= 0)
      return __real_vgPlain_getenv(name);
   self[n] = 0;
   if (launcher)
      return self;
   VG_(strcpy)(directory, self);
   *VG_(strrchr)(directory, '/') = 0;
   return directory;
}

static Bool option(const HChar* arg)
{
   if VG_STR_CLO(arg, "--run-dir", run_dir) { }
   else if VG_BOOL_CLO(arg, "--keep-environment", keep_environment) { }
   else if VG_BOOL_CLO(arg, "--pool", pool) { }
   else
      return False;
   return True;
}

static void usage(void)
{
   VG_(printf)("    --keep-environment=no|yes   leave in the environment what the core added, as other tools do "
               "[no]\n");
   VG_(printf)("    --pool=no|yes             mmap finds any number of huge pages [no]\n");
   VG_(printf)("    --run-dir=<directory>     where the reader of the stream has made its files; required\n");
}

static void debug_usage(void)
{
   VG_(printf)("    (none)\n");
}

static void options_read(void)
{
   if (!run_dir)
      fail("this is the recorder of farreach; 'farreach run' and 'farreach record' start it");
   ring_attach_control();
   ring_open(ring_new_number());
   exec_image_begins();
}

static void registered(void)
{
   VG_(details_name)("farreach");
   VG_(details_version)("1");
   VG_(details_description)("records every fetch, load, store and mapping of a program");
   VG_(details_copyright_author)("Copyright (C) the farreach developers, GNU GPL 2 or later.");
   VG_(details_bug_reports_to)("the issue tracker of farreach");
   VG_(details_avg_translation_sizeB)(400);
   VG_(basic_tool_funcs)(options_read, instrument, finished);
   VG_(needs_command_line_options)(option, usage, debug_usage);
   VG_(needs_syscall_wrapper)(syscall_begins, syscall_ends);
   VG_(track_pre_thread_ll_create)(thread_created);
   VG_(track_pre_thread_first_insn)(first_instruction);
   VG_(track_pre_thread_ll_exit)(thread_exits);
   VG_(track_start_client_code)(run_begins);
   VG_(track_stop_client_code)(run_ends);
   VG_(track_pre_deliver_signal)(signal_delivered);
   VG_(track_post_mem_write)(memory_written);
   VG_(atfork)(fork_begins, NULL, fork_in_child);
}

VG_DETERMINE_INTERFACE_VERSION(registered)
