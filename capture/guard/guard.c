/* The guard: what both kinds have in common. guard.h says how it is called. */

#define _GNU_SOURCE
#include "guard.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

bool owner_ends(const struct owner* owner, int news, enum end* end)
{
   struct pollfd fds[] = { { owner->channel, POLLIN, 0 }, { owner->pidfd, POLLIN, 0 }, { news, POLLIN, 0 } };
   if (poll(fds, 3, -1) < 0)
      return false;
   if (fds[0].revents) {
      char    byte;
      ssize_t got = read(owner->channel, &byte, 1);
      if (got < 0 && (errno == EINTR || errno == EAGAIN))
         return false;
      *end = got == 1 ? ASKED : KILLED;
      return true;
   }
   *end = KILLED;
   return fds[1].revents != 0;
}

sigset_t block_signals(void)
{
   sigset_t all, before;
   sigfillset(&all);
   sigprocmask(SIG_BLOCK, &all, &before);
   return before;
}

static int number(const char* text)
{
   char* end;
   long  value = strtol(text, &end, 10);
   return *text && !*end && value >= 0 && value <= 0x7fffffff ? (int)value : -1;
}

static int usage(void)
{
   fputs("farreach-guard: farreach starts it; it ends what farreach started, and restores settings\n", stderr);
   return 2;
}

int main(int argc, char** argv)
{
   bool program = argc >= 6 && strcmp(argv[1], "program") == 0;
   bool settings = argc >= 6 && argc % 3 == 0 && strcmp(argv[1], "settings") == 0;
   if (!program && !settings)
      return usage();
   struct owner owner = { number(argv[2]), program ? number(argv[3]) : 0, -1 };
   if (owner.process <= 0 || owner.channel < 0 || fcntl(owner.channel, F_SETFD, FD_CLOEXEC) != 0)
      return usage();
   owner.pidfd = syscall(SYS_pidfd_open, owner.process, 0);
   /* Its number may be that of another process by now. Then the channel says that it has ended. */
   if (owner.pidfd >= 0 && getppid() != owner.process) {
      close(owner.pidfd);
      owner.pidfd = -1;
   }
   return program ? guard_program(&owner, argv[4], argv + 5) : guard_settings(&owner, argv + 3);
}
