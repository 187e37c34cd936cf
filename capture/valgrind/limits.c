/* This file is part of farreach, a laboratory for virtual-memory address translation.
   Copyright (C) the farreach developers.
   SPDX-License-Identifier: GPL-2.0-or-later
   It is linked with Valgrind, so this directory is under the GNU GPL (../LICENSE-GPL-2), version 2 or later. */

/* Limits of the recorder that a program has met: what would have gone another way natively. The reader tells the user,
   who would otherwise look for the reason in the program. */

#include "recorder.h"
#include "pub_tool_debuginfo.h"

/* One limit, as often as this process met it. */
struct met {
   struct met*   next;
   enum fr_limit kind;
   Addr          at;
   ULong         count, told;
   ULong         code[2];
   UInt          code_bytes;
   HChar*        text;
};

static struct met* all;
static UInt        different;

/* A program that meets ever new ones is told about no more than these. */
enum { MOST = 1000, TEXT_MAX = 1000, PAGE = 4096 };

static void tell(struct met* m)
{
   UInt   bytes = VG_(strlen)(m->text);
   ULong* to = ring_record(FR_LIMIT, 6 + (bytes + 7) / 8);
   to[0] = m->kind | (ULong)bytes << 32;
   to[1] = m->count - m->told;
   to[2] = m->at;
   to[3] = m->code_bytes;
   to[4] = m->code[0];
   to[5] = m->code[1];
   ring_text(to + 6, m->text, bytes);
   m->told = m->count;
}

static struct met* find(enum fr_limit kind, Addr at, const HChar* text)
{
   for (struct met* m = all; m; m = m->next)
      if (m->kind == kind && m->at == at && VG_(strcmp)(m->text, text) == 0)
         return m;
   if (different == MOST)
      return NULL;
   different++;
   struct met* m = VG_(calloc)("limit", 1, sizeof *m);
   m->next = all;
   m->kind = kind;
   m->at = at;
   m->text = VG_(strdup)("limit", text);
   all = m;
   return m;
}

/* Told at once the first time, then at every power of two, and the rest at the end: a program may meet one in a
   loop. */
static void met(enum fr_limit kind, Addr at, const UChar* code, UInt code_bytes, const HChar* text)
{
   struct met* m = find(kind, at, text);
   if (!m)
      return;
   if (m->count++ == 0) {
      VG_(memcpy)(m->code, code, code_bytes);
      m->code_bytes = code_bytes;
   }
   if ((m->count & (m->count - 1)) == 0)
      tell(m);
}

void limit_met(enum fr_limit kind, Addr at, const HChar* format, ...)
{
   HChar   text[TEXT_MAX];
   va_list args;
   va_start(args, format);
   VG_(vsnprintf)(text, sizeof text, format, args);
   va_end(args);
   met(kind, at, NULL, 0, text);
}

void limits_end(void)
{
   for (struct met* m = all; m; m = m->next)
      if (m->count > m->told)
         tell(m);
}

/* Those of the parent are told by the parent. */
void limits_fork_in_child(void)
{
   while (all) {
      struct met* m = all;
      all = m->next;
      VG_(free)(m->text);
      VG_(free)(m);
   }
   different = 0;
}

/* ---- Instructions ---- */

/* Where code lies, for people. */
static void place_of(Addr pc, HChar* text, SizeT most)
{
   DiEpoch now = VG_(current_DiEpoch)();
   const HChar *function, *file;
   HChar name[TEXT_MAX / 3] = "";
   if (VG_(get_fnname_w_offset)(now, pc, &function))
      VG_(snprintf)(name, sizeof name, "%s", function); /* the core uses one buffer for both */
   if (!VG_(get_objname)(now, pc, &file)) {
      const NSegment* s = VG_(am_find_nsegment)(pc);
      file = s && s->kind == SkFileC ? VG_(am_get_filename)(s) : NULL;
   }
   VG_(snprintf)(text, most, "%s%s%s", name, name[0] ? " of " : "", file ? file : "code made at run time");
}

/* The program means to fault: ud2, ud1 and ud0 are defined to be undefined. */
static Bool is_undefined(const UChar* code, UInt bytes)
{
   return bytes >= 2 && code[0] == 0x0f && (code[1] == 0x0b || code[1] == 0xb9 || code[1] == 0xff);
}

/* Once in a process, when the first one is about to run. */
void limit_masked_move(void)
{
   static Bool told;
   if (!told)
      limit_met(FR_LIMIT_RECORD, 0, "maskmovq and maskmovdqu are recorded as a load and a store of the whole operand");
   told = True;
}

/* The core calls this for an instruction that it cannot decode. */
extern void __real_vgPlain_synth_sigill(ThreadId tid, Addr addr);
void __wrap_vgPlain_synth_sigill(ThreadId tid, Addr addr);
void __wrap_vgPlain_synth_sigill(ThreadId tid, Addr addr)
{
   UChar code[15];
   UInt  bytes = 0;
   while (bytes < sizeof code
          && (VG_(am_is_valid_for_client)(addr + bytes, 1, VKI_PROT_READ)
              || VG_(am_is_valid_for_client)(addr + bytes, 1, VKI_PROT_EXEC))) {
      code[bytes] = *(UChar*)(addr + bytes);
      bytes++;
   }
   if (!is_undefined(code, bytes)) {
      HChar text[TEXT_MAX];
      place_of(addr, text, sizeof text);
      met(FR_LIMIT_INSTRUCTION, addr, code, bytes, text);
   }
   __real_vgPlain_synth_sigill(tid, addr);
}

/* ---- System calls ---- */

typedef struct { void *before, *after; } SyscallTableEntry;
extern SyscallTableEntry* ML_(get_linux_syscall_entry)(UInt number);
extern void vgSysWrap_generic_sys_ni_syscall_before(void);
extern Int  VG_(fd_hard_limit);
extern Addr VG_(brk_base);
extern struct vki_rlimit VG_(client_rlimit_data);

#define HALF   (1UL << 47)
#define LOWEST (64UL << 10) /* vm.mmap_min_addr */

enum {
   PRLIMIT64 = 302, RSEQ = 334, CLONE3 = 435, NOFILE = 7, DONTUNMAP = 4, NOREPLACE = 0x100000, GROWSDOWN = 0x100
};

/* Whether the core answers this call itself, with ENOSYS. */
static Bool is_unknown(UInt number)
{
   SyscallTableEntry* entry = ML_(get_linux_syscall_entry)(number);
   return !entry || !entry->before || entry->before == (void*)vgSysWrap_generic_sys_ni_syscall_before;
}

/* The hard limit of open files that a call asks for, if it asks for one. */
static Bool new_file_limit(UInt number, const UWord* args, ULong* most)
{
   Addr at = number == __NR_setrlimit && args[0] == NOFILE ? args[1]
           : number == PRLIMIT64 && args[1] == NOFILE      ? args[2]
                                                           : 0;
   if (!at || !VG_(am_is_valid_for_client)(at, sizeof(struct vki_rlimit), VKI_PROT_READ))
      return False;
   *most = ((struct vki_rlimit*)at)->rlim_max;
   return True;
}

/* Whether the system has such addresses: a program may use the lower half of 48 bits. */
static Bool are_possible(Addr start, SizeT len)
{
   return len > 0 && len <= HALF && start <= HALF - len;
}

/* A mapping was refused since the core had no place for it. */
static void place_refused(UInt number, const UWord* args)
{
   const HChar* name = number == __NR_mmap ? "mmap" : "mremap";
   Bool  fixed = args[3] & (number == __NR_mmap ? VKI_MAP_FIXED : VKI_MREMAP_FIXED);
   SizeT len = number == __NR_mmap ? args[1] : args[2];
   Addr  start = number == __NR_mmap ? args[0] : args[4];
   if (fixed && start >= LOWEST && are_possible(start, len))
      limit_met(FR_LIMIT_ADDRESSES, 0, "%s of %lu MiB at %#lx was refused with EINVAL", name, len >> 20, start);
   else if (!fixed && are_possible(0, len))
      limit_met(FR_LIMIT_ADDRESSES, 0, "%s of %lu MiB was refused with EINVAL", name, len >> 20);
}

void limits_syscall(UInt number, const UWord* args, SysRes result)
{
   if (!sr_isError(result)) {
      if (number == __NR_brk && args[0] > sr_Res(result)
          && args[0] - VG_(brk_base) <= VG_(client_rlimit_data).rlim_cur && are_possible(0, args[0]))
         limit_met(FR_LIMIT_ADDRESSES, 0, "the heap of brk could not grow beyond 1 GiB");
      if (number == __NR_mmap && args[3] & NOREPLACE && args[0] && sr_Res(result) != args[0])
         limit_met(FR_LIMIT_ADDRESSES, 0, "mmap with MAP_FIXED_NOREPLACE was given another address than it named");
      if (number == __NR_mmap && args[3] & GROWSDOWN && args[3] & VKI_MAP_ANONYMOUS)
         limit_met(FR_LIMIT_RECORD, 0, "a mapping of MAP_GROWSDOWN is recorded in the size it was made in");
      return;
   }
   UWord error = sr_Err(result);
   if (addresses_refused() && (number == __NR_mmap || number == __NR_mremap))
      place_refused(number, args);
   ULong asked;
   /* The C library asks for these two at every start, and does the same by other means. */
   if (error == VKI_ENOSYS && number != RSEQ && number != CLONE3 && is_unknown(number))
      limit_met(FR_LIMIT_SYSTEM_CALL, number, "failed with ENOSYS");
   else if (error == VKI_EINVAL && number == __NR_mremap && (args[3] & DONTUNMAP || args[1] == 0))
      limit_met(FR_LIMIT_SYSTEM_CALL, number, "%s failed with EINVAL",
                args[1] == 0 ? "with an old length of 0" : "with MREMAP_DONTUNMAP");
   else if (error == VKI_EPERM && new_file_limit(number, args, &asked) && asked < VG_(fd_hard_limit))
      limit_met(FR_LIMIT_SYSTEM_CALL, number, "could not lower the hard limit of open files: EPERM");
}
