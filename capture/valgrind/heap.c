/* This file is part of farreach, a laboratory for virtual-memory address translation.
   Copyright (C) the farreach developers.
   SPDX-License-Identifier: GPL-2.0-or-later
   It is linked with Valgrind, so this directory is under the GNU GPL (../LICENSE-GPL-2), version 2 or later. */

/* Room for the heap of brk, where the core reserves 8 MB: natively there are terabytes. */

#include "recorder.h"

extern struct vki_rlimit VG_(client_rlimit_data);
extern Addr VG_(brk_base), VG_(brk_limit);
extern Bool __real_vgPlain_am_create_reservation(Addr start, SizeT length, ShrinkMode smode, SSizeT extra);

/* The heap lies behind the dynamic linker, and all later mappings behind this room. The 8 MB of the core are in it, so
   those mappings are 1 GB higher than under other tools, and as they were in the sets of any cache or TLB. */
enum { ROOM = (1 << 30) + (8 << 20), PAGE = 4096 };

/* Reservations that shrink at their lower end are those of heaps; those of stacks shrink at their upper. `extra`: bytes
   of the heap that come before the reservation. */
Bool __wrap_vgPlain_am_create_reservation(Addr start, SizeT length, ShrinkMode smode, SSizeT extra);
Bool __wrap_vgPlain_am_create_reservation(Addr start, SizeT length, ShrinkMode smode, SSizeT extra)
{
   if (smode == SmLower) {
      ULong allowed = VG_(client_rlimit_data).rlim_cur & ~(PAGE - 1UL);
      ULong all = allowed < ROOM ? allowed : ROOM;
      if (all > length + extra && __real_vgPlain_am_create_reservation(start, all - extra, smode, extra))
         return True;
   }
   return __real_vgPlain_am_create_reservation(start, length, smode, extra);
}

/* Whether the limit that the program has now allows a heap larger by this number of bytes: the core looks at it only
   when it makes the reservation. */
Bool heap_may_grow(SSizeT more)
{
   return VG_(brk_limit) - VG_(brk_base) + more <= VG_(client_rlimit_data).rlim_cur;
}
