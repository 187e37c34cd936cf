/* This file is part of farreach, a laboratory for virtual-memory address translation.
   Copyright (C) the farreach developers.
   SPDX-License-Identifier: MIT OR Apache-2.0 */

/* Preloaded (LD_PRELOAD), it puts the text of a program on transparent huge pages: the whole aligned pages of 2 MB in
   it are replaced, before the program begins, by private memory with MADV_HUGEPAGE and the same contents. They are read
   from the program's file, so that no page of the text itself is touched. Whatever is in the way, the program runs on
   with its text as it was.

   Once the text is replaced, nothing of the program may be called before its contents are back: system calls are made
   here, and copying is a loop, as a program can have functions of its own with the names of the library's. */

#include <elf.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <fcntl.h>

enum { HUGE = 2 << 20 };

static long call(long number, long a, long b, long c, long d, long e, long f)
{
   register long r10 __asm__("r10") = d;
   register long r8 __asm__("r8") = e;
   register long r9 __asm__("r9") = f;
   long result;
   __asm__ volatile("syscall"
                    : "=a"(result)
                    : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                    : "rcx", "r11", "memory");
   return result;
}

static long map(uintptr_t at, size_t bytes, int fixed)
{
   return call(SYS_mmap, at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
}

static int failed(long result)
{
   return result < 0 && result > -4096;
}

/* Fills memory from a file. */
static int read_all(int file, char* to, size_t bytes, size_t offset)
{
   while (bytes > 0) {
      long got = call(SYS_pread64, file, (long)to, bytes, offset, 0, 0);
      if (got <= 0)
         return 0;
      to += got, offset += got, bytes -= got;
   }
   return 1;
}

static void replace(uintptr_t start, uintptr_t end, const char* copy)
{
   size_t bytes = end - start;
   if (failed(map(start, bytes, MAP_FIXED)))
      return;
   call(SYS_madvise, start, bytes, MADV_HUGEPAGE, 0, 0, 0);
   volatile uint64_t* to = (uint64_t*)start;
   const uint64_t* from = (const uint64_t*)copy;
   for (size_t i = 0; i < bytes / sizeof *from; i++)
      to[i] = from[i];
   call(SYS_mprotect, start, bytes, PROT_READ | PROT_EXEC, 0, 0, 0);
}

/* One segment of text, whose first byte in memory is `first`. */
static void segment(const Elf64_Phdr* text, uintptr_t first, int file)
{
   uintptr_t start = (first + HUGE - 1) & -(uintptr_t)HUGE, end = (first + text->p_filesz) & -(uintptr_t)HUGE;
   if (start >= end)
      return;
   long copy = map(0, end - start, 0);
   if (failed(copy))
      return;
   /* Where such memory may not be executed (SELinux), the text must stay. */
   if (read_all(file, (char*)copy, end - start, text->p_offset + (start - first)) &&
       !failed(call(SYS_mprotect, copy, end - start, PROT_READ | PROT_EXEC, 0, 0, 0)))
      replace(start, end, (const char*)copy);
   call(SYS_munmap, copy, end - start, 0, 0, 0, 0);
}

/* Whether the dynamic linker changed text, so that it is not what the file has. */
static int relocated(const Elf64_Dyn* entry)
{
   for (; entry->d_tag != DT_NULL; entry++)
      if (entry->d_tag == DT_TEXTREL || (entry->d_tag == DT_FLAGS && entry->d_un.d_val & DF_TEXTREL))
         return 1;
   return 0;
}

__attribute__((constructor)) static void text_on_huge_pages(void)
{
   const Elf64_Phdr* headers = (const Elf64_Phdr*)getauxval(AT_PHDR);
   size_t number = getauxval(AT_PHNUM);
   if (headers == NULL)
      return;
   size_t own = 0;
   while (own < number && headers[own].p_type != PT_PHDR)
      own++;
   if (own == number)
      return; /* nothing says where the program was loaded */
   uintptr_t base = (uintptr_t)headers - headers[own].p_vaddr;
   for (size_t i = 0; i < number; i++)
      if (headers[i].p_type == PT_DYNAMIC && relocated((const Elf64_Dyn*)(base + headers[i].p_vaddr)))
         return;
   static char path[4096];
   long length = call(SYS_readlink, (long)"/proc/self/exe", (long)path, sizeof path - 1, 0, 0, 0);
   path[length > 0 ? length : 0] = 0;
   long file = length > 0 ? call(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0) : -1;
   if (file < 0)
      return;
   for (size_t i = 0; i < number; i++)
      if (headers[i].p_type == PT_LOAD && headers[i].p_flags == (PF_R | PF_X))
         segment(&headers[i], base + headers[i].p_vaddr, file);
   call(SYS_close, file, 0, 0, 0, 0, 0);
}
