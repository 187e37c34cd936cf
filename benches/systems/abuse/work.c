/* What a program can do to its page tables, and to a recorder: each case checks its own data, and ends with 0 if they
   are right. Linked statically, for guests of both architectures.

     work CASE [N]     see the table at the end */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/reboot.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../../capture/qemu/farreach-mark.h"

#define HUGE (2UL << 20)
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

typedef unsigned char byte;
static size_t page;

static void fail(const char* what)
{
   fprintf(stderr, "work: %s: %s\n", what, strerror(errno));
   exit(1);
}

#define must(x) ((x) ? (void)0 : fail(#x))

static byte* map(size_t bytes, int rights, int flags)
{
   byte* at = mmap(NULL, bytes, rights, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
   must(at != MAP_FAILED);
   return at;
}

/* Aligned to a huge page. */
static byte* map_huge(size_t bytes)
{
   byte* at = map(bytes + HUGE, PROT_READ | PROT_WRITE, 0);
   return (byte*)(((size_t)at + HUGE - 1) & ~(HUGE - 1));
}

static void fill(byte* at, size_t bytes, unsigned seed)
{
   for (size_t i = 0; i < bytes; i += page)
      *(unsigned*)(at + i) = seed + i / page;
}

static void check(const byte* at, size_t bytes, unsigned seed)
{
   for (size_t i = 0; i < bytes; i += page)
      must(*(const unsigned*)(at + i) == seed + i / page);
}

/* ---- Huge pages ---- */

static void split(int n)
{
   for (int i = 0; i < n; i++) {
      byte* at = map_huge(4 * HUGE);
      madvise(at, 4 * HUGE, MADV_HUGEPAGE);
      fill(at, 4 * HUGE, i);
      must(munmap(at + HUGE / 2, page) == 0);
      check(at, HUGE / 2, i);
      must(mprotect(at + HUGE + 5 * page, 3 * page, PROT_READ) == 0);
      must(madvise(at + 2 * HUGE, page, MADV_DONTNEED) == 0);
      must(*(at + 2 * HUGE) == 0 && *(at + 2 * HUGE + page) != 0);
      check(at + HUGE, HUGE, i + HUGE / page);
      must(madvise(at + 3 * HUGE, HUGE, MADV_NOHUGEPAGE) == 0);
      check(at + 3 * HUGE, HUGE, i + 3 * HUGE / page);
      munmap(at, 4 * HUGE);
   }
}

static void collapse(int n)
{
   byte* at = map_huge(2 * HUGE);
   must(madvise(at, 2 * HUGE, MADV_NOHUGEPAGE) == 0);
   fill(at, 2 * HUGE, 7);
   for (int i = 0; i < n; i++) {
      must(madvise(at, 2 * HUGE, MADV_HUGEPAGE) == 0);
      if (madvise(at, 2 * HUGE, MADV_COLLAPSE) != 0)
         must(errno == EAGAIN || errno == ENOMEM || errno == EINVAL);
      check(at, 2 * HUGE, 7);
      fill(at, 2 * HUGE, 7);
      must(mprotect(at + HUGE - page, 2 * page, PROT_READ) == 0);
      check(at, 2 * HUGE, 7);
      must(mprotect(at + HUGE - page, 2 * page, PROT_READ | PROT_WRITE) == 0);
   }
}

static void hugetlb(int n)
{
   for (int i = 0; i < n; i++) {
      byte* at = map(2 * HUGE, PROT_READ | PROT_WRITE, MAP_HUGETLB);
      fill(at, 2 * HUGE, i);
      pid_t child = fork();
      if (child == 0) {
         fill(at, HUGE, i + 1);
         check(at + HUGE, HUGE, i + HUGE / page);
         _exit(0);
      }
      int status;
      must(waitpid(child, &status, 0) == child && status == 0);
      check(at, 2 * HUGE, i);
      must(munmap(at, 2 * HUGE) == 0);
   }
}

static void moves(int n)
{
   for (int i = 0; i < n; i++) {
      byte* at = map_huge(2 * HUGE);
      fill(at, 2 * HUGE, i);
      byte* to = map_huge(2 * HUGE);
      must(mremap(at, HUGE, HUGE, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to); /* whole tables, or huge pages, move */
      check(to, HUGE, i);
      must(mremap(at + HUGE, 16 * page, 16 * page, MREMAP_MAYMOVE | MREMAP_FIXED, to + HUGE + page) != MAP_FAILED);
      check(to + HUGE + page, 16 * page, i + HUGE / page);
      to = mremap(to, HUGE, HUGE, MREMAP_MAYMOVE | 4, NULL); /* the old place stays mapped, and empty */
      if (to != MAP_FAILED)
         check(to, HUGE, i);
   }
}

/* ---- Threads, shootdowns ---- */

static byte*        shared;
static volatile int stop;
static size_t       shared_bytes = 64 * 4096;

static void* reads(void* seed)
{
   unsigned x = (size_t)seed;
   while (!stop) {
      x = x * 1103515245 + 12345;
      volatile unsigned* word = (unsigned*)(shared + (x >> 8) % (shared_bytes / page) * page);
      unsigned           value = *word;
      must(value == 0 || value == ((byte*)word - shared) / page + 1);
   }
   return NULL;
}

static void shootdowns(int n)
{
   pthread_t threads[3];
   shared = map(shared_bytes, PROT_READ | PROT_WRITE, 0);
   for (size_t i = 0; i < 3; i++)
      must(pthread_create(&threads[i], NULL, reads, (void*)(i + 1)) == 0);
   for (int i = 0; i < n; i++) {
      fill(shared, shared_bytes, 1);
      must(mprotect(shared, shared_bytes, PROT_READ) == 0);
      must(mprotect(shared, shared_bytes, PROT_READ | PROT_WRITE) == 0);
      must(madvise(shared + 8 * page, 4 * page, MADV_DONTNEED) == 0);
      byte* other = map(shared_bytes, PROT_READ | PROT_WRITE, 0);
      fill(other, shared_bytes, 1);
      must(mremap(other, shared_bytes, shared_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, shared) == shared);
      if (i % 8 == 0)
         sched_yield();
   }
   stop = 1;
   for (int i = 0; i < 3; i++)
      pthread_join(threads[i], NULL);
}

/* ---- Faults that programs serve ---- */

static void* serves(void* fd)
{
   struct uffd_msg message;
   static byte     data[65536] __attribute__((aligned(65536)));
   while (read((int)(size_t)fd, &message, sizeof message) == sizeof message) {
      size_t at = message.arg.pagefault.address & ~(page - 1);
      *(unsigned*)data = (at - (size_t)shared) / page + 5;
      struct uffdio_copy copy = { .dst = at, .src = (size_t)data, .len = page };
      must(ioctl((int)(size_t)fd, UFFDIO_COPY, &copy) == 0);
   }
   return NULL;
}

static void userfault(int n)
{
   int               fd = syscall(SYS_userfaultfd, O_CLOEXEC);
   struct uffdio_api api = { .api = UFFD_API };
   pthread_t         thread;
   must(fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0);
   shared = map(n * page, PROT_READ | PROT_WRITE, 0);
   struct uffdio_register all = { { (size_t)shared, n * page }, UFFDIO_REGISTER_MODE_MISSING, 0 };
   must(ioctl(fd, UFFDIO_REGISTER, &all) == 0);
   must(pthread_create(&thread, NULL, serves, (void*)(size_t)fd) == 0);
   check(shared, n * page, 5);
}

static volatile int hits;
static sigjmp_buf   back;

static void opens(int number, siginfo_t* info, void* context)
{
   (void)number, (void)context;
   hits++;
   must(mprotect((void*)((size_t)info->si_addr & ~(page - 1)), page, PROT_READ | PROT_WRITE) == 0);
}

static void jumps(int number)
{
   (void)number;
   siglongjmp(back, 1);
}

static __attribute__((noinline)) int deep(volatile int* n)
{
   volatile int here[1000] = { *n };
   return *n ? deep(here) + here[999] : 0; /* until the stack ends */
}

static void signals(int n)
{
   stack_t stack = { .ss_sp = map(65536, PROT_READ | PROT_WRITE, 0), .ss_size = 65536 };
   must(sigaltstack(&stack, NULL) == 0);
   struct sigaction action = { .sa_sigaction = opens, .sa_flags = SA_SIGINFO | SA_ONSTACK };
   sigaction(SIGSEGV, &action, NULL);
   byte* at = map(n * page, PROT_NONE, 0);
   fill(at, n * page, 3);
   must(hits == n);
   check(at, n * page, 3);
   action = (struct sigaction){ .sa_handler = jumps, .sa_flags = SA_ONSTACK };
   sigaction(SIGSEGV, &action, NULL);
   struct rlimit limit = { 256 << 10, 256 << 10 };
   setrlimit(RLIMIT_STACK, &limit);
   volatile int one = 1;
   for (int i = 0; i < 3; i++)
      if (sigsetjmp(back, 1) == 0)
         deep(&one);
}

/* ---- Code ---- */

static size_t answer(byte* at, int value)
{
#ifdef __x86_64__
   byte code[] = { 0xb8, value, value >> 8, 0, 0, 0xc3 };
#else
   unsigned code[] = { 0x52800000u | (value & 0xffff) << 5, 0xd65f03c0u };
#endif
   memcpy(at, code, sizeof code);
   return sizeof code;
}

static void code(int n)
{
   byte* at = map(page, PROT_READ | PROT_WRITE | PROT_EXEC, 0);
   for (int i = 0; i < n; i++) { /* the same place, other code */
      size_t bytes = answer(at, i & 0x7fff);
      __builtin___clear_cache((char*)at, (char*)at + bytes);
      must(((int (*)(void))at)() == (i & 0x7fff));
   }
   int fd = memfd_create("code", 0);
   must(fd >= 0 && ftruncate(fd, page) == 0);
   byte* writes = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
   byte* runs = mmap(NULL, page, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
   must(writes != MAP_FAILED && runs != MAP_FAILED);
   for (int i = 0; i < n; i++) { /* written at one address, run at another */
      size_t bytes = answer(writes + i % 8 * 64, i & 0x7fff);
      __builtin___clear_cache((char*)writes + i % 8 * 64, (char*)writes + i % 8 * 64 + bytes);
      __builtin___clear_cache((char*)runs + i % 8 * 64, (char*)runs + i % 8 * 64 + bytes);
      must(((int (*)(void))(runs + i % 8 * 64))() == (i & 0x7fff));
   }
}

static void filter(int n)
{
   struct sock_filter code[] = { { BPF_LD | BPF_W | BPF_LEN, 0, 0, 0 }, { BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 7 },
                                 { BPF_RET | BPF_K, 0, 0, 0 }, { BPF_RET | BPF_K, 0, 0, 0xffff } };
   struct sock_fprog program = { 4, code };
   for (int i = 0; i < n; i++) {
      int  pair[2];
      char buffer[16];
      must(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0);
      must(setsockopt(pair[1], SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0);
      send(pair[0], "1234567", 7, MSG_DONTWAIT);
      send(pair[0], "12345", 5, MSG_DONTWAIT);
      must(recv(pair[1], buffer, sizeof buffer, 0) == 5);
      close(pair[0]);
      close(pair[1]);
   }
}

/* ---- Processes ---- */

static void traced(int n)
{
   pid_t child = fork();
   int   status, steps = 0;
   if (child == 0) {
      ptrace(PTRACE_TRACEME, 0, 0, 0);
      raise(SIGSTOP);
      for (volatile int i = 0; i < 1 << 20; i++)
         ;
      _exit(0);
   }
   must(waitpid(child, &status, 0) == child && WIFSTOPPED(status));
   while (steps < n && ptrace(PTRACE_SINGLESTEP, child, 0, 0) == 0) {
      must(waitpid(child, &status, 0) == child && WIFSTOPPED(status));
      steps++;
   }
   must(steps == n);
   errno = 0;
   long word = ptrace(PTRACE_PEEKDATA, child, &page, 0);
   must(errno == 0 && (size_t)word == page);
   ptrace(PTRACE_KILL, child, 0, 0);
   waitpid(child, &status, 0);
}

static void vforks(int n)
{
   for (int i = 0; i < n; i++) {
      int   status;
      pid_t child = vfork();
      if (child == 0) {
         if (i % 3 == 0)
            execl("/farreach/mark", "mark", (char*)NULL);
         _exit(3);
      }
      must(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
   }
}

/* As many as its limit lets it be, each of which tries the same. */
static void bomb(int n)
{
   struct rlimit limit = { n, n };
   must(setrlimit(RLIMIT_NPROC, &limit) == 0 && setuid(65534) == 0);
   int children = 0, depth = 0;
   while (depth < n) {
      pid_t child = fork();
      if (child < 0)
         break;
      if (child == 0)
         children = 0, depth++;
      else
         children++;
   }
   while (wait(NULL) > 0)
      children--;
   must(children == 0);
}

static void eats(int n)
{
   (void)n;
   int   status;
   pid_t child = fork();
   if (child == 0) {
      int fd = open("/proc/self/oom_score_adj", O_WRONLY);
      must(fd >= 0 && write(fd, "1000", 4) == 4);
      while (true)
         memset(map(16 << 20, PROT_READ | PROT_WRITE, 0), 1, 16 << 20);
   }
   must(waitpid(child, &status, 0) == child);
   must(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* ---- Pages that the kernel moves ---- */

static void write_to(const char* file, const char* text)
{
   int fd = open(file, O_WRONLY);
   must(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
   close(fd);
}

static void compact(int n)
{
   size_t bytes = (size_t)n << 20;
   byte*  at = map(bytes, PROT_READ | PROT_WRITE, 0);
   madvise(at, bytes, MADV_NOHUGEPAGE);
   fill(at, bytes, 11);
   for (size_t i = 0; i < bytes; i += 2 * page)
      must(madvise(at + i, page, MADV_DONTNEED) == 0);
   write_to("/proc/sys/vm/compact_memory", "1");
   for (size_t i = page; i < bytes; i += 2 * page)
      must(*(unsigned*)(at + i) == 11 + i / page);
}

static void merge(int n)
{
   byte* at = map(n * page, PROT_READ | PROT_WRITE, 0);
   memset(at, 9, n * page);
   must(madvise(at, n * page, MADV_MERGEABLE) == 0);
   write_to("/sys/kernel/mm/ksm/sleep_millisecs", "1");
   write_to("/sys/kernel/mm/ksm/pages_to_scan", "1000");
   write_to("/sys/kernel/mm/ksm/run", "1");
   usleep(200000);
   long  shared_pages = 0;
   FILE* file = fopen("/sys/kernel/mm/ksm/pages_sharing", "r");
   must(file && fscanf(file, "%ld", &shared_pages) == 1 && shared_pages > 0);
   fill(at, n * page, 4);
   check(at, n * page, 4);
   write_to("/sys/kernel/mm/ksm/run", "2");
   check(at, n * page, 4);
}

static void pageout(int n)
{
   size_t bytes = (size_t)n << 20;
   byte*  at = map(bytes, PROT_READ | PROT_WRITE, 0);
   for (int i = 0; i < 3; i++) {
      fill(at, bytes, i);
      must(madvise(at, bytes, MADV_PAGEOUT) == 0);
      check(at, bytes, i);
   }
}

/* ---- Marks ---- */

static void marks(int n)
{
   for (int i = 0; i < 4; i++)
      if (fork() == 0) {
         for (int j = 0; j < n; j++) {
            FARREACH_BEGIN();
            *(volatile byte*)map(page, PROT_READ | PROT_WRITE, 0) = 1;
            FARREACH_END();
         }
         _exit(0);
      }
   while (wait(NULL) > 0)
      ;
   FARREACH_BEGIN();
}

/* ---- Another kernel ---- */

/* /kernel, with /again as its root. Comes back if it fails. */
static void other_kernel(int n)
{
   char line[4096] = { 0 };
   int  kernel = open("/kernel", O_RDONLY), root = open("/again", O_RDONLY), text = open("/proc/cmdline", O_RDONLY);
   (void)n;
   must(kernel >= 0 && root >= 0 && text >= 0);
   ssize_t bytes = read(text, line, sizeof line - 1);
   must(bytes > 0);
   line[bytes - 1] = 0;
   must(syscall(SYS_kexec_file_load, kernel, root, bytes, line, 0) == 0);
   must(reboot(LINUX_REBOOT_CMD_KEXEC) == 0);
}

static const struct { const char* name; void (*run)(int); int n; } cases[] = {
   { "split", split, 2 }, { "collapse", collapse, 4 }, { "hugetlb", hugetlb, 3 }, { "moves", moves, 4 },
   { "shootdowns", shootdowns, 12 }, { "userfault", userfault, 200 }, { "signals", signals, 300 },
   { "code", code, 2000 }, { "filter", filter, 50 }, { "traced", traced, 2000 }, { "vforks", vforks, 90 },
   { "bomb", bomb, 40 }, { "eats", eats, 0 }, { "compact", compact, 64 }, { "merge", merge, 300 },
   { "pageout", pageout, 16 }, { "marks", marks, 5 }, { "kexec", other_kernel, 0 },
};

int main(int argc, char** argv)
{
   page = sysconf(_SC_PAGESIZE);
   for (size_t i = 0; argc > 1 && i < sizeof cases / sizeof *cases; i++)
      if (strcmp(argv[1], cases[i].name) == 0) {
         cases[i].run(argc > 2 ? atoi(argv[2]) : cases[i].n);
         return 0;
      }
   fprintf(stderr, "work: no such case\n");
   return 2;
}
