/* This file is part of farreach, a laboratory for virtual-memory address translation.
   Copyright (C) the farreach developers.
   SPDX-License-Identifier: GPL-2.0-or-later
   It is linked with Valgrind, so this directory is under the GNU GPL (../LICENSE-GPL-2), version 2 or later. */

/* Execs that must fail.

   The core checks that there is a program file of a known kind, and then gives up the old image: if the system or the
   new image refuses later, the process dies. So all checks that the system makes are made here first, in its order, and
   the program gets the error that it would get without a recorder. */

#include "recorder.h"

extern HChar** __real_vgPlain_env_setenv(HChar*** environment, const HChar* name, const HChar* value);
extern const HChar* __real_vgPlain_find_executable(const HChar* name);
extern SysRes __real_vgPlain_pre_exec_check(const HChar* path, Int* fd, Bool allow_setuid);
extern Int    __real_vgPlain_check_executable(Bool* is_setuid, const HChar* path, Bool allow_setuid);

/* Exported by the core, though its tool headers do not say so. */
extern Int    VG_(access)(const HChar* path, Bool read, Bool write, Bool execute);
extern SysRes VG_(mk_SysRes_Error)(UWord error);
extern const HChar* VG_(name_of_launcher);
extern SysRes VG_(do_syscall)(UWord number, RegWord, RegWord, RegWord, RegWord, RegWord, RegWord, RegWord, RegWord);
extern Int VG_(cl_exec_fd); /* the program file, kept open by the core */
extern HChar* VG_(getenv)(const HChar* name);

#define PAGE        4096UL
#define SCRIPT_HEAD 256U          /* of a script, the system reads this much */
#define SCRIPTS     5             /* longest chain of scripts that are interpreters of scripts */
#define STRING_MAX  (32 * PAGE)   /* one argument or variable */
#define ALL_MIN     (32 * PAGE)   /* all of them, even with a smaller limit of the stack */
#define ALL_MAX     (6UL << 20)
#define CORE_ADDS   (2UL * VKI_PATH_MAX) /* arguments and variables that the core hands to itself */

enum { E_LOOP = 40, E_LIBBAD = 80, STACK_LIMIT = 3 };

/* Of the attempt in progress. */
static UWord argv, envp;
static Bool  starts_itself, adds_variables;
static Int   filters = -1; /* a file that carries the filters of system calls, if there are any */

void exec_begins(UWord arguments, UWord environment)
{
   argv = arguments;
   envp = environment;
   starts_itself = adds_variables = False;
   filters = -1;
}

void exec_failed(void)
{
   if (filters >= 0)
      VG_(close)(filters);
   filters = -1;
}

static Bool readable(Addr start, SizeT len)
{
   return VG_(am_is_valid_for_client)(start, len, VKI_PROT_READ);
}

/* Bytes of a string of the program with its end, at most STRING_MAX + 1; 0 if it cannot be read. */
static SizeT string_bytes(Addr start)
{
   SizeT n = 0;
   while (n <= STRING_MAX) {
      SizeT page = PAGE - (start + n) % PAGE;
      if (!readable(start + n, page))
         return 0;
      for (; page > 0; page--)
         if (*(const HChar*)(start + n++) == 0)
            return n;
   }
   return STRING_MAX + 1;
}

/* Adds up a list of strings, pointers included. Returns an error number, 0 if all is well. */
static UInt add_strings(Addr list, SizeT* total)
{
   for (; list; list += sizeof(Addr)) {
      if (!readable(list, sizeof(Addr)))
         return VKI_EFAULT;
      *total += sizeof(Addr);
      Addr string = *(Addr*)list;
      if (string == 0)
         break;
      SizeT bytes = string_bytes(string);
      if (bytes == 0)
         return VKI_EFAULT;
      if (bytes > STRING_MAX)
         return VKI_E2BIG;
      *total += bytes;
      if (*total > ALL_MAX)
         return VKI_E2BIG;
   }
   return 0;
}

static UInt arguments_refused(const HChar* path)
{
   struct vki_rlimit stack;
   SizeT total = VG_(strlen)(path) + 1 + CORE_ADDS, limit = ALL_MAX;
   UInt  error = add_strings(argv, &total);
   if (error == 0)
      error = add_strings(envp, &total);
   if (error)
      return error;
   if (VG_(getrlimit)(STACK_LIMIT, &stack) == 0 && stack.rlim_cur / 4 < limit)
      limit = stack.rlim_cur / 4;
   if (limit < ALL_MIN)
      limit = ALL_MIN;
   return total > limit ? VKI_E2BIG : 0;
}

/* Returns how many bytes came: fewer at the end of the file, none where it cannot be read. */
static Int read_at(Int fd, ULong offset, void* to, UInt bytes)
{
   Int got = VG_(lseek)(fd, offset, VKI_SEEK_SET) == offset ? VG_(read)(fd, to, bytes) : 0;
   return got < 0 ? 0 : got;
}

/* Whether the answer of this call, which cannot fail, is 0. */
static Bool is_zero(UWord call)
{
   return sr_Res(VG_(do_syscall)(call, 0, 0, 0, 0, 0, 0, 0, 0)) == 0;
}

/* Whether the file would change the user or group of the process that runs it. The core runs no such program. For
   root, those of root change nothing (su, for instance). */
static Bool changes_user(const struct vg_stat* about)
{
   return (about->mode & VKI_S_ISUID && !(about->uid == 0 && is_zero(__NR_getuid) && is_zero(__NR_geteuid)))
          || (about->mode & VKI_S_ISGID && !(about->gid == 0 && is_zero(__NR_getgid) && is_zero(__NR_getegid)));
}

/* Reads the start of a program file. Returns an error number, 0 if all is well. */
static UInt read_head(const HChar* path, UChar* head, Int* bytes, Int* fd)
{
   struct vg_stat about;
   SysRes found = VG_(stat)(path, &about);
   if (sr_isError(found))
      return sr_Err(found);
   if (!VKI_S_ISREG(about.mode) || changes_user(&about))
      return VKI_EACCES;
   if (VG_(access)(path, False, False, True) != 0)
      return VKI_EACCES;
   SysRes opened = VG_(open)(path, VKI_O_RDONLY, 0);
   if (sr_isError(opened))
      return sr_Err(opened);
   *fd = sr_Res(opened);
   *bytes = read_at(*fd, 0, head, SCRIPT_HEAD);
   return 0;
}

/* Natively these run. */
static void tell_refused(const HChar* path)
{
   UChar head[SCRIPT_HEAD + 1];
   struct vg_stat about;
   if (sr_isError(VG_(stat)(path, &about)) || !VKI_S_ISREG(about.mode) || VG_(access)(path, False, False, True) != 0)
      return;
   if (changes_user(&about)) {
      limit_met(FR_LIMIT_EXEC, 0, "%s was not executed: it is set-user-ID or set-group-ID", path);
      return;
   }
   SysRes opened = VG_(open)(path, VKI_O_RDONLY, 0);
   if (sr_isError(opened))
      return;
   if (read_at(sr_Res(opened), 0, head, SCRIPT_HEAD) > 20 && VG_(memcmp)(head, "\177ELF\1\1", 6) == 0 && head[18] == 3)
      limit_met(FR_LIMIT_EXEC, 0, "%s was not executed: it is a 32-bit program", path);
   VG_(close)(sr_Res(opened));
}

static Bool is_elf(const UChar* head, Int bytes)
{
   return bytes >= 64 && VG_(memcmp)(head, "\177ELF\2\1", 6) == 0 && head[18] == 62 && head[19] == 0;
}

static ULong read_little_endian(const UChar* from, UInt bytes)
{
   ULong value = 0;
   while (bytes-- > 0)
      value = value << 8 | from[bytes];
   return value;
}

/* What the system would say of an ELF file: whether its program headers can be read, and its interpreter is there. */
static UInt elf_refused(Int fd, const UChar* head)
{
   UInt type = read_little_endian(head + 16, 2);
   UInt each = read_little_endian(head + 54, 2), n = read_little_endian(head + 56, 2);
   if ((type != 2 && type != 3) || each != 56 || n == 0)
      return VKI_ENOEXEC;
   for (UInt i = 0; i < n; i++) {
      UChar  header[56], interpreter_head[SCRIPT_HEAD];
      HChar  path[VKI_PATH_MAX];
      Int    bytes, interpreter;
      if (read_at(fd, read_little_endian(head + 32, 8) + i * sizeof header, header, sizeof header) != sizeof header)
         return VKI_ENOEXEC;
      ULong offset = read_little_endian(header + 8, 8), size = read_little_endian(header + 32, 8);
      if (read_little_endian(header, 4) != 3) /* PT_INTERP */
         continue;
      if (size < 2 || size > sizeof path || read_at(fd, offset, path, size) != size || path[size - 1] != 0)
         return VKI_ENOEXEC;
      UInt error = read_head(path, interpreter_head, &bytes, &interpreter);
      if (error)
         return error;
      VG_(close)(interpreter);
      return is_elf(interpreter_head, bytes) ? 0 : E_LIBBAD;
   }
   return 0;
}

/* The interpreter that the first line of a script names, in place; NULL if there is none. */
static HChar* interpreter_of(UChar* head, Int bytes)
{
   Int from = 2;
   while (from < bytes && (head[from] == ' ' || head[from] == '\t'))
      from++;
   Int to = from;
   while (to < bytes && head[to] != 0 && head[to] != ' ' && head[to] != '\t' && head[to] != '\n')
      to++;
   /* A name that may continue behind the bytes that the system reads is refused. */
   if (to == from || to == SCRIPT_HEAD)
      return NULL;
   head[to] = 0;
   return (HChar*)head + from;
}

static Bool is_script(const UChar* head, Int bytes)
{
   return bytes >= 2 && head[0] == '#' && head[1] == '!';
}

static UInt program_refused(const HChar* program)
{
   HChar next[SCRIPT_HEAD];
   const HChar* path = program;
   for (Int scripts = 0; scripts <= SCRIPTS; scripts++) {
      UChar head[SCRIPT_HEAD + 1];
      Int   bytes, fd;
      UInt  error = read_head(path, head, &bytes, &fd);
      if (error)
         return error;
      Bool script = is_script(head, bytes);
      if (!script)
         error = is_elf(head, bytes) ? elf_refused(fd, head) : VKI_ENOEXEC;
      VG_(close)(fd);
      if (!script) {
         /* The system would run these; the core would not, or with other arguments. */
         if (error == 0 && scripts > 1)
            fail("%s is a script whose interpreter is a script: Valgrind would lose its arguments", program);
         if (error == 0 && scripts == 1 && path[0] != '/')
            fail("%s is a script whose interpreter is not an absolute path: Valgrind does not run it", program);
         return error;
      }
      const HChar* interpreter = interpreter_of(head, bytes);
      if (!interpreter)
         return VKI_ENOEXEC;
      VG_(strcpy)(next, interpreter);
      path = next;
   }
   return E_LOOP;
}

static Bool is_blank(HChar c)
{
   return c == ' ' || c == '\t';
}

void exec_restore_arguments(ThreadId tid)
{
   UChar  head[SCRIPT_HEAD + 1];
   Int    bytes, fd;
   UWord* sp = (UWord*)VG_(get_SP)(tid); /* argc, argv ... */
   if (sp[0] < 3 || read_head(VG_(args_the_exename), head, &bytes, &fd) != 0)
      return;
   VG_(close)(fd);
   Int line = 0; /* end of the first one */
   while (line < bytes && head[line] != '\n')
      line++;
   if (!is_script(head, bytes) || !interpreter_of(head, bytes))
      return;
   /* The interpreter's name ends in a zero now; what follows it up to the end of the line is its one argument. */
   Int at = 2 + VG_(strlen)((HChar*)head + 2) + 1;
   while (at < line && is_blank(head[at]))
      at++;
   if (at >= line)
      return;
   HChar* argument = (HChar*)sp[2];
   for (SizeT n = VG_(strlen)(argument); n > 0 && is_blank(argument[n - 1]); n--)
      argument[n - 1] = 0;
}

/* ---- A program that starts itself by /proc/self/exe, which is the recorder: a variable carries its path ---- */

#define OWN_PATH "FARREACH_PROGRAM"
#define FILTERS  "FARREACH_FILTERS"

static Bool is_own(const HChar* path)
{
   HChar by_number[32];
   VG_(sprintf)(by_number, "/proc/%d/exe", VG_(getpid)());
   return VG_(strcmp)(path, "/proc/self/exe") == 0 || VG_(strcmp)(path, "/proc/thread-self/exe") == 0
          || VG_(strcmp)(path, by_number) == 0;
}

const HChar* exec_own_path(void)
{
   static HChar path[VKI_PATH_MAX + 1];
   HChar  link[64];
   VG_(sprintf)(link, "/proc/self/fd/%d", VG_(cl_exec_fd));
   SSizeT n = VG_(readlink)(link, path, VKI_PATH_MAX);
   path[n > 0 ? n : 0] = 0;
   return path;
}

/* Valgrind answers this, too. That of Debian 13 (3.24) lets the kernel write the recorder's path before, so that a
   buffer of zeros holds the end of that path behind the program's. */
Bool exec_link_read(UWord number, const ULong* args, Long* result)
{
   const ULong* of = number == __NR_readlinkat ? args + 1 : args;
   if ((number != __NR_readlink && number != __NR_readlinkat) || string_bytes(of[0]) == 0
       || !is_own((const HChar*)of[0]))
      return False;
   const HChar* path = exec_own_path();
   Int          n = VG_(strlen)(path), room = of[2];
   if (n > room)
      n = room;
   /* What the kernel refuses, it refuses itself. */
   if (n <= 0 || !VG_(am_is_valid_for_client)(of[1], n, VKI_PROT_WRITE))
      return False;
   VG_(memcpy)((void*)of[1], path, n);
   *result = n;
   return True;
}

HChar** __wrap_vgPlain_env_setenv(HChar*** environment, const HChar* name, const HChar* value);
HChar** __wrap_vgPlain_env_setenv(HChar*** environment, const HChar* name, const HChar* value)
{
   if (adds_variables) {
      adds_variables = False;
      if (starts_itself)
         __real_vgPlain_env_setenv(environment, OWN_PATH, exec_own_path());
      filters = seccomp_exec_begins(VG_(get_running_tid)());
      if (filters >= 0) {
         HChar number[16];
         VG_(sprintf)(number, "%d", filters);
         __real_vgPlain_env_setenv(environment, FILTERS, number);
      }
   }
   return __real_vgPlain_env_setenv(environment, name, value);
}

const HChar* __wrap_vgPlain_find_executable(const HChar* name);
const HChar* __wrap_vgPlain_find_executable(const HChar* name)
{
   const HChar* own = is_own(name) ? VG_(getenv)(OWN_PATH) : NULL;
   return own ? own : __real_vgPlain_find_executable(name);
}

void exec_image_begins(void)
{
   const HChar* number = VG_(getenv)(FILTERS);
   if (number)
      seccomp_image_begins(VG_(strtoll10)(number, NULL));
}

/* The new image begins as a new recorder, which opens launcher and control file by name, and reads what the system says
   of it in /proc. A program that changed its root, its mounts or its user may not be able to do so. */
static UInt recorder_refused(const HChar* path)
{
   HChar control[VG_(strlen)(run_dir) + 16];
   VG_(sprintf)(control, "%s/control", run_dir);
   const HChar* needed[] = { VG_(name_of_launcher), control, "/proc/self/maps" };
   for (UInt i = 0; i < 3; i++) {
      SysRes opened = VG_(open)(needed[i], i == 1 ? VKI_O_RDWR : VKI_O_RDONLY, 0);
      if (sr_isError(opened)) {
         limit_met(FR_LIMIT_EXEC, 0, "%s was not executed: the program changed its root, its mounts or its user, and "
                   "cannot reach %s, which the recorder needs, any more", path, needed[i]);
         return sr_Err(opened);
      }
      VG_(close)(sr_Res(opened));
   }
   return 0;
}

Int __wrap_vgPlain_check_executable(Bool* is_setuid, const HChar* path, Bool allow_setuid);
Int __wrap_vgPlain_check_executable(Bool* is_setuid, const HChar* path, Bool allow_setuid)
{
   struct vg_stat about;
   if (!sr_isError(VG_(stat)(path, &about)) && !changes_user(&about))
      allow_setuid = True;
   return __real_vgPlain_check_executable(is_setuid, path, allow_setuid);
}

SysRes __wrap_vgPlain_pre_exec_check(const HChar* path, Int* fd, Bool allow_setuid);
SysRes __wrap_vgPlain_pre_exec_check(const HChar* path, Int* fd, Bool allow_setuid)
{
   starts_itself = is_own(path);
   adds_variables = True;
   if (starts_itself)
      path = exec_own_path();
   SysRes checked = __real_vgPlain_pre_exec_check(path, fd, allow_setuid);
   if (sr_isError(checked)) {
      tell_refused(path);
      return checked;
   }
   UInt error = arguments_refused(path);
   if (error == 0) {
      error = program_refused(path);
      if (error)
         tell_refused(path);
   }
   if (error == 0)
      error = recorder_refused(path);
   return error ? VG_(mk_SysRes_Error)(error) : checked;
}
