// The lowest bit that is set, alone (AMB-5), in logarithmic depth.
module first_set #(
    parameter int WIDTH = 4
) (
    input  wire  [WIDTH-1:0] bits,
    output logic [WIDTH-1:0] first
);
  // Bit i: some bit up to i is set.
  logic [WIDTH-1:0] up_to;
  always_comb begin
    up_to = bits;
    for (int step = 1; step < WIDTH; step = step * 2) up_to = up_to | up_to << step;
    first = bits & ~(up_to << 1);
  end
endmodule
