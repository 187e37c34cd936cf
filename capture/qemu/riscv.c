/* This file is part of farreach, a laboratory for virtual-memory address translation.
   Copyright (C) the farreach developers.
   SPDX-License-Identifier: GPL-2.0-or-later
   It is loaded into QEMU, so this directory is under the GNU GPL (../LICENSE-GPL-2), version 2 or later. */

/* RISC-V with 64 bits: instructions that matter, page tables of Sv39, Sv48 and Sv57, traps.

   Firmware (OpenSBI) runs in machine mode, on physical addresses, and serves the kernel's calls (SBI). It is no part of
   the stream, but for what it invalidates: a kernel asks it to execute SFENCE.VMA on other processors. */

#include <stdlib.h>
#include <string.h>

#include "recorder.h"

enum { VALID = 1, READ_WRITE_EXECUTE = 0xe, ACCESSED = 0x40, DIRTY = 0x80, SOFTWARE = 0x300 };
enum { SATP = 0x180, STVEC = 0x105, MTVEC = 0x305, HGATP = 0x680 };
enum { USER, SUPERVISOR, MACHINE = 3, VIRTUAL = 4 };
enum { SP = 2, A0 = 10, A7 = 17 };
enum { BREAKPOINT = 3, CALL_FROM_USER = 8, CALL_FROM_KERNEL = 9, CALL_FROM_FIRMWARE = 11 };
#define FRAME     0xfffffffffffULL
#define NAPOT     (1ULL << 63)
#define LINE      64ULL /* bytes that CBO.ZERO clears, unless the processor has cboz_blocksize */
#define INTERRUPT (1ULL << 31) /* in what is told of a trap */

/* Of two bytes, or of four. */
static u32 word_of(const struct insn* insn)
{
   u32 word;
   memcpy(&word, insn->bytes, sizeof word);
   return insn->length == 2 ? word & 0xffff : word;
}

/* slti zero, zero, 0x521, and the two behind it */
static int mark(const struct insn* insn)
{
   u32 word = word_of(insn), number = word >> 20;
   return (word & 0xfffff) == 0x02013 && number > 0x520 && number <= 0x523 ? (int)(number & 0xf) : 0;
}

static u16 does_compressed(u32 w)
{
   unsigned quadrant = w & 3, kind = w >> 13;
   if (quadrant == 1 && kind >= 5) /* c.j, c.beqz, c.bnez */
      return DOES_REPEAT;
   return quadrant == 2 && kind == 4 && (w & 0x7c) == 0 ? DOES_REPEAT : 0; /* c.jr, c.jalr */
}

/* CSRRW and its likes. Those of the others with no bit to set or clear only read. */
static u16 does_csr(u32 w)
{
   if ((w >> 12 & 3) != 1 && (w >> 15 & 31) == 0)
      return 0;
   switch (w >> 20) {
      case SATP: return DOES_ROOT_0;
      case STVEC: case MTVEC: return DOES_VECTORS;
      case HGATP: return DOES_MODE;
   }
   return 0;
}

static u16 does(const struct insn* insn)
{
   u32 w = word_of(insn);
   if (insn->length == 2)
      return does_compressed(w);
   switch (w & 0x7f) {
      case 0x63: case 0x67: case 0x6f: return DOES_REPEAT; /* branches */
      case 0x07: case 0x27: /* of vectors; the scalar ones have their size here */
         return (w >> 12 & 7) == 0 || (w >> 12 & 7) >= 5 ? DOES_PARTS : 0;
      case 0x0f: return (w & 0xfff07000) == 0x00402000 ? DOES_ZERO : 0; /* CBO.ZERO */
      case 0x13: return mark(insn) ? DOES_MARK : 0;
      case 0x73: break;
      default: return 0;
   }
   if (w >> 12 & 3)
      return does_csr(w);
   if (w == 0x73) /* ECALL */
      return DOES_CALL;
   if (w == 0x10500073) /* WFI */
      return DOES_WAIT;
   if (w == 0x30200073 || w == 0x70200073) /* MRET, MNRET */
      return DOES_MODE;
   return (w & 0xfe007fff) == 0x12000073 || (w & 0xfe007fff) == 0x16000073 ? DOES_INVALIDATE : 0; /* SFENCE, SINVAL */
}

static void decode(struct insn* insn)
{
   insn->does = does(insn);
}

static u64 general(unsigned number)
{
   return number == 0 ? 0 : register_value(REG_GENERAL + number);
}

static int register_named(const char* name)
{
   static const char* const generals[] = {
      "zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "fp", "s1", "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7",
      "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6",
   };
   static const struct { const char* name; int which; } names[] = {
      { "satp", REG_ROOT_0 }, { "priv", REG_MODE }, { "stvec", REG_VECTORS }, { "sepc", REG_RETURN },
      { "scause", REG_CAUSE }, { "mtvec", REG_FIRMWARE_VECTORS }, { "mepc", REG_FIRMWARE_RETURN },
      { "mcause", REG_FIRMWARE_CAUSE }, { "pc", REG_PC },
   };
   for (int i = 0; i < 32; i++)
      if (strcmp(name, generals[i]) == 0)
         return REG_GENERAL + i;
   for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
      if (strcmp(name, names[i].name) == 0)
         return names[i].which;
   return -1;
}

static void refuse_hypervisor(void)
{
   fail("the guest is a hypervisor, whose second translation is not recorded; use a processor without: -cpu max,h=off");
}

static bool translates(const struct vcpu* v)
{
   if (v->mode & VIRTUAL)
      refuse_hypervisor();
   return v->mode != MACHINE && v->root[0] >> 60 != 0;
}

/* ---- Tables ---- */

/* Modes 8, 9 and 10 are Sv39, Sv48 and Sv57. */
static int levels(void)
{
   return (int)(vcpu->root[0] >> 60) - 5;
}

static u64 root_of(u64 value)
{
   return (value & FRAME) << 12;
}

static u64 frame_in(u64 word)
{
   return (word >> 10 & FRAME) << 12;
}

static enum entry entry(u64 word, int level, u64* to, unsigned* shift)
{
   *to = frame_in(word);
   if (!(word & VALID))
      return ENTRY_NONE;
   if (!(word & READ_WRITE_EXECUTE))
      return level > 0 ? ENTRY_TABLE : ENTRY_NONE;
   /* Of 16 pages in a row the entry has one address, whose low bits say how many they are. */
   if (level == 0 && word & NAPOT)
      *shift = 16;
   return ENTRY_LEAF;
}

static u64 tag(void)
{
   return vcpu->root[0] >> 44 & 0xffff;
}

/* ---- Invalidations, registers ---- */

/* One address, or all; of one tag, or of all and the global ones. An address that cannot be translated has no effect.
   With an address, only entries that are no tables. */
static void invalidates(struct event* e, u32 w)
{
   unsigned address = w >> 15 & 31, tag = w >> 20 & 31;
   e->flags = tag ? FR_TAGGED | (general(tag) & 0xffff) << 32 : FR_GLOBAL;
   if (!address)
      return;
   unsigned bits = vcpu->root[0] >> 60 ? 12 + 9 * levels() : 64;
   u64      va = general(address);
   e->start = canonical(va) & ~4095ULL;
   e->bytes = 4096;
   e->flags |= FR_ADDRESSED | FR_LEAVES;
   if ((u64)((int64_t)(va << (64 - bits)) >> (64 - bits)) != va)
      e->flags = FR_NO_INVALIDATE;
}

/* Hypervisors select the second translation of a guest here. */
static void selects_guest(u32 w)
{
   unsigned from = w >> 15 & 31;
   if (w >> 20 == HGATP && (w & 0x7f) == 0x73 && (w >> 12 & 7) == 1 && general(from) >> 60)
      refuse_hypervisor();
}

static void before(const struct insn* insn, u64 pc)
{
   u32 w = word_of(insn);
   (void)pc;
   if (insn->does & DOES_INVALIDATE)
      invalidates(&vcpu->event, w);
   if (insn->does & DOES_VECTORS)
      vectors_stored = true;
   if (insn->does & DOES_MODE)
      selects_guest(w);
   if (insn->does & DOES_ZERO) {
      vcpu->event.start = general(w >> 15 & 31) & ~(LINE - 1);
      vcpu->event.bytes = LINE;
   }
}

/* ---- Traps ---- */

enum { TO_KERNEL, TO_FIRMWARE };

static void add_vectors(u64 value, int vector)
{
   enum { CAUSES = 64, VECTORED = 1 };
   u64 base = value & ~3ULL;
   for (int i = 0; base && i < ((value & 3) == VECTORED ? CAUSES : 1); i++)
      vectors_add(base + i * 4, vector);
}

static void vectors(void)
{
   vectors_stored = false;
   add_vectors(register_value(REG_VECTORS), TO_KERNEL);
   add_vectors(register_value(REG_FIRMWARE_VECTORS), TO_FIRMWARE);
}

/* Another program can have something at the address of a vector, in a mode in which it is none. */
static int64_t trap(int vector)
{
   if (register_value(REG_MODE) != (vector == TO_KERNEL ? SUPERVISOR : MACHINE))
      return NO_TRAP;
   u64 cause = register_value(vector == TO_KERNEL ? REG_CAUSE : REG_FIRMWARE_CAUSE);
   return (int64_t)((cause & (INTERRUPT - 1)) | (cause >> 63 ? INTERRUPT : 0)
                    | (vector == TO_KERNEL ? 0 : FIRMWARE_TRAP));
}

/* A call is done with the trap, though the guest resumes behind it only because the kernel says so. */
static bool fault(int64_t trap)
{
   u64 cause = trap & 0xffffffff;
   return !(cause & INTERRUPT) && cause != BREAKPOINT && !(cause >= CALL_FROM_USER && cause <= CALL_FROM_FIRMWARE);
}

static bool resume(int64_t trap, u64* pc)
{
   *pc = register_value(trap & FIRMWARE_TRAP ? REG_FIRMWARE_RETURN : REG_RETURN);
   return true;
}

static bool is_call(u32 word)
{
   return word == 0x73;
}

static const int forks[] = { 220, 435, 0 };
static const int needs[] = { 1, 2, 10, 17, REG_ROOT_0, REG_VECTORS, REG_RETURN, REG_MODE, REG_PC, REG_CAUSE,
                             REG_FIRMWARE_VECTORS, REG_FIRMWARE_RETURN, REG_FIRMWARE_CAUSE, -1 };

const struct arch riscv = {
   .number = FR_RISCV64, .target = "riscv64", .decode = decode, .register_named = register_named, .needs = needs,
   .translates = translates, RADIX_TABLES, .levels = levels, .entry = entry, .before = before, .trap = trap,
   .fault = fault, .resume = resume, .vectors = vectors, .root = root_of, .mark = mark, .tag = tag,
   .ram_base = 1ULL << 31, .soft_bits = ACCESSED | DIRTY | SOFTWARE, .status = A0, .call = A7, .stack = SP,
   .frame_bits = 0x003ffffffffffc00ULL, .forks = forks,
   .is_call = is_call, .firmware_mode = MACHINE, .state_words = { 64, 1024 },
};
