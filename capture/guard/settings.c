/* Restores settings of the kernel when farreach has ended, or wants it.

   A setting that is not what farreach made it was changed by somebody else meanwhile, and stays. */

#define _GNU_SOURCE
#include "guard.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* How long a setting may take to become what was written: pages of a pool that are in use leave it when they are
   freed. */
enum { PATIENCE = 10000, PAUSE = 10 };

/* The value in a file: the word in brackets, or all of it without the end of the line. */
static bool read_value(const char* file, char* value, size_t room)
{
   int fd = open(file, O_RDONLY | O_CLOEXEC);
   if (fd < 0)
      return false;
   ssize_t got = read(fd, value, room - 1);
   close(fd);
   if (got < 0)
      return false;
   value[got] = 0;
   char* open_ = strchr(value, '['), *close_ = open_ ? strchr(open_, ']') : NULL;
   if (close_) {
      *close_ = 0;
      memmove(value, open_ + 1, close_ - open_);
   }
   size_t first = strspn(value, " \t\n"), length = strlen(value + first);
   memmove(value, value + first, length + 1);
   while (length > 0 && strchr(" \t\n", value[length - 1]))
      value[--length] = 0;
   return true;
}

static bool write_value(const char* file, const char* value)
{
   int fd = open(file, O_WRONLY | O_TRUNC | O_CLOEXEC);
   if (fd < 0)
      return false;
   bool done = write(fd, value, strlen(value)) == (ssize_t)strlen(value);
   return close(fd) == 0 && done;
}

static bool to_number(const char* text, long long* number)
{
   char* end;
   *number = strtoll(text, &end, 10);
   return *text && !*end;
}

/* Whether farreach may have left this value: the one it set, or, of a number, one on the way there. The kernel fills a
   pool as far as it finds pages. */
static bool is_own(const char* found, const char* before, const char* set)
{
   long long now, old, wanted;
   if (strcmp(found, set) == 0)
      return true;
   return to_number(found, &now) && to_number(before, &old) && to_number(set, &wanted) &&
          ((old < now && now < wanted) || (wanted < now && now < old));
}

static bool restore(const char* file, const char* before, const char* set, bool says)
{
   char found[4096];
   bool read = read_value(file, found, sizeof found);
   if (read && strcmp(found, before) == 0)
      return true;
   if (read && !is_own(found, before, set)) {
      if (says)
         fprintf(stderr, "farreach: %s: it stays '%s', which somebody else has set; before farreach it was '%s'\n",
                 file, found, before);
      return false;
   }
   bool written = read && write_value(file, before);
   if (!written && says)
      fprintf(stderr, "farreach: %s: cannot be restored to '%s': %s\n", file, before, strerror(errno));
   struct timespec pause = { 0, PAUSE * 1000000 };
   for (int waited = 0; written && waited < PATIENCE; waited += PAUSE) {
      if (read_value(file, found, sizeof found) && strcmp(found, before) == 0)
         return true;
      nanosleep(&pause, NULL);
   }
   return false;
}

int guard_settings(struct owner* owner, char** words)
{
   block_signals();
   setpgid(0, 0);
   enum end end = KILLED;
   while (!owner_ends(owner, -1, &end))
      ;
   bool all = true;
   for (; *words; words += 3)
      all &= restore(words[0], words[1], words[2], end == KILLED);
   /* The standard output is the file of the lock, which lists what is to be restored. */
   if (ftruncate(1, 0) != 0)
      return 1;
   return all ? 0 : 1;
}
