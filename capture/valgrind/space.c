/* This file is part of farreach, a laboratory for virtual-memory address translation.
   Copyright (C) the farreach developers.
   SPDX-License-Identifier: GPL-2.0-or-later
   It is linked with Valgrind, so this directory is under the GNU GPL (../LICENSE-GPL-2), version 2 or later. */

/* Mappings: those there are at the start, and the system calls and faults that change them. */

#include "recorder.h"

extern Addr VG_(brk_limit);
extern UChar VG_(trampoline_stuff_start);
extern SysRes VG_(do_syscall)(UWord number, RegWord, RegWord, RegWord, RegWord, RegWord, RegWord, RegWord, RegWord);
extern const NSegment* __real_vgPlain_am_find_nsegment(Addr a);

static Addr break_now;  /* as the last brk returned it */
static Addr heap_end;   /* first page behind the heap */
static Addr spare_page; /* the page of the core's own that the program may run (it stands in for the vsyscall page) */
static Bool spare_used;

#define PAGE 4096UL

/* Not in the tool headers of the core. */
enum {
   PKEY_MPROTECT = 329, PROT_GROWSDOWN = 0x01000000, SHM_EXEC = 0100000, MAP_LOCKED = 0x2000, MAP_POPULATE = 0x8000,
   SET_THP_DISABLE = 41, GET_THP_DISABLE = 42,
   ZERO_DEVICE = 1 << 8 | 5 /* device number of /dev/zero */
};

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

static void emit_record(UInt type, UInt n, UWord a, UWord b, UWord c, UWord d)
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

static UInt segment_flags(const NSegment* s)
{
   return (s->hasR ? FR_READ : 0) | (s->hasW ? FR_WRITE : 0) | (s->hasX ? FR_EXECUTE : 0);
}

/* What the process may have of transparent huge pages. It is asked, since what was set is what is given: a kernel may
   not know a flag. */
static void thp_rule(Bool at_start)
{
   SysRes rule = VG_(do_syscall)(__NR_prctl, GET_THP_DISABLE, 0, 0, 0, 0, 0, 0, 0);
   if (!sr_isError(rule) && (sr_Res(rule) != 0 || !at_start))
      emit_record(FR_THP, 1, sr_Res(rule), 0, 0, 0);
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
      UInt  flags = segment_flags(s);
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
      if (s->start <= sp && sp <= s->end)
         space_kernel_stored(sp, s->end + 1 - sp); /* arguments and environment */
   }
   VG_(free)(starts);
   thp_rule(True); /* what is set stays over an exec */
}

/* Code at this address is about to run for the first time. */
void space_code(Addr pc)
{
   if (spare_page && !spare_used && pc - spare_page < PAGE) {
      spare_used = True;
      map(spare_page, PAGE, FR_READ | FR_EXECUTE | FR_KERNEL, 0, NULL);
   }
}

/* Protected as the rest of the stack: a library may have made stacks executable. */
void space_stack_grew(Addr start, SizeT len, const NSegment* stack)
{
   map(start, len, segment_flags(stack) | FR_STACK | FR_EARLY, 0, NULL);
}

enum { NAME_MAX = VKI_PATH_MAX + 64 };

/* The name of a file, the same for all its mappings. False for /dev/zero: that is anonymous memory. */
static Bool name_file(Int fd, HChar* name)
{
   HChar link[64];
   struct vg_stat about;
   Bool known = VG_(fstat)(fd, &about) == 0;
   if (known && (about.mode & VKI_S_IFMT) == VKI_S_IFCHR && about.rdev == ZERO_DEVICE)
      return False;
   VG_(sprintf)(link, "/proc/self/fd/%d", fd);
   SSizeT n = VG_(readlink)(link, name, VKI_PATH_MAX);
   n = n > 0 ? n : 0;
   name[n] = 0;
   /* Files without a name, those of memfd_create for instance, may be called alike; without /proc all are. */
   if (known && (n == 0 || about.nlink == 0))
      VG_(sprintf)(name + n, "%sinode %llu on %llu", n ? " " : "", about.ino, about.dev);
   return True;
}

static void mapped(UWord* args, Addr start, SizeT huge_page)
{
   UWord flags = args[3];
   UInt  what = protection(args[2]) | ((flags & 0xf) != VKI_MAP_PRIVATE ? FR_SHARED : 0);
   SizeT len = page_up(args[1]);
   HChar name[NAME_MAX];
   if (flags & VKI_MAP_ANONYMOUS || !name_file(args[4], name))
      map(start, len, what | FR_ANONYMOUS, 0, NULL);
   else
      map(start, len, what | FR_FILE, args[5], name);
   if (what & FR_SHARED && !(flags & VKI_MAP_ANONYMOUS))
      changing_file_shared(args[4]);
   if (huge_page)
      emit_record(FR_ADVISE, 3, start, len, FR_HUGEPAGE, 0);
   if (flags & (MAP_POPULATE | MAP_LOCKED))
      emit_record(FR_ADVISE, 3, start, len, FR_POPULATE, 0);
}

static void brk_changed(Addr now)
{
   if (now == break_now)
      return;
   Addr end = page_up(now);
   break_now = now;
   if (end > heap_end)
      map(heap_end, end - heap_end, FR_READ | FR_WRITE | FR_HEAP, 0, NULL);
   else if (end < heap_end)
      emit_record(FR_UNMAP, 2, end, heap_end - end, 0, 0);
   heap_end = end;
}

#define MADV_COLLAPSE_ 25

static void advised(Addr start, SizeT len, UWord advice)
{
   enum fr_advice what;
   switch (advice) {
      case 4: case 8: case 9: case 24: case 102: /* DONTNEED, FREE, REMOVE, DONTNEED_LOCKED, GUARD_INSTALL */
         what = FR_DONTNEED;
         break;
      case 3:
         what = FR_WILLNEED;
         break;
      case 22: case 23: /* POPULATE_READ, POPULATE_WRITE */
         what = FR_POPULATE;
         break;
      case 14:
         what = FR_HUGEPAGE;
         break;
      case 15:
         what = FR_NOHUGEPAGE;
         break;
      case MADV_COLLAPSE_: /* whether this kernel can is no matter */
         what = FR_COLLAPSE;
         break;
      case 10: case 18: /* DONTFORK, WIPEONFORK */
         proc_maps_children_differ();
         return;
      default:
         return;
   }
   emit_record(FR_ADVISE, 3, start, page_up(len), what, 0);
}

/* System V shared memory: only the address-space manager knows its length. */
static void shm_attached(Addr start, UWord flags)
{
   const NSegment* s = VG_(am_find_nsegment)(start);
   UInt what = FR_READ | (flags & VKI_SHM_RDONLY ? 0 : FR_WRITE) | (flags & SHM_EXEC ? FR_EXECUTE : 0);
   if (s)
      map(start, s->end + 1 - start, what | FR_SHARED | FR_ANONYMOUS, 0, NULL);
}

/* mprotect and pkey_mprotect. */
static void protect(Addr start, SizeT len, UWord prot, SysRes result)
{
   UInt what = protection(prot);
   len = page_up(len);
   if (sr_isError(result)) {
      len = proc_maps_protected(start, len, what);
   } else if (prot & PROT_GROWSDOWN) {
      /* From the lower end of the stack on. */
      const NSegment* s = VG_(am_find_nsegment)(start);
      if (s) {
         len += start - s->start;
         start = s->start;
      }
   }
   if (len)
      emit_record(FR_PROTECT, 3, start, len, what, 0);
}

void space_unmapped(Addr start, SizeT len)
{
   emit_record(FR_UNMAP, 2, start, len, 0, 0);
}

void space_emptied(Addr start, SizeT len)
{
   emit_record(FR_ADVISE, 3, start, len, FR_DONTNEED, 0);
}

void space_kernel_stored(Addr start, SizeT len)
{
   while (len && ring_is_open()) {
      SizeT part = len < FR_STORE_BYTES ? len : FR_STORE_BYTES;
      emit_record(FR_KERNEL_STORE, 2, start, part, 0, 0);
      start += part;
      len -= part;
   }
}

/* The core looks up the segment that mremap is to move and does not expect that there may be none. */
static Bool moving;

const NSegment* __wrap_vgPlain_am_find_nsegment(Addr a);
const NSegment* __wrap_vgPlain_am_find_nsegment(Addr a)
{
   static const NSegment nothing = { .kind = SkFree, .start = ~0UL, .end = ~0UL };
   const NSegment* s = __real_vgPlain_am_find_nsegment(a);
   return s || !moving ? s : &nothing;
}

void space_syscall_begins(UInt number, UWord* args)
{
   if (number == __NR_shmdt)
      proc_maps_detach_begins(args[0]);
   moving = number == __NR_mremap;
   pool_syscall_begins(number, args);
   shm_syscall_begins(number, args);
}

/* A system call has ended. */
void space_syscall(UInt number, UWord* args, SysRes result)
{
   SizeT huge_page = pool_syscall_ends();
   shm_syscall_ends(result);
   moving = False;
   switch (number) {
      /* These have effects even if they fail: mprotect up to the first page that it cannot change, madvise on all but
         the holes. */
      case __NR_mprotect:
      case PKEY_MPROTECT:
         protect(args[0], args[1], args[2], result);
         return;
      case __NR_madvise:
         if (args[1] && (!sr_isError(result) || sr_Err(result) == VKI_ENOMEM || args[2] == MADV_COLLAPSE_))
            advised(args[0], args[1], args[2]);
         return;
      default:
         break;
   }
   if (sr_isError(result))
      return;
   switch (number) {
      case __NR_mmap:
         mapped(args, sr_Res(result), huge_page);
         break;
      case __NR_munmap:
         space_unmapped(args[0], page_up(args[1]));
         break;
      case __NR_mremap:
         emit_record(FR_REMAP, 4, args[0], page_up(args[1]), sr_Res(result), page_up(args[2]));
         break;
      case __NR_brk:
         brk_changed(sr_Res(result));
         break;
      case __NR_prctl:
         if (args[0] == SET_THP_DISABLE)
            thp_rule(False);
         break;
      case __NR_shmat:
         shm_attached(sr_Res(result), args[2]);
         break;
      case __NR_shmdt:
         proc_maps_detached();
         break;
      default:
         break;
   }
}
