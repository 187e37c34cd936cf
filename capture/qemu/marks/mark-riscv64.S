/* farreach-mark for RISC-V: see mark-x86_64.S. */

#include "../farreach-mark.h"

        .text
        .globl  _start
_start: ld      t1, 0(sp)               /* number of arguments, the name included */
        li      t0, 2
        bltu    t1, t0, wrong
        ld      t2, 16(sp)              /* the first argument; its first letter tells which it is */
        lbu     t3, 0(t2)
        li      t0, 'b'
        beq     t3, t0, begin
        li      t0, 'e'
        beq     t3, t0, end
        li      t0, 's'
        bne     t3, t0, wrong
        li      t0, 3
        bltu    t1, t0, wrong

        ld      t2, 24(sp)              /* status: decimal digits */
        li      a0, 0
        li      t4, 10
digit:  lbu     t3, 0(t2)
        addi    t5, t3, -'0'
        bgeu    t5, t4, last
        mul     a0, a0, t4
        add     a0, a0, t5
        addi    t2, t2, 1
        j       digit
last:   bnez    t3, wrong
        FARREACH_MARK(FARREACH_MARK_STATUS)
        j       done

begin:  FARREACH_MARK(FARREACH_MARK_BEGIN)
        j       done
end:    FARREACH_MARK(FARREACH_MARK_END)
done:   li      a0, 0
exit:   li      a7, 93
        ecall
wrong:  li      a0, 2
        j       exit

        .section .note.GNU-stack,"",%progbits
