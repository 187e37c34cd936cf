/* This file is part of farreach, a laboratory for virtual-memory address translation.
   Copyright (C) the farreach developers.
   SPDX-License-Identifier: GPL-2.0-or-later
   It is linked with Valgrind, so this directory is under the GNU GPL (../LICENSE-GPL-2), version 2 or later. */

/* The writing end of the stream: chunks, their order, back-pressure. */

#include "recorder.h"
#include "writer.h"

/* Exported by the core, though its tool headers do not say so. */
extern SysRes VG_(am_shared_mmap_file_float_valgrind)(SizeT length, UInt prot, Int fd, Off64T offset);
extern SysRes VG_(do_syscall)(UWord number, RegWord, RegWord, RegWord, RegWord, RegWord, RegWord, RegWord, RegWord);
extern void VG_(exit_now)(Int status);
extern Int VG_(safe_fd)(Int fd);

const HChar* run_dir = NULL;

static Int                run_fd, control_fd;
static struct fr_control* control;
static struct fr_ring*    ring;
static ULong*             chunk;     /* first word of the chunk being filled */
static struct hot         hot;       /* valid while no generated code runs */
static ThreadId           running;   /* thread whose generated code runs, 0 if none: then its shadow area is valid */

#define CHUNK_BYTES (FR_CHUNK_WORDS * sizeof(ULong))
#define RING_BYTES  (FR_RING_HEAD + FR_CHUNKS * CHUNK_BYTES)

enum { FUTEX_WAIT = 0, FUTEX_WAKE = 1, LOCK_SH = 1, LOCK_NB = 4, O_CLOEXEC = 02000000, O_NOFOLLOW = 0400000,
       FILE_SIZE_LIMIT = 1, NOT_THROUGH_LINKS = 0x100 };

static SysRes call(UWord number, UWord a, UWord b, UWord c, UWord d)
{
   return VG_(do_syscall)(number, a, b, c, d, 0, 0, 0, 0);
}

static void futex_wake(unsigned* word)
{
   call(__NR_futex, (UWord)word, FUTEX_WAKE, 1, 0);
}

static void futex_wait(unsigned* word, unsigned value)
{
   struct { Long seconds, nanoseconds; } patience = { 0, 200 * 1000 * 1000 };
   call(__NR_futex, (UWord)word, FUTEX_WAIT, value, (UWord)&patience);
}

/* Ends the program if the reader has ended: it must not run on unrecorded, nor hang. The kernel releases the reader's
   lock however the reader ends, and the lock shows it in any PID namespace. */
static int is_over(void)
{
   Bool gone = !sr_isError(call(__NR_flock, control_fd, LOCK_SH | LOCK_NB, 0, 0));
   if (__atomic_load_n(&control->closed, __ATOMIC_SEQ_CST) || gone) {
      call(__NR_kill, VG_(getpid)(), VKI_SIGKILL, 0, 0);
      call(__NR_exit_group, 128 + VKI_SIGKILL, 0, 0, 0); /* the first process of a container does not die of a signal */
   }
   return 0;
}

/* Says what went wrong in the place where the reader looks, and ends this process. */
void fail(const HChar* format, ...)
{
   HChar text[sizeof control->failure];
   va_list args;
   va_start(args, format);
   VG_(vsnprintf)(text, sizeof text, format, args);
   va_end(args);
   VG_(umsg)("farreach: %s\n", text);
   if (control && __atomic_exchange_n(&control->failed, 1, __ATOMIC_SEQ_CST) == 0) {
      VG_(strncpy)(control->failure, text, sizeof control->failure - 1);
      __atomic_store_n(&control->failed, 2, __ATOMIC_SEQ_CST);
      __atomic_fetch_add(&control->wake, 1, __ATOMIC_SEQ_CST);
      futex_wake(&control->wake);
   }
   VG_(exit_now)(1);
   while (True) { }
}

/* Gives the directory and the control file to a user. False: they belong to another one, whom it tells. */
Bool ring_give_to(UInt user, UInt* owner)
{
   struct vg_stat about;
   if (VG_(fstat)(run_fd, &about) != 0)
      return True;
   *owner = about.uid;
   if (about.uid != 0 && about.uid != user)
      return False;
   HChar log[32];
   VG_(sprintf)(log, "log.%d", VG_(getpid)()); /* after an exec it is opened again */
   VG_(do_syscall)(__NR_fchownat, run_fd, (UWord)log, user, -1, NOT_THROUGH_LINKS, 0, 0, 0);
   call(__NR_fchown, control_fd, user, -1, 0);
   call(__NR_fchown, run_fd, user, -1, 0);
   return True;
}

static Int open_here(const HChar* name, Int flags)
{
   SysRes opened = call(__NR_openat, run_fd, (UWord)name, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
   if (sr_isError(opened))
      fail("cannot open %s/%s: %s (error %lu)", run_dir, name,
           sr_Err(opened) == VKI_EACCES ? "the program became a second user; the files of this run belong to the first"
                                        : "the system refused",
           sr_Err(opened));
   return sr_Res(opened);
}

static void* map_file(Int fd, const HChar* name, SizeT bytes)
{
   SysRes mapped = VG_(am_shared_mmap_file_float_valgrind)(bytes, VKI_PROT_READ | VKI_PROT_WRITE, fd, 0);
   if (sr_isError(mapped))
      fail("cannot map %s: error %lu", name, sr_Err(mapped));
   return (void*)sr_Res(mapped);
}

/* Gives a file its size. Not ftruncate: missing memory must show here, not as a bus error later in the program. */
static void reserve(Int fd, const HChar* name, SizeT bytes)
{
   struct vki_rlimit most;
   struct vg_stat    now;
   if (VG_(getrlimit)(FILE_SIZE_LIMIT, &most) != 0 || most.rlim_cur >= bytes) {
      SysRes sized = call(__NR_fallocate, fd, 0, 0, bytes);
      if (!sr_isError(sized))
         return;
      call(__NR_unlinkat, run_fd, (UWord)name, 0, 0);
      fail("cannot reserve %lu bytes for %s/%s: %s (error %lu)", bytes, run_dir, name,
           sr_Err(sized) == VKI_ENOSPC ? "no space left there" : "the system refused", sr_Err(sized));
   }
   /* The program limited the size of its files. The reader has no such limit. */
   __atomic_fetch_add(&control->unsized, 1, __ATOMIC_SEQ_CST);
   while (VG_(fstat)(fd, &now) == 0 && now.size < bytes) {
      futex_wait(&control->unsized, __atomic_load_n(&control->unsized, __ATOMIC_SEQ_CST));
      is_over();
   }
   __atomic_fetch_sub(&control->unsized, 1, __ATOMIC_SEQ_CST);
}

/* The directory and the control file stay open: the program may change its root, or mount over the directory. */
void ring_attach_control(void)
{
   SysRes opened = VG_(open)(run_dir, VKI_O_RDONLY, 0);
   if (sr_isError(opened))
      fail("cannot open %s: error %lu", run_dir, sr_Err(opened));
   run_fd = VG_(safe_fd)(sr_Res(opened));
   control_fd = VG_(safe_fd)(open_here("control", VKI_O_RDWR));
   control = map_file(control_fd, "control", sizeof(struct fr_control));
   if (control->magic != FR_MAGIC || control->version != FR_VERSION) {
      control = NULL;
      fail("%s is not version %d of the stream; recorder and reader must come from the same build", run_dir,
           FR_VERSION);
   }
}

UInt ring_new_number(void)
{
   return __atomic_fetch_add(&control->next_ring, 1, __ATOMIC_SEQ_CST);
}

UInt ring_new_block(void)
{
   UInt id = __atomic_fetch_add(&control->next_block, 1, __ATOMIC_RELAXED);
   if (id >= 1U << 26)
      fail("more than 2^26 blocks of code in one run");
   return id;
}

/* The PID namespace of this process if it is another than the reader's, so that this process and its children have
   other numbers there; else 0. */
UInt ring_foreign_namespace(void)
{
   struct vg_stat here;
   SysRes found = VG_(stat)("/proc/self/ns/pid", &here);
   return sr_isError(found) || (UInt)here.ino == control->pid_namespace ? 0 : (UInt)here.ino;
}

ULong ring_tally(void)
{
   return hot.tally;
}

Bool ring_is_open(void)
{
   return ring != NULL;
}

/* Goes to chunk number n of this ring as soon as it is free. */
static void take_chunk(ULong n)
{
   writer_wait(ring, n);
   chunk = (ULong*)((UChar*)ring + FR_RING_HEAD + (n % FR_CHUNKS) * CHUNK_BYTES);
   hot.at = chunk;
   hot.limit = chunk + FR_CHUNK_WORDS - SUPERBLOCK_WORDS - SIGNAL_WORDS;
}

void ring_open(UInt number)
{
   HChar name[32];
   if (ring)
      VG_(am_munmap_valgrind)((Addr)ring, RING_BYTES);
   VG_(sprintf)(name, "ring.%u", number);
   Int fd = open_here(name, VKI_O_RDWR | VKI_O_CREAT | VKI_O_EXCL);
   reserve(fd, name, RING_BYTES);
   ring = map_file(fd, name, RING_BYTES);
   VG_(close)(fd);
   ring->pid = VG_(getpid)();
   ring->foreign = ring_foreign_namespace();
   ring->number = number;
   __atomic_store_n(&ring->magic, FR_MAGIC, __ATOMIC_SEQ_CST);
   hot.tally = 0;
   take_chunk(0);
}

void ring_publish(void)
{
   if (hot.at == chunk)
      return;
   writer_publish(control, ring, hot.at - chunk);
   take_chunk(ring->produced);
}

/* Generated code of a thread has its copy of the hot state in its shadow area; a record made meanwhile (from a signal
   handler of the core) goes behind what that code wrote, and the code continues behind the record. */
static void fetch_hot(void)
{
   if (running)
      VG_(get_shadow_regs_area)(running, (UChar*)&hot, 1, 0, sizeof hot);
}

static void store_hot(void)
{
   if (running)
      VG_(set_shadow_regs_area)(running, 1, 0, sizeof hot, (const UChar*)&hot);
}

ULong* ring_record(UInt type, UInt words)
{
   fetch_hot();
   if (hot.at + 1 + words > chunk + FR_CHUNK_WORDS) {
      /* In the middle of a superblock the chunk cannot change: its code holds addresses in this one. */
      if (running)
         fail("no room for %u words of record %u in the middle of a superblock", words, type);
      ring_publish();
      tl_assert(1 + words <= FR_CHUNK_WORDS);
   }
   ULong* payload = hot.at + 1;
   *hot.at = FR_OP | (ULong)type << 32 | words;
   hot.at += 1 + words;
   store_hot();
   return payload;
}

ULong* ring_text(ULong* to, const HChar* text, UInt bytes)
{
   UInt words = (bytes + 7) / 8;
   for (UInt i = 0; i < words; i++)
      to[i] = 0;
   VG_(memcpy)(to, text, bytes);
   return to + words;
}

void ring_enter(ThreadId tid)
{
   running = tid;
   store_hot();
}

void ring_leave(ThreadId tid)
{
   tl_assert(running == tid);
   fetch_hot();
   running = 0;
}

VG_REGPARM(1) void ring_turn(UChar* guest)
{
   struct hot* shadow = (struct hot*)(guest + state_bytes);
   hot = *shadow;
   ring_publish();
   *shadow = hot;
}

VG_REGPARM(2) void ring_fetch(UChar* guest, ULong block)
{
   struct hot* shadow = (struct hot*)(guest + state_bytes);
   *shadow->at++ = block;
   shadow->tally += FR_TALLY(1, 0, 0);
}
