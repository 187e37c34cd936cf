/* This file is part of farreach, a laboratory for virtual-memory address translation.
   Copyright (C) the farreach developers.
   SPDX-License-Identifier: GPL-2.0-or-later
   It is linked with Valgrind, so this directory is under the GNU GPL (../LICENSE-GPL-2), version 2 or later. */

/* System V segments of huge pages. The core takes SHM_HUGETLB away, so that a program gets a segment of ordinary pages
   where the system has no huge ones, and believes that it has them. Here the system decides. */

#include "recorder.h"
#include "pub_tool_xarray.h"

extern SysRes __real_vgPlain_do_syscall(UWord number, RegWord, RegWord, RegWord, RegWord, RegWord, RegWord, RegWord,
                                        RegWord);
extern Addr __real_vgPlain_am_get_advisory_client_simple(Addr start, SizeT len, Bool* ok);
extern Bool __real_vgPlain_am_notify_client_shmat(Addr a, SizeT len, UInt prot);
extern Addr VG_(am_get_advisory_client_simple)(Addr start, SizeT len, Bool* ok);

enum { SHM_HUGETLB = 04000, SIZE_SHIFT = 26, SIZE_BITS = 0x3f, DEFAULT_SHIFT = 21 };

/* A segment of huge pages that this process, or one that it comes from, has made. */
struct segment {
   Int   id;
   SizeT page;
};

static XArray* segments;
static UWord   asked;     /* flags of the shmget in progress, if it asks for huge pages */
static SizeT   attaching; /* bytes of a page of the segment that is being attached, 0: ordinary ones */

static SizeT page_of(Int id)
{
   for (Word i = segments ? VG_(sizeXA)(segments) - 1 : -1; i >= 0; i--) {
      struct segment* s = VG_(indexXA)(segments, i);
      if (s->id == id)
         return s->page;
   }
   return 0;
}

void shm_syscall_begins(UInt number, const UWord* args)
{
   asked = number == __NR_shmget && args[2] & SHM_HUGETLB ? args[2] : 0;
   attaching = number == __NR_shmat ? page_of(args[0]) : 0;
}

void shm_syscall_ends(SysRes result)
{
   if (asked && !sr_isError(result)) {
      UInt  shift = asked >> SIZE_SHIFT & SIZE_BITS;
      struct segment made = { sr_Res(result), 1UL << (shift ? shift : DEFAULT_SHIFT) };
      if (!segments)
         segments = VG_(newXA)(VG_(malloc), "segments", VG_(free), sizeof made);
      VG_(addToXA)(segments, &made);
   }
   asked = 0;
   attaching = 0;
}

/* The core's request of the system for the program. */
SysRes __wrap_vgPlain_do_syscall(UWord number, RegWord a, RegWord b, RegWord c, RegWord d, RegWord e, RegWord f,
                                 RegWord g, RegWord h);
SysRes __wrap_vgPlain_do_syscall(UWord number, RegWord a, RegWord b, RegWord c, RegWord d, RegWord e, RegWord f,
                                 RegWord g, RegWord h)
{
   if (number == __NR_shmget && asked)
      c = asked;
   return __real_vgPlain_do_syscall(number, a, b, c, d, e, f, g, h);
}

static SizeT whole_pages(SizeT len)
{
   return (len + attaching - 1) & -attaching;
}

/* The core chooses the place. */
Addr __wrap_vgPlain_am_get_advisory_client_simple(Addr start, SizeT len, Bool* ok);
Addr __wrap_vgPlain_am_get_advisory_client_simple(Addr start, SizeT len, Bool* ok)
{
   if (!attaching || start)
      return __real_vgPlain_am_get_advisory_client_simple(start, len, ok);
   Addr at = __real_vgPlain_am_get_advisory_client_simple(0, whole_pages(len) + attaching, ok);
   return (at + attaching - 1) & -attaching;
}

/* What the system mapped. */
Bool __wrap_vgPlain_am_notify_client_shmat(Addr a, SizeT len, UInt prot);
Bool __wrap_vgPlain_am_notify_client_shmat(Addr a, SizeT len, UInt prot)
{
   return __real_vgPlain_am_notify_client_shmat(a, attaching ? whole_pages(len) : len, prot);
}
