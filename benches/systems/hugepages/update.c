/* update MEGABYTES UPDATES fill|read [huge]: random updates of an array from calloc. `fill` stores to each word before
   that, in order, as GUPS does; `read` loads a word before it stores to it, as a hash table does. `huge` asks for huge
   pages. */
#define _DEFAULT_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

int main(int argc, char** argv)
{
   if (argc < 4)
      return 2;
   uint64_t  words = strtoull(argv[1], NULL, 10) << 17, updates = strtoull(argv[2], NULL, 10);
   uint64_t  x = 88172645463325252ULL, sum = 0;
   uint64_t* table = calloc(words, 8);
   if (!table)
      return 1;
   if (argc > 4)
      madvise((void*)((uintptr_t)table & ~4095UL), words * 8, MADV_HUGEPAGE);
   if (strcmp(argv[3], "fill") == 0)
      for (uint64_t i = 0; i < words; i++)
         table[i] = i;
   for (uint64_t i = 0; i < updates; i++) {
      x ^= x << 13;
      x ^= x >> 7;
      x ^= x << 17;
      volatile uint64_t* word = &table[x % words];
      uint64_t           old = *word;
      sum += old;
      *word = old ^ x;
   }
   printf("%llx\n", (unsigned long long)sum);
   return 0;
}
