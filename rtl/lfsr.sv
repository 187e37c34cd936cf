// Random numbers for replacement (AMB-6): a shift register with feedback, x^16 + x^14 + x^13 + x^11 + 1. It steps
// sixteen times after each number it gives, so that nothing of the last number is left in the next. The simulator's
// policy `lfsr` is the same register.
module lfsr #(
    parameter int SEED = 'hace1
) (
    input  wire         clk,
    input  wire         rst,
    input  wire         draw,
    output logic [15:0] number
);
  logic [15:0] next;
  always_comb begin
    next = number;
    for (int i = 0; i < 16; i++) next = {1'b0, next[15:1]} ^ (next[0] ? 16'hb400 : 16'h0000);
  end
  always_ff @(posedge clk) begin
    if (rst) number <= SEED[15:0];
    else if (draw) number <= next;
  end

`ifdef FORMAL
  always @(posedge clk) if (!rst && SEED != 0) assert (number != 0);
`endif
endmodule
