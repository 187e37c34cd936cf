/* This file is part of farreach, a laboratory for virtual-memory address translation.
   Copyright (C) the farreach developers.
   SPDX-License-Identifier: GPL-2.0-or-later
   It is linked with Valgrind, so this directory is under the GNU GPL (../LICENSE-GPL-2), version 2 or later. */

/* A segment: the instructions and references of the part of a superblock up to the next conditional exit, as a block of
   the stream has them. */

#include "segment.h"

#define XSAVE_HEADER     512
#define XSAVE_HEADER_END 576
#define XSAVE_AVX        256

struct segment segment;
struct insn    insn;

static void add_ref(Int stmt, Bool store, IRExpr* addr, UInt size, IRExpr* guard)
{
   tl_assert(segment.refs < MAX_REFS && size > 0);
   /* A condition known when translating: LoadG never has one, dirty helpers mostly "always". */
   if (guard && guard->tag == Iex_Const) {
      if (!guard->Iex.Const.con->Ico.U1)
         return;
      guard = NULL;
   }
   if (insn.operand) {
      addr = insn.operand;
      size = insn.size;
   }
   segment.ref[segment.refs++] = (struct ref){ stmt, segment.instrs, size, store, addr, 0, guard };
}

/* For an element that is masked out the core loads something from the stack instead and drops it: the address is
   "mask ? element : stack pointer". Returns that choice, NULL if the element is always loaded. */
static const IRExpr* gathered(const IRSB* sb, Int i)
{
   const IRExpr* addr = sb->stmts[i]->Ist.WrTmp.data->Iex.Load.addr;
   while (i-- > 0 && addr->tag == Iex_RdTmp) {
      const IRStmt* st = sb->stmts[i];
      if (st->tag == Ist_WrTmp && st->Ist.WrTmp.tmp == addr->Iex.RdTmp.tmp)
         addr = st->Ist.WrTmp.data; /* perhaps a copy */
   }
   return addr->tag == Iex_ITE ? addr : NULL;
}

/* Whether the instruction has loaded the value that the compare-and-swap expects: the core makes this of every locked
   instruction, but it is CMPXCHG only if the value comes from elsewhere. */
static Bool has_loaded(const IRSB* sb, const IRCAS* cas)
{
   for (UInt i = insn.first; cas->expdLo->tag == Iex_RdTmp && i < segment.refs; i++) {
      const IRStmt* st = sb->stmts[segment.ref[i].stmt];
      if (st->tag == Ist_WrTmp && st->Ist.WrTmp.tmp == cas->expdLo->Iex.RdTmp.tmp)
         return True;
   }
   return False;
}

/* Appends the data references of statement i to the segment, in the order in which they happen. */
static void add_refs(const IRSB* sb, Int i)
{
   const IRTypeEnv* types = sb->tyenv;
   const IRStmt*    st = sb->stmts[i];
   switch (st->tag) {
      case Ist_AbiHint:
         if ((st->Ist.AbiHint.len & ~0xfff) == MARK_OPERAND) {
            insn.operand = st->Ist.AbiHint.base;
            insn.size = st->Ist.AbiHint.len - MARK_OPERAND;
         }
         break;
      case Ist_WrTmp: {
         const IRExpr* data = st->Ist.WrTmp.data;
         if (data->tag != Iex_Load)
            break;
         const IRExpr* choice = code_is_gather(&insn.code) ? gathered(sb, i) : NULL;
         UInt          size = sizeofIRType(data->Iex.Load.ty);
         if (choice)
            add_ref(i, False, choice->Iex.ITE.iftrue, size, choice->Iex.ITE.cond);
         else
            add_ref(i, False, data->Iex.Load.addr, size, NULL);
         break;
      }
      case Ist_Store:
         add_ref(i, True, st->Ist.Store.addr, sizeofIRType(typeOfIRExpr(types, st->Ist.Store.data)), NULL);
         break;
      case Ist_LoadG: {
         const IRLoadG* load = st->Ist.LoadG.details;
         IRType wide, narrow;
         typeOfIRLoadGOp(load->cvt, &wide, &narrow);
         add_ref(i, False, load->addr, sizeofIRType(narrow), load->guard);
         break;
      }
      case Ist_StoreG: {
         const IRStoreG* store = st->Ist.StoreG.details;
         add_ref(i, True, store->addr, sizeofIRType(typeOfIRExpr(types, store->data)), store->guard);
         break;
      }
      case Ist_CAS: {
         /* Whether it succeeds or not, the processor takes the line for writing: a load and a store. */
         const IRCAS* cas = st->Ist.CAS.details;
         UInt size = sizeofIRType(typeOfIRExpr(types, cas->dataLo)) * (cas->dataHi ? 2 : 1);
         if (!has_loaded(sb, cas))
            add_ref(i, False, cas->addr, size, NULL);
         add_ref(i, True, cas->addr, size, NULL);
         break;
      }
      case Ist_LLSC:
         if (st->Ist.LLSC.storedata)
            add_ref(i, True, st->Ist.LLSC.addr, sizeofIRType(typeOfIRExpr(types, st->Ist.LLSC.storedata)), NULL);
         else
            add_ref(i, False, st->Ist.LLSC.addr, sizeofIRType(typeOfIRTemp(types, st->Ist.LLSC.result)), NULL);
         break;
      case Ist_Dirty: {
         const IRDirty* d = st->Ist.Dirty.details;
         if (d->mFx == Ifx_Read || d->mFx == Ifx_Modify)
            add_ref(i, False, d->mAddr, d->mSize, d->guard);
         if (d->mFx == Ifx_Write || d->mFx == Ifx_Modify)
            add_ref(i, True, d->mAddr, d->mSize, d->guard);
         break;
      }
      default:
         break;
   }
}

/* ---- Addresses that differ by a constant ---- */

#define NONE (~0U)

/* What is known of a temporary of the superblock: it is the value of its root plus a constant. Each is assigned once,
   so equal roots are equal values wherever they are read. The last element, behind the temporaries, is the root of
   constants, of value 0. */
struct known {
   UInt  root;
   ULong plus;
   UInt  first; /* word of the segment among those whose root this is, NONE if there is none */
};

static struct known* known;
static UInt          known_room, constants;

void segment_begin(const IRSB* sb)
{
   insn = (struct insn){ 0 };
   constants = sb->tyenv->types_used;
   if (constants >= known_room) {
      known_room = 2 * constants + 1;
      known = VG_(realloc)("farreach.known", known, known_room * sizeof *known);
   }
   for (UInt t = 0; t <= constants; t++)
      known[t] = (struct known){ t, 0, NONE };
}

static Bool is_constant(const IRExpr* e)
{
   return e->tag == Iex_Const && e->Iex.Const.con->tag == Ico_U64;
}

/* Of an address, or of an operand of one: a temporary or a constant of 64 bits. */
static struct known known_of(const IRExpr* e)
{
   if (is_constant(e))
      return (struct known){ constants, e->Iex.Const.con->Ico.U64, NONE };
   tl_assert(e->tag == Iex_RdTmp);
   return known[e->Iex.RdTmp.tmp];
}

static struct known place_of(const struct ref* r)
{
   struct known place = known_of(r->addr);
   place.plus -= r->below;
   return place;
}

/* Takes note of what the statement says about a temporary. */
void segment_learn(const IRStmt* st)
{
   if (st->tag != Ist_WrTmp)
      return;
   struct known* to = &known[st->Ist.WrTmp.tmp];
   const IRExpr* e = st->Ist.WrTmp.data;
   struct known  from;
   if (e->tag == Iex_RdTmp || is_constant(e)) {
      from = known_of(e);
   } else if (e->tag == Iex_Binop && (e->Iex.Binop.op == Iop_Add64 || e->Iex.Binop.op == Iop_Sub64)) {
      Bool          add = e->Iex.Binop.op == Iop_Add64;
      const IRExpr *a = e->Iex.Binop.arg1, *b = e->Iex.Binop.arg2;
      if (add && is_constant(a)) {
         const IRExpr* c = a;
         a = b;
         b = c;
      }
      if (!is_constant(b))
         return;
      ULong value = b->Iex.Const.con->Ico.U64;
      from = known_of(a);
      from.plus += add ? value : -value;
   } else {
      return;
   }
   to->root = from.root;
   to->plus = from.plus;
}

static Bool same_guard(const struct ref* a, const struct ref* b)
{
   const IRExpr *x = a->guard, *y = b->guard;
   if (!x || !y)
      return x == y;
   return x->tag == Iex_RdTmp && y->tag == Iex_RdTmp && x->Iex.RdTmp.tmp == y->Iex.RdTmp.tmp;
}

/* XSAVE and XRSTOR have the area up to the end of its header, and the AVX state if that is chosen. XRSTOR has looked at
   the header, and may have left, before it loads the rest. */
static void join_state(Bool saves)
{
   struct ref *first = &segment.ref[insn.first], *end = &segment.ref[segment.refs], *low = first, *avx = NULL;
   for (struct ref* r = first; r < end; r++)
      if ((Long)(place_of(r).plus - place_of(low).plus) < 0)
         low = r;
   for (struct ref* r = end; r-- > first;)
      if (place_of(r).plus - place_of(low).plus == XSAVE_HEADER_END)
         avx = r;
   segment.refs = insn.first;
   if (!insn.header) {
      struct ref all = { .stmt = first->stmt, .after = first->after, .size = XSAVE_HEADER_END, .store = saves,
                         .addr = low->addr, .below = saves ? 0 : XSAVE_HEADER };
      segment.ref[segment.refs++] = all;
   }
   if (avx) {
      avx->size = XSAVE_AVX;
      segment.ref[segment.refs++] = *avx;
   }
   insn.header = True;
}

/* The core takes some operands in pieces. What an instruction reads, or writes, without a gap is one access. */
static void join_pieces(void)
{
   struct segment* s = &segment;
   UInt            kept = insn.first;
   if (s->refs < insn.first + 1)
      return;
   if (code_is_xsave(&insn.code)) {
      join_state((insn.code.modrm >> 3 & 7) == 4);
      return;
   }
   UInt whole = code_whole_operand(&insn.code);
   if (s->refs > insn.first + 1 && !code_is_gather(&insn.code) && !code_is_string(&insn.code)) {
      for (UInt i = insn.first + 1; i < s->refs; i++) {
         struct ref * last = &s->ref[kept], *r = &s->ref[i];
         struct known a = place_of(last), b = place_of(r);
         ULong        up = b.plus - a.plus;
         Bool         one = r->store == last->store && same_guard(r, last) && a.root == b.root;
         if (one && up <= (whole ? whole : last->size))
            last->size = up + r->size > last->size ? up + r->size : last->size;
         else
            s->ref[++kept] = *r;
      }
      s->refs = kept + 1;
   }
   if (whole)
      s->ref[insn.first].size = whole;
}

/* Whether a reference to `size` bytes at `low` may share this word; if so, it does from now on. */
static Bool joins(struct word* w, ULong low, UInt size)
{
   Long  up = low - w->low;
   ULong span;
   if (up < -FR_SPREAD || up > FR_SPREAD)
      return False;
   if (up >= 0)
      span = up + size > w->span ? up + size : w->span;
   else
      span = w->span - up > size ? w->span - up : size;
   if (span > FR_SPREAD)
      return False;
   if (up < 0)
      w->low = low;
   w->span = span;
   return True;
}

/* Gives each reference its address word. Words are numbered in the order of their first use. A conditional reference
   has its own. */
static void share_words(void)
{
   struct segment* s = &segment;
   Bool            share = True;
   /* If an instruction occurs twice (an unrolled loop), the last word written identifies the one that faults. */
   for (UInt i = 0; i < s->instrs; i++)
      for (UInt j = 0; j < i; j++)
         share &= s->instr[i] != s->instr[j];
   s->words = 0;
   for (UInt i = 0; i < s->refs; i++) {
      struct ref*   r = &s->ref[i];
      struct known  addr = place_of(r);
      struct known* root = &known[addr.root];
      UInt          w = share && !r->guard ? root->first : NONE;
      while (w != NONE && !joins(&s->word[w], addr.plus, r->size))
         w = s->word[w].next;
      r->first = w == NONE;
      if (r->first) {
         w = s->words++;
         s->word[w] = (struct word){ addr.plus, r->size, NONE };
         if (!r->guard) {
            s->word[w].next = root->first;
            root->first = w;
         }
      }
      r->word = w;
   }
   for (UInt i = 0; i < s->refs; i++)
      known[known_of(s->ref[i].addr).root].first = NONE;
}

/* How far its address is above that of its word. */
static UInt offset_of(const struct ref* r)
{
   return place_of(r).plus - segment.word[r->word].low;
}

static Bool is_fault(IRJumpKind kind)
{
   switch (kind) {
      case Ijk_NoDecode: case Ijk_SigILL: case Ijk_SigSEGV: case Ijk_SigBUS: case Ijk_SigFPE: case Ijk_SigFPE_IntDiv:
         return True;
      default:
         return False;
   }
}

/* Whether the instruction of the mark at i leaves the code before it touches memory: because its operand is not aligned
   (it faults), or because it is to be repeated 0 times. It is part of the segment behind that exit, which a fault
   of it can cut. */
static Bool begins_with_exit(const IRSB* sb, Int i)
{
   while (++i < sb->stmts_used) {
      const IRStmt* st = sb->stmts[i];
      switch (st->tag) {
         case Ist_Exit:
            return (is_fault(st->Ist.Exit.jk) && st->Ist.Exit.dst->Ico.U64 == insn.at) ||
                   (code_repeats(&insn.code) && st->Ist.Exit.dst->Ico.U64 == insn.at + insn.len);
         case Ist_IMark: case Ist_Store: case Ist_StoreG: case Ist_LoadG: case Ist_CAS: case Ist_LLSC: case Ist_Dirty:
            return False;
         case Ist_WrTmp:
            if (st->Ist.WrTmp.data->tag == Iex_Load)
               return False;
            break;
         default:
            break;
      }
   }
   return False;
}

static void count_insn(void)
{
   tl_assert(segment.instrs < FR_BLOCK_INSTRS);
   segment.instr[segment.instrs++] = insn.at | (ULong)insn.len << 57;
}

Int segment_scan(const IRSB* sb, Int i)
{
   segment.instrs = segment.refs = 0;
   insn.first = 0;
   if (insn.waits) {
      count_insn();
      insn.waits = False;
   }
   for (; i < sb->stmts_used; i++) {
      const IRStmt* st = sb->stmts[i];
      if (st->tag == Ist_Exit) {
         i++;
         break;
      }
      segment_learn(st);
      if (st->tag == Ist_IMark) {
         join_pieces();
         insn = (struct insn){ .at = st->Ist.IMark.addr, .len = st->Ist.IMark.len, .first = segment.refs };
         /* Length 0 marks bytes that are no instruction: they will fault, not run. So will, say, UD2. */
         if (insn.len == 0)
            continue;
         insn.code = code_at(insn.at, insn.len);
         if (code_is_masked_move(&insn.code))
            limit_masked_move();
         if (is_fault(sb->jumpkind) && is_constant(sb->next) && sb->next->Iex.Const.con->Ico.U64 == insn.at)
            continue;
         insn.waits = begins_with_exit(sb, i);
         if (!insn.waits)
            count_insn();
      }
      if (insn.len > 0)
         add_refs(sb, i);
   }
   join_pieces();
   share_words();
   return i;
}

UInt segment_define(void)
{
   UInt   id = ring_new_block();
   UInt   code = code_words(segment.instr, segment.instrs);
   ULong* to = ring_record(FR_DEFINE, 2 + segment.instrs + segment.refs + code);
   *to++ = id;
   *to++ = segment.instrs | (ULong)segment.refs << 32;
   for (UInt i = 0; i < segment.instrs; i++)
      *to++ = segment.instr[i];
   for (UInt i = 0; i < segment.refs; i++) {
      const struct ref* r = &segment.ref[i];
      UInt offset = offset_of(r);
      tl_assert(r->after < 1 << 16 && r->word < 1 << 16 && r->size < 1 << 18 && offset < FR_SPREAD);
      *to++ = r->after | (ULong)r->word << 16 | (ULong)r->size << 32 | (ULong)offset << 50 | (ULong)r->store << 63;
   }
   code_put(to, segment.instr, segment.instrs);
   return id;
}

UInt segment_define_insn(void)
{
   UInt   id = ring_new_block();
   ULong  instr = insn.at | (ULong)insn.len << 57;
   ULong* to = ring_record(FR_DEFINE, 3 + code_words(&instr, 1));
   to[0] = id;
   to[1] = 1;
   to[2] = instr;
   code_put(to + 3, &instr, 1);
   return id;
}

ULong segment_tally(void)
{
   UInt stores = 0;
   for (UInt i = 0; i < segment.refs; i++)
      stores += segment.ref[i].store;
   return FR_TALLY(segment.instrs, segment.refs - stores, stores);
}

Bool segment_word_is_address(const struct ref* r, IRTemp* root, ULong* plus)
{
   UInt of = known_of(r->addr).root;
   *root = of == constants ? IRTemp_INVALID : of;
   *plus = segment.word[r->word].low;
   return r->guard || (offset_of(r) == 0 && r->below == 0);
}
