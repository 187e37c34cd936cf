/* This file is part of farreach, a laboratory for virtual-memory address translation.
   Copyright (C) the farreach developers.
   SPDX-License-Identifier: GPL-2.0-or-later
   It is linked with Valgrind, so this directory is under the GNU GPL (../LICENSE-GPL-2), version 2 or later. */

/* Instructions that reach into a page which cannot be read. The core would fault itself when it decodes them. Here they
   become a load from that page, so that the program gets the fault, at the instruction, with the page's address. */

#include "recorder.h"

extern void VG_(discard_translations)(Addr start, ULong bytes, const HChar* who);

#define PAGE     4096UL
#define LONGEST  15 /* bytes of an instruction */
#define STATE(x) ((Int)offsetof(VexGuestAMD64State, guest_##x))

/* What the decoder says of an instruction; not in the tool headers of the core. */
typedef struct {
   UInt       len;
   enum { STOP_HERE = 0x10 } next;
   enum { NO_HINT = 0x20 } hint;
   IRJumpKind jump;
} Decoded;

#define PARAMETERS IRSB *out, const UChar *code, Long delta, Addr at, VexArch arch, const VexArchInfo *info, \
                   const VexAbiInfo *abi, VexEndness endness, Bool sigill_diag
extern Decoded __real_disInstr_AMD64(PARAMETERS);
Decoded        __wrap_disInstr_AMD64(PARAMETERS);

/* Translated so. Of more, the last; without it, an instruction that works in the end has one reference too many. */
static Addr places[64];
static UInt translated;

enum { PKEY_MPROTECT = 329, PLACES = sizeof places / sizeof *places };

static Decoded faults(IRSB* out, Addr at, Addr page)
{
   IRTemp t = newIRTemp(out->tyenv, Ity_I8);
   addStmtToIRSB(out, IRStmt_Put(STATE(RIP), IRExpr_Const(IRConst_U64(at))));
   addStmtToIRSB(out, IRStmt_WrTmp(t, IRExpr_Load(Iend_LE, Ity_I8, IRExpr_Const(IRConst_U64(page)))));
   /* If the page is open meanwhile: decode it again. */
   addStmtToIRSB(out, IRStmt_Put(STATE(CMSTART), IRExpr_Const(IRConst_U64(at))));
   addStmtToIRSB(out, IRStmt_Put(STATE(CMLEN), IRExpr_Const(IRConst_U64(1))));
   addStmtToIRSB(out, IRStmt_Put(STATE(RIP), IRExpr_Const(IRConst_U64(at)))); /* the core wants it last */
   if (translated == PLACES)
      translated--;
   places[translated++] = at;
   return (Decoded){ page - at, STOP_HERE, NO_HINT, Ijk_InvalICache };
}

Decoded __wrap_disInstr_AMD64(PARAMETERS)
{
   Addr page = (at + PAGE - 1) & ~(PAGE - 1);
   UInt there = page - at;
   if (there >= LONGEST || VG_(am_is_valid_for_client)(page, 1, VKI_PROT_READ))
      return __real_disInstr_AMD64(out, code, delta, at, arch, info, abi, endness, sigill_diag);
   if (there == 0)
      return faults(out, at, page);
   UChar copy[2 * LONGEST + 2] = { 0 };
   VG_(memcpy)(copy, code + delta, there);
   Int     before = out->stmts_used;
   Decoded decoded = __real_disInstr_AMD64(out, copy - delta, delta, at, arch, info, abi, endness, False);
   if (decoded.len > 0 && decoded.len <= there)
      return decoded;
   out->stmts_used = before;
   return faults(out, at, page);
}

/* A system call that changes mappings may have opened the page. */
void border_syscall(UInt number)
{
   switch (number) {
      case __NR_mmap:
      case __NR_mprotect:
      case __NR_mremap:
      case PKEY_MPROTECT:
         for (; translated > 0; translated--)
            VG_(discard_translations)(places[translated - 1], 1, "farreach.border");
   }
}

/* ---- Jumps to where no code is ---- */

extern void VG_(synth_fault)(ThreadId tid);
extern void VG_(synth_fault_mapping)(ThreadId tid, Addr at);
extern void __real_vgPlain_synth_fault_perms(ThreadId tid, Addr at);

/* The core says of all that the pages are not executable. */
void __wrap_vgPlain_synth_fault_perms(ThreadId tid, Addr at);
void __wrap_vgPlain_synth_fault_perms(ThreadId tid, Addr at)
{
   const NSegment* s = VG_(am_find_nsegment)(at);
   if ((Long)at << 16 >> 16 != (Long)at)
      VG_(synth_fault)(tid); /* no address: a fault without one */
   else if (!s || (s->kind != SkFileC && s->kind != SkAnonC && s->kind != SkShmC))
      VG_(synth_fault_mapping)(tid, at);
   else
      __real_vgPlain_synth_fault_perms(tid, at);
}
