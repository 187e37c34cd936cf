/* This file is part of farreach, a laboratory for virtual-memory address translation.
   Copyright (C) the farreach developers.
   SPDX-License-Identifier: GPL-2.0-or-later
   It is linked with Valgrind, so this directory is under the GNU GPL (../LICENSE-GPL-2), version 2 or later. */

/* With --pool=yes the program finds a pool of huge pages that never ends, whether there is one or not: mmap with
   MAP_HUGETLB gives memory at a multiple of the huge page, recorded as memory that asks for huge pages. */

#include "recorder.h"

Bool pool = False;

/* Bytes of a huge page in the mmap under way, 0 if it asks for none. */
static SizeT wanted;

/* No place was found for the program in the system call under way. */
static Bool refused;

enum { MAP_HUGETLB = 0x40000, SIZE_SHIFT = 26, SIZE_BITS = 0x3f, DEFAULT_SHIFT = 21 };

/* From the core's own headers, which are not among those for tools. */
typedef struct { enum { MFixed, MHint, MAny } rkind; Addr start; Addr len; } MapRequest;
extern Addr __real_vgPlain_am_get_advisory(const MapRequest* req, Bool for_client, Bool* ok);
extern SysRes __real_vgPlain_am_do_mmap_NO_NOTIFY(Addr start, SizeT length, UInt prot, UInt flags, Int fd,
                                                  Off64T offset);

void pool_syscall_begins(UInt number, UWord* args)
{
   wanted = 0;
   refused = False;
   if (pool && number == __NR_mmap && args[3] & MAP_HUGETLB) {
      UInt shift = args[3] >> SIZE_SHIFT & SIZE_BITS;
      wanted = 1UL << (shift ? shift : DEFAULT_SHIFT);
   }
}

Bool addresses_refused(void)
{
   return refused;
}

/* The bytes of a huge page, if the mmap that has ended asked for some. */
SizeT pool_syscall_ends(void)
{
   SizeT asked = wanted;
   wanted = 0;
   return asked;
}

Addr __wrap_vgPlain_am_get_advisory(const MapRequest* req, Bool for_client, Bool* ok);
Addr __wrap_vgPlain_am_get_advisory(const MapRequest* req, Bool for_client, Bool* ok)
{
   if (!wanted || !for_client || req->rkind == MFixed) {
      Addr at = __real_vgPlain_am_get_advisory(req, for_client, ok);
      refused |= for_client && !*ok;
      return at;
   }
   MapRequest more = { .rkind = MAny, .start = 0, .len = ((req->len + wanted - 1) & -wanted) + wanted };
   Addr at = __real_vgPlain_am_get_advisory(&more, for_client, ok);
   refused |= !*ok;
   return (at + wanted - 1) & -wanted;
}

SysRes __wrap_vgPlain_am_do_mmap_NO_NOTIFY(Addr start, SizeT length, UInt prot, UInt flags, Int fd, Off64T offset);
SysRes __wrap_vgPlain_am_do_mmap_NO_NOTIFY(Addr start, SizeT length, UInt prot, UInt flags, Int fd, Off64T offset)
{
   if (wanted)
      flags &= ~(MAP_HUGETLB | SIZE_BITS << SIZE_SHIFT);
   return __real_vgPlain_am_do_mmap_NO_NOTIFY(start, length, prot, flags, fd, offset);
}
