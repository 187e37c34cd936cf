/* This file is part of farreach, a laboratory for virtual-memory address translation.
   Copyright (C) the farreach developers.
   SPDX-License-Identifier: GPL-2.0-or-later
   It is linked with Valgrind, so this directory is under the GNU GPL (../LICENSE-GPL-2), version 2 or later. */

/* Changes to the program's code between the core's translation and its optimiser, by which faults are what they are on
   a processor, and no reference gets lost:

   - A load whose value nobody uses stays, and faults.
   - An instruction that faults has changed no register. The core's translation of some moves the stack pointer, or
     counts an iteration, before it touches memory.
   - A division that faults finds all registers exact, stays where it is, and stays if nobody uses its result.
   - A repeated string instruction is executed once for each iteration, not once more to see that it has ended.
     `rep lods` repeats.
   - A fault in an unrolled loop is at its instruction, in each copy.
   - A bit test between registers does not go through the program's stack.

   The linker routes the core's calls here (--wrap, see the Makefile). The code is flat: operands are temporaries or
   constants. */

#include "recorder.h"

#define REGISTER(n) ((Int)offsetof(VexGuestAMD64State, guest_RAX) + 8 * (n))
#define RCX         REGISTER(1)
#define RIP         ((Int)offsetof(VexGuestAMD64State, guest_RIP))

extern IRSB* __real_do_minimal_initial_iropt_BB(IRSB* sb);
extern IRSB* __real_cprop_BB(IRSB* sb);

/* The statements of one instruction. */
struct insn {
   IRStmt**    st;
   Int         used, room;
   Addr        at, next;
   struct code code;
};

static struct insn insn;
static IRSB*       out;

static void insert(Int place, IRStmt* st)
{
   if (insn.used == insn.room) {
      insn.room = 2 * insn.room + 64;
      insn.st = VG_(realloc)("farreach.insn", insn.st, insn.room * sizeof *insn.st);
   }
   for (Int i = insn.used++; i > place; i--)
      insn.st[i] = insn.st[i - 1];
   insn.st[place] = st;
}

static IRExpr* word(ULong value)
{
   return IRExpr_Const(IRConst_U64(value));
}

/* Inserts `t = value` at *place, and moves that behind it. */
static IRExpr* let(Int* place, IRType type, IRExpr* value)
{
   IRTemp t = newIRTemp(out->tyenv, type);
   insert((*place)++, IRStmt_WrTmp(t, value));
   return IRExpr_RdTmp(t);
}

static void leave_if(Int* place, IRExpr* condition, Addr to)
{
   insert((*place)++, IRStmt_Exit(condition, Ijk_Boring, IRConst_U64(to), RIP));
}

static Bool is_temp(const IRExpr* e, IRTemp t)
{
   return e->tag == Iex_RdTmp && e->Iex.RdTmp.tmp == t;
}

static const IRExpr* loaded(const IRStmt* st)
{
   return st->tag == Ist_WrTmp && st->Ist.WrTmp.data->tag == Iex_Load ? st->Ist.WrTmp.data->Iex.Load.addr : NULL;
}

/* The statement that assigns a temporary within the instruction, NULL if another does. */
static const IRExpr* value_of(const IRExpr* e)
{
   if (e->tag == Iex_RdTmp)
      for (Int i = 0; i < insn.used; i++)
         if (insn.st[i]->tag == Ist_WrTmp && insn.st[i]->Ist.WrTmp.tmp == e->Iex.RdTmp.tmp)
            return insn.st[i]->Ist.WrTmp.data;
   return NULL;
}

/* ---- Repeated string instructions ---- */

/* The core makes: if count is 0, leave; count; the iteration; again from the start. Between the iteration and "again":
   leave if that was the last one. */
static void end_after_last_iteration(void)
{
   const IRExpr* count = NULL;
   Int           exits = 0, place = insn.used;
   for (Int i = 0; i < insn.used; i++) {
      const IRStmt* st = insn.st[i];
      if (st->tag == Ist_Put && st->Ist.Put.offset == RCX)
         count = st->Ist.Put.data;
      if (st->tag == Ist_Exit && exits++ > 0)
         place = i;
   }
   if (exits == 0 || !count)
      return;
   IRExpr* none = let(&place, Ity_I1, IRExpr_Binop(Iop_CmpEQ64, deepCopyIRExpr(count), word(0)));
   leave_if(&place, none, insn.next);
}

/* The core makes one iteration of `rep lods`. */
static void repeat_lods(void)
{
   Int     place = 1;
   IRExpr* count = let(&place, Ity_I64, IRExpr_Get(RCX, Ity_I64));
   if (insn.code.address == 4)
      count = let(&place, Ity_I64, IRExpr_Binop(Iop_And64, count, word(0xffffffff)));
   leave_if(&place, let(&place, Ity_I1, IRExpr_Binop(Iop_CmpEQ64, count, word(0))), insn.next);
   place = insn.used;
   IRExpr* left = let(&place, Ity_I64, IRExpr_Binop(Iop_Sub64, count, word(1)));
   insert(place++, IRStmt_Put(RCX, left));
   leave_if(&place, let(&place, Ity_I1, IRExpr_Binop(Iop_CmpNE64, left, word(0))), insn.at);
   insert(place++, IRStmt_Put(RIP, word(insn.next)));
}

/* ---- Bit tests ---- */

/* With an operand in memory, the core touches the byte of the bit: at base + (bit >> 3). The processor touches a whole
   operand: at base + (bit >> 3 & ~(size - 1)). */
static void mark_bit_string(void)
{
   for (Int i = 0; i < insn.used; i++) {
      const IRExpr* addr = loaded(insn.st[i]);
      const IRExpr* sum = addr ? value_of(addr) : NULL;
      if (!sum || sum->tag != Iex_Binop || sum->Iex.Binop.op != Iop_Add64)
         continue;
      IRExpr* bytes = sum->Iex.Binop.arg2;
      IRExpr* whole = let(&i, Ity_I64, IRExpr_Binop(Iop_And64, bytes, word(-(ULong)insn.code.operand)));
      IRExpr* place = let(&i, Ity_I64, IRExpr_Binop(Iop_Add64, sum->Iex.Binop.arg1, whole));
      insert(i, IRStmt_AbiHint(place, MARK_OPERAND + insn.code.operand, word(0)));
      return;
   }
}

/* Between registers, the core stores the operand at rsp - 288, tests and changes a byte of it, and loads it again. Here
   a temporary takes the place of that memory. */
static void keep_off_the_stack(void)
{
   IRExpr *operand = NULL, *shift = NULL;
   IRTemp  slot = IRTemp_INVALID;
   IRType  type = Ity_INVALID;
   for (Int i = 0; i < insn.used; i++) {
      IRStmt*       st = insn.st[i];
      const IRExpr* addr = loaded(st);
      if (st->tag == Ist_Store && !operand) {
         slot = st->Ist.Store.addr->Iex.RdTmp.tmp;
         type = typeOfIRExpr(out->tyenv, st->Ist.Store.data);
         operand = st->Ist.Store.data;
         insn.st[i] = IRStmt_NoOp();
         if (type != Ity_I64)
            operand = let(&i, Ity_I64, IRExpr_Unop(type == Ity_I32 ? Iop_32Uto64 : Iop_16Uto64, operand));
      } else if (st->tag == Ist_Store) {
         IRExpr* byte = let(&i, Ity_I64, IRExpr_Unop(Iop_8Uto64, st->Ist.Store.data));
         byte = let(&i, Ity_I64, IRExpr_Binop(Iop_Shl64, byte, shift));
         IRExpr* hole = let(&i, Ity_I64, IRExpr_Binop(Iop_Shl64, word(255), shift));
         hole = let(&i, Ity_I64, IRExpr_Unop(Iop_Not64, hole));
         operand = let(&i, Ity_I64, IRExpr_Binop(Iop_And64, operand, hole));
         operand = let(&i, Ity_I64, IRExpr_Binop(Iop_Or64, operand, byte));
         insn.st[i] = IRStmt_NoOp();
      } else if (addr && operand && is_temp(addr, slot)) {
         IROp narrow = type == Ity_I32 ? Iop_64to32 : Iop_64to16;
         insn.st[i] = IRStmt_WrTmp(st->Ist.WrTmp.tmp, type == Ity_I64 ? operand : IRExpr_Unop(narrow, operand));
      } else if (addr && operand) {
         IRExpr* bytes = value_of(addr)->Iex.Binop.arg2;
         bytes = let(&i, Ity_I64, IRExpr_Binop(Iop_Shl64, bytes, IRExpr_Const(IRConst_U8(3))));
         shift = let(&i, Ity_I8, IRExpr_Unop(Iop_64to8, bytes));
         IRExpr* low = let(&i, Ity_I64, IRExpr_Binop(Iop_Shr64, operand, shift));
         insn.st[i] = IRStmt_WrTmp(st->Ist.WrTmp.tmp, IRExpr_Unop(Iop_64to8, low));
      } else if (st->tag == Ist_Put && st->Ist.Put.offset == REGISTER(4)) {
         insn.st[i] = IRStmt_NoOp();
      }
   }
}

/* CLFLUSH: the core only tells itself of the 256 bytes around the operand. A processor translates its address, with the
   rights of a load of a byte. */
static void load_what_is_flushed(void)
{
   for (Int i = 0; i < insn.used; i++) {
      const IRStmt* st = insn.st[i];
      if (st->tag != Ist_Put || st->Ist.Put.offset != offsetof(VexGuestAMD64State, guest_CMSTART))
         continue;
      const IRExpr* around = value_of(st->Ist.Put.data);
      if (around && around->tag == Iex_Binop && around->Iex.Binop.op == Iop_And64)
         let(&i, Ity_I8, IRExpr_Load(Iend_LE, Ity_I8, deepCopyIRExpr(around->Iex.Binop.arg1)));
      return;
   }
}

/* ---- Faults ---- */

static Bool touches_memory(const IRStmt* st)
{
   switch (st->tag) {
      case Ist_WrTmp:
         return st->Ist.WrTmp.data->tag == Iex_Load;
      case Ist_Dirty:
         return st->Ist.Dirty.details->mFx != Ifx_None;
      default:
         return st->tag == Ist_Store || st->tag == Ist_StoreG || st->tag == Ist_LoadG || st->tag == Ist_CAS;
   }
}

/* Registers to be written when the instruction has touched memory for the last time. */
#define MAX_LATER 256
static IRStmt* later[MAX_LATER];
static Int     laters;

static void write_registers(void)
{
   for (Int i = 0; i < laters; i++)
      addStmtToIRSB(out, later[i]);
   laters = 0;
}

/* The statement as it is while the registers are not written yet. */
static IRStmt* with_later(IRStmt* st)
{
   if (st->tag == Ist_PutI || st->tag == Ist_Dirty ||
       (st->tag == Ist_WrTmp && st->Ist.WrTmp.data->tag == Iex_GetI)) {
      write_registers();
   } else if (st->tag == Ist_WrTmp && st->Ist.WrTmp.data->tag == Iex_Get) {
      Int    from = st->Ist.WrTmp.data->Iex.Get.offset;
      IRType type = st->Ist.WrTmp.data->Iex.Get.ty;
      for (Int i = laters; i-- > 0;) {
         IRExpr* put = later[i]->Ist.Put.data;
         Int     at = later[i]->Ist.Put.offset;
         IRType  its = typeOfIRExpr(out->tyenv, put);
         if (at == from && its == type)
            return IRStmt_WrTmp(st->Ist.WrTmp.tmp, deepCopyIRExpr(put));
         if (at < from + sizeofIRType(type) && from < at + sizeofIRType(its)) {
            write_registers();
            break;
         }
      }
   }
   return st;
}

static void mark(IRExpr* base, Int what)
{
   addStmtToIRSB(out, IRStmt_AbiHint(base, what, word(0)));
}

static IRExpr* assign(IRType type, IRExpr* value)
{
   IRTemp t = newIRTemp(out->tyenv, type);
   addStmtToIRSB(out, IRStmt_WrTmp(t, value));
   return IRExpr_RdTmp(t);
}

/* Keeps the value of a load in use until the code is optimised. The mark wants 64 bits of an integer. */
static void keep_load(IRTemp t)
{
   IRExpr* value = IRExpr_RdTmp(t);
   switch (typeOfIRTemp(out->tyenv, t)) {
      case Ity_I64: break;
      case Ity_I8: value = assign(Ity_I64, IRExpr_Unop(Iop_8Uto64, value)); break;
      case Ity_I16: value = assign(Ity_I64, IRExpr_Unop(Iop_16Uto64, value)); break;
      case Ity_I32: value = assign(Ity_I64, IRExpr_Unop(Iop_32Uto64, value)); break;
      case Ity_I128: value = assign(Ity_I64, IRExpr_Unop(Iop_128to64, value)); break;
      case Ity_V128: value = assign(Ity_I64, IRExpr_Unop(Iop_V128to64, value)); break;
      case Ity_V256: value = assign(Ity_I64, IRExpr_Unop(Iop_V256to64_0, value)); break;
      case Ity_F64: value = assign(Ity_I64, IRExpr_Unop(Iop_ReinterpF64asI64, value)); break;
      case Ity_F32:
         value = assign(Ity_I32, IRExpr_Unop(Iop_ReinterpF32asI32, value));
         value = assign(Ity_I64, IRExpr_Unop(Iop_32Uto64, value));
         break;
      default: return;
   }
   mark(value, MARK_LOADED);
}

static Bool divides(const IRStmt* st)
{
   if (st->tag != Ist_WrTmp || st->Ist.WrTmp.data->tag != Iex_Binop)
      return False;
   IROp op = st->Ist.WrTmp.data->Iex.Binop.op;
   return op == Iop_DivModU64to32 || op == Iop_DivModS64to32 || op == Iop_DivModU128to64 || op == Iop_DivModS128to64;
}

/* Divisions of 8 and 16 bits are made with 32 bits, which hold a quotient that is too large for them: divide by 0 then.
   */
static void check_quotient(IRExpr* result, Bool is_signed)
{
   UInt    bits = insn.code.opcode == 0xf6 ? 8 : 16;
   IRExpr* drop = IRExpr_Const(IRConst_U8(32 - bits));
   IRExpr* quotient = assign(Ity_I32, IRExpr_Unop(Iop_64to32, result));
   IRExpr* high = assign(Ity_I32, IRExpr_Binop(Iop_Shl32, quotient, drop));
   IRExpr* same = assign(Ity_I32, IRExpr_Binop(is_signed ? Iop_Sar32 : Iop_Shr32, high, drop));
   IRExpr* fits = assign(Ity_I1, IRExpr_Binop(Iop_CmpEQ32, same, quotient));
   IRExpr* one = assign(Ity_I32, IRExpr_Unop(Iop_1Uto32, fits));
   IRExpr* none = assign(Ity_I64, IRExpr_Binop(Iop_DivModU64to32, word(0), one));
   addStmtToIRSB(out, IRStmt_Put(SINK, none));
}

static void add_division(IRStmt* st)
{
   IRExpr* result = IRExpr_RdTmp(st->Ist.WrTmp.tmp);
   Bool    wide = typeOfIRTemp(out->tyenv, st->Ist.WrTmp.tmp) == Ity_I128;
   mark(word(0), MARK_STATE);
   addStmtToIRSB(out, st);
   addStmtToIRSB(out, IRStmt_Put(SINK, wide ? assign(Ity_I64, IRExpr_Unop(Iop_128to64, result)) : result));
   if (insn.code.map == 0 && (insn.code.opcode == 0xf6 || (insn.code.opcode == 0xf7 && insn.code.operand == 2)))
      check_quotient(result, (insn.code.modrm >> 3 & 7) == 7);
}

/* Adds the instruction to the code. */
static void add_insn(void)
{
   Int last = -1; /* up to the next exit: the statement that touches memory last */
   for (Int i = 0, scanned = 0; i < insn.used; i++) {
      IRStmt* st = insn.st[i];
      if (i == scanned) {
         do {
            if (touches_memory(insn.st[scanned]))
               last = scanned;
         } while (insn.st[scanned++]->tag != Ist_Exit && scanned < insn.used);
      }
      if (st->tag == Ist_Put && st->Ist.Put.offset != RIP && i < last) {
         if (laters == MAX_LATER)
            write_registers();
         later[laters++] = st;
         continue;
      }
      if (laters > 0)
         st = with_later(st);
      if (divides(st))
         add_division(st);
      else
         addStmtToIRSB(out, st);
      if (loaded(st))
         keep_load(st->Ist.WrTmp.tmp);
      if (i == last)
         write_registers();
   }
   tl_assert(laters == 0);
}

/* Whether the code jumps to its own start. */
static Bool is_loop(const IRSB* sb, Addr start)
{
   if (sb->next->tag == Iex_Const && sb->next->Iex.Const.con->Ico.U64 == start)
      return True;
   for (Int i = 0; i < sb->stmts_used; i++)
      if (sb->stmts[i]->tag == Ist_Exit && sb->stmts[i]->Ist.Exit.dst->Ico.U64 == start)
         return True;
   return False;
}

static void prepare_insn(void)
{
   const IRStmt* mark = insn.st[0];
   insn.at = mark->Ist.IMark.addr;
   insn.next = insn.at + mark->Ist.IMark.len;
   if (mark->Ist.IMark.len > 0) {
      insn.code = code_at(insn.at, mark->Ist.IMark.len);
      Bool lods = (insn.code.opcode & ~1) == 0xac;
      if (code_repeats(&insn.code))
         lods ? repeat_lods() : end_after_last_iteration();
      else if (code_is_bit_test(&insn.code))
         insn.code.modrm >= 0xc0 ? keep_off_the_stack() : mark_bit_string();
      else if (code_is_flush(&insn.code))
         load_what_is_flushed();
   }
   add_insn();
}

IRSB* __wrap_do_minimal_initial_iropt_BB(IRSB* sb);
IRSB* __wrap_do_minimal_initial_iropt_BB(IRSB* sb)
{
   const IRSB* in = __real_do_minimal_initial_iropt_BB(sb);
   Int         i = 0;
   out = emptyIRSB();
   out->tyenv = in->tyenv;
   out->next = in->next;
   out->jumpkind = in->jumpkind;
   out->offsIP = in->offsIP;
   for (; i < in->stmts_used && in->stmts[i]->tag != Ist_IMark; i++)
      addStmtToIRSB(out, in->stmts[i]);
   /* The core may unroll a loop. Its first instruction does not set RIP, as a jump to it has done so. */
   Int loop = i < in->stmts_used && is_loop(in, in->stmts[i]->Ist.IMark.addr) ? i : -1;
   while (i < in->stmts_used) {
      insn.used = 0;
      do
         insert(insn.used, in->stmts[i++]);
      while (i < in->stmts_used && in->stmts[i]->tag != Ist_IMark);
      if (loop >= 0)
         insert(1, IRStmt_Put(RIP, word(insn.st[0]->Ist.IMark.addr)));
      loop = -1;
      prepare_insn();
   }
   return out;
}

/* Whether a load may not move behind the writing of these registers. By itself the core says so of a few registers. */
Bool __wrap_guest_amd64_state_requires_precise_mem_exns(Int first, Int last, VexRegisterUpdates control);
Bool __wrap_guest_amd64_state_requires_precise_mem_exns(Int first, Int last, VexRegisterUpdates control)
{
   return True;
}

/* The core's last cleaning of instrumented code: behind it, it is known which loads are used. It would remove the
   others; each of them gets a use. */
IRSB* __wrap_cprop_BB(IRSB* sb);
IRSB* __wrap_cprop_BB(IRSB* sb)
{
   IRSB*  cleaned = __real_cprop_BB(sb);
   IRTemp load = IRTemp_INVALID;
   live_find(cleaned);
   for (Int i = 0; i < cleaned->stmts_used; i++) {
      const IRStmt* st = cleaned->stmts[i];
      if (loaded(st))
         load = st->Ist.WrTmp.tmp;
      else if (is_mark(st))
         cleaned->stmts[i] = live(load) ? IRStmt_NoOp() : IRStmt_Put(SINK, IRExpr_RdTmp(load));
   }
   return cleaned;
}
