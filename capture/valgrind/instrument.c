/* This file is part of farreach, a laboratory for virtual-memory address translation.
   Copyright (C) the farreach developers.
   SPDX-License-Identifier: GPL-2.0-or-later
   It is linked with Valgrind, so this directory is under the GNU GPL (../LICENSE-GPL-2), version 2 or later. */

/* What the recorder adds to the program's code.

   A superblock is cut into segments behind each conditional exit. A segment runs completely or not at all (but for
   faults, see FR_CUT), so it is one block of the stream, defined once, when it is translated. At its start the code
   moves hot.at past the words of the block, writes id and number of address words and adds to the tally. References
   whose addresses differ by constants (fields of a struct, pushes, registers saved on the stack) share a word, which is
   written before the first of them. No call, no branch. Room in the chunk is checked once per superblock.

   hot.at moves at the start, so that at a fault in the middle the block is already in the chunk, for FR_CUT to name. */

#include "segment.h"

#define HOT(field) (state_bytes + offsetof(struct hot, field))

static IRExpr* word(ULong value)
{
   return IRExpr_Const(IRConst_U64(value));
}

static IRExpr* assign(IRSB* out, IRType type, IRExpr* value)
{
   IRTemp t = newIRTemp(out->tyenv, type);
   addStmtToIRSB(out, IRStmt_WrTmp(t, value));
   return IRExpr_RdTmp(t);
}

static IRExpr* plus(IRSB* out, IRExpr* a, ULong b)
{
   return b ? assign(out, Ity_I64, IRExpr_Binop(Iop_Add64, a, word(b))) : a;
}

static void modifies_hot(IRDirty* call)
{
   call->nFxState = 1;
   call->fxState[0].fx = Ifx_Modify;
   call->fxState[0].offset = HOT(at);
   call->fxState[0].size = sizeof(struct hot);
   call->fxState[0].nRepeats = 0;
   call->fxState[0].repeatLen = 0;
}

/* if (hot.at > hot.limit) ring_turn(); */
static void emit_room_check(IRSB* out)
{
   IRExpr*  at = assign(out, Ity_I64, IRExpr_Get(HOT(at), Ity_I64));
   IRExpr*  limit = assign(out, Ity_I64, IRExpr_Get(HOT(limit), Ity_I64));
   IRDirty* turn = unsafeIRDirty_0_N(1, "ring_turn", VG_(fnptr_to_fnentry)(&ring_turn), mkIRExprVec_1(IRExpr_GSPTR()));
   turn->guard = assign(out, Ity_I1, IRExpr_Binop(Iop_CmpLT64U, limit, at));
   modifies_hot(turn);
   addStmtToIRSB(out, IRStmt_Dirty(turn));
}

/* Start of a segment; returns the place of its words. */
static IRExpr* emit_start(IRSB* out, UInt id)
{
   IRExpr* at = assign(out, Ity_I64, IRExpr_Get(HOT(at), Ity_I64));
   addStmtToIRSB(out, IRStmt_Put(HOT(at), plus(out, at, 8 * (1 + segment.words))));
   addStmtToIRSB(out, IRStmt_Store(Iend_LE, at, word(id | (ULong)segment.words << 32)));
   IRExpr* tally = assign(out, Ity_I64, IRExpr_Get(HOT(tally), Ity_I64));
   addStmtToIRSB(out, IRStmt_Put(HOT(tally), plus(out, tally, segment_tally())));
   return at;
}

/* Writes the address word of which this is the first reference. */
static void emit_word(IRSB* out, IRExpr* at, const struct ref* r)
{
   IRExpr* addr = r->addr;
   IRTemp  root;
   ULong   low;
   if (r->guard)
      addr = assign(out, Ity_I64, IRExpr_ITE(r->guard, addr, word(FR_NOT_EXECUTED)));
   else if (!segment_word_is_address(r, &root, &low))
      addr = root == IRTemp_INVALID ? word(low) : plus(out, IRExpr_RdTmp(root), low);
   addStmtToIRSB(out, IRStmt_Store(Iend_LE, plus(out, at, 8 * (1 + r->word)), addr));
}

/* if (none) ring_fetch(...): a string instruction that is repeated 0 times is fetched. */
static void emit_fetch(IRSB* out, IRExpr* none)
{
   IRDirty* fetch = unsafeIRDirty_0_N(2, "ring_fetch", VG_(fnptr_to_fnentry)(&ring_fetch),
                                      mkIRExprVec_2(IRExpr_GSPTR(), word(segment_define_insn())));
   fetch->guard = none;
   modifies_hot(fetch);
   addStmtToIRSB(out, IRStmt_Dirty(fetch));
}

IRSB* instrument(VgCallbackClosure* closure, IRSB* in, const VexGuestLayout* layout, const VexGuestExtents* extents,
                 const VexArchInfo* host, IRType guest_word, IRType host_word)
{
   IRSB* out = deepCopyIRSBExceptStmts(in);
   Int   i = 0;
   UInt  words = 0;

   space_code(extents->base[0]);
   segment_begin(in);
   /* What precedes the first instruction is the core's own. */
   for (; i < in->stmts_used && in->stmts[i]->tag != Ist_IMark; i++) {
      segment_learn(in->stmts[i]);
      addStmtToIRSB(out, in->stmts[i]);
   }
   if (i < in->stmts_used)
      emit_room_check(out);

   while (i < in->stmts_used) {
      Int     end = segment_scan(in, i);
      Bool    empty = segment.instrs == 0 && segment.refs == 0;
      IRExpr* at = empty ? NULL : emit_start(out, segment_define());
      UInt    next = 0;
      words += empty ? 0 : 1 + segment.words;
      for (; i < end; i++) {
         IRStmt* st = in->stmts[i];
         /* An address is known before its statement. */
         for (; next < segment.refs && segment.ref[next].stmt == i; next++)
            if (segment.ref[next].first)
               emit_word(out, at, &segment.ref[next]);
         if (insn.waits && i == end - 1 && st->Ist.Exit.dst->Ico.U64 != insn.at) {
            emit_fetch(out, st->Ist.Exit.guard);
            words++;
         }
         if (!is_mark(st) || st->Ist.AbiHint.len == MARK_LOADED)
            addStmtToIRSB(out, st);
      }
      tl_assert(next == segment.refs);
   }
   if (words > SUPERBLOCK_WORDS)
      fail("a superblock of %u words at %#lx; %d are allowed", words, closure->nraddr, SUPERBLOCK_WORDS);
   return out;
}
