/* fragment: a child takes nearly all free memory by pages of 4 KB, gives every other page back, and keeps the others as
   long as the system runs. The program itself ends when that is done. */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

enum { LEAST = 64 << 20, AT_ONCE = 1 << 20, PAGE = 4096 };

int main(void)
{
   int            ready[2];
   char           c;
   struct sysinfo info;
   if (pipe(ready) != 0)
      return 1;
   if (fork() != 0) {
      close(ready[1]);
      return read(ready[0], &c, 1) != 1;
   }
   sysinfo(&info);
   unsigned long size = info.totalram * info.mem_unit, end = 0;
   char*         memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
   if (memory == MAP_FAILED || madvise(memory, size, MADV_NOHUGEPAGE) != 0)
      return 1;
   for (; sysinfo(&info) == 0 && info.freeram * info.mem_unit > LEAST && end + AT_ONCE <= size; end += AT_ONCE)
      for (unsigned long i = 0; i < AT_ONCE; i += PAGE)
         memory[end + i] = 1;
   for (unsigned long i = 0; i < end; i += 2 * PAGE)
      madvise(memory + i, PAGE, MADV_DONTNEED);
   close(0);
   close(1);
   close(2);
   if (write(ready[1], "", 1) != 1)
      return 1;
   for (;;)
      pause();
}
