/* The guard: a process beside farreach that cleans up after it, also when farreach is killed.

   farreach-guard program OWNER SOCKET FOLDER PROGRAM ARGUMENT...
   farreach-guard settings OWNER FILE BEFORE SET [FILE BEFORE SET]...

   OWNER is the process id of farreach, the parent. It asks for the end by a byte, and then closes its end of the socket
   (`program`) or of the standard input (`settings`). An end without that byte is a farreach that was killed. */

#ifndef GUARD_H
#define GUARD_H

#include <stdbool.h>
#include <signal.h>

enum end { ASKED, KILLED };

struct owner {
   int process;
   int channel; /* its end is that of the owner, */
   int pidfd;   /* and so is this, where a child of the owner holds the channel too; -1 if the kernel has none */
};

/* Whether the owner is gone or wants the end. `news` can be read when there is something else to do; then false. */
bool owner_ends(const struct owner* owner, int news, enum end* end);

/* Blocks all signals but those that a program must not block; returns what was blocked before. */
sigset_t block_signals(void);

int guard_program(struct owner* owner, const char* folder, char** words);
int guard_settings(struct owner* owner, char** words);

#endif
