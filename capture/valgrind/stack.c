/* This file is part of farreach, a laboratory for virtual-memory address translation.
   Copyright (C) the farreach developers.
   SPDX-License-Identifier: GPL-2.0-or-later
   It is linked with Valgrind, so this directory is under the GNU GPL (../LICENSE-GPL-2), version 2 or later. */

/* The stack grows for any address below it, down to its limit, as on Linux. The core grows it only near the stack
   pointer: a runtime that touches its whole stack in advance would fault. */

#include "recorder.h"

extern Int  __real_vgPlain_sigaction(Int signal, const vki_sigaction_toK_t* act, vki_sigaction_fromK_t* old);
extern Bool VG_(am_addr_is_in_extensible_client_stack)(Addr addr);
extern Bool VG_(extend_stack)(ThreadId tid, Addr addr);
extern Bool VG_(in_generated_code);

#define PAGE 4096UL

/* Type of the core's handlers, which stand where the kernel's type has an argument less. */
typedef void handler(Int signal, vki_siginfo_t* info, void* context);

enum { MAPERR = 1 };

static handler* core_handler; /* of SIGSEGV */

static void on_fault(Int signal, vki_siginfo_t* info, void* context)
{
   Addr at = (Addr)info->_sifields._sigfault._addr;
   /* The core's own growth comes to the same; this one only does not ask where the stack pointer is. */
   if (VG_(in_generated_code) && info->si_code == MAPERR && VG_(am_addr_is_in_extensible_client_stack)(at)
       && VG_(extend_stack)(VG_(get_running_tid)(), at & ~(PAGE - 1)))
      return; /* the instruction runs again */
   core_handler(signal, info, context);
}

Int __wrap_vgPlain_sigaction(Int signal, const vki_sigaction_toK_t* act, vki_sigaction_fromK_t* old);
Int __wrap_vgPlain_sigaction(Int signal, const vki_sigaction_toK_t* act, vki_sigaction_fromK_t* old)
{
   if (signal != VKI_SIGSEGV)
      return __real_vgPlain_sigaction(signal, act, old);
   handler* before = core_handler;
   vki_sigaction_toK_t ours;
   if (act) {
      ours = *act;
      if (act->ksa_handler != VKI_SIG_DFL && act->ksa_handler != VKI_SIG_IGN
          && (handler*)act->ksa_handler != on_fault) {
         core_handler = (handler*)act->ksa_handler;
         ours.ksa_handler = (void*)on_fault;
      }
      act = &ours;
   }
   Int result = __real_vgPlain_sigaction(signal, act, old);
   /* The core compares what it set with what it gets. */
   if (old && (handler*)old->ksa_handler == on_fault)
      old->ksa_handler = (void*)before;
   return result;
}
