/* This file is part of farreach, a laboratory for virtual-memory address translation.
   Copyright (C) the farreach developers.
   SPDX-License-Identifier: GPL-2.0-or-later
   It is linked with Valgrind, so this directory is under the GNU GPL (../LICENSE-GPL-2), version 2 or later. */

/* Mappings: those there are at the start, and the system calls and faults that change them. */

#include "recorder.h"

extern Addr VG_(brk_limit);
extern UChar VG_(trampoline_stuff_start);

static Addr break_now;  /* as the program knows it */
static Addr heap_end;   /* first page behind the heap */
static Addr spare_page; /* the page of the core's own that the program may run (it stands in for the vsyscall page) */
static Bool spare_used;

#define PAGE 4096UL

static Addr page_up(Addr a)
{
   return (a + PAGE - 1) & ~(PAGE - 1);
}

static void map(Addr start, SizeT len, UInt flags, Off64T offset, const HChar* name)
{
   UInt   bytes = name ? VG_(strlen)(name) : 0;
   ULong* to = ring_record(FR_MAP, 4 + (bytes + 7) / 8);
   to[0] = start;
   to[1] = len;
   to[2] = flags | (ULong)bytes << 32;
   to[3] = offset;
   if (name)
      ring_text(to + 4, name, bytes);
}

static void words(UInt type, UInt n, UWord a, UWord b, UWord c, UWord d)
{
   UWord  word[4] = { a, b, c, d };
   ULong* to = ring_record(type, n);
   for (UInt i = 0; i < n; i++)
      to[i] = word[i];
}

static UInt protection(UWord prot)
{
   return (prot & VKI_PROT_READ ? FR_READ : 0) | (prot & VKI_PROT_WRITE ? FR_WRITE : 0)
          | (prot & VKI_PROT_EXEC ? FR_EXECUTE : 0);
}

/* All mappings of a fresh program image. The core keeps its own apart. */
void space_start(ThreadId tid)
{
   Int   n;
   Addr* starts = VG_(get_segment_starts)(SkFileC | SkAnonC | SkShmC, &n);
   Addr  sp = VG_(get_SP)(tid);
   break_now = VG_(brk_limit);
   heap_end = page_up(break_now);
   for (Int i = 0; i < n; i++) {
      const NSegment* s = VG_(am_find_nsegment)(starts[i]);
      UInt  flags = (s->hasR ? FR_READ : 0) | (s->hasW ? FR_WRITE : 0) | (s->hasX ? FR_EXECUTE : 0);
      const HChar* name = NULL;
      Off64T offset = 0;
      if (s->start <= (Addr)&VG_(trampoline_stuff_start) && (Addr)&VG_(trampoline_stuff_start) <= s->end) {
         spare_page = s->start; /* see space_code */
         continue;
      }
      if (s->kind == SkFileC) {
         name = VG_(am_get_filename)(s);
         offset = s->offset;
         flags |= FR_FILE;
      } else if (s->isCH || (s->start <= break_now && break_now <= s->end)) {
         /* The core maps a page ahead; the program has what lies below its break. */
         if (heap_end > s->start)
            map(s->start, heap_end - s->start, flags | FR_HEAP, 0, NULL);
         continue;
      } else if (s->start <= sp && sp <= s->end) {
         flags |= FR_STACK;
      }
      map(s->start, s->end + 1 - s->start, flags, offset, name);
   }
   VG_(free)(starts);
}

/* Code at this address is about to run for the first time. */
void space_code(Addr pc)
{
   if (spare_page && !spare_used && pc - spare_page < PAGE) {
      spare_used = True;
      map(spare_page, PAGE, FR_READ | FR_EXECUTE | FR_KERNEL, 0, NULL);
   }
}

void space_stack_grew(Addr start, SizeT len)
{
   map(start, len, FR_READ | FR_WRITE | FR_STACK | FR_EARLY, 0, NULL);
}

static void mapped(UWord* args, Addr start)
{
   UWord flags = args[3];
   UInt  what = protection(args[2]) | ((flags & 0xf) != VKI_MAP_PRIVATE ? FR_SHARED : 0);
   SizeT len = page_up(args[1]);
   if (flags & VKI_MAP_ANONYMOUS) {
      map(start, len, what | FR_ANONYMOUS, 0, NULL);
   } else {
      HChar link[64], name[VKI_PATH_MAX + 1];
      VG_(sprintf)(link, "/proc/self/fd/%d", (Int)args[4]);
      SSizeT n = VG_(readlink)(link, name, VKI_PATH_MAX);
      name[n > 0 ? n : 0] = 0;
      map(start, len, what | FR_FILE, args[5], name);
   }
   if (flags & 0x8000) /* MAP_POPULATE */
      words(FR_ADVISE, 3, start, len, FR_WILLNEED, 0);
}

static void broke(Addr now)
{
   if (now == break_now)
      return;
   Addr end = page_up(now);
   break_now = now;
   if (end > heap_end)
      map(heap_end, end - heap_end, FR_READ | FR_WRITE | FR_HEAP, 0, NULL);
   else if (end < heap_end)
      words(FR_UNMAP, 2, end, heap_end - end, 0, 0);
   heap_end = end;
}

static void advised(Addr start, SizeT len, UWord advice)
{
   enum fr_advice what;
   switch (advice) {
      case 4: case 8: case 9: case 24: case 102: /* DONTNEED, FREE, REMOVE, DONTNEED_LOCKED, GUARD_INSTALL */
         what = FR_DONTNEED;
         break;
      case 3: case 22: case 23: /* WILLNEED, POPULATE_READ, POPULATE_WRITE */
         what = FR_WILLNEED;
         break;
      case 14:
         what = FR_HUGEPAGE;
         break;
      case 15:
         what = FR_NOHUGEPAGE;
         break;
      default:
         return;
   }
   words(FR_ADVISE, 3, start, page_up(len), what, 0);
}

/* System V shared memory: the length is known to nobody but the address-space manager. */
static SizeT shared_len(Addr start)
{
   const NSegment* s = VG_(am_find_nsegment)(start);
   return s ? s->end + 1 - start : 0;
}

static struct { Addr start; SizeT len; } attached[256];

static void shm_attached(Addr start, UWord flags)
{
   SizeT len = shared_len(start);
   for (UInt i = 0; i < sizeof attached / sizeof attached[0]; i++) {
      if (attached[i].len == 0) {
         attached[i].start = start;
         attached[i].len = len;
         break;
      }
   }
   map(start, len, FR_READ | (flags & VKI_SHM_RDONLY ? 0 : FR_WRITE) | FR_SHARED | FR_ANONYMOUS, 0, NULL);
}

static void shm_detached(Addr start)
{
   for (UInt i = 0; i < sizeof attached / sizeof attached[0]; i++) {
      if (attached[i].len != 0 && attached[i].start == start) {
         words(FR_UNMAP, 2, start, attached[i].len, 0, 0);
         attached[i].len = 0;
         return;
      }
   }
}

/* A system call succeeded. */
void space_syscall(UInt number, UWord* args, UWord result)
{
   switch (number) {
      case __NR_mmap:
         mapped(args, result);
         break;
      case __NR_munmap:
         words(FR_UNMAP, 2, args[0], page_up(args[1]), 0, 0);
         break;
      case __NR_mremap:
         words(FR_REMAP, 4, args[0], page_up(args[1]), result, page_up(args[2]));
         break;
      case __NR_brk:
         broke(result);
         break;
      case __NR_mprotect:
      case 329: /* pkey_mprotect */
         if (args[1])
            words(FR_PROTECT, 3, args[0], page_up(args[1]), protection(args[2]), 0);
         break;
      case __NR_madvise:
         if (args[1])
            advised(args[0], args[1], args[2]);
         break;
      case __NR_shmat:
         shm_attached(result, args[2]);
         break;
      case __NR_shmdt:
         shm_detached(args[0]);
         break;
      default:
         break;
   }
}
