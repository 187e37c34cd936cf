/* Runs a program and ends it with all that it started.

   The guard is the program's parent, and the parent of all that lose theirs (a subreaper): so nothing that the program
   starts can leave its family, daemons included. The guard tells farreach when the program runs and how it ended, and
   keeps it as a zombie until the end, so that its process id stays its own. */

#define _GNU_SOURCE
#include "guard.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

/* How long all processes may take to die, and how long guards of a farreach among them may take to clean up. */
enum { PATIENCE = 10000, GUARDS = 3000, PAUSE = 5 };

/* What farreach is told; crates/farreach-live/src/guarded.rs reads it. */
enum kind { RUNS = 1, NOT_STARTED = 2, ENDED = 3 };
struct message {
   uint32_t kind;
   int32_t  value; /* process id, error number, or status as of wait() */
   uint64_t user, system; /* microseconds */
   uint64_t peak;  /* bytes */
};

static void tell(int channel, enum kind kind, int value, const struct rusage* use)
{
   struct message message = { .kind = kind, .value = value };
   if (use) {
      message.user = use->ru_utime.tv_sec * 1000000ULL + use->ru_utime.tv_usec;
      message.system = use->ru_stime.tv_sec * 1000000ULL + use->ru_stime.tv_usec;
      message.peak = use->ru_maxrss * 1024ULL;
   }
   /* A farreach that is gone hears nothing; SIGPIPE is blocked. */
   ssize_t written = write(channel, &message, sizeof message);
   (void)written;
}

/* What is before the name of a variable for the program alone, which the C library of the guard must not see;
   crates/farreach-live/src/guarded.rs puts it there. */
static const char for_program[] = "FARREACH_FOR_PROGRAM_";

static void name_variables(void)
{
   for (char** variable = environ; *variable; variable++)
      if (strncmp(*variable, for_program, sizeof for_program - 1) == 0)
         *variable += sizeof for_program - 1;
}

/* Starts the program in the group of farreach, which a terminal may have in its foreground. Returns its process id;
   -1 if it was not started, with `errno`. */
static int start(char** words, int group, const sigset_t* blocked)
{
   int errors[2], failure = 0;
   if (pipe2(errors, O_CLOEXEC) != 0)
      return -1;
   int guard = getpid(), program = fork();
   if (program == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() == guard && (group == 0 || setpgid(0, group) == 0)) {
         sigprocmask(SIG_SETMASK, blocked, NULL);
         name_variables();
         execvp(words[0], words);
      }
      failure = errno ? errno : ESRCH;
      ssize_t written = write(errors[1], &failure, sizeof failure);
      _exit(written == sizeof failure ? 127 : 126);
   }
   if (program < 0)
      failure = errno;
   close(errors[1]);
   while (program > 0 && read(errors[0], &failure, sizeof failure) < 0 && errno == EINTR)
      ;
   close(errors[0]);
   if (failure == 0)
      return program;
   if (program > 0)
      waitpid(program, NULL, 0);
   errno = failure;
   return -1;
}

/* Calls `each` for every child of this process. */
static void children(void (*each)(int child, void* with), void* with)
{
   char path[64], *line = NULL;
   size_t room = 0;
   snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
   FILE* file = fopen(path, "re");
   if (file) {
      if (getline(&line, &room, file) > 0)
         for (char* at = line, *next; ; at = next) {
            int child = strtol(at, &next, 10);
            if (next == at)
               break;
            each(child, with);
         }
      free(line);
      fclose(file);
      return;
   }
   /* A kernel without CONFIG_PROC_CHILDREN. */
   DIR* all = opendir("/proc");
   for (struct dirent* entry; all && (entry = readdir(all)); ) {
      int child = atoi(entry->d_name), parent = 0;
      snprintf(path, sizeof path, "/proc/%d/stat", child);
      FILE* stat = child > 0 ? fopen(path, "re") : NULL;
      if (!stat)
         continue;
      /* The name of the program, in parentheses, may have any characters. */
      ssize_t got = getdelim(&line, &room, EOF, stat);
      char*   rest = got > 0 ? strrchr(line, ')') : NULL;
      if (rest && sscanf(rest, ") %*c %d", &parent) == 1 && parent == getpid())
         each(child, with);
      fclose(stat);
   }
   free(line);
   if (all)
      closedir(all);
}

static void reap(int child, void* program)
{
   if (child != *(int*)program)
      waitpid(child, NULL, WNOHANG);
}

/* Tells how the program ended, once it has. Returns whether it has. It is not waited for yet. */
static bool note_end(int program, int channel)
{
   siginfo_t     info = { 0 };
   struct rusage use = { 0 };
   if (syscall(SYS_waitid, P_PID, program, &info, WEXITED | WNOHANG | WNOWAIT, &use) != 0 || info.si_pid == 0)
      return false;
   int status = info.si_status;
   if (info.si_code == CLD_EXITED)
      status = (status & 0xff) << 8;
   else if (info.si_code == CLD_DUMPED)
      status |= 0x80;
   tell(channel, ENDED, status, &use);
   return true;
}

static long milliseconds(void)
{
   struct timespec now;
   clock_gettime(CLOCK_MONOTONIC, &now);
   return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* A guard of a farreach that the program started ends by itself when that farreach has ended, and cleans up first. */
static bool is_guard(int process)
{
   char        path[64];
   struct stat own, its;
   snprintf(path, sizeof path, "/proc/%d/exe", process);
   return stat("/proc/self/exe", &own) == 0 && stat(path, &its) == 0 && own.st_dev == its.st_dev &&
          own.st_ino == its.st_ino;
}

static void end(int child, void* spares_guards)
{
   if (!*(bool*)spares_guards || !is_guard(child))
      kill(child, SIGKILL);
}

/* Kills all children. Theirs become children of this process, and are killed in turn. False: some do not die, such as
   programs of another user. */
static bool end_all(int program, bool told, int channel, int news)
{
   long since = milliseconds();
   while (true) {
      long took = milliseconds() - since;
      bool spares_guards = took < GUARDS;
      children(end, &spares_guards);
      if (!told) {
         kill(program, SIGKILL); /* it is not waited for before its end is told, so the number is its own */
         children(reap, &program);
         told = note_end(program, channel);
      }
      int ended = 1;
      while (told && ended > 0)
         ended = waitpid(-1, NULL, WNOHANG);
      if (ended < 0)
         return true;
      if (took > PATIENCE)
         return false;
      struct signalfd_siginfo signal;
      struct pollfd           fd = { news, POLLIN, 0 };
      if (poll(&fd, 1, PAUSE) > 0 && read(news, &signal, sizeof signal) < 0)
         return false;
   }
}

/* The folder of a run; -1 if it is not one of this user. */
static int open_folder(const char* folder)
{
   struct stat about;
   int fd = *folder ? open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
   if (fd >= 0 && (fstat(fd, &about) != 0 || about.st_uid != geteuid())) {
      close(fd);
      return -1;
   }
   return fd;
}

/* Removes the files in the folder that was opened at the beginning, and the folder. */
static void remove_folder(int fd, const char* folder)
{
   DIR* all = fdopendir(fd);
   for (struct dirent* entry; all && (entry = readdir(all)); )
      unlinkat(fd, entry->d_name, 0); /* fails for "." and ".." */
   rmdir(folder);
}

static int ascending(const void* a, const void* b)
{
   return *(const int*)a - *(const int*)b;
}

/* Closes what belongs to the program alone: who reads a pipe from it must not wait for the guard. */
static void close_all_but(int fds[], int count)
{
   unsigned from = 3;
   qsort(fds, count, sizeof *fds, ascending);
   for (int i = 0; i <= count; i++) {
      unsigned next = i < count ? (unsigned)fds[i] : ~0U;
      if (i < count && fds[i] < (int)from)
         continue;
      if (next > from)
         syscall(SYS_close_range, from, next - 1, 0);
      from = next + 1;
   }
   int null = open("/dev/null", O_RDWR | O_CLOEXEC);
   for (int fd = 0; fd < 3; fd++)
      if (null < 0 || dup2(null, fd) < 0)
         close(fd);
   if (null > 2)
      close(null);
}

int guard_program(struct owner* owner, const char* folder, char** words)
{
   signal(SIGCHLD, SIG_DFL); /* ignored, children would not stay to be waited for */
   sigset_t blocked = block_signals(), child;
   sigemptyset(&child);
   sigaddset(&child, SIGCHLD);
   int news = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
   int folder_fd = open_folder(folder);
   /* In a group of its own no terminal and no kill of the whole group reaches the guard. The number is 0 where the
      leader of farreach's group is outside of the PID namespace. */
   int group = getpgrp();
   if (group != 0 && setpgid(0, 0) != 0)
      group = 0;
   if (news < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) {
      tell(owner->channel, NOT_STARTED, errno, NULL);
      return 1;
   }
   int program = start(words, group, &blocked);
   if (program < 0) {
      tell(owner->channel, NOT_STARTED, errno, NULL);
      return 1;
   }
   close_all_but((int[]){ owner->channel, owner->pidfd, news, folder_fd }, 4);
   tell(owner->channel, RUNS, program, NULL);
   bool     told = false;
   enum end end;
   while (!owner_ends(owner, news, &end)) {
      struct signalfd_siginfo signal;
      while (read(news, &signal, sizeof signal) > 0)
         ;
      told = told || note_end(program, owner->channel);
      children(reap, &program);
   }
   bool all = end_all(program, told, owner->channel, news);
   if (end == KILLED && folder_fd >= 0)
      remove_folder(folder_fd, folder);
   return all ? 0 : 1;
}
