/* This file is part of farreach, a laboratory for virtual-memory address translation.
   Copyright (C) the farreach developers.
   SPDX-License-Identifier: GPL-2.0-or-later
   It is linked with Valgrind, so this directory is under the GNU GPL (../LICENSE-GPL-2), version 2 or later. */

/* Filters of system calls. Given to the system, a program's filter would forbid calls to the core, too, which needs
   more of them. So filters stay here: each system call of the program is judged before the core sees it, as the system
   would judge it. filter.c runs the programs of filters. */

#include "filter.h"
#include "pub_tool_libcsignal.h"

extern void   __real_vgPlain_client_syscall(ThreadId tid, UInt trc);
extern void   VG_(kill_self)(Int signal) __attribute__((noreturn));
extern void   VG_(poll_signals)(ThreadId tid);
extern Int    VG_(gettid)(void);
extern Int    VG_(sigemptyset)(vki_sigset_t* set);
extern Int    VG_(sigaddset)(vki_sigset_t* set, Int signal);
extern Int    VG_(count_living_threads)(void);
extern SysRes VG_(do_syscall)(UWord number, RegWord, RegWord, RegWord, RegWord, RegWord, RegWord, RegWord, RegWord);

enum { /* system calls, and what is asked of them */
   SECCOMP = 317, SIGQUEUEINFO = 129, TGSIGQUEUEINFO = 297, CAPGET = 125, GETTIMEOFDAY = 96, TIME = 201,
   CLOCK_GETTIME = 228, CLOCK_GETRES = 229, GETCPU = 309,
   GET_SECCOMP = 21, SET_SECCOMP = 22, GET_NO_NEW_PRIVS = 39,
   SET_STRICT = 0, SET_FILTER = 1, ACTION_AVAILABLE = 2, NOTIFY_SIZES = 3,
   TSYNC = 1, LOG = 2, SPEC_ALLOW = 4, NEW_LISTENER = 8, TSYNC_ESRCH = 16,
   EOPNOTSUPP = 95, SIGSYS = 31, BY_FILTER = 1, SYS_ADMIN = 21
};

#define X86_64 0xc000003eU /* its number among architectures */

/* What each thread is subject to. */
static struct rules {
   Bool           strict;
   struct filter* newest;
} *of_thread;

static struct rules* rules(ThreadId tid)
{
   if (!of_thread)
      of_thread = VG_(calloc)("filters", VG_N_THREADS, sizeof *of_thread);
   return &of_thread[tid];
}

void seccomp_thread_created(ThreadId parent, ThreadId child)
{
   if (of_thread && parent != VG_INVALID_THREADID) /* the first thread has no parent */
      of_thread[child] = of_thread[parent];
}

void seccomp_fork_in_child(ThreadId tid)
{
   for (ThreadId other = 0; of_thread && other < VG_N_THREADS; other++)
      if (other != tid)
         VG_(memset)(&of_thread[other], 0, sizeof *of_thread);
}

/* ---- Registers of the program ---- */

#define REGISTER(name) offsetof(VexGuestAMD64State, guest_##name)

static ULong get(ThreadId tid, PtrdiffT at)
{
   ULong value;
   VG_(get_shadow_regs_area)(tid, (UChar*)&value, 0, at, sizeof value);
   return value;
}

static void put(ThreadId tid, PtrdiffT at, ULong value)
{
   VG_(set_shadow_regs_area)(tid, 0, at, sizeof value, (const UChar*)&value);
}

/* ---- Making filters ---- */

static Bool may_filter(void)
{
   struct { UInt version; Int pid; } header = { 0x20080522, 0 };
   struct { UInt effective, permitted, inheritable; } sets[2] = { { 0, 0, 0 }, { 0, 0, 0 } };
   SysRes none = VG_(do_syscall)(__NR_prctl, GET_NO_NEW_PRIVS, 0, 0, 0, 0, 0, 0, 0);
   if (!sr_isError(none) && sr_Res(none) == 1)
      return True;
   SysRes read = VG_(do_syscall)(CAPGET, (UWord)&header, (UWord)sets, 0, 0, 0, 0, 0, 0);
   return !sr_isError(read) && sets[0].effective >> SYS_ADMIN & 1;
}

static Bool descends(const struct filter* newest, const struct filter* from)
{
   for (; newest; newest = newest->older)
      if (newest == from)
         return True;
   return from == NULL;
}

/* Gives all threads the filters of this one. Returns a thread that has others, 0 if all could be changed. */
static ThreadId synchronise(ThreadId tid)
{
   struct rules* mine = rules(tid);
   for (ThreadId other = 1; other < VG_N_THREADS; other++)
      if (of_thread[other].strict || !descends(mine->newest, of_thread[other].newest))
         return other;
   for (ThreadId other = 1; other < VG_N_THREADS; other++)
      of_thread[other] = *mine;
   return 0;
}

static Long set_strict(ThreadId tid)
{
   if (rules(tid)->newest)
      return -VKI_EINVAL;
   rules(tid)->strict = True;
   return 0;
}

static Long set_filter(ThreadId tid, UWord flags, Addr program)
{
   struct rules* mine = rules(tid);
   if (flags & ~(UWord)(TSYNC | LOG | SPEC_ALLOW | NEW_LISTENER | TSYNC_ESRCH))
      return -VKI_EINVAL;
   if (flags & NEW_LISTENER) {
      limit_met(FR_LIMIT_SYSTEM_CALL, SECCOMP, "with SECCOMP_FILTER_FLAG_NEW_LISTENER failed with EINVAL");
      return -VKI_EINVAL;
   }
   if (mine->strict)
      return -VKI_EINVAL;
   struct filter* made;
   Long error = filter_make(program, mine->newest, &made);
   if (error)
      return error;
   if (!may_filter())
      return -VKI_EACCES;
   struct rules before = *mine;
   mine->newest = made;
   ThreadId differs = flags & TSYNC ? synchronise(tid) : 0;
   if (differs) {
      *mine = before;
      return flags & TSYNC_ESRCH ? -VKI_ESRCH : (Long)differs;
   }
   return 0;
}

static Long action_available(Addr at)
{
   if (!VG_(am_is_valid_for_client)(at, sizeof(UInt), VKI_PROT_READ))
      return -VKI_EFAULT;
   return filter_knows(*(UInt*)at) ? 0 : -EOPNOTSUPP;
}

static Long notify_sizes(Addr at)
{
   static const UShort sizes[3] = { 80, 24, 64 }; /* of the system's three structures */
   if (!VG_(am_is_valid_for_client)(at, sizeof sizes, VKI_PROT_WRITE))
      return -VKI_EFAULT;
   VG_(memcpy)((void*)at, sizes, sizeof sizes);
   return 0;
}

/* Serves the calls that make filters or ask for them. False: this is none of them. */
static Bool serve(ThreadId tid, UWord number, const ULong* args, Long* result)
{
   if (number == __NR_prctl && args[0] == GET_SECCOMP) {
      struct rules* mine = rules(tid);
      *result = mine->newest ? 2 : mine->strict;
   } else if (number == __NR_prctl && args[0] == SET_SECCOMP) {
      *result = args[1] == 1 ? set_strict(tid) : args[1] == 2 ? set_filter(tid, 0, args[2]) : -VKI_EINVAL;
   } else if (number == SECCOMP) {
      Bool plain = args[1] == 0;
      switch ((UInt)args[0]) {
         case SET_STRICT:       *result = plain && !args[2] ? set_strict(tid) : -VKI_EINVAL; break;
         case SET_FILTER:       *result = set_filter(tid, args[1], args[2]); break;
         case ACTION_AVAILABLE: *result = plain ? action_available(args[2]) : -VKI_EINVAL; break;
         case NOTIFY_SIZES:     *result = plain ? notify_sizes(args[2]) : -VKI_EINVAL; break;
         default:               *result = -VKI_EINVAL; break;
      }
   } else {
      return False;
   }
   return True;
}

/* ---- Judging ---- */

/* Natively these are calls into the vdso, which no filter sees. There is none here. */
static Bool in_vdso(UWord number)
{
   return number == CLOCK_GETTIME || number == CLOCK_GETRES || number == GETTIMEOFDAY || number == TIME
          || number == GETCPU;
}

static Bool strict_allows(UWord number)
{
   return number == __NR_read || number == __NR_write || number == __NR_exit || number == __NR_rt_sigreturn;
}

static Bool is_pending(Int signal)
{
   ULong pending = 0;
   VG_(do_syscall)(__NR_rt_sigpending, (UWord)&pending, sizeof pending, 0, 0, 0, 0, 0, 0);
   return pending >> (signal - 1) & 1;
}

/* Sends the signal that a filter asks for. The program's handler may go on in the place of the call. */
static void trap(ThreadId tid, const struct fr_call* call, UInt data)
{
   struct {
      Int   signal, error, code, gap;
      ULong address;
      Int   number;
      UInt  architecture;
      ULong rest[12];
   } info = { SIGSYS, data, BY_FILTER, 0, call->instruction, call->number, X86_64, { 0 } };
   /* The core takes pending signals between system calls; those of faults it does not block meanwhile. */
   vki_sigset_t this, before;
   VG_(sigemptyset)(&this);
   VG_(sigaddset)(&this, SIGSYS);
   VG_(sigprocmask)(VKI_SIG_BLOCK, &this, &before);
   VG_(do_syscall)(TGSIGQUEUEINFO, VG_(getpid)(), VG_(gettid)(), SIGSYS, (UWord)&info, 0, 0, 0, 0);
   for (UInt others = 0; is_pending(SIGSYS) && others < 64; others++)
      VG_(poll_signals)(tid); /* it takes one */
   Bool blocked = is_pending(SIGSYS);
   if (!blocked)
      VG_(sigprocmask)(VKI_SIG_SETMASK, &before, NULL);
   if (blocked || get(tid, REGISTER(RIP)) == call->instruction)
      VG_(kill_self)(SIGSYS); /* it blocks the signal, or has no handler */
}

/* The core leaves SIGSYS open while it works, as it expects it of the system in the place of a call. Here it comes only
   if somebody sends it, and the core may have it only where it waits. */
extern Int __real_vgPlain_sigdelset(vki_sigset_t* set, Int signal);
Int __wrap_vgPlain_sigdelset(vki_sigset_t* set, Int signal);
Int __wrap_vgPlain_sigdelset(vki_sigset_t* set, Int signal)
{
   return signal == SIGSYS ? 0 : __real_vgPlain_sigdelset(set, signal);
}

/* Whether the call may be made. If not, all that follows from it has been done. */
static Bool allowed(ThreadId tid, UWord number, const ULong* args)
{
   struct rules* mine = rules(tid);
   if (mine->strict) {
      if (!strict_allows(number))
         VG_(kill_self)(VKI_SIGKILL);
      return True;
   }
   if (!mine->newest || in_vdso(number))
      return True;
   struct fr_call call = { number, X86_64, get(tid, REGISTER(RIP)), { 0 } };
   VG_(memcpy)(call.args, args, sizeof call.args);
   UInt verdict = filter_judge(mine->newest, &call), data = verdict & 0xffff;
   switch (verdict & FR_FILTER_ACTION) {
      case FR_FILTER_ALLOW:
      case FR_FILTER_LOG:
         return True;
      case FR_FILTER_ERRNO:
         put(tid, REGISTER(RAX), -(Long)(data < 4095 ? data : 4095));
         return False;
      case FR_FILTER_TRAP:
         trap(tid, &call, data);
         return False;
      case FR_FILTER_TRACE:  /* nobody traces */
      case FR_FILTER_NOTIFY: /* nobody listens */
         put(tid, REGISTER(RAX), -(Long)VKI_ENOSYS);
         return False;
      case FR_FILTER_KILL_THREAD:
         if (VG_(count_living_threads)() > 1) { /* the thread calls exit instead */
            put(tid, REGISTER(RAX), __NR_exit);
            put(tid, REGISTER(RDI), SIGSYS);
            return True;
         }
         VG_(kill_self)(SIGSYS);
      default:
         VG_(kill_self)(SIGSYS);
   }
}

void __wrap_vgPlain_client_syscall(ThreadId tid, UInt trc);
void __wrap_vgPlain_client_syscall(ThreadId tid, UInt trc)
{
   UWord number = get(tid, REGISTER(RAX));
   ULong args[6] = { get(tid, REGISTER(RDI)), get(tid, REGISTER(RSI)), get(tid, REGISTER(RDX)),
                     get(tid, REGISTER(R10)), get(tid, REGISTER(R8)),  get(tid, REGISTER(R9)) };
   Long  result;
   if (of_thread && !allowed(tid, number, args))
      return;
   if (get(tid, REGISTER(RAX)) == number
       && (serve(tid, number, args, &result) || exec_link_read(number, args, &result)))
      put(tid, REGISTER(RAX), result);
   else
      __real_vgPlain_client_syscall(tid, trc);
   /* A signal to itself arrives before the call returns. The core sees to that for the other calls that send one. */
   if (number == SIGQUEUEINFO || number == TGSIGQUEUEINFO)
      VG_(poll_signals)(tid);
}

/* ---- Exec: the new image begins as a new recorder, which gets the filters by a file without a name ---- */

Int seccomp_exec_begins(ThreadId tid)
{
   if (!of_thread || (!of_thread[tid].newest && !of_thread[tid].strict))
      return -1;
   return filter_save(of_thread[tid].newest);
}

void seccomp_image_begins(Int fd)
{
   rules(1)->newest = filter_load(fd);
}
