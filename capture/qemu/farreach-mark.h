/* Marks: instructions without effect by which a program in a guest says what of it is recorded. Outside of a recording
   they do nothing.

     FARREACH_BEGIN();      recording begins here (farreach ... --from mark)
     work();
     FARREACH_END();        and ends here
     FARREACH_STATUS(n);    the exit status of what is recorded is n

   For C, C++, and assembler with the preprocessor of C. */

#ifndef FARREACH_MARK_H
#define FARREACH_MARK_H

#if defined(__x86_64__)

/* nopl MARK(%rax,%rax,1), with a displacement of four bytes; the status is in %edi. */
#define FARREACH_MARK_BEGIN  0x46521001
#define FARREACH_MARK_END    0x46521002
#define FARREACH_MARK_STATUS 0x46521003
#define FARREACH_MARK(mark)  .byte 0x0f, 0x1f, 0x84, 0x00; .long mark
#define FARREACH_STATUS_IN   "edi"

#elif defined(__aarch64__)

/* movz xzr, #MARK, lsl #16; the status is in w0. */
#define FARREACH_MARK_BEGIN  0x5201
#define FARREACH_MARK_END    0x5202
#define FARREACH_MARK_STATUS 0x5203
#define FARREACH_MARK(mark)  .inst 0xd2a0001f | mark << 5
#define FARREACH_STATUS_IN   "w0"

#elif defined(__riscv) && __riscv_xlen == 64

/* slti zero, zero, MARK: one of the hints that are left to such uses; the status is in a0. */
#define FARREACH_MARK_BEGIN  0x521
#define FARREACH_MARK_END    0x522
#define FARREACH_MARK_STATUS 0x523
#define FARREACH_MARK(mark)  slti zero, zero, mark
#define FARREACH_STATUS_IN   "a0"

#else
#error "there are marks for x86-64, AArch64 and RISC-V with 64 bits"
#endif

#ifndef __ASSEMBLER__

#define FARREACH_TEXT_(...) #__VA_ARGS__
#define FARREACH_TEXT(...)  FARREACH_TEXT_(__VA_ARGS__)
#define FARREACH_BEGIN()     __asm__ volatile(FARREACH_TEXT(FARREACH_MARK(FARREACH_MARK_BEGIN)) ::: "memory")
#define FARREACH_END()       __asm__ volatile(FARREACH_TEXT(FARREACH_MARK(FARREACH_MARK_END)) ::: "memory")

static inline void farreach_status(int n)
{
   register int status __asm__(FARREACH_STATUS_IN) = n;
   __asm__ volatile(FARREACH_TEXT(FARREACH_MARK(FARREACH_MARK_STATUS)) : : "r"(status) : "memory");
}
#define FARREACH_STATUS(n) farreach_status(n)

#endif
#endif
