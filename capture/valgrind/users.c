/* This file is part of farreach, a laboratory for virtual-memory address translation.
   Copyright (C) the farreach developers.
   SPDX-License-Identifier: GPL-2.0-or-later
   It is linked with Valgrind, so this directory is under the GNU GPL (../LICENSE-GPL-2), version 2 or later. */

/* Programs that give up their user, as daemons and setpriv do. Their children and the programs that they become need
   files of the run, which belong to root. So before a process of root becomes another user, the directory of the run is
   given to that user; the reader, who is root, can do with it whatever it could. Nobody else gets in. */

#include "recorder.h"

extern Int VG_(geteuid)(void);
extern SysRes __real_vgPlain_open(const HChar* path, Int flags, Int mode);

enum { NOFOLLOW = 0400000 };

/* The core's log lies in that directory, too. A process that is still root must not be led elsewhere by its new
   owner. */
SysRes __wrap_vgPlain_open(const HChar* path, Int flags, Int mode);
SysRes __wrap_vgPlain_open(const HChar* path, Int flags, Int mode)
{
   SizeT n = run_dir ? VG_(strlen)(run_dir) : 0;
   if (n > 0 && VG_(strncmp)(path, run_dir, n) == 0 && path[n] == '/')
      flags |= NOFOLLOW;
   return __real_vgPlain_open(path, flags, mode);
}

enum { SETUID = 105, SETREUID = 113, SETRESUID = 117, UNCHANGED = -1 };

/* The user whose files the process is about to have. */
static UInt next_user(UInt number, const UWord* args)
{
   switch (number) {
      case SETUID:    return args[0];
      case SETREUID:
      case SETRESUID: return args[1];
      default:        return UNCHANGED;
   }
}

void users_syscall_begins(UInt number, const UWord* args)
{
   UInt user = next_user(number, args);
   if (user == (UInt)UNCHANGED || user == 0 || VG_(geteuid)() != 0)
      return;
   UInt owner;
   if (!ring_give_to(user, &owner))
      limit_met(FR_LIMIT_EXEC, 0,
                "it became user %u after another process had become user %u: neither its children nor the programs "
                "that it becomes are recorded", user, owner);
}
