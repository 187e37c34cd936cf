/* This file is part of farreach, a laboratory for virtual-memory address translation.
   Copyright (C) the farreach developers.
   SPDX-License-Identifier: GPL-2.0-or-later
   It is linked with Valgrind, so this directory is under the GNU GPL (../LICENSE-GPL-2), version 2 or later. */

/* Which temporaries of a piece of flat code are used by something that has an effect. */

#include "recorder.h"

static UChar* lives;
static UInt   room;

/* One of MARK_... */
Bool is_mark(const IRStmt* st)
{
   return st->tag == Ist_AbiHint && (st->Ist.AbiHint.len & ~0xffff) == (MARK_OPERAND & ~0xffff);
}

static void use(const IRExpr* e)
{
   if (e && e->tag == Iex_RdTmp)
      lives[e->Iex.RdTmp.tmp] = True;
}

static void use_all(IRExpr* const* args)
{
   for (; *args; args++)
      use(*args);
}

static void use_operands(const IRExpr* e)
{
   switch (e->tag) {
      case Iex_GetI: use(e->Iex.GetI.ix); break;
      case Iex_RdTmp: use(e); break;
      case Iex_Qop:
         use(e->Iex.Qop.details->arg4);
         use(e->Iex.Qop.details->arg3);
         use(e->Iex.Qop.details->arg2);
         use(e->Iex.Qop.details->arg1);
         break;
      case Iex_Triop:
         use(e->Iex.Triop.details->arg3);
         use(e->Iex.Triop.details->arg2);
         use(e->Iex.Triop.details->arg1);
         break;
      case Iex_Binop:
         use(e->Iex.Binop.arg2);
         use(e->Iex.Binop.arg1);
         break;
      case Iex_Unop: use(e->Iex.Unop.arg); break;
      case Iex_Load: use(e->Iex.Load.addr); break;
      case Iex_CCall: use_all(e->Iex.CCall.args); break;
      case Iex_ITE:
         use(e->Iex.ITE.cond);
         use(e->Iex.ITE.iftrue);
         use(e->Iex.ITE.iffalse);
         break;
      default: break;
   }
}

static void use_of(const IRStmt* st)
{
   switch (st->tag) {
      case Ist_WrTmp:
         /* A load has an effect, but does not make its own value live. */
         if (lives[st->Ist.WrTmp.tmp] || st->Ist.WrTmp.data->tag == Iex_Load)
            use_operands(st->Ist.WrTmp.data);
         break;
      case Ist_Put: use(st->Ist.Put.data); break;
      case Ist_PutI:
         use(st->Ist.PutI.details->ix);
         use(st->Ist.PutI.details->data);
         break;
      case Ist_Store:
         use(st->Ist.Store.addr);
         use(st->Ist.Store.data);
         break;
      case Ist_StoreG:
         use(st->Ist.StoreG.details->addr);
         use(st->Ist.StoreG.details->data);
         use(st->Ist.StoreG.details->guard);
         break;
      case Ist_LoadG:
         use(st->Ist.LoadG.details->addr);
         use(st->Ist.LoadG.details->alt);
         use(st->Ist.LoadG.details->guard);
         break;
      case Ist_CAS: {
         const IRCAS* cas = st->Ist.CAS.details;
         use(cas->addr);
         use(cas->expdHi);
         use(cas->expdLo);
         use(cas->dataHi);
         use(cas->dataLo);
         break;
      }
      case Ist_LLSC:
         use(st->Ist.LLSC.addr);
         use(st->Ist.LLSC.storedata);
         break;
      case Ist_Dirty:
         use(st->Ist.Dirty.details->guard);
         use(st->Ist.Dirty.details->mAddr);
         use_all(st->Ist.Dirty.details->args);
         break;
      case Ist_Exit: use(st->Ist.Exit.guard); break;
      case Ist_AbiHint:
         if (is_mark(st))
            break;
         use(st->Ist.AbiHint.base);
         use(st->Ist.AbiHint.nia);
         break;
      default: break;
   }
}

void live_find(const IRSB* sb)
{
   UInt temps = sb->tyenv->types_used;
   if (temps > room) {
      room = 2 * temps;
      lives = VG_(realloc)("farreach.live", lives, room);
   }
   VG_(memset)(lives, False, temps);
   use(sb->next);
   for (Int i = sb->stmts_used; i-- > 0;)
      use_of(sb->stmts[i]);
}

Bool live(IRTemp t)
{
   return lives[t];
}
